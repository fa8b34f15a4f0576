//! How the profile was made: what a reader must know before any figure.

use crate::model::metrics;
use crate::model::report::{Field, Report, Shape, Shown, Value};
use crate::model::tally::Weight;
use numalens_profile::{CACHE, Engine, Meta, RecordedUnit};

/// What the counts of a profile count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Unit {
    /// Accesses, every one of them.
    Accesses,
    /// Accesses, estimated from samples of events.
    Estimated,
    /// Time at memory instructions: clock samples, each worth so many nanoseconds.
    Time { period_ns: u64 },
}

/// Provenance.
#[derive(Clone, PartialEq, Debug)]
pub struct About {
    pub meta: Meta,
    pub unit: Unit,
    /// Only these pids are looked at; empty: all.
    pub only_pids: Vec<u32>,
    /// What is to be known about the part of the recording that is looked at; empty: all of it.
    pub filtered: Vec<String>,
    /// The line of source that alone is looked at: file and line.
    pub place: Option<(String, u32)>,
}

impl About {
    /// Reads the unit out of `meta`.
    pub fn new(meta: Meta) -> Self {
        let unit = match meta.unit {
            RecordedUnit::Accesses => Unit::Accesses,
            RecordedUnit::TimeAtMemory => Unit::Time { period_ns: meta.period },
            RecordedUnit::EstimatedAccesses | RecordedUnit::Unsaid | RecordedUnit::Other(_) => Unit::Estimated,
        };
        About { meta, unit, only_pids: Vec::new(), filtered: Vec::new(), place: None }
    }

    /// The private cache of each thread: bytes, ways, bytes of a line.
    pub fn cache(&self) -> Option<[u64; 3]> {
        let cache = self.meta.extra.get(CACHE)?;
        let number = |name| cache.get(name)?.as_u64();
        Some([number("bytes")?, number("ways")?, number("line")?])
    }

    /// What one counted sample adds.
    pub fn weight(&self) -> Weight {
        match self.unit {
            Unit::Accesses | Unit::Time { .. } => Weight::One,
            Unit::Estimated => Weight::Period,
        }
    }

    /// The unit in words.
    pub fn unit_words(&self) -> String {
        match self.unit {
            Unit::Accesses => "accesses (exact counts)".to_string(),
            Unit::Estimated => format!("{} (from samples; 95 % intervals)", self.meta.unit),
            Unit::Time { period_ns: 0 | 1 } => format!("{} (clock samples; 95 % intervals)", self.meta.unit),
            Unit::Time { period_ns } => {
                format!("{} (clock samples of {:.2} ms; 95 % intervals)", self.meta.unit, period_ns as f64 / 1e6)
            }
        }
    }

    /// The same where it is news: that accesses are accesses is none.
    pub fn unit_for_people(&self) -> Value {
        match self.unit {
            Unit::Accesses => Value::Absent,
            _ => Value::Text(self.unit_words()),
        }
    }

    /// Whether counts come from samples.
    pub fn sampled(&self) -> bool {
        self.unit != Unit::Accesses
    }

