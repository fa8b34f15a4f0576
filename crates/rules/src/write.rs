//! Rules as the text of a file.

use crate::{Action, Allocation, Matcher, Rule, Rules, SizeRange, VERSION};
use std::fmt;

/// A text as TOML has it.
fn quoted(text: impl fmt::Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "version = {VERSION}")?;
        self.rules.iter().try_for_each(|rule| write!(f, "\n{rule}"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.notes.iter().flat_map(|note| note.lines());
        // Names of programs come from anywhere: a comment must not hold what TOML forbids in one.
        for line in lines {
            let shown: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            writeln!(f, "# {shown}")?;
        }
        writeln!(f, "[[rule]]\nname = {}", quoted(&self.name))?;
        match &self.matcher {
            Matcher::Allocation(allocation) => writeln!(f, "allocation = {{ {allocation} }}")?,
            Matcher::Object { kind, name } => {
                writeln!(f, "object = {{ kind = {}, name = {} }}", quoted(kind.word()), quoted(name))?;
            }
            Matcher::Thread(name) => writeln!(f, "thread = {}", quoted(name))?,
            Matcher::Process => writeln!(f, "process = true")?,
        }
        writeln!(f, "do = {}", quoted(self.action.word()))?;
        match &self.action {
            Action::Pin(cpus) => writeln!(f, "cpus = {}", quoted(cpus)),
            Action::Weighted(weights) => {
                let weights: Vec<String> = weights.iter().map(|(node, weight)| format!("{node} = {weight}")).collect();
                writeln!(f, "weights = {{ {} }}", weights.join(", "))
            }
            other => match other.nodes().filter(|nodes| !nodes.is_empty()) {
                Some(nodes) => writeln!(f, "nodes = {}", quoted(nodes)),
                None => Ok(()),
            },
        }
    }
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = Vec::new();
        if !self.frames.is_empty() {
            let frames: Vec<String> = self.frames.iter().map(quoted).collect();
            fields.push(format!("frames = [{}]", frames.join(", ")));
        }
        fields.extend(self.at.as_ref().map(|at| format!("at = {}", quoted(at))));
        if self.size != SizeRange::default() {
            fields.push(format!("size = {}", quoted(self.size)));
        }
        f.write_str(&fields.join(", "))
    }
}
