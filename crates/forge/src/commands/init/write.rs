//! Writing the files: checked before, each one whole or not at all, and never over another.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sandbox_config::{ConfigChoice, Sources, Trust, load, schema};

use crate::bounded::read_text;
use crate::commands::init::plan::{Plan, SCHEMA};
use crate::dirs::make_below;
use crate::exit::{Exit, Failure};
use crate::stderr::say;
use crate::visible::visible_path;

const CONFIG: &str = "golem-forge.config.yaml";
const WORKER: &str = "workers/main.worker";
const IGNORE: &str = ".gitignore";
/// What git is told not to look at.
const IGNORED: &str = ".sandbox/";
/// A larger list of names is none that a person keeps.
const MAX_IGNORE_BYTES: u64 = 1024 * 1024;

/// The names under which a project file is found.
const PROJECT_FILES: [&str; 4] = [
    CONFIG,
    "golem-forge.config.yml",
    "program.yaml",
    "program.yml",
];

/// Fails if anything is there that would be overwritten, or that a second project file would
/// contradict.
pub(super) fn nothing_there(dir: &Path) -> Result<(), Failure> {
    for name in PROJECT_FILES.into_iter().chain([WORKER]) {
        let path = dir.join(name);
        if std::fs::symlink_metadata(&path).is_ok() {
            let message = format!("{} is there already", path.display());
            return Err(Failure::new(Exit::Negative, "init.exists", message)
                .hint("nothing was written; remove it or start in another directory"));
        }
    }
    Ok(())
}

/// Writes all files and returns their names, relative to `dir`. If one cannot be written, those
/// before it are taken back.
pub(super) fn all(dir: &Path, plan: &Plan, trust: Trust) -> Result<Vec<PathBuf>, Failure> {
    let failed = |path: &Path, error: &std::io::Error| {
        let message = format!("cannot write {}: {error}", path.display());
        Failure::new(Exit::Negative, "init", message)
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    check(dir, plan, trust)?;
    let mut files = vec![(CONFIG, plan.config.clone()), (WORKER, plan.worker.clone())];
    // A schema that is there may be a newer forge's.
    if !dir.join(SCHEMA).exists() {
        files.push((SCHEMA, schema::project()));
    }
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
    if plan.ignore {
        let path = dir.join(IGNORE);
        if ignore(dir).map_err(|error| failed(&path, &error))? {
            written.push(IGNORE.into());
        }
    }
    Ok(written)
}

/// Reads the project as it would be. What a person typed may hold mistakes.
fn check(dir: &Path, plan: &Plan, trust: Trust) -> Result<(), Failure> {
    let trial = dir.join(format!(".{CONFIG}.{}", std::process::id()));
    let failed = |error: std::io::Error| {
        let message = format!("cannot write {}: {error}", trial.display());
        Failure::new(Exit::Negative, "init", message)
    };
    fresh(&trial, &plan.config).map_err(failed)?;
    let sources = Sources {
        choice: ConfigChoice::File(trial.file_name().map(PathBuf::from).unwrap_or_default()),
        trust,
        ..Sources::new(dir)
    };
    let loaded = load(&sources);
    let _ = std::fs::remove_file(&trial);
    loaded?;
    Ok(())
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

/// Adds the line, if it is not there. A link is left alone: its target is another's file.
fn ignore(dir: &Path) -> std::io::Result<bool> {
    let path = &dir.join(IGNORE);
    let old = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            create(dir, IGNORE, &format!("{IGNORED}\n"))?;
            return Ok(true);
        }
        Err(error) => return Err(error),
        Ok(found) if !found.is_file() => return Ok(false),
        Ok(_) => match read_text(path, MAX_IGNORE_BYTES) {
            Ok(old) => old,
            // Everything else is written; what is odd here is the person's to look at.
            Err(error) => {
                let name = visible_path(path);
                say(format_args!(
                    "warning: {name} is left as it is ({error}); add the line `{IGNORED}` to it"
                ));
                return Ok(false);
            }
        },
    };
    let known = |line: &str| line.trim().trim_matches('/') == IGNORED.trim_matches('/');
    if old.lines().any(known) {
        return Ok(false);
    }
    let gap = if old.is_empty() || old.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let new = beside(path);
    let replaced =
        fresh(&new, &format!("{old}{gap}{IGNORED}\n")).and_then(|()| std::fs::rename(&new, path));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    replaced.map(|()| true)
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
