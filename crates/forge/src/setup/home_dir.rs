//! Directories that cannot be a project, because they are the home directory or around it.

use std::path::Path;

use sandbox_config::{DiagnosticCode, Diagnostics, Sources, find_project_file};

use crate::exit::CliError;

/// Returns what a directory is, if a project there would hold everything that the person has.
pub(crate) fn describe(dir: &Path, home: Option<&Path>) -> Option<&'static str> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let dir = real(dir);
    let home = home.map(real);
    match home {
        _ if dir.parent().is_none() => Some("the root of the file system"),
        Some(home) if home == dir => Some("your home directory"),
        Some(home) if home.starts_with(&dir) => Some("a directory around your home directory"),
        Some(_) | None => None,
    }
}

/// Returns the failure to load a project. In a home directory without a project file, the reason is
/// that directory, and not each of forge's own directories in it.
pub(super) fn explain(problems: Diagnostics, sources: &Sources) -> CliError {
    let is_about_own = problems
        .iter()
        .filter(|one| one.is_error())
        .all(|one| one.code() == DiagnosticCode::OwnDirectory);
    let home = sources.home.as_deref();
    let start = std::path::absolute(&sources.start).unwrap_or_else(|_| sources.start.clone());
    let has_file = find_project_file(&start, home).is_some();
    match describe(&start, home) {
        Some(what) if is_about_own && !has_file => CliError::misuse(
            "config.own_directory",
            format!("this is {what}: commands are not given all of it"),
        )
        .hint("go to a project, or name it: -C DIR"),
        Some(_) | None => problems.into(),
    }
}
