//! targets/expectations.toml: the planted fault of each target, looked for in the JSON of `report`.

use crate::machine::Machine;
use crate::truth::{self, line_of};
use miette::{IntoDiagnostic, Result, WrapErr, miette};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One target's section; the file's head says what each key means.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    pub source: String,
    pub section: String,
    pub first_touch: Option<String>,
    pub line: Option<String>,
    pub object: Option<String>,
    pub global: Option<String>,
    pub kind: Option<String>,
    pub remedy: Option<String>,
    #[serde(default)]
    pub classes: BTreeMap<String, f64>,
    #[serde(default)]
    pub record: Vec<String>,
    #[serde(default = "yes")]
    pub r#virtual: bool,
}

fn yes() -> bool {
    true
}

/// All sections of the file in `targets`, by target.
///
/// # Errors
/// The file is missing or not understood.
pub fn all(targets: &Path) -> Result<BTreeMap<String, Expectation>> {
    let path = targets.join("expectations.toml");
    let text = fs::read_to_string(&path).into_diagnostic().wrap_err_with(|| path.display().to_string())?;
    toml::from_str(&text).into_diagnostic().wrap_err_with(|| path.display().to_string())
}

impl Expectation {
    /// What `report` (its JSON, all sections) does not show as it should; lines are looked up in the sources in
    /// `targets`. Shares of classes are for [`Expectation::counted_shares`] where accesses are counted, and for
    /// [`compare_shares`] where time is sampled: threads of equal work do not get equal time on a busy host.
    ///
    /// # Errors
    /// A source has no line with an expected tag.
    pub fn doubts(&self, report: &Value, targets: &Path) -> Result<Vec<String>> {
        let source = targets.join(&self.source);
        let mut doubts = Vec::new();
        let mut top = |section: &str, tag: &Option<String>| -> Result<()> {
            let Some(tag) = tag else { return Ok(()) };
            let line = line_of(&source, tag)?;
            let row = &report[section][0];
            let place = if section == "objects" { &row["site"] } else { row };
            if !at(place, &self.source, line) {
                doubts.push(format!("{section}: {}:{line} is not on top, but {row}", self.source));
            }
            Ok(())
        };
        top("first_touch", &self.first_touch)?;
        top("lines", &self.line)?;
        if self.kind.is_some() {
            top("objects", &self.object)?;
        }
        let object = &report["objects"][0];
        for (key, expected) in [("name", &self.global), ("kind", &self.kind)] {
            if expected.as_ref().is_some_and(|expected| object[key] != expected.as_str()) {
                doubts.push(format!(
                    "objects: the {key} on top is {}, not {}",
                    object[key],
                    expected.as_deref().unwrap_or_default()
                ));
            }
        }
        match self.section.as_str() {
            "threads" => doubts.extend(unbound(report)),
            "code-matrix" => doubts.extend(remote_code(report)),
            _ => {}
        }
        Ok(doubts)
    }
}

impl Expectation {
    /// The classes of the top line, of counted accesses, against those that the target makes by construction.
    pub fn counted_shares(&self, report: &Value) -> Vec<String> {
        let line = &report["lines"][0];
        let accesses = line["accesses"].as_f64().unwrap_or(0.0);
        let share = |class: &str| line["classes"][class].as_f64().unwrap_or(0.0) * 100.0 / accesses.max(1.0);
        let far = self.classes.iter().filter(|&(class, &percent)| (share(class) - percent).abs() > 1.0);
        far.map(|(class, percent)| format!("{class}: {:.2} % of the top line, not {percent} %", share(class))).collect()
    }

