//! The list of what offends against a rule today, `xtask/offenders.toml`. It may only shrink: what is not in it, or is
//! worse than it says, is a complaint, and so is what is better, until `cargo xtask tidy --write` has lowered the list.

use super::{Complaint, Tree};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

pub const PATH: &str = "xtask/offenders.toml";

const HEADER: &str = "\
# What offends today against a rule of `cargo xtask tidy`: by rule the file (and the name in it), and how much of it
# there is: fields, lines, or the files themselves. The list only shrinks: `cargo xtask tidy --write` lowers it.
# What is to stay as it is has a reason: `\"a.rs: f\" = { figure = 90, reason = \"one row for each system call\" }`.
";

/// Something that offends.
#[derive(Debug, PartialEq, Eq)]
pub struct Offence {
    pub path: String,
    /// Counted from 1; 0 when the whole file is meant.
    pub line: usize,
    /// Of the type or function; empty when the file is meant.
    pub name: String,
    pub figure: usize,
    /// The files of which the figure is the number, where it is one of files.
    pub files: BTreeSet<String>,
    pub text: String,
}

impl Offence {
    pub fn new(path: &str, name: &str, figure: usize, text: String) -> Self {
        Offence { path: path.to_owned(), line: 0, name: name.to_owned(), figure, files: BTreeSet::new(), text }
    }

    pub fn of_files(path: &str, name: &str, files: BTreeSet<String>, text: String) -> Self {
        Offence { figure: files.len(), files, ..Offence::new(path, name, 0, text) }
    }

    fn key(&self) -> String {
        match self.name.as_str() {
            "" => self.path.clone(),
            name => format!("{}: {name}", self.path),
        }
    }
}

/// An offence that is listed.
#[derive(Deserialize, Debug, PartialEq, Eq)]
#[serde(untagged)]
enum Entry {
    Figure(usize),
    Files(BTreeSet<String>),
    Reasoned { figure: usize, reason: String },
}

impl Entry {
    fn figure(&self) -> usize {
        match self {
            Entry::Figure(figure) | Entry::Reasoned { figure, .. } => *figure,
            Entry::Files(files) => files.len(),
        }
    }

