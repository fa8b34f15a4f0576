//! `/api`: the documents that `numalens report`, `advise` and `simulate` write with `--format json`, and sources.

use crate::cache::{Answer, Cache};
use crate::guard::refuse;
use crate::query::{self, Asked, Pairs};
use crate::sources::Sources;
use crate::{ServeError, View};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use numalens_analyze::sections::{self, Section};
use numalens_analyze::{Dataset, DatasetCache, Need, Options, Report, advice, disassembly, whatif};
use numalens_profile::tables::Phase;
use numalens_topology::Machine;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Bytes of answers that are kept: of the whole recording, whatever filters are asked for meanwhile, and of filters.
const MOST_OF_WHOLE: usize = 64 << 20;
const MOST_OF_PARTS: usize = 32 << 20;

/// What a question may take.
const LONGEST: Duration = Duration::from_secs(120);
/// Computations that may go on without anybody who waits for them: of four threads that compute or read, two are left
/// for others.
const MOST_ABANDONED: usize = 2;

/// What answers are made of, and those that were given.
pub struct App {
    pub view: View,
    machine: Machine,
    sources: Sources,
    phases: Vec<Phase>,
    whole: Mutex<Cache>,
    parts: Mutex<Cache>,
    /// Facts that are asked for again. A computation that does not end keeps the one that it has; the next gets
    /// another.
    datasets: Mutex<Arc<Mutex<DatasetCache>>>,
    /// One computation at a time: each uses all CPUs, and many at once would need as many times the memory.
    turn: Arc<Semaphore>,
    /// What a question may take, its wait for its turn included.
    pub longest: Duration,
    /// Computations that nobody waits for any more, and that have not ended.
    abandoned: AtomicUsize,
}

/// How tables are written: as docs/reference/json.md says, or by columns, for pages.
#[derive(Clone, Copy, Debug)]
enum Form {
    Rows,
    Columns,
}

/// Why there is no answer.
type Refusal = (StatusCode, String);

/// Makes the reports of an answer.
type Compute = Box<dyn FnOnce(&App) -> Result<Vec<Report>, Refusal> + Send>;

/// What is asked, before anything is computed.
pub struct Question {
    /// What it is known by.
    key: String,
    form: Form,
    /// Whether it is about all of the recording.
    is_whole: bool,
    doubt: Option<String>,
    compute: Compute,
}

impl App {
    /// Of what is served.
    ///
    /// # Errors
    /// The profile's dimensions cannot be read.
    pub fn new(view: View) -> Result<App, ServeError> {
        Ok(App {
            machine: view.profile.machine()?,
            sources: Sources::of(&view.profile)?,
            phases: view.profile.rows()?,
            datasets: Mutex::new(App::new_datasets(&view)),
            view,
            whole: Mutex::new(Cache::new(MOST_OF_WHOLE)),
            parts: Mutex::new(Cache::new(MOST_OF_PARTS)),
            turn: Arc::new(Semaphore::new(1)),
            longest: LONGEST,
            abandoned: AtomicUsize::new(0),
        })
    }

    fn new_datasets(view: &View) -> Arc<Mutex<DatasetCache>> {
        Arc::new(Mutex::new(DatasetCache::new(view.options.clone())))
    }

