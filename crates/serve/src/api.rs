//! `/api`: the documents that `numalens report`, `advise` and `simulate` write with `--format json`, and sources.

use crate::cache::{Answer, Cache};
use crate::guard::refuse;
use crate::query::{self, Pairs};
use crate::sources::Sources;
use crate::{ServeError, View};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use numalens_analyze::sections::{self, Section};
use numalens_analyze::{Need, Options, Report, Shelf, Study, advice, disassembly, whatif};
use numalens_topology::Machine;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Bytes of answers that are kept.
const MOST_KEPT: usize = 64 << 20;

struct App {
    view: View,
    machine: Machine,
    sources: Sources,
    cache: Mutex<Cache>,
    shelf: Mutex<Shelf>,
    /// One computation at a time: each uses all CPUs, and many at once would need as many times the memory.
    turn: Semaphore,
}

/// How tables are written: as docs/json.md says, or by columns, for pages.
#[derive(Clone, Copy, Debug)]
enum Form {
    Rows,
    Columns,
}

/// Why there is no answer.
type Refusal = (StatusCode, String);

/// The routes.
pub fn router(view: View) -> Result<Router, ServeError> {
    let app = App {
        machine: view.profile.machine()?,
        sources: Sources::of(&view.profile)?,
        view,
        cache: Mutex::new(Cache::new(MOST_KEPT)),
        shelf: Mutex::default(),
        turn: Semaphore::new(1),
    };
    Ok(Router::new()
        .route("/api/report/{sections}", get(report))
        .route("/api/advise", get(advise))
        .route("/api/simulate", get(simulate))
        .route("/api/source", get(source))
        .route("/api/disassembly", get(machine_code))
        .route("/api/{*other}", get(nothing))
        .with_state(Arc::new(app)))
}

async fn nothing() -> Response {
    refuse((StatusCode::NOT_FOUND, "there is no such thing under /api".to_string()))
}

/// One section, or several with commas between.
async fn report(State(app): State<Arc<App>>, Path(names): Path<String>, query: Query<Pairs>) -> Response {
    let wanted: Result<Vec<&'static Section>, Refusal> = names.split(',').map(section).collect();
    let wanted = match wanted {
        Ok(wanted) if wanted.len() <= sections::ALL.len() => wanted,
        Ok(_) => return refuse(bad("more sections than there are".to_string())),
        Err(refusal) => return refuse(refusal),
    };
    let Query(pairs) = query;
    let (forms, pairs): (Pairs, Pairs) = pairs.into_iter().partition(|(name, _)| name == "form");
    let form = match forms.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>()[..] {
        [] => Form::Rows,
        ["columns"] => Form::Columns,
        _ => return refuse(bad("form: there is columns alone".to_string())),
    };
    answer(app, format!("report {names} {form:?} {pairs:?}"), form, move |app| {
        let asked = query::asked(&pairs, &app.view.options).map_err(bad)?;
        let mut reports =
            app.studied(&asked.options, &sections::needs(&wanted), |study| sections::of(study, &wanted))?;
        if let Some(metric) = &asked.sort
            && !reports.iter_mut().fold(false, |sorted, report| report.sort(metric) | sorted)
        {
            return Err(bad(format!("there is no metric {metric} to sort by")));
        }
        if let Some(rows) = asked.top {
            reports.iter_mut().for_each(|report| report.limit(rows));
        }
        Ok(reports)
    })
    .await
}

fn section(name: &str) -> Result<&'static Section, Refusal> {
    let known = || sections::ALL.iter().map(|section| section.name).collect::<Vec<_>>().join(", ");
    sections::named(name)
        .ok_or_else(|| (StatusCode::NOT_FOUND, format!("there is no such section; there are {}", known())))
}

async fn advise(State(app): State<Arc<App>>, Query(pairs): Query<Pairs>) -> Response {
    answer(app, format!("advise {pairs:?}"), Form::Rows, move |app| {
        let asked = query::asked(&pairs, &app.view.options).map_err(bad)?;
        app.studied(&asked.options, advice::NEEDS, advice::of)
    })
    .await
}

async fn simulate(State(app): State<Arc<App>>, Query(pairs): Query<Pairs>) -> Response {
    answer(app, format!("simulate {pairs:?}"), Form::Rows, move |app| {
        let (plan, filter): (Pairs, Pairs) = pairs.into_iter().partition(|(name, _)| query::is_of_plan(name));
        let asked = query::asked(&filter, &app.view.options).map_err(bad)?;
        let plan = query::plan(&plan, &app.machine).map_err(bad)?;
        app.studied(&asked.options, whatif::NEEDS, |study| whatif::of(study, &plan))
    })
    .await
}

