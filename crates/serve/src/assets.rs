//! The built pages of `ui/`, inside the program.

use crate::guard::{Nonce, refuse};
use axum::extract::Extension;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

/// What `cargo xtask ui` built.
#[derive(RustEmbed)]
#[folder = "../../ui/dist"]
struct Built;

/// Stands in the page where the nonce belongs.
const NONCE: &str = "NONCE-OF-THIS-PAGE";

/// A file of the built pages. Pages are told apart in the fragment, so there is one document.
pub async fn serve(Extension(nonce): Extension<Nonce>, uri: Uri) -> Response {
    let path = match uri.path() {
        "/" => "index.html",
        path => path.trim_start_matches('/'),
    };
    let Some(file) = Built::get(path) else {
        return refuse((StatusCode::NOT_FOUND, "there is no such page".to_string()));
    };
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let kind = [(header::CONTENT_TYPE, kind)];
    match path {
        "index.html" => (kind, String::from_utf8_lossy(&file.data).replace(NONCE, &nonce.0)).into_response(),
        _ => (kind, file.data.into_owned()).into_response(),
    }
}
