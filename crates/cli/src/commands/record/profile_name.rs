//! Where the profile goes.

use super::plan::host_name;
use numalens_collect::launch::Target;
use numalens_collect::rank;
use std::path::{Path, PathBuf};

/// A folder for profiles is no name of one: `.` would become `./.-2`, which nobody finds.
pub fn refuse_folder(output: &Path) -> Result<(), String> {
    let is_profile = |folder: std::fs::ReadDir| {
        folder.filter_map(Result::ok).any(|entry| entry.path().extension().is_some_and(|ending| ending == "parquet"))
    };
    let refused = match std::fs::read_dir(output) {
        Ok(folder) => output.file_name().is_none() || !is_profile(folder),
        Err(_) if output.metadata().is_ok_and(|there| !there.is_file()) => {
            return Err(format!(
                "{} is no file, and a profile is a directory: name one, such as app.numalens",
                output.display()
            ));
        }
        Err(_) => output.file_name().is_none(),
    };
    if refused {
        let inside = output.join("app.numalens");
        return Err(format!(
            "{} is a directory that is no profile: name one in it, such as {}",
            output.display(),
            inside.display()
        ));
    }
    Ok(())
}

/// How the profile is to be named.
pub struct ProfileName {
    /// As the user wants it, with placeholders.
    pub wanted: Option<PathBuf>,
    /// What is recorded.
    pub target: Target,
    /// One that exists is replaced.
    pub force: bool,
}

impl ProfileName {
    /// The profile's path: what the user asked for with its placeholders filled, or COMMAND-PID.numalens; numbered when
    /// it exists and may not be replaced.
    pub fn path(&self, pid: Option<i32>) -> PathBuf {
        let pid = pid.map_or_else(|| "all".to_owned(), |pid| pid.to_string());
        let wanted = match &self.wanted {
            Some(path) => {
                let text = path.to_string_lossy();
                PathBuf::from(
                    text.replace("%p", &pid)
                        .replace("%r", &rank::own().unwrap_or(0).to_string())
                        .replace("%h", &host_name()),
                )
            }
            None => {
                let program = match &self.target {
                    Target::All => return self.numbered("system.numalens".into()),
                    Target::Launch(command) => command.first().and_then(|program| Path::new(program).file_name()),
                    Target::Pid(_) => None,
                };
                let program = program.map_or_else(|| "system".to_owned(), |name| name.to_string_lossy().into_owned());
                PathBuf::from(format!("{program}-{pid}.numalens"))
            }
        };
        self.numbered(wanted)
    }

    /// The path, or one with a number behind it that is free.
    fn numbered(&self, wanted: PathBuf) -> PathBuf {
        if self.force {
            return wanted;
        }
        let taken = |path: &Path| path.exists() || with_suffix(path, ".partial").exists();
        let stem = wanted.with_extension("");
        let extension =
            wanted.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
        std::iter::once(wanted.clone())
            .chain((2u32..).map(|number| with_suffix(&stem, &format!("-{number}{extension}"))))
            .find(|path| !taken(path))
            .unwrap_or(wanted)
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
