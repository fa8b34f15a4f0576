//! What every request must pass, and what every answer carries.
//!
//! The order matters: who asks comes before what is asked, so that a stranger learns nothing from the difference of two
//! answers.

use crate::token::{Token, random_hex};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Longest path and query of a request: filters, a path of a source.
const LONGEST_TARGET: usize = 16 << 10;

/// Whom the server answers.
pub struct Guard {
    hosts: [String; 2],
    origins: [String; 2],
    token: Token,
}

/// The value that scripts of one page carry to be allowed to add style sheets.
#[derive(Clone)]
pub struct Nonce(pub String);

impl Guard {
    /// Of the server on this port.
    pub fn new(port: u16, token: Token) -> Guard {
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let origins = [format!("http://{}", hosts[0]), format!("http://{}", hosts[1])];
        Guard { hosts, origins, token }
    }

    /// Nothing, or the answer to a request that is not allowed.
    fn refusal(&self, request: &Request) -> Option<(StatusCode, String)> {
        let refuse = |status, why: &str| Some((status, why.to_string()));
        let headers = request.headers();
        let named = match (request.uri().authority(), only(headers, &header::HOST)) {
            (Some(authority), Some(host)) => authority.as_str() == host && self.is_host(host),
            (None, Some(host)) => self.is_host(host),
            (_, None) => false,
        };
        if !named {
            let why = format!("this is {}, and the request is for somebody else", self.hosts.join(" or "));
            return refuse(StatusCode::MISDIRECTED_REQUEST, &why);
        }
        if headers.contains_key(header::ORIGIN)
            && !only(headers, &header::ORIGIN).is_some_and(|origin| self.origins.iter().any(|ours| ours == origin))
        {
            return refuse(StatusCode::FORBIDDEN, "pages of other sites get nothing");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "there is only GET and HEAD");
        }
        if headers.contains_key(header::TRANSFER_ENCODING)
            || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0")
        {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "a request has no body");
        }
        if request.uri().path_and_query().is_some_and(|target| target.as_str().len() > LONGEST_TARGET) {
            return refuse(StatusCode::URI_TOO_LONG, "the path or the query is too long");
        }
        let path = request.uri().path();
        if (path == "/api" || path.starts_with("/api/")) && !self.bears_token(headers) {
            return refuse(
                StatusCode::UNAUTHORIZED,
                "open the whole address that numalens view printed, with its token",
            );
        }
        None
    }

    fn is_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|ours| ours == host)
    }

    fn bears_token(&self, headers: &HeaderMap) -> bool {
        let authorization = only(headers, &header::AUTHORIZATION);
        let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
        token.is_some_and(|token| self.token.matches(token.as_bytes()))
    }
}

/// The value of a header that is there exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Puts the guard before all routes.
pub fn protect(routes: Router, guard: Arc<Guard>) -> Router {
    routes.layer(middleware::from_fn_with_state(guard, check))
}

async fn check(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let Ok(nonce) = random_hex() else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let is_head = request.method() == Method::HEAD;
    let mut response = match guard.refusal(&request) {
        Some(refusal) => refuse(refusal),
        None => {
            request.extensions_mut().insert(Nonce(nonce.clone()));
            next.run(request).await
        }
    };
    if is_head {
        *response.body_mut() = Body::empty();
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(policy) = HeaderValue::from_str(&policy(&nonce)) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// An answer that says what was wrong.
pub fn refuse((status, why): (StatusCode, String)) -> Response {
    let body = serde_json::json!({ "error": why }).to_string();
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Of every answer: no guessing of types, no frames, no address (it has the token) to anyone, nothing kept on disk.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Only our scripts, our styles and those that a script with the nonce adds; no network beyond this server. Pictures
/// from `blob:` are the exported plots.
fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}
