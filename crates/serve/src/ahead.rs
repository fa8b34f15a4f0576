//! What pages ask of the whole recording is computed before they ask: in the order of the pages, from the start of the
//! server on.
//!
//! Facts are decoded once and stay in memory as far as there is room, so that a filter need only walk over them.

use crate::api::{App, Question};
use crate::query::Pairs;
use numalens_profile::Error;
use numalens_profile::tables::{CodeFetch, Sample};
use std::sync::Arc;

/// The most memory that decoded facts take; tables beyond it are read from their files each time.
const MOST_FACTS: usize = 1 << 30;

/// What pages ask first, without a filter. `ui/e2e/fault.test.ts` compares it with what they ask.
const FIRST: [&str; 22] = [
    "/api/report/machine",
    "/api/report/verdict",
    "/api/report/summary,matrix,machine",
    "/api/advise",
    "/api/report/matrix,allocation-matrix,code-matrix,machine",
    "/api/report/communication",
    "/api/report/threads,placements",
    "/api/report/lines?top=500",
    "/api/report/lines",
    "/api/report/call-tree",
    "/api/report/objects",
    "/api/report/pages,summary,machine",
    "/api/report/address-space",
    "/api/report/timeline,node-timeline",
    "/api/report/phases",
    "/api/simulate",
    "/api/report/matrix",
    "/api/report/cache-lines",
    "/api/report/code-matrix,code-placement,memory-tiers,objects,machine,summary",
    "/api/report/collector,machine",
    "/api/report/functions",
    "/api/report/inclusive",
];

/// Computes everything that pages ask first. What cannot be computed the page says when it asks.
pub async fn compute(app: Arc<App>) {
    if let Ok(turn) = app.turn().await {
        let of = app.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            keep(&of)
        });
        // Damage shows again where its table is asked for.
        let _ = kept.await;
    }
    for path in FIRST {
        if let Some(Ok(question)) = question(&app, path) {
            let _ = app.answer(question).await;
        }
    }
}

/// Keeps decoded facts, those first that most filters walk over.
fn keep(app: &App) -> Result<(), Error> {
    let (profile, mut left) = (&app.view.profile, MOST_FACTS);
    left -= app.keep_facts(left)?;
    left -= profile.keep::<Sample>(left)?;
    profile.keep::<CodeFetch>(left)?;
    Ok(())
}

/// The question that a page's request is; none: of a path that is no report's.
fn question(app: &App, path: &str) -> Option<Result<Question, (axum::http::StatusCode, String)>> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pair = |part: &str| part.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
    let mut pairs: Pairs = query.split('&').filter_map(pair).collect();
    match path.strip_prefix("/api/")? {
        "advise" => Some(Question::advise(app, pairs)),
        "simulate" => Some(Question::simulate(app, pairs)),
        path => {
            pairs.push(("form".to_string(), "columns".to_string()));
            Some(Question::report(app, path.strip_prefix("report/")?, pairs))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::View;
    use numalens_analyze::Options;
    use numalens_analyze::disassembly::MachineCode;
    use numalens_profile::Profile;
    use numalens_profile::testing::Synthetic;

    #[test]
    fn pages_find_what_they_ask() {
        let scratch = tempfile::tempdir().unwrap();
        let profile = Profile::open(&Synthetic::example().write(&scratch.path().join("a.numalens")).unwrap()).unwrap();
        let view = View {
            profile,
            options: Options::default(),
            amend: Box::new(|_| ()),
            find_code: Box::new(|_, _| Ok(MachineCode::default())),
        };
        let app = Arc::new(App::new(view).unwrap());
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(compute(app.clone()));
        for path in FIRST {
            let question = question(&app, path).unwrap().unwrap();
            assert!(app.known(&question).is_some(), "{path}");
        }
    }
}