    fn datasets(&self) -> Arc<Mutex<DatasetCache>> {
        self.datasets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The routes.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/api/report/{sections}", get(report))
        .route("/api/advise", get(advise))
        .route("/api/simulate", get(simulate))
        .route("/api/source", get(source))
        .route("/api/disassembly", get(machine_code))
        .route("/api/{*other}", get(nothing))
        .with_state(app)
}

async fn nothing() -> Response {
    refuse((StatusCode::NOT_FOUND, "there is no such thing under /api".to_string()))
}

async fn report(State(app): State<Arc<App>>, Path(names): Path<String>, Query(pairs): Query<Pairs>) -> Response {
    let question = Question::report(&app, &names, pairs);
    answer(app, question).await
}

async fn advise(State(app): State<Arc<App>>, Query(pairs): Query<Pairs>) -> Response {
    let question = Question::advise(&app, pairs);
    answer(app, question).await
}

async fn simulate(State(app): State<Arc<App>>, Query(pairs): Query<Pairs>) -> Response {
    let question = Question::simulate(&app, pairs);
    answer(app, question).await
}

async fn machine_code(State(app): State<Arc<App>>, Query(pairs): Query<Pairs>) -> Response {
    let question = Question::disassembly(&app, pairs);
    answer(app, question).await
}

impl Question {
    fn new(app: &App, what: &str, pairs: &Pairs, asked: &Asked, compute: Compute) -> Question {
        Question {
            key: format!("{what} {pairs:?}"),
            form: Form::Rows,
            is_whole: asked.options == app.view.options && pairs.iter().all(|(name, _)| query::is_of_form(name)),
            doubt: asked.doubt.clone(),
            compute,
        }
    }

    /// One section, or several with commas between.
    pub fn report(app: &App, names: &str, pairs: Pairs) -> Result<Question, Refusal> {
        let wanted: Vec<&'static Section> = names.split(',').map(section).collect::<Result<_, Refusal>>()?;
        if wanted.len() > sections::ALL.len() {
            return Err(bad("more sections than there are".to_string()));
        }
        let (forms, pairs): (Pairs, Pairs) = pairs.into_iter().partition(|(name, _)| name == "form");
        let form = match forms.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>()[..] {
            [] => Form::Rows,
            ["columns"] => Form::Columns,
            _ => return Err(bad("form: there is columns alone".to_string())),
        };
        let asked = app.asked(&pairs)?;
        let (options, sort, top) = (asked.options.clone(), asked.sort.clone(), asked.top);
        let compute = move |app: &App| {
            let mut reports = app.analyzed(&options, &sections::needs(&wanted), |dataset| match top {
                // Which are the first shows when all are sorted, where they are sorted otherwise.
                Some(rows) if sort.is_none() => sections::first_of(dataset, &wanted, rows),
                _ => sections::of(dataset, &wanted),
            })?;
            if let Some(metric) = &sort
                && !reports.iter_mut().fold(false, |sorted, report| report.sort(metric) | sorted)
            {
                return Err(bad(format!("there is no metric {metric} to sort by")));
            }
            if let Some(rows) = top {
                reports.iter_mut().for_each(|report| report.limit(rows));
            }
            Ok(reports)
        };
        let what = format!("report {names} {form:?}");
        Ok(Question { form, ..Question::new(app, &what, &pairs, &asked, Box::new(compute)) })
    }

    /// What `numalens advise` says.
    pub fn advise(app: &App, pairs: Pairs) -> Result<Question, Refusal> {
        let asked = app.asked(&pairs)?;
        let options = asked.options.clone();
        let compute = move |app: &App| app.analyzed(&options, advice::NEEDS, advice::of);
        Ok(Question::new(app, "advise", &pairs, &asked, Box::new(compute)))
    }

    /// What `numalens simulate` says.
    pub fn simulate(app: &App, pairs: Pairs) -> Result<Question, Refusal> {
        let (plan, filter): (Pairs, Pairs) = pairs.iter().cloned().partition(|(name, _)| query::is_of_plan(name));
        let asked = app.asked(&filter)?;
        let plan = query::plan(&plan, &app.machine).map_err(bad)?;
        let options = asked.options.clone();
        let compute = move |app: &App| app.analyzed(&options, plan.needs(), |dataset| whatif::of(dataset, &plan));
        Ok(Question::new(app, "simulate", &pairs, &asked, Box::new(compute)))
    }

