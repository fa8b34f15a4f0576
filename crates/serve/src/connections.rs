//! Connections: who is slow, or many, keeps nobody else waiting for long.
//!
//! Anybody on this host can connect, with or without the token. A request must be there whole within some seconds, and
//! so many connections are answered at a time; what comes then waits until one of them is over.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Bytes of a request's head at most; longer ones are refused.
const LONGEST_HEAD: usize = 64 << 10;

/// What is allowed to those who connect.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a request's head may take, from the moment on at which one is waited for.
    pub head: Duration,
    /// Connections at a time.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { head: Duration::from_secs(10), connections: 256 }
    }
}

/// Answers, for ever.
///
/// # Errors
/// The socket is broken.
pub async fn serve(listener: TcpListener, app: Router, limits: Limits) -> io::Result<()> {
    let free = Arc::new(Semaphore::new(limits.connections));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(LONGEST_HEAD);
    loop {
        let place = free.clone().acquire_owned().await.map_err(io::Error::other)?;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_connection(&error) => continue,
            // There are too many open files: that passes as connections end.
            Err(_) => {
                drop(place);
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
        tokio::spawn(async move {
            // How a connection ended is of no concern to others.
            let _ = served.await;
            drop(place);
        });
    }
}

/// It ended before anybody answered.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
