//! The target of `forge run`: a worker's name, a worker file, a project's directory, or none.

use std::path::{Path, PathBuf};

use sandbox_config::{
    Diagnostic, DiagnosticCode, Diagnostics, Grant, Project, WithoutDirectories, Worker,
};

use crate::ambient::Ambient;
use crate::cli::{Global, RunArgs};
use crate::commands::run::choose_worker;
use crate::exit::CliError;
use crate::output::escape::{escape, shell_word};
use crate::setup;

/// The worker to run, its grant, and the workers that it may find.
pub(crate) struct RunTarget {
    pub(crate) project: Project,
    pub(crate) worker: Worker,
    pub(crate) grant: Grant,
    pub(crate) workers: Vec<Worker>,
    /// The worker's file, if it is of no project.
    pub(crate) alone: Option<PathBuf>,
}

pub(crate) fn run_target(args: &RunArgs, ambient: &Ambient) -> Result<RunTarget, CliError> {
    let subject = match subject(&ambient.global, args.worker.as_deref()) {
        // A command can make a directory of any name, but no worker.
        TargetSpec::Project(dir) if is_worker_here(ambient, &dir) => {
            TargetSpec::Named(dir.to_string_lossy().into_owned())
        }
        other => other,
    };
    let start = match &subject {
        TargetSpec::Entry | TargetSpec::Named(_) => None,
        TargetSpec::Project(dir) => Some(dir.clone()),
        TargetSpec::File(file) => file.parent().map(Path::to_path_buf),
    };
    let project = setup::project(ambient, start, WithoutDirectories::DefaultZones)?;
    let worker = match &subject {
        TargetSpec::File(file) => {
            let file = base(&ambient.global).join(file);
            if project.file().is_none() {
                return standalone_target(project, &file);
            }
            of_project(&project, &file)?
        }
        TargetSpec::Entry | TargetSpec::Project(_) => choose_worker::entry(&project, ambient)?,
        TargetSpec::Named(name) => project.worker(name).map_err(|mistakes| {
            // The word was meant as a path.
            if name.ends_with(".worker") {
                return CliError::misuse("run.subject",
                    format!("cannot find the worker file `{}`", escape(name)),
                )
                .hint("`forge worker list` shows the workers here");
            }
            match name.contains('/') {
                true => CliError::misuse("run.subject",
                    format!("there is neither a directory `{name}` nor a worker of that name"),
                )
                .hint("a directory runs the entry worker of the project in it; `forge worker list` shows the workers here"),
                false => meant_as_input(&project, args, name, mistakes),
            }
        })?,
    };
    Ok(RunTarget {
        workers: project.workers()?,
        grant: setup::entry_grant(&project, &worker)?,
        worker,
        project,
        alone: None,
    })
}

/// Returns the mistakes of a name that no worker has, with the command for words that are input.
fn meant_as_input(
    project: &Project,
    args: &RunArgs,
    name: &str,
    mistakes: Diagnostics,
) -> CliError {
    let is_unknown = |one: &Diagnostic| one.code() == DiagnosticCode::UnknownWorker;
    let failure = |mistakes: Diagnostics| CliError::from(mistakes);
    if !mistakes.iter().all(is_unknown) || project.worker(project.entry()).is_err() {
        return failure(mistakes);
    }
    let words = [&[name.to_owned()], args.input.as_slice()]
        .concat()
        .join(" ");
    let (entry, words) = (escape(project.entry()), escape(&shell_word(&words)));
    failure(mistakes).hint(format!(
        "the first word names the worker; to give these words to `{entry}`: forge run {entry} {words}"
    ))
}

/// Without a project the worker has no mounts.
fn standalone_target(project: Project, file: &Path) -> Result<RunTarget, CliError> {
    let (worker, grant) = project.worker_alone(file)?;
    Ok(RunTarget {
        project,
        worker,
        grant,
        workers: Vec::new(),
        alone: Some(file.to_path_buf()),
    })
}

/// The worker of a project that is in this file.
fn of_project(project: &Project, file: &Path) -> Result<Worker, CliError> {
    let same = file.canonicalize().ok();
    let found = project.workers()?.into_iter().find(|worker| {
        let own = worker.file().canonicalize().ok();
        own.is_some() && own == same
    });
    found.ok_or_else(|| {
        CliError::misuse("run.subject",
            format!(
                "`{}` is not a worker of the project in {}",
                file.display(),
                project.dir().display()
            ),
        )
        .hint("move it into one of the project's `worker_paths`, or run it without files by --no-config")
    })
}

/// Takes a first argument that reads as a sentence as the input of the entry worker:
/// `forge run "fix the failing test"`, `forge run Report.`. A directory or a file may be called so.
pub(crate) fn with_sentence_as_input(global: &Global, args: &RunArgs) -> RunArgs {
    let mut args = args.clone();
    let is_sentence = |word: &String| {
        let is_text = word.contains(char::is_whitespace)
            || word.ends_with(['.', '!', '?', '…', ',', ';', ':'])
            || word
                .chars()
                .any(|c| !c.is_alphanumeric() && !"_-./".contains(c));
        is_text && matches!(subject(global, Some(word)), TargetSpec::Named(_))
    };
    if args.file.is_none()
        && let Some(sentence) = args.worker.take_if(|word| is_sentence(word))
    {
        args.input.insert(0, sentence);
    }
    if args.file.is_none() && args.input == ["-"] {
        args.input.clear();
        args.file = Some("-".into());
    }
    args
}

/// The target on the command line.
enum TargetSpec {
    Entry,
    /// The entry worker of the project there.
    Project(PathBuf),
    /// A worker file.
    File(PathBuf),
    Named(String),
}

/// Returns `true` if the word is the name of a worker of the project here. `./NAME` is the directory.
fn is_worker_here(ambient: &Ambient, word: &Path) -> bool {
    let name = word.to_str().filter(|word| !word.contains(['/', '.']));
    name.is_some_and(|name| {
        let project = setup::project_silently(ambient, WithoutDirectories::DefaultZones);
        project.is_ok_and(|project| project.worker(name).is_ok())
    })
}

/// No worker's name holds a dot.
fn subject(global: &Global, worker: Option<&str>) -> TargetSpec {
    let Some(word) = worker else {
        return TargetSpec::Entry;
    };
    let there = base(global).join(word);
    if there.is_dir() {
        TargetSpec::Project(PathBuf::from(word))
    } else if word.ends_with(".worker") && there.exists() {
        TargetSpec::File(PathBuf::from(word))
    } else {
        TargetSpec::Named(word.to_owned())
    }
}

fn base(global: &Global) -> &Path {
    global.directory.as_deref().unwrap_or(Path::new("."))
}
