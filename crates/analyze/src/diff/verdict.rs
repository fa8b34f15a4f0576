//! Better, worse or the same: what the change does to the predicted memory time, and the object that it chiefly does
//! it to.

use super::Sides;
use super::rows::Row;
use crate::advice::{LEAST_GAIN, LEAST_SAMPLES};
use crate::dataset::Dataset;
use crate::dataset::usages;
use crate::model::counts::Counts;
use crate::model::intervals::Interval;
use crate::model::report::{Field, Report, Shape, Value};
use crate::model::tally::Tally;
use numalens_profile::words::ObjectKind;
use numalens_simulate::{CostModel, QUEUE, Traffic};

/// Percent of the memory time from which a change matters where it comes from samples: two runs of one program differ
/// by more than chance tells.
const LEAST_SAMPLED: f64 = 5.0;
/// Part of the whole change that an object must have for the change to be chiefly its.
const CHIEFLY: f64 = 0.25;
/// Points by which the share of accesses without a distance must change to be told.
const UNPINNED: f64 = 5.0;

/// What the change does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Better,
    Worse,
    Same,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Better => "better",
            Outcome::Worse => "worse",
            Outcome::Same => "same",
        }
    }
}

/// The change of the memory time in percent, with the ends of what it may be, and what chance alone leaves open.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Change {
    percent: f64,
    interval: Interval,
    chance: Interval,
    least: f64,
}

impl Change {
    fn outcome(&self) -> Outcome {
        let Change { percent, interval: (low, high), chance, least } = *self;
        if percent <= -least && high < least && chance.1 < 0.0 {
            Outcome::Better
        } else if percent >= least && low > -least && chance.0 > 0.0 {
            Outcome::Worse
        } else {
            Outcome::Same
        }
    }
}

/// The traffic of both, priced.
struct Priced<'a> {
    models: Sides<CostModel<'a>>,
    traffic: Sides<Traffic>,
    tallies: Sides<Tally>,
    /// What one access counts for: where units differ, shares are compared.
    scale: Sides<f64>,
}

impl<'a> Priced<'a> {
    fn new(datasets: Sides<&'a Dataset>, traffic: Sides<(Traffic, Tally)>) -> Self {
        let models = datasets.map(|dataset| CostModel::new(&dataset.machine));
        let Sides { before: (old, of_old), after: (new, of_new) } = traffic;
        let (a, b) = (&datasets.before.about.meta, &datasets.after.about.meta);
        let alike = a.unit == b.unit && (a.period == b.period || !datasets.before.about.sampled());
        let one = |traffic: &Traffic| if alike { 1.0 } else { 1.0 / traffic.total().max(f64::MIN_POSITIVE) };
        let scale = Sides { before: one(&old), after: one(&new) };
        let scaled = |traffic: &Traffic, scale: f64| {
            let mut scaled = Traffic::default();
            scaled.add_all(traffic, scale);
            scaled
        };
        let traffic = Sides { before: scaled(&old, scale.before), after: scaled(&new, scale.after) };
        Priced { models, traffic, tallies: Sides { before: of_old, after: of_new }, scale }
    }

    /// Why there is no verdict.
    fn missing(&self) -> Option<String> {
        for (side, tally) in [("before", &self.tallies.before), ("after", &self.tallies.after)] {
            let samples = tally.samples;
            if tally.accesses() == 0 {
                return Some(format!("no verdict: no accesses were recorded {side}"));
            }
            if (1..LEAST_SAMPLES).contains(&samples) {
                return Some(format!("no verdict: {samples} samples of accesses {side} are too few to compare"));
            }
        }
        None
    }

    fn change(&self) -> Change {
        let gain = self.models.before.gain_on(&self.traffic.before, &self.models.after, &self.traffic.after);
        let percent = -gain.estimate;
        let samples = self.tallies.map(|tally| tally.samples);
        let part = |samples: u64| if samples > 0 { 1.0 / samples as f64 } else { 0.0 };
        // Of a ratio of two Poisson counts.
        let error = (1.96 * (part(samples.before) + part(samples.after)).sqrt()).exp();
        let ratio = 1.0 + percent / 100.0;
        let chance = ((ratio / error - 1.0) * 100.0, (ratio * error - 1.0) * 100.0);
        let far = |end: f64, by_chance: f64| ((percent - end).powi(2) + (percent - by_chance).powi(2)).sqrt();
        let interval = (percent - far(-gain.high, chance.0), percent + far(-gain.low, chance.1));
        let least = if samples.before + samples.after > 0 { LEAST_SAMPLED } else { LEAST_GAIN };
        Change { percent, interval, chance, least }
    }

