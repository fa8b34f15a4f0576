//! Who gets an answer, and who does not: raw requests, as a browser would never send them.

use numalens_analyze::Options;
use numalens_analyze::disassembly::MachineCode;
use numalens_profile::Profile;
use numalens_profile::testing::Synthetic;
use numalens_serve::{Limits, Server, View};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// A server of a profile; it ends with the test.
struct Running {
    address: SocketAddr,
    token: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(change: impl FnOnce(&mut Synthetic, &Path)) -> Running {
    serve_within(Limits::default(), change)
}

fn serve_within(limits: Limits, change: impl FnOnce(&mut Synthetic, &Path)) -> Running {
    // Not hidden, as sources are not.
    let directory = tempfile::Builder::new().prefix("served").tempdir().unwrap();
    let mut content = Synthetic::example();
    change(&mut content, directory.path());
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    let view = View {
        profile,
        options: Options::default(),
        amend: Box::new(|_| ()),
        find_code: Box::new(|_, _| Ok(MachineCode::default())),
    };
    let server = Server::bind(view, 0).unwrap().with_limits(limits);
    let url = server.url();
    let (host, token) = url.strip_prefix("http://").unwrap().split_once("/#token=").unwrap();
    let (address, token) = (host.parse().unwrap(), token.to_string());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        server
            .run(async {
                let _ = stopped.await;
            })
            .unwrap();
    });
    Running { address, token, stop: Some(stop), thread: Some(thread), _directory: directory }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Running {
    /// Sends bytes as they are.
    fn raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // A server that refuses early may close before everything is written.
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_lowercase(), body: body.to_string() }
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let host = self.address.to_string();
        let mut all = vec![("Connection", "close")];
        if !headers.iter().any(|(name, _)| *name == "Host") {
            all.push(("Host", &host));
        }
        all.extend(headers);
        let lines: String = all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.raw(&format!("GET {path} HTTP/1.1\r\n{lines}\r\n"))
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// As the page asks.
    fn ask(&self, path: &str) -> Answer {
        self.get(path, &[("Authorization", &self.bearer())])
    }
}

#[test]
fn the_page_and_its_reports_are_there() {
    let server = serve(|_, _| ());
    let page = server.get("/", &[]);
    assert_eq!(page.status, 200);
    assert!(page.head.contains("text/html"), "{}", page.head);
    assert!(!page.body.contains("NONCE-OF-THIS-PAGE"), "the nonce is filled in");
    for path in [
        "/api/report/summary,matrix,machine",
        "/api/report/lines?top=3&sort=writes",
        "/api/advise",
        "/api/simulate?policy=interleave",
    ] {
        let answer = server.ask(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let document: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(document["schema"], 1, "{path}");
    }
    assert_eq!(server.ask("/api/report/nosuch").status, 404);
    assert_eq!(server.ask("/api/nosuch").status, 404);
    assert_eq!(server.ask("/api/report/lines?sort=nosuch").status, 400);
    assert_eq!(server.ask("/api/report/lines?nosuch=1").status, 400);
    assert_eq!(server.ask("/api/report/lines?process=77").status, 400);
    assert_eq!(server.ask("/nosuch").status, 404);
}

#[test]
fn every_answer_forbids_what_a_page_of_ours_never_needs() {
    let server = serve(|_, _| ());
    let refused = server.get("/api/report/summary", &[]);
    let fine = server.get("/", &[]);
    for answer in [&refused, &fine] {
        for wanted in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self' 'nonce-",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(answer.head.contains(wanted), "{wanted}: {}", answer.head);
        }
        assert!(!answer.head.contains("access-control-allow"), "nobody else may read: {}", answer.head);
    }
    let nonce = |answer: &Answer| answer.head.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_string();
    assert_ne!(nonce(&refused), nonce(&fine), "one for each page");
}

