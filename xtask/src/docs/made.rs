//! Pages that are made from the sources which define what they list.

use crate::tidy::Tree;
use std::fmt::Write;

const TABLES: &str = "crates/profile/src/tables.rs";
const WORDS: &str = "crates/profile/src/words.rs";
const METRICS: &str = "crates/analyze/src/model/metrics.rs";
const TERMS: &str = "crates/analyze/src/model/terms.rs";

/// A page's head.
fn head(title: &str, source: &str, says: &str) -> String {
    format!("# {title}\n\n{says}\n`cargo xtask docs --write` makes this page from `{source}`.\n\n")
}

fn source<'a>(tree: &'a Tree, path: &str) -> Result<&'a str, String> {
    tree.get(path).map(|file| file.text.as_str()).ok_or_else(|| format!("{path}: there is none"))
}

/// Names, units and help texts of all metrics.
pub fn metric_names(tree: &Tree) -> Result<String, String> {
    let text = source(tree, METRICS)?;
    let rows = text.split_once("\nmetrics! {").map(|(_, rows)| rows).ok_or("metrics.rs: no `metrics!`")?;
    let says = "Names in JSON, in CSV and after `--sort`, headings in tables, units, and what each counts.\n\
                [Metrics](metrics.md) has the definitions.";
    let mut page = head("Metric names", METRICS, says);
    page.push_str("| name | heading | unit | counts |\n|---|---|---|---|\n");
    for row in strings(rows).chunks_exact(4) {
        let [name, title, unit, help] = row else { continue };
        line(&mut page, &[&format!("`{name}`"), title, unit, help]);
    }
    Ok(page)
}

/// The glossary.
pub fn terms(tree: &Tree) -> Result<String, String> {
    let text = source(tree, TERMS)?;
    let rows = text.split_once("\nterms! {").map(|(_, rows)| rows).ok_or("terms.rs: no `terms!`")?;
    let rows = rows.split_once("\n}").map_or(rows, |(rows, _)| rows);
    let says = "The words of reports, as `numalens help terms` explains them.";
    let mut page = head("Words", TERMS, says);
    page.push_str("| word | meaning |\n|---|---|\n");
    for row in strings(rows).chunks_exact(2) {
        line(&mut page, &[&row[0], &row[1]]);
    }
    Ok(page)
}

/// Every table of a profile with its columns, and the words that columns hold.
pub fn profile_tables(tree: &Tree) -> Result<String, String> {
    let says = "A profile is a directory with a Parquet file for each table, `TABLE.parquet`.\n\
                Times are nanoseconds since the start of the recording. Addresses are virtual.\n\
                A count that comes from samples carries its `period`: the amount of the recorded unit that one counted\n\
                sample stands for. Exact counts have period 1 and `samples` 0.\n\
                [The profile](../internals/profile.md) says how the tables belong together.";
    let mut page = head("Profile tables", TABLES, says);
    for entry in entries(source(tree, TABLES)?, "\ntable! {", "= \"") {
        let name = entry.head.split('"').nth(1).unwrap_or_default();
        let _ = write!(page, "## {name}\n{}\n\n| column | type | |\n|---|---|---|\n", wrapped(&plain(&entry.doc)));
        for (field, ty, doc) in entry.fields.iter().filter_map(|(text, doc)| {
            let (field, ty) = text.trim_end_matches(',').split_once(": ")?;
            Some((field, ty, doc))
        }) {
            line(&mut page, &[&format!("`{field}`"), &column(ty), &plain(doc)]);
        }
        page.push('\n');
    }
    page.push_str("## Words\nColumns of these types hold one word of a closed set.\n\n| type | words |\n|---|---|\n");
    for entry in entries(source(tree, WORDS)?, "\nwords! {", "{") {
        let words = entry.fields.iter().filter_map(|(text, _)| text.split('"').nth(1));
        let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
        line(&mut page, &[entry.head.trim_end_matches('{').trim(), &words.join(", ")]);
    }
    Ok(page)
}