    /// What an object's memory time changes by, in units of one local access.
    fn of_object(&self, row: &Row) -> f64 {
        let time = |model: &CostModel<'_>, part: &Traffic, all: &Traffic| model.time_among(part, all, QUEUE);
        let old = time(&self.models.before, &row.sums.before.traffic, &self.traffic.before) * self.scale.before;
        time(&self.models.after, &row.sums.after.traffic, &self.traffic.after) * self.scale.after - old
    }

    fn of_all(&self) -> f64 {
        self.models.after.time(&self.traffic.after, QUEUE) - self.models.before.time(&self.traffic.before, QUEUE)
    }
}

/// The record `verdict`.
pub fn report(datasets: Sides<&Dataset>, traffic: Sides<(Traffic, Tally)>, lines: &[Row], objects: &[Row]) -> Report {
    let priced = Priced::new(datasets, traffic);
    let totals = datasets.map(|dataset| dataset.facts.total());
    let share = |of: fn(&Counts) -> u64| totals.map(|total| total.percent(of(&total)));
    let remote = share(Counts::remote);
    let missing = priced.missing();
    let change = missing.is_none().then(|| priced.change());
    let outcome = change.map(|change| change.outcome());
    let chiefly = match outcome {
        Some(Outcome::Better | Outcome::Worse) => chiefly(&priced, lines, objects),
        _ => None,
    };
    let sentence = match (change, missing) {
        (Some(change), _) => sentence(datasets, change, [&remote, &share(Counts::unpinned)], chiefly.as_ref()),
        (None, missing) => missing.unwrap_or_default(),
    };
    let percent = |value: f64| Value::Percent(value, None);
    let fields = vec![
        Field::new("sentence", "verdict", Value::Text(sentence)),
        Field::new("result", "result", Value::maybe(outcome, |outcome| Value::Text(outcome.word().to_string()))),
        Field::new(
            "memory_time_percent",
            "change of the predicted memory time",
            Value::maybe(change, |Change { percent: value, interval: (low, high), .. }| {
                Value::Record(vec![
                    Field::new("value", "", percent(value)),
                    Field::new("low", "from", percent(low)),
                    Field::new("high", "to", percent(high)),
                ])
            }),
        ),
        Field::new(
            "remote_share",
            "remote share",
            Value::Record(vec![
                Field::new("before", "before", remote.before),
                Field::new("after", "after", remote.after),
            ]),
        ),
        Field::new("chiefly", "chiefly", chiefly.map_or(Value::Absent, |chiefly| Value::Record(chiefly.fields()))),
    ];
    Report::new("verdict", "verdict", "verdict", Shape::Record(fields))
}

/// What has most of the change.
struct Chiefly<'a> {
    row: &'a Row,
    /// Of the change of the memory time (an object) or of the remote accesses (a line), in percent.
    part: f64,
}

/// The object whose memory time changes most, in the direction of the whole; where none is known, the line whose
/// remote accesses do.
fn chiefly<'a>(priced: &Priced<'_>, lines: &'a [Row], objects: &'a [Row]) -> Option<Chiefly<'a>> {
    let most = |rows: &'a [Row], of: &dyn Fn(&Row) -> f64, all: f64| {
        let parts = rows.iter().map(|row| Chiefly { row, part: of(row) / all * 100.0 });
        let known = parts.filter(|one| one.part.is_finite() && one.row.key().kind != Some(ObjectKind::Unknown));
        // The first of equals.
        known
            .reduce(|most, one| if one.part > most.part { one } else { most })
            .filter(|most| most.part >= CHIEFLY * 100.0)
    };
    let remote = |row: &Row| row.change(Counts::remote);
    most(objects, &|row| priced.of_object(row), priced.of_all())
        .or_else(|| most(lines, &remote, lines.iter().map(remote).sum()))
}

