//! The page's types of documents are those of the documents: `ui/src/lib/generated.ts` is what this makes of every
//! section, alone and together, of several profiles. `NUMALENS_WRITE=1 cargo test -p numalens-serve --test types`
//! writes it anew.

use numalens_analyze::code::Code;
use numalens_analyze::disassembly::MachineCode;
use numalens_analyze::report::{Field, Member, Shape, Value as Cell};
use numalens_analyze::whatif::{self, Plan};
use numalens_analyze::{Dataset, Options, Pattern, Remedy, Report, advice, disassembly, metrics, sections, terms};
use numalens_profile::tables::Site;
use numalens_profile::testing::Synthetic;
use numalens_profile::{Engine, Profile, RecordedUnit};
use numalens_simulate::{Policy, Threads};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Objects whose names come from the profile, or that are there in part.
const MAPS: [&str; 6] = ["lost", "doubts", "omitted", "intervals", "class_shares", "evidence"];

/// What values of one place were seen to be.
#[derive(Default)]
struct Seen {
    words: BTreeSet<&'static str>,
    list: Option<Box<Seen>>,
    object: Option<Fields>,
}

#[derive(Default)]
struct Fields {
    objects: usize,
    /// In the order in which they came, with how often.
    fields: Vec<(String, usize, Seen)>,
}

impl Seen {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Null => _ = self.words.insert("null"),
            Value::Bool(_) => _ = self.words.insert("boolean"),
            Value::Number(_) => _ = self.words.insert("number"),
            Value::String(_) => _ = self.words.insert("string"),
            Value::Array(list) => {
                let seen = self.list.get_or_insert_default();
                list.iter().for_each(|value| seen.add(value));
            }
            Value::Object(map) => {
                let object = self.object.get_or_insert_default();
                object.objects += 1;
                for (name, value) in map {
                    match object.fields.iter_mut().find(|(known, ..)| known == name) {
                        Some((_, times, seen)) => {
                            *times += 1;
                            seen.add(value);
                        }
                        None => {
                            let mut seen = Seen::default();
                            seen.add(value);
                            object.fields.push((name.clone(), 1, seen));
                        }
                    }
                }
            }
        }
    }

    /// What the example profiles do not have.
    fn known(&self, name: &str) -> Option<&'static str> {
        match name {
            _ if self.words.iter().any(|word| *word != "null") || self.object.is_some() => None,
            "via" => Some("string[] | null"),
            "coarsened" | "unobserved" | "notes" | "calls" => Some("string[]"),
            "only_pids" => Some("number[]"),
            _ => None,
        }
    }

    /// The type; tables of a document (the lists of its own fields) become interfaces of their own in `rows`.
    fn write(&self, name: &str, depth: usize, rows: &mut Vec<(String, String)>, is_document: bool) -> String {
        if let Some(known) = self.known(name) {
            return known.to_string();
        }
        let mut parts: Vec<String> = Vec::new();
        if let Some(object) = &self.object {
            parts.push(match MAPS.contains(&name) {
                true => format!("Record<string, {}>", object.any(rows)),
                false => object.write(depth, rows, false),
            });
        }
        if let Some(list) = &self.list {
            parts.push(match &list.object {
                Some(object) if is_document => {
                    let row = format!("{}Row", pascal(name));
                    let text = object.write(1, rows, false);
                    rows.push((row.clone(), text));
                    format!("{row}[]")
                }
                _ => match list.write("", depth, rows, false) {
                    one if one.contains(" | ") => format!("({one})[]"),
                    one => format!("{one}[]"),
                },
            });
        }
        // null last, as people write it.
        parts.extend(self.words.iter().filter(|word| **word != "null").map(ToString::to_string));
        if self.words.contains("null") {
            parts.push("null".to_string());
        }
        if parts.is_empty() { "unknown".to_string() } else { parts.join(" | ") }
    }
}