/// A `NAME = ... {` of a macro, with its doc and its lines, each with its own doc.
struct Entry {
    head: String,
    doc: String,
    fields: Vec<(String, String)>,
}

fn entries(text: &str, macro_begins: &str, head_has: &str) -> Vec<Entry> {
    let Some((_, body)) = text.split_once(macro_begins) else {
        return Vec::new();
    };
    let (mut entries, mut doc): (Vec<Entry>, String) = (Vec::new(), String::new());
    for line in body.lines().take_while(|line| !line.starts_with('}')).map(str::trim) {
        if let Some(said) = line.strip_prefix("///") {
            doc.push_str(said);
        } else if line.ends_with('{') && line.contains(head_has) {
            entries.push(Entry { head: line.to_owned(), doc: std::mem::take(&mut doc), fields: Vec::new() });
        } else if let Some(entry) = entries.last_mut().filter(|_| line.ends_with(',')) {
            entry.fields.push((line.to_owned(), std::mem::take(&mut doc)));
        }
    }
    entries
}

/// What a column holds.
fn column(ty: &str) -> String {
    if let Some(inner) = ty.strip_prefix("Option<").and_then(|ty| ty.strip_suffix('>')) {
        return format!("{}, or null", column(inner));
    }
    match ty {
        "String" => "text".to_owned(),
        "bool" => "boolean".to_owned(),
        "f64" => "real".to_owned(),
        "Bin" | "Page" => "integer".to_owned(),
        _ if ty.ends_with("Id") || ty.starts_with('u') => "integer".to_owned(),
        word => format!("word ([{word}](#words))"),
    }
}

/// A doc comment for readers who do not have the source: links to other items are plain names.
fn plain(doc: &str) -> String {
    doc.trim().replace("[`", "`").replace("`]", "`").replace("crate::", "")
}

/// A row of a table.
fn line(page: &mut String, cells: &[&str]) {
    for cell in cells {
        let _ = write!(page, "| {}{}", cell.replace('|', "\\|"), if cell.is_empty() { "" } else { " " });
    }
    page.push_str("|\n");
}

/// In lines of 120 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= 120 {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// The string literals of a piece of source, in order.
fn strings(text: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some((_, begun)) = rest.split_once('"') {
        let (mut literal, mut chars) = (String::new(), begun.char_indices());
        let end = loop {
            match chars.next() {
                Some((_, '\\')) => literal.extend(chars.next().map(|(_, c)| c)),
                Some((at, '"')) => break at + 1,
                Some((_, c)) => literal.push(c),
                None => break begun.len(),
            }
        };
        found.push(literal);
        rest = &begun[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_become_rows() {
        let code = "macro\nmetrics! {\n    A = \"a\", \"an a\", \"%\",\n        \"What \\\"a\\\" | is.\";\n    B = \"b\", \"b\", \"s\", \"B.\";\n}\n";
        let page = metric_names(&Tree::of(&[(METRICS, code)])).unwrap();
        assert!(page.ends_with("| `a` | an a | % | What \"a\" \\| is. |\n| `b` | b | s | B. |\n"), "{page}");
    }

    #[test]
    fn tables_become_sections() {
        let tables = "x\ntable! {\n    /// A thing,\n    /// see [`crate::Thing`].\n    Thing = \"things\" {\n        id: ThingId,\n        \
                      /// Its kind.\n        kind: Option<Kind>,\n    }\n}\n";
        let words = "x\nwords! {\n    /// Kinds.\n    Kind {\n        Good = \"good\",\n        /// Bad.\n        Bad = \"bad\",\n    }\n}\n";
        let page = profile_tables(&Tree::of(&[(TABLES, tables), (WORDS, words)])).unwrap();
        let rows = "## things\nA thing, see `Thing`.\n\n| column | type | |\n|---|---|---|\n| `id` | integer | |\n\
                    | `kind` | word ([Kind](#words)), or null | Its kind. |\n";
        assert!(page.contains(rows) && page.ends_with("| Kind | `good`, `bad` |\n"), "{page}");
    }
}
