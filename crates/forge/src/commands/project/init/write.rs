//! Writing the files: checked before, each one whole or not at all, and never over another.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sandbox_config::{ConfigChoice, Diagnostic, PROJECT_FILES, Sources, TrustedSettings, load};

use crate::ambient::Ambient;
use crate::commands::active_commands::check_new_file;
use crate::commands::project::init::plan::InitPlan;
use crate::exit::CliError;
use crate::state::private_dirs::make_below;

const CONFIG: &str = PROJECT_FILES[0];
const WORKER: &str = "workers/main.worker";

/// Fails if anything is there that would be overwritten, or that a second project file would
/// contradict, or if the files would be taken for those of a command.
pub(super) fn nothing_there(dir: &Path, ambient: &Ambient) -> Result<(), CliError> {
    if dir.exists() && !dir.is_dir() {
        let message = format!("{} is not a directory", dir.display());
        return Err(CliError::misuse("init", message).hint("name a directory: forge init DIR"));
    }
    for name in PROJECT_FILES.into_iter().chain([WORKER]) {
        let path = dir.join(name);
        if std::fs::symlink_metadata(&path).is_ok() {
            let message = format!("{} is there already", path.display());
            let hint = match name == WORKER || dir.join(WORKER).exists() {
                true => "nothing was written; remove it or start in another directory",
                false => {
                    "nothing was written; `forge worker new main` writes a first worker for the \
                     project that is there"
                }
            };
            return Err(CliError::negative("init.exists", message).hint(hint));
        }
    }
    check_new_file(&dir.join(CONFIG), ambient)
}

/// Writes all files and returns their names, relative to `dir`. If one cannot be written, those
/// before it are taken back.
pub(super) fn all(
    dir: &Path,
    plan: &InitPlan,
    ambient: &Ambient,
) -> Result<Vec<PathBuf>, CliError> {
    let failed = |path: &Path, error: &std::io::Error| {
        let message = format!("cannot write {}: {error}", path.display());
        CliError::negative("init", message)
    };
    let new: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    if let Err(failure) = check(dir, plan, ambient) {
        for made in new {
            let _ = std::fs::remove_dir(made);
        }
        return Err(failure);
    }
    let files = [(CONFIG, plan.config.clone()), (WORKER, plan.worker.clone())];
    let mut written: Vec<PathBuf> = Vec::new();
    for (name, text) in files {
        if let Err(error) = create(dir, name, &text) {
            for earlier in &written {
                let _ = std::fs::remove_file(dir.join(earlier));
            }
            return Err(failed(&dir.join(name), &error));
        }
        written.push(name.into());
    }
    Ok(written)
}

/// Loads the planned project. Typed values may hold mistakes.
fn check(dir: &Path, plan: &InitPlan, ambient: &Ambient) -> Result<(), CliError> {
    let trial = dir.join(format!(".{CONFIG}.{}", std::process::id()));
    let failed = |error: std::io::Error| {
        // The name of the trial means nothing to a person.
        let message = format!("cannot write {}: {error}", dir.join(CONFIG).display());
        CliError::negative("init", message)
    };
    fresh(&trial, &plan.config).map_err(failed)?;
    let sources = Sources {
        choice: ConfigChoice::File(trial.file_name().map(PathBuf::from).unwrap_or_default()),
        trust: TrustedSettings::Given,
        env: ambient.env.clone(),
        home: ambient.home.clone(),
        ..Sources::new(dir)
    };
    let loaded = load(&sources);
    let _ = std::fs::remove_file(&trial);
    let Err(mistakes) = loaded else {
        return Ok(());
    };
    // A place in the trial means nothing to a person; one in another file does.
    let is_trial = |one: &Diagnostic| one.path().and_then(Path::file_name) == trial.file_name();
    if !mistakes.iter().all(is_trial) {
        return Err(mistakes.into());
    }
    let told: Vec<&str> = mistakes.iter().map(Diagnostic::message).collect();
    let failure = CliError::usage(format!(
        "the project file would be invalid: {}",
        told.join("; ")
    ));
    let help = mistakes.iter().find_map(Diagnostic::help_text);
    Err(match help {
        Some(help) => failure.hint(help),
        None => failure,
    })
}

/// A file that was not there, whole or not at all: the link fails if the name is taken.
fn create(base: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let path = base.join(name);
    if let Some(below) = Path::new(name).parent() {
        make_below(base, below)?;
    }
    let new = beside(&path);
    let linked = fresh(&new, text).and_then(|()| std::fs::hard_link(&new, &path));
    let _ = std::fs::remove_file(&new);
    linked
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

fn fresh(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