    /// The classes of the top line, of samples on a virtual machine, against the CPU time in the truth that the target
    /// left in `directory`; `spread`: whether the machine binds threads to its nodes.
    ///
    /// # Errors
    /// The truth is missing or not understood.
    pub fn virtual_shares(&self, report: &Value, directory: &Path, spread: bool) -> Result<Vec<String>> {
        let (Some(tag), false) = (&self.line, self.classes.is_empty()) else { return Ok(Vec::new()) };
        let mut truths = truth::Truth::read_all(directory, "truth.json")?;
        let four = Machine::find("dist4").expect("one of the lab's machines");
        truths.iter_mut().for_each(|truth| truth.place(four.distances.len() as u16, spread));
        let classes = report["lines"][0]["classes"].as_object().cloned().unwrap_or_default();
        let counted: BTreeMap<String, u64> =
            classes.iter().filter_map(|(class, count)| Some((class.clone(), count.as_f64()? as u64))).collect();
        Ok(compare_shares(&truth::Truth::seconds(&truths, tag, four), &counted))
    }

    /// What `advise` (its JSON) does not say first as it should.
    ///
    /// # Errors
    /// As [`Expectation::doubts`].
    pub fn advice_doubts(&self, advice: &Value, targets: &Path) -> Result<Vec<String>> {
        let Some(remedy) = &self.remedy else { return Ok(Vec::new()) };
        let first = &advice["findings"][0];
        if first["remedy"] != remedy.as_str() {
            return Ok(vec![format!("advise: the first remedy is {}, not {remedy}: {advice}", first["remedy"])]);
        }
        let line = match (remedy.as_str(), &self.first_touch) {
            ("parallel-initialisation" | "local-allocation", Some(tag)) => line_of(&targets.join(&self.source), tag)?,
            _ => return Ok(Vec::new()),
        };
        let found = at(&first["where"], &self.source, line);
        Ok(if found { Vec::new() } else { vec![format!("advise: {}:{line} is not where, but {first}", self.source)] })
    }
}

fn at(place: &Value, source: &str, line: u32) -> bool {
    let file = place["file"].as_str().map(Path::new).and_then(Path::file_name);
    file.is_some_and(|file| file == source) && place["line"] == line
}

/// No thread has a node.
fn unbound(report: &Value) -> Option<String> {
    let threads = report["threads"].as_array()?;
    let bound = threads.iter().filter(|thread| !thread["node"].is_null()).count();
    (bound > 0).then(|| format!("threads: {bound} of {} are shown bound to a node", threads.len()))
}

/// Code is fetched from other nodes: three quarters of it where accesses are counted. The kernel maps sixteen pages of
/// a file with one fault, so samples do not tell who loaded the others of a library's text; on a virtual machine they
/// go to whom they are first seen with.
fn remote_code(report: &Value) -> Option<String> {
    let rows = report["matrix"]["code"]["rows"].as_array()?;
    let count = |value: &Value| value.as_f64().unwrap_or(0.0);
    let (mut own, mut all) = (0.0, 0.0);
    for (i, row) in rows.iter().enumerate() {
        for (j, entry) in row.as_array()?.iter().enumerate() {
            all += count(entry);
            own += if i == j { count(entry) } else { 0.0 };
        }
    }
    let most = if report["meta"]["engine"] == "exact" { 0.5 } else { 0.75 };
    (own > all * most || all == 0.0)
        .then(|| format!("matrix.code: {own} of {all} fetches are local; most should be remote"))
}

/// Samples a second of CPU time: what `record` takes unless told otherwise.
const FREQUENCY: f64 = 997.0;