    fn disassembly(app: &App, pairs: Pairs) -> Result<Question, Refusal> {
        let (place, filter): (Pairs, Pairs) = pairs.iter().cloned().partition(|(name, _)| name == "of");
        let [(_, place)] = &place[..] else { return Err(bad("name one line: ?of=FILE:LINE".to_string())) };
        let (file, line) = query::place("of", place).map_err(bad)?;
        let asked = app.asked(&filter)?;
        let options = asked.options.clone();
        let compute = move |app: &App| {
            let wanted =
                app.analyzed(&options, disassembly::NEEDS, |dataset| disassembly::wanted(dataset, &file, line))?;
            let found = (app.view.find_code)(&app.view.profile, &wanted).map_err(|error| failed(error.into()))?;
            app.analyzed(&options, disassembly::NEEDS, |dataset| disassembly::reports(dataset, &found, &file))
        };
        Ok(Question::new(app, "disassembly", &pairs, &asked, Box::new(compute)))
    }
}

fn section(name: &str) -> Result<&'static Section, Refusal> {
    let known = || sections::ALL.iter().map(|section| section.name).collect::<Vec<_>>().join(", ");
    sections::named(name)
        .ok_or_else(|| (StatusCode::NOT_FOUND, format!("there is no such section; there are {}", known())))
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

async fn answer(app: Arc<App>, question: Result<Question, Refusal>) -> Response {
    let answer = match question {
        Ok(question) => app.answer(question).await,
        Err(refusal) => Err(refusal),
    };
    answer.map_or_else(refuse, |document| json(bytes(document)))
}

impl App {
    /// The answer to a question: as it was given before, or computed now.
    ///
    /// # Errors
    /// What is asked for is not there; the profile cannot be read.
    pub async fn answer(self: &Arc<App>, question: Question) -> Result<Answer, Refusal> {
        if let Some(known) = self.known(&question) {
            return Ok(known);
        }
        let app = self.clone();
        // In a task of its own: it ends as it should, and gives its turn away, when who has asked does not wait for it.
        tokio::spawn(async move { app.within_time(question).await }).await.map_err(|_| lost())?
    }

    async fn within_time(self: &Arc<App>, question: Question) -> Result<Answer, Refusal> {
        let end = Instant::now() + self.longest;
        let turn = timeout_at(end, self.turn()).await.map_err(|_| self.too_long())??;
        // Whoever was before us may have asked the same.
        if let Some(known) = self.known(&question) {
            return Ok(known);
        }
        if self.abandoned.load(Relaxed) >= MOST_ABANDONED {
            let why = "computations of this recording do not end, so no more are begun; start numalens view again";
            return Err((StatusCode::SERVICE_UNAVAILABLE, why.to_string()));
        }
        let app = self.clone();
        let mut made = tokio::task::spawn_blocking(move || app.made(question));
        if let Ok(made) = timeout_at(end, &mut made).await {
            return made.map_err(|_| lost())?;
        }
        // A thread cannot be stopped. Others get another datasets, as it has this one, and its turn.
        self.abandoned.fetch_add(1, Relaxed);
        *self.datasets.lock().unwrap_or_else(PoisonError::into_inner) = App::new_datasets(&self.view);
        drop(turn);
        let app = self.clone();
        tokio::spawn(async move {
            // Its answer is kept, and is there when it is asked for again.
            let _ = made.await;
            app.abandoned.fetch_sub(1, Relaxed);
        });
        Err(self.too_long())
    }

    fn too_long(&self) -> Refusal {
        let why = format!(
            "no answer within {} s: the recording is large, or was made to keep us busy; ask for less of it (a phase, a thread, an object), \
             or ask again, as what was begun goes on",
            self.longest.as_secs()
        );
        (StatusCode::SERVICE_UNAVAILABLE, why)
    }

    /// Waits until nobody computes.
    pub async fn turn(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.turn.clone().acquire_owned().await.map_err(|_| lost())
    }

    /// Computes an answer, and keeps it.
    fn made(self: &Arc<App>, question: Question) -> Result<Answer, Refusal> {
        let Question { key, form, is_whole, doubt, compute } = question;
        let mut reports = compute(self)?;
        (self.view.amend)(&mut reports);
        reports.iter_mut().for_each(|report| report.doubts.extend(doubt.clone()));
        let document = self.keep(is_whole, key, written(&reports, form));
        // Nobody need wait until the rows of a large table are gone.
        tokio::task::spawn_blocking(move || drop(reports));
        Ok(document)
    }