async fn machine_code(State(app): State<Arc<App>>, Query(pairs): Query<Pairs>) -> Response {
    answer(app, format!("disassembly {pairs:?}"), Form::Rows, move |app| {
        let (place, filter): (Pairs, Pairs) = pairs.into_iter().partition(|(name, _)| name == "of");
        let [(_, place)] = &place[..] else { return Err(bad("name one line: ?of=FILE:LINE".to_string())) };
        let (file, line) = query::place("of", place).map_err(bad)?;
        let asked = query::asked(&filter, &app.view.options).map_err(bad)?;
        let wanted =
            app.studied(&asked.options, disassembly::NEEDS, |study| disassembly::wanted(study, &file, line))?;
        let found = (app.view.find_code)(&app.view.profile, &wanted).map_err(|error| failed(error.into()))?;
        app.studied(&asked.options, disassembly::NEEDS, |study| disassembly::reports(study, &found, &file))
    })
    .await
}

async fn source(State(app): State<Arc<App>>, Query(pairs): Query<Pairs>) -> Response {
    let [(name, file)] = &pairs[..] else { return refuse(bad("name one file: ?file=PATH".to_string())) };
    if name != "file" {
        return refuse(bad("name one file: ?file=PATH".to_string()));
    }
    let file = file.clone();
    let read = tokio::task::spawn_blocking(move || {
        let text =
            app.sources.read(&file).ok_or((StatusCode::NOT_FOUND, "the profile names no such file".to_string()))?;
        let text = text.map_err(|why| (StatusCode::NOT_FOUND, why))?;
        Ok(serde_json::json!({ "file": file, "text": text }).to_string().into_bytes())
    });
    match read.await {
        Ok(Ok(document)) => json(document.into()),
        Ok(Err(refusal)) => refuse(refusal),
        Err(_) => refuse(lost()),
    }
}

/// The answer to a question: as it was given before, or computed now.
async fn answer(
    app: Arc<App>,
    asked: String,
    form: Form,
    compute: impl FnOnce(&App) -> Result<Vec<Report>, Refusal> + Send + 'static,
) -> Response {
    if let Some(known) = app.known(&asked) {
        return json(bytes(known));
    }
    let Ok(_turn) = app.turn.acquire().await else { return refuse(lost()) };
    // Whoever was before us may have asked the same.
    if let Some(known) = app.known(&asked) {
        return json(bytes(known));
    }
    let computed = tokio::task::spawn_blocking({
        let app = app.clone();
        move || {
            let mut reports = compute(&app)?;
            (app.view.amend)(&mut reports);
            let document: Answer = Arc::new(match form {
                Form::Rows => numalens_view::json::document(&reports).to_string().into_bytes(),
                Form::Columns => numalens_view::columns::document(&reports),
            });
            app.cache.lock().unwrap_or_else(PoisonError::into_inner).put(asked, document.clone());
            // Nobody need wait until the rows of a large table are gone.
            tokio::task::spawn_blocking(move || drop(reports));
            Ok(document)
        }
    });
    match computed.await {
        Ok(Ok(document)) => json(bytes(document)),
        Ok(Err(refusal)) => refuse(refusal),
        Err(_) => refuse(lost()),
    }
}

impl App {
    /// Makes reports of a part of the profile, of which at least `needs` is read.
    fn studied<T>(&self, options: &Options, needs: &[Need], analyze: impl FnOnce(&Study) -> T) -> Result<T, Refusal> {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.study(&self.view.profile, options, needs).map(analyze).map_err(failed)
    }

    fn known(&self, asked: &str) -> Option<Answer> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(asked)
    }
}

/// Shared with the cache, not copied.
fn bytes(answer: Answer) -> Bytes {
    struct Shared(Answer);
    impl AsRef<[u8]> for Shared {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Shared(answer))
}

fn json(document: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

fn bad(why: String) -> Refusal {
    (StatusCode::BAD_REQUEST, why)
}

fn failed(error: numalens_analyze::LoadError) -> Refusal {
    match error {
        numalens_analyze::LoadError::NoSuchProcess { .. } => bad(error.to_string()),
        numalens_analyze::LoadError::Profile(_) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The computation stopped unexpectedly; the terminal of the server has the reason.
fn lost() -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, "numalens failed here; its terminal says how".to_string())
}