impl Fields {
    fn write(&self, depth: usize, rows: &mut Vec<(String, String)>, is_document: bool) -> String {
        let indent = "  ".repeat(depth);
        let mut text = "{\n".to_string();
        for (name, times, seen) in &self.fields {
            let optional = if *times < self.objects { "?" } else { "" };
            let name_of_field = if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                name.clone()
            } else {
                format!("{name:?}")
            };
            writeln!(text, "{indent}{name_of_field}{optional}: {};", seen.write(name, depth + 1, rows, is_document))
                .unwrap();
        }
        text + &"  ".repeat(depth - 1) + "}"
    }

    /// The type of every value of a map.
    fn any(&self, rows: &mut Vec<(String, String)>) -> String {
        let types: BTreeSet<String> =
            self.fields.iter().map(|(name, _, seen)| seen.write(name, 9, rows, false)).collect();
        match types.len() {
            1 => types.into_iter().next().unwrap(),
            _ => "unknown".to_string(),
        }
    }
}

fn pascal(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// Profiles that have between them whatever a document can have.
fn profiles() -> Vec<Synthetic> {
    let mut exact = Synthetic::example();
    (exact.meta.engine, exact.meta.unit, exact.meta.period) = (Engine::Exact, RecordedUnit::Accesses, 1);
    exact.meta.duration_ns = 0;
    exact.processes[0].rank = Some(3);
    exact.meta.start_time.clear();
    exact.meta.host.clear();
    exact.meta.unit_note.clear();
    exact.meta.exit_status.clear();
    exact.meta.frequency = None;
    exact.samples.clear();
    exact.site_accesses.iter_mut().for_each(|row| (row.samples, row.period, row.reads) = (0, 1, row.reads * 100));
    exact.object_accesses.iter_mut().for_each(|row| (row.samples, row.period, row.reads) = (0, 1, row.reads * 100));
    exact.page_accesses.iter_mut().for_each(|row| (row.samples, row.period, row.reads) = (0, 1, row.reads * 100));
    let nothing = Synthetic {
        meta: numalens_profile::Meta { duration_ns: 5, ..Default::default() },
        machine: exact.machine.clone(),
        ..Default::default()
    };
    // An access of which nobody knows the object.
    let mut unknown = Synthetic::example();
    unknown.samples.iter_mut().for_each(|sample| sample.object = None);
    vec![Synthetic::example(), exact.with_lines(), unknown.with_lines(), nothing]
}

fn documents() -> Seen {
    let mut report = Seen::default();
    let (mut advised, mut simulated, mut disassembled) = (Seen::default(), Seen::default(), Seen::default());
    let directory = tempfile::tempdir().unwrap();
    for (index, content) in profiles().iter().enumerate() {
        let path = content.write(&directory.path().join(format!("{index}.numalens"))).unwrap();
        let profile = Profile::open(&path).unwrap();
        let options = Options::default();
        let add = |seen: &mut Seen, reports: Vec<Report>| seen.add(&numalens_view::json::document(&reports));
        for section in sections::ALL {
            add(&mut report, sections::run(&profile, &options, &[section]).unwrap());
        }
        add(&mut report, sections::run(&profile, &options, &sections::ALL.iter().collect::<Vec<_>>()).unwrap());
        add(&mut advised, advice::run(&profile, &options).unwrap());
        add(&mut advised, of_one_cause(advice::run(&profile, &options).unwrap()));
        disassembled.add(&numalens_view::json::document(&machine_code(&profile)));
        let plan = Plan {
            machine: None,
            placements: vec![Threads::Recorded],
            policies: vec![Policy::Recorded],
            choices: Vec::new(),
            page_size: 4096,
        };
        add(&mut simulated, whatif::run(&profile, &options, &plan).unwrap());
    }
    let documents = [("Report", report), ("Advice", advised), ("Simulation", simulated), ("Disassembly", disassembled)];
    let fields = documents.into_iter().map(|(name, seen)| (name.to_string(), 1, seen)).collect();
    Seen { object: Some(Fields { objects: 1, fields }), ..Seen::default() }
}

/// The same advice, as if each finding were of several objects that functions allocate for their callers.
fn of_one_cause(mut reports: Vec<Report>) -> Vec<Report> {
    for report in &mut reports {
        let Shape::Findings(findings) = &mut report.shape else { continue };
        for finding in findings.iter_mut().filter(|finding| !finding.object.is_empty()) {
            let callers = vec![Cell::Text("main".to_string())];
            let (place, object, evidence) = (finding.place.clone(), finding.object.clone(), finding.evidence.clone());
            finding.object.push(Field::new("via", "by", Cell::Text("allocate".to_string())));
            finding.object.push(Field::new("called_from", "called from", Cell::List(callers)));
            let member = |place, object| Member { place, object, evidence: evidence.clone() };
            finding.members = vec![
                member(place.clone(), finding.object.clone()),
                member(place, object),
                // Pages whose object and first toucher nobody knows.
                member(None, Vec::new()),
            ];
        }
    }
    reports
}

/// Every instruction that the profile has, as if some file had it.
fn machine_code(profile: &Profile) -> Vec<Report> {
    let dataset = Dataset::load(profile, &Options::default(), disassembly::NEEDS).unwrap();
    let sites: Vec<Site> = profile.rows().unwrap();
    let instruction = |site: &Site| {
        let (module, address, text) = (site.module?, site.address, "nop".to_string());
        Some(disassembly::Instruction { module, address, text, site: site.site })
    };
    let instructions = sites.iter().filter_map(instruction).collect();
    let code = Code::new(
        profile.rows().unwrap(),
        sites.clone(),
        profile.rows().unwrap(),
        profile.rows().unwrap(),
        profile.rows().unwrap(),
    );
    disassembly::reports(&dataset, &MachineCode { instructions, code, doubts: Vec::new() }, "app.c")
}

fn generated() -> String {
    let mut text =
        "// Made from the reports by crates/serve/tests/types.rs, which fails when this is stale. Do not edit.\n"
            .to_string();
    text += "\nexport const METRICS: Record<string, { title: string; unit: string; help: string }> = {\n";
    for metric in metrics::ALL {
        let metrics::Metric { name, title, unit, help } = metric;
        writeln!(text, "  {name}: {{ title: {title:?}, unit: {unit:?}, help: {help:?} }},").unwrap();
    }
    text += "};\n";
    text += "\nexport const WORDS: Record<string, { title: string; help: string }> = {\n";
    let patterns = Pattern::ALL.iter().map(|one| (one.name(), one.title(), one.help()));
    let remedies = Remedy::ALL.iter().map(|one| (one.name(), one.title(), one.help()));
    for (name, title, help) in patterns.chain(remedies) {
        writeln!(text, "  {name:?}: {{ title: {title:?}, help: {help:?} }},").unwrap();
    }
    text += "};\n";
    text += "\nexport const TERMS: readonly { name: string; meaning: string }[] = [\n";
    for terms::Term { name, meaning } in terms::ALL {
        writeln!(text, "  {{ name: {name:?}, meaning: {meaning:?} }},").unwrap();
    }
    text += "];\n";
    for (name, _, seen) in documents().object.unwrap().fields {
        let mut rows = Vec::new();
        let document = seen.object.unwrap().write(1, &mut rows, true);
        for (row, body) in rows {
            writeln!(text, "\nexport interface {row} {body}").unwrap();
        }
        writeln!(text, "\nexport interface {name} {document}").unwrap();
    }
    text
}

#[test]
fn types_of_the_page_are_those_of_the_documents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/lib/generated.ts");
    let wanted = generated();
    if std::env::var_os("NUMALENS_WRITE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "ui/src/lib/generated.ts is stale: NUMALENS_WRITE=1 cargo test -p numalens-serve --test types"
    );
}