#[test]
fn a_foreign_host_is_misdirected() {
    let server = serve(|_, _| ());
    let (port, bearer) = (server.address.port(), server.bearer());
    for host in ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "0.0.0.0:80"] {
        for path in ["/", "/api/report/summary"] {
            assert_eq!(server.get(path, &[("Host", host), ("Authorization", &bearer)]).status, 421, "{host}{path}");
        }
    }
    // Not by the beginning, and not by the end.
    for host in [
        format!("127.0.0.1:{port}.evil.example"),
        format!("localhost:{port}0"),
        format!("evil.localhost:{port}"),
        format!("127.0.0.1:{port}, x"),
    ] {
        assert_eq!(server.get("/", &[("Host", &host)]).status, 421, "{host}");
    }
    assert_eq!(server.get("/", &[("Host", &format!("localhost:{port}"))]).status, 200);
    // Two hosts, none, and one in the request line that differs.
    let twice =
        server.raw(&format!("GET / HTTP/1.1\r\nHost: {0}\r\nHost: {0}\r\nConnection: close\r\n\r\n", server.address));
    assert!([400, 421].contains(&twice.status), "{}", twice.status);
    let none = server.raw("GET / HTTP/1.0\r\n\r\n");
    assert!([400, 421].contains(&none.status), "{}", none.status);
    let both = server
        .raw(&format!("GET http://evil.example/ HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address));
    assert_eq!(both.status, 421);
}

#[test]
fn a_foreign_origin_is_forbidden() {
    let server = serve(|_, _| ());
    let (ours, bearer) = (format!("http://{}", server.address), server.bearer());
    let from =
        |origin: &str| server.get("/api/report/summary", &[("Origin", origin), ("Authorization", &bearer)]).status;
    assert_eq!(from(&ours), 200);
    for origin in
        ["http://evil.example", "null", "https://127.0.0.1", &format!("{ours}.evil.example"), &format!("{ours}/"), ""]
    {
        assert_eq!(from(origin), 403, "{origin}");
    }
}

#[test]
fn without_the_token_there_is_nothing() {
    let server = serve(|_, _| ());
    let token = &server.token;
    let (short, long) = (format!("Bearer {}", &token[1..]), format!("Bearer {token}0"));
    let other = format!("Bearer {}", token.chars().rev().collect::<String>());
    let bare = token.clone();
    let (basic, lower) = (format!("Basic {token}"), format!("bearer{token}"));
    for path in
        ["/api/report/summary", "/api/advise", "/api/simulate", "/api/source?file=/etc/passwd", "/api/nosuch", "/api"]
    {
        assert_eq!(server.get(path, &[]).status, 401, "{path}");
        for wrong in ["Bearer ", "Bearer x", &short, &long, &other, &bare, &basic, &lower] {
            let answer = server.get(path, &[("Authorization", wrong)]);
            assert_eq!(answer.status, 401, "{path} {wrong}");
            assert!(!answer.body.contains(token.as_str()));
        }
    }
    assert_eq!(
        server.get(&format!("/api/report/summary?token={token}"), &[]).status,
        401,
        "not in the query, where logs see it"
    );
    let twice =
        server.get("/api/report/summary", &[("Authorization", &server.bearer()), ("Authorization", &server.bearer())]);
    assert_eq!(twice.status, 401);
}

#[test]
fn sources_are_those_that_the_profile_names() {
    let server = serve(|content, directory| {
        std::fs::write(directory.join("app.c"), "int main(void) { return 0; }\n").unwrap();
        std::fs::write(directory.join("secret.txt"), "secret").unwrap();
        std::fs::create_dir(directory.join("folder.c")).unwrap();
        content.meta.cwd = directory.to_str().unwrap().to_string();
        let names = ["app.c", "folder.c", "gone.c", "/dev/zero"];
        for (frame, name) in content.frames.iter_mut().zip(names) {
            frame.file = Some(name.to_string());
        }
    });
    let source = |file: &str| server.ask(&format!("/api/source?file={file}"));
    let found = source("app.c");
    assert_eq!(found.status, 200, "{}", found.body);
    assert!(found.body.contains("int main"));
    for name in ["folder.c", "gone.c", "/dev/zero"] {
        let answer = source(name);
        assert!(
            answer.status == 404 && answer.body.contains("--source-map"),
            "{name}: {} {}",
            answer.status,
            answer.body
        );
    }
    let escapes = [
        "secret.txt",
        "./app.c",
        "../app.c",
        "folder.c/../secret.txt",
        "/etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "app.c%00",
        "app.c/../secret.txt",
        "%2e%2e/secret.txt",
        "",
    ];
    for name in escapes {
        let answer = source(name);
        assert_eq!(answer.status, 404, "{name}");
        assert!(!answer.body.contains("secret\"") && !answer.body.contains("root:"), "{name}: {}", answer.body);
    }
    // Machine code is asked for by lines; who names a file that the profile does not know asks for none.
    let code = server.ask("/api/disassembly?of=/etc/passwd:1");
    assert!(code.status == 200 && code.body.contains("\"disassembly\":[]"), "{}", code.body);
    for path in ["/api/disassembly", "/api/disassembly?of=app.c", "/api/disassembly?of=app.c:1&of=app.c:2"] {
        assert_eq!(server.ask(path).status, 400, "{path}");
    }
    for path in ["/api/source", "/api/source?file=app.c&file=secret.txt", "/api/source?path=app.c"] {
        assert_eq!(server.ask(path).status, 400, "{path}");
    }
    for path in [
        "/../Cargo.toml",
        "/assets/../../Cargo.toml",
        "/%2e%2e/Cargo.toml",
        "//etc/passwd",
        "/assets/..%2f..%2fCargo.toml",
    ] {
        assert_eq!(server.get(path, &[]).status, 404, "{path}");
    }
}

/// A profile can name any file. What is no source by its name, its place and its content stays where it is.
#[test]
fn what_a_profile_names_is_not_yet_a_source() {
    const NAMES: [&str; 14] = [
        "/proc/self/environ",
        "/etc/passwd",
        "notes.txt",
        ".netrc",
        ".ssh/config.c",
        "src/link.c",
        "src/within.c",
        "src/environ.c",
        "src/pipe.c",
        "src/binary.c",
        "include/vector",
        "vector",
        ".cargo/registry/src/lib.rs",
        "src/app.c",
    ];
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("other.c"), "secret").unwrap();
    let server = serve(|content, directory| {
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for name in ["notes.txt", ".netrc", ".ssh/config.c", "vector"] {
            write(name, "secret");
        }
        for name in ["src/app.c", "include/vector", ".cargo/registry/src/lib.rs"] {
            write(name, "a source");
        }
        write("src/binary.c", "secret\0");
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, directory.join(name)).unwrap();
        link(&elsewhere.path().join("other.c"), "src/link.c");
        link(Path::new("app.c"), "src/within.c");
        link(Path::new("/proc/self/environ"), "src/environ.c");
        let pipe = std::ffi::CString::new(directory.join("src/pipe.c").to_str().unwrap()).unwrap();
        // SAFETY: a NUL-terminated path.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        content.meta.cwd = directory.to_str().unwrap().to_string();
        // As many frames as names.
        let frame = content.frames[0].clone();
        content.frames.extend((0..NAMES.len() as u32).map(|depth| {
            let file = Some(NAMES[depth as usize].to_string());
            numalens_profile::tables::Frame { depth: 1000 + depth, file, ..frame.clone() }
        }));
    });
    let shown: Vec<&str> = NAMES
        .into_iter()
        .filter(|name| {
            let answer = server.ask(&format!("/api/source?file={name}"));
            assert!(!answer.body.contains("secret") && !answer.body.contains("PATH="), "{name}: {}", answer.body);
            assert!([200, 404].contains(&answer.status), "{name}: {}", answer.status);
            answer.status == 200
        })
        .collect();
    assert_eq!(shown, ["src/within.c", "include/vector", ".cargo/registry/src/lib.rs", "src/app.c"]);
}

