//! What a reader of figures must know beforehand: sentences that several sections have.

use crate::dataset::Dataset;

/// What the sections of code have to say beforehand.
pub fn name_doubts(dataset: &Dataset) -> Vec<String> {
    let mut doubts = dataset.access_doubts();
    if !dataset.code.has_names() && !dataset.facts.sites.is_empty() {
        doubts.push("no symbols were found: build the program with -g, or map moved sources and binaries with --source-map OLD=NEW".to_string());
    }
    if dataset.facts.sites.divided_by > 0 {
        let seen = dataset.facts.sites.divided_by;
        doubts.push(format!(
            "which instructions access the object is estimated from {seen} accesses that were looked at"
        ));
    }
    if let Some(looks) = dataset.about.meta.extra.get("looks_at_lines").and_then(|looks| looks.as_u64()) {
        doubts.push(format!(
            "lines of Python are estimated by time: what the interpreter and libraries accessed is that of the lines that its threads were seen at, {looks} times"
        ));
    }
    doubts
}

/// What is to be known of counts that were spread over so many bins at most.
pub fn spread_doubts(dataset: &Dataset, longest: u32) -> Vec<String> {
    let ms = u64::from(longest).saturating_mul(dataset.about.meta.bin_ns) as f64 / 1e6;
    match longest {
        0 | 1 => Vec::new(),
        _ => vec![format!(
            "counters are looked at now and then: what a look finds is spread evenly over the time since the look before, up to {ms:.1} ms here"
        )],
    }
}