    /// The files of an offence that are not listed.
    fn new_files<'a>(&'a self, offence: &'a Offence) -> Vec<&'a str> {
        match self {
            Entry::Files(files) => offence.files.difference(files).map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    fn lower(&mut self, offence: &Offence) {
        match self {
            Entry::Figure(figure) | Entry::Reasoned { figure, .. } => *figure = offence.figure.min(*figure),
            Entry::Files(files) => files.retain(|file| offence.files.contains(file)),
        }
    }
}

/// By rule and key.
#[derive(Default, Debug)]
pub struct List(BTreeMap<String, BTreeMap<String, Entry>>);

impl List {
    /// # Errors
    /// The file is not such a list.
    pub fn read(tree: &Tree) -> Result<List, Complaint> {
        let text = tree.get(PATH).map_or("", |file| &file.text);
        let parsed = toml::from_str(text).map(List);
        parsed.map_err(|error| complaint(error.message().to_owned()))
    }

    /// What is wrong between the list and what a rule finds.
    pub fn hold(&self, rule: &str, offences: &[Offence]) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        for offence in offences {
            let Offence { path, line, name, text, figure, .. } = offence;
            let mut complain = |more: String| {
                let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
                complaints.push(Complaint { path: path.clone(), line: *line, text: format!("{name}{text}{more}") });
            };
            match self.entry(rule, &offence.key()) {
                None => complain(String::new()),
                Some(entry) if *figure > entry.figure() => complain(format!("; it was {}", entry.figure())),
                Some(entry) => {
                    let new = entry.new_files(offence);
                    if !new.is_empty() {
                        complain(format!("; new among them: {}", new.join(", ")));
                    }
                }
            }
        }
        let found: BTreeMap<String, &Offence> = offences.iter().map(|offence| (offence.key(), offence)).collect();
        for (key, entry) in self.0.get(rule).into_iter().flatten() {
            let (was, is) = (entry.figure(), found.get(key).map_or(0, |offence| offence.figure));
            if let Entry::Reasoned { reason, .. } = entry
                && reason.trim().is_empty()
            {
                complaints.push(complaint(format!("{rule}: {key}: no reason")));
            }
            if is < was {
                let now = if found.contains_key(key) { format!("{is}, no longer {was}") } else { "fine".to_owned() };
                complaints.push(complaint(format!("{rule}: {key} is {now} now: `cargo xtask tidy --write`")));
            }
        }
        complaints
    }

    /// Lowers what a rule finds less of, and takes out what it does not find.
    pub fn lower(&mut self, rule: &str, offences: &[Offence]) {
        let Some(entries) = self.0.get_mut(rule) else { return };
        let found: BTreeMap<String, &Offence> = offences.iter().map(|offence| (offence.key(), offence)).collect();
        entries.retain(|key, _| found.contains_key(key));
        entries.iter_mut().for_each(|(key, entry)| entry.lower(found[key]));
    }

    /// Entries of rules that do not exist.
    pub fn hold_names(&self, rules: &[&str]) -> Vec<Complaint> {
        let unknown = self.0.keys().filter(|rule| !rules.contains(&rule.as_str()));
        unknown.map(|rule| complaint(format!("there is no rule {rule}"))).collect()
    }

    fn entry(&self, rule: &str, key: &str) -> Option<&Entry> {
        self.0.get(rule)?.get(key)
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let mut text = HEADER.to_owned();
        for (rule, entries) in self.0.iter().filter(|(_, entries)| !entries.is_empty()) {
            text += &format!("\n[{rule}]\n");
            for (key, entry) in entries {
                let value = match entry {
                    Entry::Figure(figure) => figure.to_string(),
                    Entry::Reasoned { figure, reason } => {
                        format!("{{ figure = {figure}, reason = {} }}", quoted(reason))
                    }
                    Entry::Files(files) => {
                        let lines: String = files.iter().map(|file| format!("    {},\n", quoted(file))).collect();
                        format!("[ # {} files\n{lines}]", files.len())
                    }
                };
                text += &format!("{} = {value}\n", quoted(key));
            }
        }
        text
    }
}

fn complaint(text: String) -> Complaint {
    Complaint { path: PATH.to_owned(), line: 0, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "[circles]\n\"x\" = [\"a\", \"b\"]\n[long]\n\"a.rs: f\" = 90\n\
                          \"a.rs: g\" = { figure = 80, reason = \"a table\" }\n";

    fn list() -> List {
        List::read(&Tree::of(&[(PATH, LISTED)])).unwrap()
    }

    fn long(name: &str, figure: usize) -> Offence {
        Offence::new("a.rs", name, figure, format!("{figure} lines"))
    }

    fn circle(files: &[&str]) -> Offence {
        Offence::of_files("x", "", files.iter().map(|file| (*file).to_owned()).collect(), "a circle".to_owned())
    }

    fn texts(complaints: &[Complaint]) -> Vec<String> {
        complaints.iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn what_is_listed_is_silent() {
        assert_eq!(list().hold("long", &[long("f", 90), long("g", 80)]), []);
        assert_eq!(list().hold("circles", &[circle(&["a", "b"])]), []);
    }

    #[test]
    fn what_is_new_or_worse() {
        let found = list().hold("long", &[long("f", 91), long("g", 80), long("h", 71)]);
        assert_eq!(texts(&found), ["a.rs: f: 91 lines; it was 90", "a.rs: h: 71 lines"]);
        let found = list().hold("circles", &[circle(&["a", "c"])]);
        assert_eq!(texts(&found), ["x: a circle; new among them: c"]);
        assert_eq!(list().hold("circles", &[circle(&["a", "b", "c"])]).len(), 1);
    }

    #[test]
    fn what_is_better_is_lowered() {
        let offences = [long("f", 80)];
        let found = list().hold("long", &offences);
        assert_eq!(found.len(), 2);
        assert!(found[0].text.contains("a.rs: f is 80, no longer 90 now"), "{}", found[0].text);
        assert!(found[1].text.contains("a.rs: g is fine now"), "{}", found[1].text);
        let mut list = list();
        list.lower("long", &offences);
        list.lower("circles", &[circle(&["b", "c"])]);
        assert_eq!(list.hold("long", &offences), []);
        let again = List::read(&Tree::of(&[(PATH, &list.to_text())])).unwrap();
        assert_eq!(again.0, list.0);
        assert_eq!(again.entry("circles", "x"), Some(&Entry::Files(BTreeSet::from(["b".to_owned()]))));
        assert_eq!(again.entry("long", "a.rs: f"), Some(&Entry::Figure(80)));
    }

    #[test]
    fn lowering_never_adds() {
        let mut list = list();
        list.lower("long", &[long("f", 95), long("g", 80), long("h", 71)]);
        assert_eq!(list.to_text(), self::list().to_text());
    }

    #[test]
    fn the_list_of_this_repository_is_as_it_would_be_written() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Tree::read(&root).unwrap();
        assert_eq!(List::read(&tree).unwrap().to_text(), tree.get(PATH).unwrap().text);
    }

    #[test]
    fn a_list_that_is_wrong() {
        assert!(List::read(&Tree::of(&[(PATH, "[long]\n\"a.rs\" = true")])).is_err());
        assert_eq!(list().hold_names(&["long"]).len(), 1);
        assert_eq!(list().hold_names(&["long", "circles"]), []);
        let unreasoned = "[long]\n\"a.rs: g\" = { figure = 80, reason = \" \" }\n";
        let list = List::read(&Tree::of(&[(PATH, unreasoned)])).unwrap();
        assert_eq!(list.hold("long", &[long("g", 80)]).len(), 1);
    }
}
