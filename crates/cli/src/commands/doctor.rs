//! `numalens doctor`

use super::output;
use clap::ValueEnum;
use numalens_collect::doctor::{self, Check, Diagnosis};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Try what a recording needs on this host; for what does not work: the error, the setting and the command that fixes
/// it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens doctor\n  numalens doctor --format json\n\nExit status: 0 when programs can be recorded, 1 when not."
)]
pub struct Args {
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How the findings are written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    let diagnosis = doctor::examine();
    let text = match args.format {
        Format::Text => text(&diagnosis),
        Format::Json => output::json(&json(&diagnosis))?,
    };
    output::print_text(&text)?;
    Ok(if diagnosis.can_record() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(diagnosis: &Diagnosis) -> String {
    let mut lines = Vec::new();
    for check in &diagnosis.checks {
        lines.push(format!("{:<8} {:<16} {}", check.verdict.word(), check.name, check.purpose));
        let errno = check.errno.map_or(String::new(), |errno| format!(" ({errno:?})"));
        lines.push(format!("{:25} {}{errno}", "", check.finding));
        lines.extend(check.setting.iter().map(|setting| format!("{:25} setting: {setting}", "")));
        lines.extend(check.fix.iter().map(|fix| format!("{:25} fix: {fix}", "")));
    }
    let settings = diagnosis.settings.named().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    lines.push(String::new());
    lines.push(format!("settings: {}", settings.collect::<Vec<_>>().join(" ")));
    lines.push(match diagnosis.can_record() {
        true => "Programs can be recorded: numalens record -- COMMAND".to_owned(),
        false => "Programs cannot be recorded on this host as it is: see the fixes above.".to_owned(),
    });
    lines.push(String::new());
    lines.join("\n")
}

fn json(diagnosis: &Diagnosis) -> Value {
    let settings: serde_json::Map<String, Value> =
        diagnosis.settings.named().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    json!({
        "schema": 1,
        "can_record": diagnosis.can_record(),
        "checks": diagnosis.checks.iter().map(check_json).collect::<Vec<_>>(),
        "settings": settings,
        "seccomp": diagnosis.settings.seccomp,
    })
}

fn check_json(check: &Check) -> Value {
    json!({
        "name": check.name,
        "purpose": check.purpose,
        "verdict": check.verdict.word(),
        "essential": check.essential,
        "finding": check.finding,
        "errno": check.errno.map(|errno| format!("{errno:?}")),
        "setting": check.setting.as_ref().map(|setting| json!({"name": setting.name, "value": setting.value})),
        "fix": check.fix,
    })
}
