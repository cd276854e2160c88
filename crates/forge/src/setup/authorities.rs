//! Certificate authorities that the person's variables name: these files decide which servers
//! get the person's keys.
//!
//! Entry point: [`check`].

use std::path::Path;

use crate::ambient::Ambient;
use crate::exit::CliError;
use crate::output::escape::escape;
use crate::setup::host_programs::HostPrograms;

/// The variable with the file of the authorities that forge and git trust instead of the system's.
pub(crate) const AUTHORITY_FILE: &str = "SSL_CERT_FILE";
/// The variable with directories of such files, separated as in `PATH`.
const AUTHORITY_DIRS: &str = "SSL_CERT_DIR";

/// Refuses authorities at a place that commands can change. It is judged as the place of a program
/// that forge starts (decision 0088).
pub(crate) fn check(ambient: &Ambient, programs: &HostPrograms) -> Result<(), CliError> {
    let file = ambient.path(AUTHORITY_FILE);
    let file = file.into_iter().map(|path| (AUTHORITY_FILE, path));
    let dirs = ambient.path(AUTHORITY_DIRS).into_iter();
    let dirs = dirs.flat_map(|dirs| std::env::split_paths(&dirs).collect::<Vec<_>>());
    let dirs = dirs.map(|path| (AUTHORITY_DIRS, path));
    for (variable, path) in file.chain(dirs) {
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let paths = [path.clone()];
        let mut paths = paths.into_iter().chain(entries.map(|entry| entry.path()));
        if let Some(why) = paths.find_map(|path| problem(&path, programs)) {
            return Err(refused(variable, &why));
        }
    }
    Ok(())
}

/// Returns the path with its fault. A file that does not exist yet has one too.
pub(crate) fn problem(path: &Path, programs: &HostPrograms) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let why = programs.place_of_commands(&path)?;
    Some(format!("{} {why}", escape(&path.to_string_lossy())))
}

fn refused(variable: &str, why: &str) -> CliError {
    let text = format!("forge does not send keys to servers that {variable} vouches for: {why}");
    CliError::misuse("config.bad_value", text).hint(format!(
        "move the file to a directory in which no command writes, and name it in {variable}"
    ))
}