/// Requests that never end, without a token: their connections are closed, and others are answered.
#[test]
fn half_a_request_is_not_waited_for() {
    // One at a time: the second is answered when the first is over.
    let server = serve_within(Limits { head: Duration::from_millis(50), connections: 1 }, |_, _| ());
    let mut half = TcpStream::connect(server.address).unwrap();
    half.write_all(b"GET /api/advise HTTP/1.1\r\nHost: ").unwrap();
    let mut silent = TcpStream::connect(server.address).unwrap();
    assert_eq!(server.get("/", &[]).status, 200);
    for stream in [&mut half, &mut silent] {
        stream.set_nonblocking(true).unwrap();
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        assert!(end.is_ok(), "its connection is still open: {end:?}");
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
    }
}

/// A view of the synthetic profile, which is written into a folder.
fn example(directory: &Path) -> View {
    View {
        profile: Profile::open(&Synthetic::example().write(&directory.join("a.numalens")).unwrap()).unwrap(),
        options: Options::default(),
        amend: Box::new(|_| ()),
        find_code: Box::new(|_, _| Ok(MachineCode::default())),
    }
}

#[test]
fn the_start_page_leads_to_the_address() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::bind(example(directory.path()), 0).unwrap();
    assert!(server.start_page().contains(&format!("content=\"0; url={}\"", server.url())));
}