impl Chiefly<'_> {
    /// `grid allocated at app.c:12 (main)`, `global table`, `app.c:12 (work)`.
    fn words(&self) -> String {
        let key = self.row.key();
        let place = key.place.as_ref().map(|place| match (&place.file, place.line) {
            (Some(file), Some(line)) => format!("{}:{line} ({})", crate::facts::code::file_name(file), place.function),
            _ => place.to_string(),
        });
        let name = key.name.as_str();
        match (key.kind, place) {
            (Some(ObjectKind::Heap), Some(place)) if name.is_empty() => format!("memory allocated at {place}"),
            (Some(ObjectKind::Heap), Some(place)) => format!("{name} allocated at {place}"),
            (Some(ObjectKind::Stack), _) => name.to_string(),
            (Some(kind), _) => format!("{} {name}", kind.word()),
            (None, place) => place.unwrap_or_default(),
        }
    }

    fn fields(self) -> Vec<Field> {
        let key = self.row.key();
        let text = |text: &str| if text.is_empty() { Value::Absent } else { Value::Text(text.to_string()) };
        vec![
            Field::new("object", "", Value::Text(self.words())),
            Field::new("kind", "kind", Value::maybe(key.kind, |kind| text(kind.word()))),
            Field::new("name", "name", text(&key.name)),
            Field::new("place", "place", Value::maybe(key.place.clone(), Value::Location)),
            Field::new("part", "part of the change", Value::Percent(self.part, None)),
        ]
    }
}

/// One line: the outcome, how much, and what it comes from.
fn sentence(
    datasets: Sides<&Dataset>,
    change: Change,
    [remote, unpinned]: [&Sides<Value>; 2],
    chiefly: Option<&Chiefly<'_>>,
) -> String {
    let percent = |x: f64| if x > 0.0 && x < 0.05 { "<0.1 %".to_string() } else { format!("{x:.1} %") };
    let share = |value: &Value| if let Value::Percent(share, _) = value { *share } else { 0.0 };
    let Change { percent: value, interval: (low, high), least, .. } = change;
    let outcome = match change.outcome() {
        Outcome::Better => "AFTER is better",
        Outcome::Worse => "AFTER is worse",
        Outcome::Same if value.abs() < least => "no difference that matters",
        Outcome::Same => "no difference that is certain",
    };
    // A change that rounds to nothing has no sign.
    let signed = |x: f64| if x.abs() < 0.05 { "0.0".to_string() } else { format!("{x:+.1}") };
    let mut sentence = format!("{outcome}: predicted memory time {} %", signed(value));
    if signed(low) != signed(value) || signed(high) != signed(value) {
        sentence += &format!(" ({} to {} %)", signed(low), signed(high));
    }
    if usages::matters(datasets.before) || usages::matters(datasets.after) {
        let (old, new) = (share(&remote.before), share(&remote.after));
        sentence += &format!("; remote share {} -> {}", percent(old), percent(new));
    }
    let (old, new) = (share(&unpinned.before), share(&unpinned.after));
    if (old - new).abs() >= UNPINNED {
        sentence += &format!("; unpinned share {} -> {}", percent(old), percent(new));
    }
    if let Some(chiefly) = chiefly {
        sentence += &format!("; chiefly {}", chiefly.words());
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(percent: f64, interval: Interval, chance: Interval) -> Outcome {
        Change { percent, interval, chance, least: LEAST_GAIN }.outcome()
    }

    #[test]
    fn what_matters_is_certain_and_large() {
        assert_eq!(outcome(-38.0, (-70.0, -20.0), (-38.0, -38.0)), Outcome::Better);
        assert_eq!(outcome(38.0, (20.0, 70.0), (38.0, 38.0)), Outcome::Worse);
        // Interleaving gains by the queue alone.
        assert_eq!(outcome(-38.0, (-70.0, 0.1), (-38.0, -38.0)), Outcome::Better);
        assert_eq!(outcome(-1.9, (-3.0, -1.0), (-1.9, -1.9)), Outcome::Same);
        // Nearer by distance, but all at one controller: who knows.
        assert_eq!(outcome(-3.0, (-10.0, 30.0), (-3.0, -3.0)), Outcome::Same);
        assert_eq!(outcome(-8.0, (-18.0, 1.0), (-18.0, 1.0)), Outcome::Same);
    }
}
