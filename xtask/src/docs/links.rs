//! Links of pages: to other pages, to headings, to files of the repository.

use crate::tidy::Tree;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::HashMap;

/// Links that lead nowhere. `others` are files that are not text.
pub fn check(tree: &Tree, others: &[String]) -> Vec<String> {
    let is_page = |path: &str| path.ends_with(".md");
    let pages: HashMap<&str, Page> = tree
        .files
        .iter()
        .filter(|file| is_page(&file.path))
        .map(|file| (file.path.as_str(), Page::read(&file.text)))
        .collect();
    let exists = |path: &str| {
        let folder = format!("{path}/");
        path.is_empty()
            || tree.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
            || others.iter().any(|other| other == path)
    };
    let mut complaints = Vec::new();
    for (path, page) in &pages {
        for (line, link) in &page.links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (target, anchor) = link.split_once('#').map_or((link.as_str(), None), |(to, at)| (to, Some(at)));
            let target = if target.is_empty() { (*path).to_owned() } else { resolve(path, target) };
            if !exists(&target) {
                complaints.push(format!("{path}:{line}: no file {target}"));
            } else if let (Some(anchor), Some(page)) = (anchor, pages.get(target.as_str()))
                && !page.anchors.iter().any(|known| known == anchor)
            {
                complaints.push(format!("{path}:{line}: {target} has no heading #{anchor}"));
            }
        }
    }
    complaints.sort();
    complaints
}

#[derive(Default)]
struct Page {
    /// With the line that each is in.
    links: Vec<(usize, String)>,
    anchors: Vec<String>,
}

impl Page {
    fn read(text: &str) -> Page {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let line = 1 + text[..range.start].matches('\n').count();
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    if let Some(title) = heading.take() {
                        let anchor = anchor(&title);
                        let times = page.anchors.iter().filter(|known| **known == anchor).count();
                        page.anchors.push(if times == 0 { anchor } else { format!("{anchor}-{times}") });
                    }
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(title) = &mut heading {
                        title.push_str(&words);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// As mdBook and GitHub make them of headings.
fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Where a link of a page leads, from the repository's root.
fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        let check = |text| {
            let files = [("docs/a/b.md", text), ("docs/c.md", "# One `two`, three\n## x\n## x\n"), ("src/lib.rs", "")];
            check(&Tree::of(&files), &["docs/ui/p.png".to_owned()])
        };
        let good = "[a](../c.md) [b](../c.md#one-two-three) [c](../c.md#x-1) [d](../../src) [e](https://example.org/x)\n\
                    ![f](../ui/p.png) [g](#here)\n\n# Here\n```\n[no](link.md)\n```\n| a |\n|---|\n| [h](../../src/lib.rs) |\n";
        assert_eq!(check(good), [] as [String; 0]);
        assert_eq!(check("\n[a](c.md)\n"), ["docs/a/b.md:2: no file docs/a/c.md"]);
        assert_eq!(check("[a](../c.md#two)\n"), ["docs/a/b.md:1: docs/c.md has no heading #two"]);
        assert_eq!(check("[a](#there)\n"), ["docs/a/b.md:1: docs/a/b.md has no heading #there"]);
    }
}
