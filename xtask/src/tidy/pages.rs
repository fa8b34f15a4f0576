//! Rules about pages for readers: what stands in `docs/` and at the root.

use super::{Complaint, File, Tree};

/// Most characters of a line.
const MAX_WIDTH: usize = 120;

/// The page with measurements, which are of a day.
const MEASUREMENTS: &str = "docs/reference/cost.md";

fn pages(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_page = |path: &str| path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/'));
    tree.files.iter().filter(move |file| is_page(&file.path))
}

/// Lines of text fit beside each other; tables and blocks of code are as they are.
pub fn lines_are_narrow(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for page in pages(tree) {
        let mut is_code = false;
        for (number, line) in page.lines() {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            let is_text = !is_code && !is_fence && !line.trim_start().starts_with('|');
            let width = line.chars().count();
            if is_text && width > MAX_WIDTH {
                complaints.push(Complaint::new(page, number, format!("{width} columns: {MAX_WIDTH} at most")));
            }
        }
    }
    complaints
}

/// What was measured on some day stands in one page, and in `bench/`: elsewhere nobody would find it to bring it up to
/// date.
pub fn dates_stand_beside_measurements(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for page in pages(tree).filter(|page| page.path != MEASUREMENTS) {
        for (number, line) in page.lines() {
            if has_date(line) {
                let text = format!("a date: measurements stand in {MEASUREMENTS} and in bench/");
                complaints.push(Complaint::new(page, number, text));
            }
        }
    }
    complaints
}

/// Whether a line has a day, as in 2020-02-29.
fn has_date(line: &str) -> bool {
    let form = b"20dd-dd-dd";
    line.as_bytes().windows(form.len()).any(|window| {
        let fits = |(c, wanted): (&u8, &u8)| if *wanted == b'd' { c.is_ascii_digit() } else { c == wanted };
        window.iter().zip(form).all(fits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines() {
        let check = |path, text: &str| lines_are_narrow(&Tree::of(&[(path, text)])).len();
        let (wide, fits) = ("ä".repeat(121), "ä".repeat(120));
        assert_eq!(check("docs/a/b.md", &wide), 1);
        assert_eq!(check("README.md", &wide), 1);
        assert_eq!(check("docs/a/b.md", &fits), 0);
        assert_eq!(check("bench/runs/a.md", &wide), 0);
        assert_eq!(check("docs/a.md", &format!("| {wide} |\n")), 0);
        assert_eq!(check("docs/a.md", &format!("```text\n{wide}\n```\n{wide}\n")), 1);
    }

    #[test]
    fn dates() {
        let check = |path, text| dates_stand_beside_measurements(&Tree::of(&[(path, text)])).len();
        assert_eq!(check("docs/guide/a.md", concat!("took 3 s on 2026-", "01-02")), 1);
        assert_eq!(check("docs/guide/a.md", "since 2026-01, 2026-1-2, 12026_01_02"), 0);
        assert_eq!(check(MEASUREMENTS, concat!("3 s (2026-", "01-02)")), 0);
        assert_eq!(check("bench/runs/a.md", concat!("3 s (2026-", "01-02)")), 0);
    }
}
