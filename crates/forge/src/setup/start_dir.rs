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
    let directory = ambient.global.directory.as_ref();
    let here = caller_path(ambient);
    if here.is_none() && directory.is_none_or(|directory| directory.is_relative()) {
        check_left(ambient)?;
    }
    let (path, is_named) = match (directory, here) {
        (Some(directory), here) => (here.unwrap_or_default().join(directory), true),
        (None, Some(path)) => (path, false),
        (None, None) => return Ok(()),
    };
    // An absent directory is reported where it is used.
    let (Ok(real), Ok(names)) = (path.canonicalize(), names_on_the_way(&path)) else {
        return Ok(());
    };
    let is_below_home = |top: &&Path| is_below_home(top, ambient);
    for link in names.iter().filter(|name| name.is_symlink()) {
        let Some(around) = link.parent() else {
            continue;
        };
        let mut tops = project_tops(around).filter(is_below_home);
        if let Some(top) = tops.find(|top| !real.starts_with(top)) {
            let message = format!(
                "{} leads out of {} through the link {}, which a command could have made",
                escape_path(&path),
                escape_path(top),
                escape_path(link)
            );
            return Err(refused(message, &real, is_named));
        }
    }
    Ok(())
}

/// Refuses the directory of a shell whose name for it leads elsewhere by now, out of it: a command could
/// have made the link by which the shell went there, and another file of that name since.
fn check_left(ambient: &Ambient) -> Result<(), CliError> {
    let path = ambient.var("PWD").map(PathBuf::from);
    let (Some(path), Ok(real)) = (path, Path::new(".").canonicalize()) else {
        return Ok(());
    };
    // Why: any other program that starts forge somewhere leaves the name of its own directory.
    let shell = format!("/proc/{}/cwd", std::os::unix::process::parent_id());
    if !path.is_absolute() || id(Path::new(&shell)) != id(&real) {
        return Ok(());
    }
    // Why not the path itself: a command in a project cannot make the project's own directory a link,
    // and `make -C` and programs that change their directory leave the name from before.
    let is_left =
        |top: &&Path| *top != path && top.canonicalize().is_ok_and(|top| !real.starts_with(top));
    let mut tops = project_tops(&path).filter(|top| is_below_home(top, ambient));
    let Some(top) = tops.find(is_left) else {
        return Ok(());
    };
    let (path, top) = (escape_path(&path), escape_path(top));
    let message = format!("{path} has led out of {top}, by a link that a command could have made");
    Err(refused(message, &real, false))
}

fn refused(message: String, real: &Path, is_named: bool) -> CliError {
    let shown = shell_word(&real.to_string_lossy());
    let hint = match is_named {
        true => format!("name the directory itself: forge -C {shown} …"),
        false => format!("go to the directory itself: cd {shown}"),
    };
    CliError::misuse("start.link", message).hint(hint)
}

/// Returns `true` for a directory that is neither the home directory nor around it.
fn is_below_home(top: &Path, ambient: &Ambient) -> bool {
    let home = ambient.home.as_deref();
    let home = home.and_then(|home| home.canonicalize().ok());
    home.is_none_or(|home| !home.starts_with(top))
}

fn id(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|about| (about.dev(), about.ino()))
}

/// Returns the caller's directory as its shell has it in `PWD`, if that is the same directory.
fn caller_path(ambient: &Ambient) -> Option<PathBuf> {
    let path = ambient.var("PWD").map(PathBuf::from)?;
    let is_same = id(&path).is_some_and(|one| Some(one) == id(Path::new(".")));
    (path.is_absolute() && is_same).then_some(path)
}
