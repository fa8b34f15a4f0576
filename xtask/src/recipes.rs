//! `cargo xtask recipes`: what CONTRIBUTING.md says about adding something is complete.
//!
//! A recipe in `xtask/recipes` adds a sample of something: new files, and texts put behind a line of files that are
//! there. All of them go into one copy of the tree, below `target/recipes`, and the copy must pass the compiler.
//! What a recipe touches, its heading in CONTRIBUTING.md must name, and it may touch no more files than it says.

mod copy;
mod heading;

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where the recipes lie.
const FOLDER: &str = "xtask/recipes/";
/// The page that they try.
const PAGE: &str = "CONTRIBUTING.md";

/// A sample of something that can be added.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    /// The heading of CONTRIBUTING.md that says how.
    heading: String,
    /// How many files it may touch.
    most: usize,
    /// Files that it adds.
    #[serde(default)]
    new: Vec<New>,
    /// Texts that it puts into files.
    #[serde(default)]
    edit: Vec<Edit>,
}

/// A file that is added.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    path: String,
    text: String,
}

/// A text that is put behind a line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    path: String,
    /// The line, without its indentation; the file has it once.
    after: String,
    text: String,
}

impl Recipe {
    /// The files that it touches.
    fn paths(&self) -> BTreeSet<&str> {
        let new = self.new.iter().map(|new| new.path.as_str());
        new.chain(self.edit.iter().map(|edit| edit.path.as_str())).collect()
    }

    /// Puts the sample into the files, by their paths.
    fn apply(&self, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        for New { path, text } in &self.new {
            if files.insert(path.clone(), text.clone().into_bytes()).is_some() {
                return Err(format!("{path}: there is one already"));
            }
        }
        for Edit { path, after, text } in &self.edit {
            let new = behind(self::text(files, path)?, after, text).map_err(|error| format!("{path}: {error}"))?;
            files.insert(path.clone(), new.into_bytes());
        }
        Ok(())
    }
}

/// The text of a file.
fn text<'a>(files: &'a BTreeMap<String, Vec<u8>>, path: &str) -> Result<&'a str, String> {
    let bytes = files.get(path).ok_or_else(|| format!("{path}: there is none"))?;
    std::str::from_utf8(bytes).map_err(|_| format!("{path} is not text"))
}

/// `text` with lines put behind the one that reads `after`.
fn behind(text: &str, after: &str, lines: &str) -> Result<String, String> {
    let times = text.lines().filter(|line| line.trim() == after).count();
    if times != 1 {
        return Err(format!("the line `{after}` is there {times} times, not once"));
    }
    let mut result = String::with_capacity(text.len() + lines.len());
    for line in text.lines() {
        result.extend([line, "\n"]);
        if line.trim() == after {
            result.extend([lines.trim_end_matches('\n'), "\n"]);
        }
    }
    Ok(result)
}

/// What is wrong with the page, a line each; empty when the copy passes the compiler as well.
///
/// # Errors
/// A recipe cannot be read or applied, or the copy does not pass.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut files = copy::files(root)?;
    let page = text(&files, PAGE)?.to_owned();
    let mut recipes: Vec<(String, Recipe)> = Vec::new();
    for path in files.keys().filter(|path| path.starts_with(FOLDER) && path.ends_with(".toml")) {
        let recipe = toml::from_str(text(&files, path)?).map_err(|error| format!("{path}: {error}"))?;
        recipes.push((path.clone(), recipe));
    }
    let mut complaints = Vec::new();
    for (path, recipe) in &recipes {
        complaints.extend(judge(recipe, &page).into_iter().map(|complaint| format!("{path}: {complaint}")));
        recipe.apply(&mut files).map_err(|error| format!("{path}: {error}"))?;
    }
    if complaints.is_empty() {
        let folder = root.join("target/recipes");
        copy::write(&folder, &files)?;
        copy::compile(root, &folder)?;
    }
    Ok(complaints)
}

/// What the page lacks for a recipe.
fn judge(recipe: &Recipe, page: &str) -> Vec<String> {
    let heading = &recipe.heading;
    let Some(section) = heading::section(page, heading) else {
        return vec![format!("{PAGE} has no heading {heading:?}")];
    };
    let spans = heading::spans(section);
    let paths = recipe.paths();
    let is_new = |path: &str| recipe.new.iter().any(|new| new.path == path);
    let unnamed = paths.iter().filter(|path| !spans.iter().any(|span| heading::names(span, path, is_new(path))));
    let mut complaints: Vec<String> =
        unnamed.map(|path| format!("{heading:?} in {PAGE} does not name {path}")).collect();
    if paths.len() > recipe.most {
        complaints.push(format!("it touches {} files, {} at most", paths.len(), recipe.most));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: &str = "heading = 'A dish'\nmost = 2\n[[new]]\npath = 'crates/a/src/dish.rs'\ntext = 'x'\n\
                          [[edit]]\npath = 'crates/a/src/lib.rs'\nafter = 'mod soup;'\ntext = 'mod dish;'\n";

    fn recipe() -> Recipe {
        toml::from_str(RECIPE).unwrap()
    }

    #[test]
    fn a_sample_goes_behind_its_line() {
        let lib = |text: &str| BTreeMap::from([("crates/a/src/lib.rs".to_owned(), text.as_bytes().to_vec())]);
        let mut files = lib("    mod soup;\nend\n");
        recipe().apply(&mut files).unwrap();
        assert_eq!(files["crates/a/src/lib.rs"], b"    mod soup;\nmod dish;\nend\n");
        assert_eq!(files["crates/a/src/dish.rs"], b"x");
        assert!(recipe().apply(&mut files).unwrap_err().contains("there is one already"));
        assert!(recipe().apply(&mut lib("")).unwrap_err().contains("0 times"));
        assert!(recipe().apply(&mut lib("mod soup;\nmod soup;\n")).unwrap_err().contains("2 times"));
        assert!(recipe().apply(&mut BTreeMap::new()).unwrap_err().contains("there is none"));
    }

    #[test]
    fn the_page_names_what_a_recipe_touches() {
        let judge = |page| judge(&recipe(), page);
        assert_eq!(judge("### A dish\n`a/src/NAME.rs` and `a/src/lib.rs`\n"), [] as [String; 0]);
        assert!(judge("### A dish\n`a/src/NAME.rs`\n### Else\n`a/src/lib.rs`\n")[0].ends_with("a/src/lib.rs"));
        assert!(judge("### Else\n")[0].contains("no heading"));
        let many = Recipe { most: 1, ..recipe() };
        assert!(super::judge(&many, "### A dish\n`a/src/`\n")[0].contains("2 files, 1 at most"));
    }
}
