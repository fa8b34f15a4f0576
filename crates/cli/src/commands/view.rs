//! `numalens view`

use super::tell::tell;
use super::{input, machine_code};
use miette::IntoDiagnostic;
use numalens_analyze::verdict;
use numalens_serve::{Server, View, interrupted};
use numalens_view::text::shell_word;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tempfile::NamedTempFile;

/// Show a recording in the browser.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens view app-1234.numalens\n  numalens view app-1234.numalens --port 8047 --no-open\n\nOnly this host can open the page, and only with the printed address. From elsewhere, forward the same port, and open that address there:\n  ssh -L 8047:127.0.0.1:8047 HOST\n\nDocuments: docs/guide/web-view.md"
)]
pub struct Args {
    #[command(flatten)]
    input: input::Args,

    /// Port on 127.0.0.1 [default: any that is free]
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Only print the address
    #[arg(long)]
    no_open: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    // The rest of it, where several profiles were brought together, lasts until the server ends.
    let loaded = input::load(&args.input)?;
    let doubts = loaded.doubts;
    let named: Vec<_> = args.input.profiles.iter().map(|path| shell_word(&path.to_string_lossy())).collect();
    let named = named.join(" ");
    let names = args.input.names();
    let view = View {
        profile: loaded.profile,
        options: args.input.options(),
        amend: Box::new(move |reports| {
            input::add_doubts(reports, &doubts);
            verdict::name_profile(reports, &named);
        }),
        find_code: Box::new(move |profile, wanted| machine_code::find(profile, wanted, &names)),
    };
    let server = Server::bind(view, args.port).into_diagnostic()?;
    let url = server.url();
    // A script waits for this line; if nobody reads it there is still the browser.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{url}").and_then(|()| out.flush());
    drop(out);
    tell!("numalens: open this address in a browser on this host; Ctrl-C ends it");
    // As long as the server lives: the browser may take its time.
    let _start = if args.no_open { None } else { browse(&server.start_page()) };
    server.run(interrupted()).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a browser with a page of our own that leads to the address, which has the token: everybody on this host sees
/// arguments of programs, and nobody else can read the file.
fn browse(page: &str) -> Option<NamedTempFile> {
    // Where the system has a folder that is the user's alone, there.
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    let made = || {
        let mut file = tempfile::Builder::new()
            .prefix("numalens-")
            .suffix(".html")
            .tempfile_in(folder.unwrap_or_else(std::env::temp_dir))?;
        file.write_all(page.as_bytes())?;
        Ok(file)
    };
    let started = made().and_then(|file: NamedTempFile| open::that_detached(file.path()).map(|()| file));
    started
        .map_err(|error: std::io::Error| {
            tell!("numalens: no browser could be started ({error}); open the address yourself")
        })
        .ok()
}
