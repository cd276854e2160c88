//! The directory for which forge is started: `-C`, or the caller's by the name that its shell has for it.
//!
//! Entry point: [`check`]. A command may have put a link in a project, which leads the next start to a
//! directory that no person named.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sandbox_config::names_on_the_way;

use crate::ambient::Ambient;
use crate::exit::CliError;
use crate::output::escape::{escape_path, shell_word};
use crate::setup::host_programs::project_tops;

/// Refuses a directory to which a link of a project or of a git working tree leads, out of it.
pub(crate) fn check(ambient: &Ambient) -> Result<(), CliError> {
    let (path, is_named) = match (&ambient.global.directory, caller_path(ambient)) {
        (Some(directory), _) => (directory.clone(), true),
        (None, Some(path)) => (path, false),
        (None, None) => return Ok(()),
    };
    // An absent directory is reported where it is used.
    let (Ok(real), Ok(names)) = (path.canonicalize(), names_on_the_way(&path)) else {
        return Ok(());
    };
    let home = ambient
        .home
        .as_deref()
        .and_then(|home| home.canonicalize().ok());
    let is_below_home = |top: &&Path| home.as_ref().is_none_or(|home| !home.starts_with(top));
    for link in names.iter().filter(|name| name.is_symlink()) {
        let Some(around) = link.parent() else {
            continue;
        };
        let mut tops = project_tops(around).filter(is_below_home);
        if let Some(top) = tops.find(|top| !real.starts_with(top)) {
            let shown = shell_word(&real.to_string_lossy());
            let hint = match is_named {
                true => format!("name the directory itself: forge -C {shown} …"),
                false => format!("go to the directory itself: cd {shown}"),
            };
            let message = format!(
                "{} leads out of {} through the link {}, which a command could have made",
                escape_path(&path),
                escape_path(top),
                escape_path(link)
            );
            return Err(CliError::misuse("start.link", message).hint(hint));
        }
    }
    Ok(())
}

/// Returns the caller's directory as its shell has it in `PWD`, if that is the same directory.
fn caller_path(ambient: &Ambient) -> Option<PathBuf> {
    let path = ambient.var("PWD").map(PathBuf::from)?;
    let id = |path: &Path| path.metadata().ok().map(|about| (about.dev(), about.ino()));
    let is_same = id(&path).is_some_and(|one| Some(one) == id(Path::new(".")));
    (path.is_absolute() && is_same).then_some(path)
}
