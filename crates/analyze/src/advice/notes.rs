//! What is told below the findings: what was set apart, what looks like a fault and is none, what may be otherwise
//! the next time.

use super::candidate::LEAST_SHARE;
use super::neighbours::Neighbours;
use super::unbound::Unbound;
use super::{classify, kept};
use crate::dataset::usages::Usages;
use crate::model::patterns::Pattern;
use crate::model::report::{Finding, Value};

/// One sentence each.
pub fn of(
    usages: &Usages,
    neighbours: &Neighbours<'_>,
    findings: &[Finding],
    unbound: Option<&Unbound>,
) -> Vec<String> {
    let has = |pattern: Pattern| findings.iter().any(|finding| finding.pattern == pattern);
    let varies = if has(Pattern::HandedOn) || usages.all.accesses() == 0 { None } else { classify::varies(usages) };
    // Lines that travel are in caches too, and no comfort.
    let kept = if has(Pattern::SharedLine) { None } else { kept::note(usages, neighbours) };
    let all = [waiting(usages), kept, varies, unbound.map(Unbound::words)];
    all.into_iter().flatten().collect()
}

/// What is said of accesses that wait for other threads, where they are many.
fn waiting(usages: &Usages) -> Option<String> {
    let waits = usages.waiting.share();
    let (Value::Percent(share, _), Some(hottest)) = (&waits, usages.waiting.hottest) else { return None };
    let place = usages.dataset.code.own(hottest).location;
    (*share >= LEAST_SHARE).then(|| {
        format!(
            "{share:.1} % of all accesses wait for other threads, chiefly at {place}: set apart, shares and gains are \
             of the rest"
        )
    })
}