#[test]
fn names_are_data() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
    let server = serve(|content, _| {
        content.functions.iter_mut().for_each(|function| function.name = evil.to_string());
        content.meta.command = vec![evil.to_string()];
    });
    let page = server.get("/", &[]);
    assert!(!page.body.contains("alert(1)"), "the page holds nothing of the profile");
    let answer = server.ask("/api/report/lines,functions");
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    let document: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(document["meta"]["command"][0], evil);
}

#[test]
fn oversized_requests_are_refused_and_the_server_lives() {
    let server = serve(|_, _| ());
    let (address, bearer) = (server.address, server.bearer());
    let head = format!("Host: {address}\r\nAuthorization: {bearer}\r\nConnection: close\r\n");
    let long = "x".repeat(20_000);
    assert_eq!(server.ask(&format!("/api/report/lines?function={long}")).status, 414);
    assert!(server.ask(&format!("/{}", "x".repeat(1_000_000))).status >= 400);
    assert!([0, 400, 431].contains(&server.get("/", &[("X-Long", &"x".repeat(2_000_000))]).status));
    let many: String = (0..5000).map(|index| format!("X-{index}: 1\r\n")).collect();
    assert!([0, 400, 431].contains(&server.raw(&format!("GET / HTTP/1.1\r\n{head}{many}\r\n")).status));
    for (method, status) in [("POST", 405), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405)] {
        assert_eq!(server.raw(&format!("{method} /api/advise HTTP/1.1\r\n{head}\r\n")).status, status, "{method}");
    }
    assert_eq!(
        server.raw(&format!("GET /api/advise HTTP/1.1\r\n{head}Content-Length: 9999999999\r\n\r\nxxxx")).status,
        413
    );
    assert_eq!(
        server.raw(&format!("GET /api/advise HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")).status,
        413
    );
    assert_eq!(server.raw(&format!("HEAD /api/advise HTTP/1.1\r\n{head}\r\n")).body, "");
    let sections = vec!["lines"; 500].join(",");
    assert_eq!(server.ask(&format!("/api/report/{sections}")).status, 400);
    let policies = "policy=interleave&".repeat(100);
    assert_eq!(server.ask(&format!("/api/simulate?{policies}")).status, 400);
    assert_eq!(server.ask("/api/advise").status, 200, "still there");
}

#[test]
fn a_thousand_requests_at_once_are_answered() {
    let server = serve(|_, _| ());
    let wanted = server.ask("/api/report/summary").body;
    let sections = ["summary", "lines", "threads", "matrix", "objects", "functions"];
    // All are sent before any is read, so that they are there together.
    let mut streams: Vec<TcpStream> = (0..1000)
        .map(|index| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            let section = sections[index % sections.len()];
            let request = format!(
                "GET /api/report/{section} HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\nConnection: close\r\n\r\n",
                server.address,
                server.bearer()
            );
            stream.write_all(request.as_bytes()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream
        })
        .collect();
    for (index, stream) in streams.iter_mut().enumerate() {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "request {index}: {answer:.100}");
        if index % sections.len() == 0 {
            assert!(answer.ends_with(&wanted), "request {index}");
        }
    }
}

#[test]
fn only_this_host_is_listened_to_and_a_taken_port_is_said() {
    let server = serve(|_, _| ());
    assert!(server.address.ip().is_loopback());
    let directory = tempfile::tempdir().unwrap();
    let error = Server::bind(example(directory.path()), server.address.port())
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(error.contains(&server.address.port().to_string()) && error.contains("--port"), "{error}");
}