    /// What one of the counts is called over a column.
    pub fn count_noun(&self) -> &'static str {
        match self.unit {
            Unit::Accesses | Unit::Estimated => "accesses",
            Unit::Time { .. } => "samples",
        }
    }

    /// What of the program's accesses figures are about, where that is not all: the filter, a recording that did not
    /// finish or was paused.
    pub fn restrictions(&self) -> Vec<String> {
        let meta = &self.meta;
        let mut restrictions = self.filtered.clone();
        if !meta.complete {
            restrictions.push("the recording did not finish: figures cover what was written until then".to_string());
        }
        restrictions.extend(meta.counted_ns.map(|counted| paused(counted, meta.duration_ns)));
        restrictions
    }

    /// That there is none of something: of all that was recorded, or of what a filter lets through.
    pub fn none(&self, what: &str) -> String {
        let is_filtered = !self.filtered.is_empty() || !self.only_pids.is_empty() || self.place.is_some();
        if is_filtered { format!("no {what} pass the filter") } else { format!("no {what} were recorded") }
    }

    /// Losses and other limits of the recording, each a sentence.
    pub fn limits(&self) -> Vec<String> {
        let meta = &self.meta;
        let mut limits = self.restrictions();
        if !meta.complete && meta.engine == Engine::Exact {
            limits.push("its counters were read one after another while the program ran: sums of lines, pages and objects differ a little".to_string());
        }
        for (kind, n) in meta.losses.iter().filter(|(_, n)| **n > 0) {
            limits.push(format!("lost: {n} {}", kind.replace('_', " ")));
        }
        limits.extend(meta.coarsened.iter().map(|what| format!("recorded less finely: {}", without_key(what))));
        limits.extend(meta.unobserved.iter().map(|what| format!("not observed: {what}")));
        limits.extend(meta.notes.iter().cloned());
        limits
    }

    /// The record `meta` of every report.
    pub fn report(&self) -> Report {
        let meta = &self.meta;
        let text = |text: &str| if text.is_empty() { Value::Absent } else { Value::Text(text.to_string()) };
        let texts = |list: &[String]| Value::List(list.iter().cloned().map(Value::Text).collect());
        let lost: Vec<Field> =
            meta.losses.iter().map(|(kind, n)| Field::named(kind.clone(), Value::Count(*n))).collect();
        let fields = vec![
            Field::new("command", "command", texts(&meta.command)),
            Field::new("engine", "engine", text(meta.engine.word())),
            Field::new("unit", "unit", text(meta.unit.word())),
            Field::new("unit_note", "unit note", text(&meta.unit_note)),
            Field::new("machine", "machine", text(&meta.machine_name)),
            Field::new("virtual", "virtual machine", Value::Flag(meta.machine_virtual)),
            Field::new("placement", "thread placement", text(&meta.placement.to_string())),
            Field::new("policy", "page policy", text(&meta.policy.to_string())),
            Field::new(
                "cache",
                "cache",
                Value::maybe(self.cache(), |[bytes, ways, line]| {
                    Value::Record(vec![
                        Field::metric(&metrics::BYTES, Value::Bytes(bytes)),
                        Field::new("ways", "ways", Value::Count(ways)),
                        Field::new("line", "line", Value::Bytes(line)),
                    ])
                }),
            ),
            Field::new("host", "host", text(&meta.host)),
            Field::new("start_time", "started", text(&meta.start_time)),
            Field::new(
                "duration_s",
                "duration",
                Value::maybe(Some(meta.duration_ns).filter(|ns| *ns > 0), Value::Time),
            ),
            Field::new("counted_s", "counted for", Value::maybe(meta.counted_ns, Value::Time)),
            Field::new("kernel", "kernel", text(&meta.kernel)).only(Shown::Data),
            Field::new("numalens_version", "recorded by", text(&meta.numalens_version)).only(Shown::Data),
            Field::new("exit_status", "exit status", text(&meta.exit_status)),
            Field::new("complete", "complete", Value::Flag(meta.complete)),
            Field::new("schema_version", "profile schema", Value::Count(u64::from(meta.schema_version)))
                .only(Shown::Data),
            Field::new(
                "frequency_hz",
                "sampling frequency",
                Value::maybe(meta.frequency, |hz| Value::Number(hz, None)),
            ),
            Field::new("period", "period", Value::Count(meta.period)).only(Shown::Data),
            Field::new("bin_s", "time bin", Value::Time(meta.bin_ns)).only(Shown::Data),
            Field::new("bins", "time bins", Value::Count(u64::from(meta.bins))).only(Shown::Data),
            Field::new("losses", "lost records", Value::Count(meta.losses.values().sum())),
            Field::new("lost", "lost", Value::Record(lost)).only(Shown::Data),
            Field::new("coarsened", "coarsened", texts(&meta.coarsened)).only(Shown::Data),
            Field::new("unobserved", "unobserved", texts(&meta.unobserved)).only(Shown::Data),
            Field::new("notes", "notes", texts(&meta.notes)).only(Shown::Data),
            Field::new(
                "only_pids",
                "processes",
                Value::List(self.only_pids.iter().map(|pid| Value::Id(u64::from(*pid))).collect()),
            )
            .only(Shown::Data),
        ];
        Report::new("meta", "meta", "recording", Shape::Record(fields)).doubting(self.limits())
    }
}

/// A note of the recorder that begins with the name of a table, with that name as people write it.
fn without_key(note: &str) -> String {
    match note.split_once(':') {
        Some((table, rest)) if !table.contains(' ') => format!("{}:{rest}", table.replace('_', " ")),
        _ => note.to_string(),
    }
}

/// The sentence on a recording that was paused.
fn paused(counted_ns: u64, duration_ns: u64) -> String {
    let share = 100.0 * counted_ns as f64 / duration_ns.max(1) as f64;
    let (counted, all) = (counted_ns as f64 / 1e9, duration_ns as f64 / 1e9);
    match counted_ns {
        0 => format!(
            "accesses were not counted at any time of {all:.2} s: no start came, from numalens.h or `numalens ctl start`; first touches and placements were followed"
        ),
        _ => format!(
            "accesses were counted for {counted:.2} s of {all:.2} s ({share:.0} %), as the program or the user asked for; first touches and placements are of all the time"
        ),
    }
}