/// Whether counted samples are shared among the classes as CPU time is (`seconds`): what is wrong, per class.
///
/// A share lies within 4 standard errors (1.96 would fail one comparison in twenty on correct results), and one percent
/// point for what the program's clock and the samples' do not measure alike. Clock interrupts that come late, as they
/// do on emulated CPUs and busy hosts, are lost, and whose they were is not known: their share is allowed for.
pub fn compare_shares(seconds: &BTreeMap<&str, f64>, counted: &BTreeMap<String, u64>) -> Vec<String> {
    let total: u64 = counted.values().sum();
    let mut doubts = Vec::new();
    // Fewer say nothing; a busy machine gives a short program fewer.
    if total < 40 {
        return vec![format!("only {total} samples")];
    }
    let all_seconds: f64 = seconds.values().sum();
    let lost = (1.0 - total as f64 / (all_seconds * FREQUENCY)).max(0.0);
    let classes: std::collections::BTreeSet<&str> =
        seconds.keys().copied().chain(counted.keys().map(String::as_str)).collect();
    for class in classes {
        let p = seconds.get(class).copied().unwrap_or(0.0) / all_seconds.max(f64::MIN_POSITIVE);
        let found = counted.get(class).copied().unwrap_or(0) as f64 / total as f64;
        let unknown = if p > 0.0 && p < 1.0 { lost } else { 0.0 };
        let error = 4.0 * (p * (1.0 - p) / total as f64).sqrt() + 0.01 + unknown;
        if (found - p).abs() > error {
            doubts.push(format!(
                "{:.1} % {class} in {total} samples, expected {:.1} +- {:.1} %",
                found * 100.0,
                p * 100.0,
                error * 100.0
            ));
        }
    }
    doubts
}

/// Reads the expectation of one target.
///
/// # Errors
/// As [`all`]; no section of that name.
pub fn of(targets: &Path, name: &str) -> Result<Expectation> {
    all(targets)?.remove(name).ok_or_else(|| miette!("expectations.toml has no section {name}"))
}

/// Every tag that an expectation names is in its source.
///
/// # Errors
/// As [`truth::line_of`].
pub fn tags_exist(expectation: &Expectation, targets: &Path) -> Result<()> {
    for tag in [&expectation.first_touch, &expectation.line, &expectation.object].into_iter().flatten() {
        truth::line_of(&targets.join(&expectation.source), tag)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn targets() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets")
    }

    #[test]
    fn every_tag_is_in_its_source() {
        let all = all(&targets()).unwrap();
        assert!(all.len() >= 14);
        for (name, expectation) in all {
            tags_exist(&expectation, &targets()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
    }

    #[test]
    fn a_fault_elsewhere_is_doubted() {
        let expectation = of(&targets(), "serial_init_pthreads").unwrap();
        let source = targets().join("serial_init_pthreads.c");
        let line = |tag| line_of(&source, tag).unwrap();
        let file = "/a/serial_init_pthreads.c";
        let mut report = json!({
            "first_touch": [{"file": file, "line": line("first-touch")}],
            "lines": [{"file": file, "line": line("remote"), "accesses": 1000, "classes": {"local": 255, "remote": 745}}],
            "objects": [{"kind": "heap", "site": {"file": file, "line": line("object")}}],
        });
        assert_eq!(expectation.doubts(&report, &targets()).unwrap(), Vec::<String>::new());
        assert_eq!(expectation.counted_shares(&report), Vec::<String>::new());
        report["lines"][0]["line"] = json!(1);
        report["lines"][0]["classes"] = json!({"local": 300, "remote": 700});
        report["objects"][0]["kind"] = json!("file");
        assert_eq!(expectation.doubts(&report, &targets()).unwrap().len(), 2);
        assert_eq!(expectation.counted_shares(&report).len(), 2);
    }

    #[test]
    fn shares_outside_their_interval_are_doubted() {
        let seconds = BTreeMap::from([("local", 0.25), ("remote", 0.75)]);
        let counted = |local, remote| BTreeMap::from([("local".to_owned(), local), ("remote".to_owned(), remote)]);
        assert!(compare_shares(&seconds, &counted(260, 740)).is_empty());
        assert_eq!(compare_shares(&seconds, &counted(500, 500)).len(), 2);
        assert_eq!(compare_shares(&seconds, &counted(1, 2)).len(), 1);
        // A fifth of the interrupts was lost: 0.4 may be 0.25, 0.6 may not.
        assert!(compare_shares(&seconds, &counted(320, 480)).is_empty());
        assert_eq!(compare_shares(&seconds, &counted(480, 320)).len(), 2);
        assert_eq!(compare_shares(&BTreeMap::from([("local", 1.0)]), &counted(700, 100)).len(), 2);
    }
}
