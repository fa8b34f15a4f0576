//! The server behind `numalens view`: the web pages of `ui/`, and the reports that they show, for one profile.
//!
//! A profile says where memory of a program lies and what its functions are called, and sources lie beside it; other
//! users of the host and other pages in the same browser must get none of it. What keeps them out:
//!
//! | who | what stops them |
//! |---|---|
//! | other hosts | the socket is bound to 127.0.0.1 |
//! | other users of this host | `/api` wants the token, which only the printed address has: 401 |
//! | a page of another site whose name was rebound to 127.0.0.1 | `Host` must be ours, exactly: 421 |
//! | a page of another site that sends requests here | a foreign `Origin`: 403; and it does not know the token |
//! | other users, by the arguments of the browser | those name a file that only its owner reads, which leads to the address |
//! | who looks at the page's address, or takes it from there | the page keeps the token for its host and port, and takes it out of the address |
//! | requests that never end, connections without number | a time for a request's head, and so many connections at once |
//! | names in the profile that look like markup | the page sets text, never markup; a policy (CSP) that runs our scripts only |
//! | paths in requests | sources are those that the profile names, letter by letter; pages come from the program itself |
//! | a profile that names other files than sources | what is read has the name of a source, is a regular file, and lies where sources do |
//!
//! ```text
//! request -> guard (Host, Origin, size, token) -> assets           the built pages, inside the program
//!                                             '-> api -> reports   one computation at a time, answers and folded facts
//!                                                    |               kept, up to a limit; what pages ask first is
//!                                                    |               computed ahead
//!                                                    '-> sources, and the machine code of lines, by the names that
//!                                                                     the profile has
//! ```

mod ahead;
mod api;
mod assets;
mod cache;
mod connections;
mod guard;
mod query;
mod sources;
mod token;

pub use crate::connections::Limits;
use crate::guard::Guard;
use crate::token::Token;
use numalens_analyze::disassembly::MachineCode;
use numalens_analyze::{Options, Report};
use numalens_profile::ids::ModuleId;
use numalens_profile::{Error, Profile};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

/// Changes reports before they are shown, as `numalens report` does.
pub type Amend = Box<dyn Fn(&mut [Report]) + Send + Sync>;

/// The functions around these instructions (module, and address in it) as they stand in files of this host; what is not
/// there is said in its doubts.
pub type FindCode = Box<dyn Fn(&Profile, &[(ModuleId, u64)]) -> Result<MachineCode, Error> + Send + Sync>;

/// What is served.
pub struct View {
    pub profile: Profile,
    /// What of it, unless a request says more.
    pub options: Options,
    /// Adds what the caller knows to the reports: doubts about names.
    pub amend: Amend,
    /// Finds machine code in the program's files.
    pub find_code: FindCode,
}

/// The server could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is taken, or may not be used.
    #[error("cannot listen on 127.0.0.1:{port}: {source}; choose another with --port, or leave it out")]
    Listen {
        /// The port that was asked for; 0: any.
        port: u16,
        #[source]
        source: std::io::Error,
    },
    /// No randomness, no threads, a broken socket.
    #[error("cannot {what}: {source}")]
    System {
        what: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// The profile cannot be read.
    #[error(transparent)]
    Profile(#[from] numalens_profile::Error),
}

impl ServeError {
    fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> ServeError {
        move |source| ServeError::System { what, source }
    }
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
    view: Arc<api::App>,
    runtime: tokio::runtime::Runtime,
    limits: Limits,
}

impl Server {
    /// Listens on 127.0.0.1; port 0: any that is free. What may fail is tried here, before anybody is told the address.
    ///
    /// # Errors
    /// The port is taken; the profile's dimensions cannot be read; the kernel gives no random bytes, or no threads.
    pub fn bind(view: View, port: u16) -> Result<Server, ServeError> {
        let listen = |source| ServeError::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let token = Token::random().map_err(ServeError::system("read /dev/urandom for a token"))?;
        let view = Arc::new(api::App::new(view)?);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // One computes, some read sources; each thread's heap keeps what it has once taken.
            .max_blocking_threads(4)
            .enable_all()
            .build()
            .map_err(ServeError::system("start threads (`ulimit -u`)"))?;
        Ok(Server { listener, address, token, view, runtime, limits: Limits::default() })
    }

    /// The same with other limits.
    pub fn with_limits(self, limits: Limits) -> Server {
        Server { limits, ..self }
    }

    /// The address to open, with the token in its fragment, which browsers send to nobody.
    pub fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.token)
    }

    /// A page that leads to the address: in a file that only its owner reads it brings the token to a browser, whose
    /// arguments everybody sees.
    pub fn start_page(&self) -> String {
        let url = self.url();
        format!(
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\"><title>numalens</title>\
             <meta http-equiv=\"refresh\" content=\"0; url={url}\"><p><a href=\"{url}\">numalens view</a></p>\n"
        )
    }

    /// Answers until `stop` is ready.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        let Server { listener, address, token, view, runtime, limits } = self;
        let guard = Arc::new(Guard::new(address.port(), token));
        let app = guard::protect(api::router(view.clone()).fallback(assets::serve), guard);
        let outcome = runtime.block_on(async move {
            tokio::spawn(ahead::compute(view));
            let listener =
                tokio::net::TcpListener::from_std(listener).map_err(ServeError::system("wait for requests"))?;
            // Requests that are being answered are dropped: whoever stops the server does not wait for them.
            tokio::select! {
                outcome = connections::serve(listener, app, limits) => outcome.map_err(ServeError::system("serve requests")),
                () = stop => Ok(()),
            }
        });
        // Nor for what is being computed.
        runtime.shutdown_background();
        outcome
    }
}

/// Ready when the user presses Ctrl-C or the process is told to end.
pub async fn interrupted() {
    let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
        // Without handlers the signals end the process, which is as well.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