    /// Keeps facts, in as many bytes at most; the answer is what they take.
    pub fn keep_facts(&self, most: usize) -> Result<usize, numalens_profile::Error> {
        let datasets = self.datasets();
        let mut datasets = datasets.lock().unwrap_or_else(PoisonError::into_inner);
        datasets.keep_facts(&self.view.profile, most)
    }

    /// Reads what is asked about a report.
    fn asked(&self, pairs: &Pairs) -> Result<Asked, Refusal> {
        query::asked(pairs, &self.view.options, &self.phases).map_err(bad)
    }

    /// Makes reports of a part of the profile, of which at least `needs` is read.
    fn analyzed<T>(
        &self,
        options: &Options,
        needs: &[Need],
        analyze: impl FnOnce(&Dataset) -> T,
    ) -> Result<T, Refusal> {
        let mut needs = needs.to_vec();
        // Advice comes next and needs the larger of the two, from which the smaller follows: so the table is walked
        // over once.
        if needs.contains(&Need::Pages) || needs.contains(&Need::MainUsers) {
            needs.push(Need::PageSums);
        }
        let datasets = self.datasets();
        let mut datasets = datasets.lock().unwrap_or_else(PoisonError::into_inner);
        datasets.dataset(&self.view.profile, options, &needs).map(analyze).map_err(failed)
    }

    fn cache(&self, is_whole: bool) -> &Mutex<Cache> {
        if is_whole { &self.whole } else { &self.parts }
    }

    /// An answer that was given.
    pub fn known(&self, question: &Question) -> Option<Answer> {
        self.cache(question.is_whole).lock().unwrap_or_else(PoisonError::into_inner).get(&question.key)
    }

    fn keep(&self, is_whole: bool, key: String, document: Vec<u8>) -> Answer {
        let document = Arc::new(document);
        self.cache(is_whole).lock().unwrap_or_else(PoisonError::into_inner).put(key, document.clone());
        document
    }
}

fn written(reports: &[Report], form: Form) -> Vec<u8> {
    match form {
        Form::Rows => numalens_view::json::document(reports).to_string().into_bytes(),
        Form::Columns => numalens_view::columns::document(reports),
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

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_analyze::disassembly::MachineCode;
    use numalens_profile::Profile;
    use numalens_profile::testing::Synthetic;
    use std::sync::mpsc;

    /// A question that does not end until `ends` is told to.
    fn endless(key: &str, ends: mpsc::Receiver<()>) -> Question {
        let compute = move |_: &App| {
            let _ = ends.recv();
            Ok(Vec::new())
        };
        Question { key: key.into(), form: Form::Rows, is_whole: true, doubt: None, compute: Box::new(compute) }
    }

    /// The time to answer is over at once, so nothing here depends on how long anything takes.
    #[test]
    fn what_takes_too_long_is_refused_and_stands_in_nobodys_way() {
        let scratch = tempfile::tempdir().unwrap();
        let profile = Profile::open(&Synthetic::example().write(&scratch.path().join("a.numalens")).unwrap()).unwrap();
        let view = View {
            profile,
            options: Options::default(),
            amend: Box::new(|_| ()),
            find_code: Box::new(|_, _| Ok(MachineCode::default())),
        };
        let slow = Arc::new(App { longest: Duration::ZERO, ..App::new(view).unwrap() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut ends = Vec::new();
        runtime.block_on(async {
            for (key, why) in [("a", "no answer within"), ("b", "no answer within"), ("c", "do not end")] {
                let (end, ended) = mpsc::channel();
                ends.push(end);
                let (status, said) = slow.answer(endless(key, ended)).await.unwrap_err();
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
                assert!(said.contains(why), "{said}");
            }
            assert!(slow.turn().await.is_ok(), "nobody waits for their turn");
            assert!(slow.datasets().try_lock().is_ok());
            ends.clear();
            while slow.abandoned.load(Relaxed) > 0 {
                tokio::task::yield_now().await;
            }
            let (_, never) = mpsc::channel();
            assert!(slow.answer(endless("a", never)).await.is_ok(), "what was begun went on");
        });
    }
}
