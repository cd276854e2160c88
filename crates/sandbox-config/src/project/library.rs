//! The workers of a project: found on the search paths, each read at most once per question.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::grant::Grant;
use crate::grant::front_end::FrontEnd;
use crate::loading::load_context::LoadContext;
use crate::loading::location::show;
use crate::loading::reserved_paths;
use crate::loading::sources::Sources;
use crate::loading::worker_names::{bad_name, is_name, stem};
use crate::loading::writable_places::names_on_the_way;
use crate::project::ceiling::ForgeFiles;
use crate::settings::sections::unknown_tool_or_worker;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics};
use crate::syntax::fields::Reports;
use crate::syntax::read::{MAX_BYTES, read_checked};
use crate::syntax::text::{Layer, Span};
use crate::worker::{Worker, parse};

/// Where the workers of a project are.
#[derive(Clone, Debug)]
pub(crate) struct WorkerCatalog {
    /// In search order.
    pub(crate) dirs: Vec<PathBuf>,
    pub(crate) show_from: PathBuf,
    pub(crate) project: PathBuf,
    /// Workers read nothing but their own file: of the project's sources, only trust, tools and the
    /// paths out of reach.
    pub(crate) sources: Sources,
    pub(crate) own_files: ForgeFiles,
}

/// More worker files than any project has.
const MAX_WORKERS: usize = 10_000;

/// More text than ten thousand of them have; a repository could otherwise keep every command busy
/// for hours.
const MAX_BYTES_OF_ALL: u64 = 16 * 1024 * 1024;

impl WorkerCatalog {
    pub(crate) fn all(&self, ceiling: &Grant) -> Result<Vec<Worker>, Diagnostics> {
        let mut reports = Reports::default();
        let mut by_name: BTreeMap<String, Worker> = BTreeMap::new();
        let mut bytes = 0;
        for file in self.files()? {
            // One that is too large by itself is refused as such.
            let len = std::fs::metadata(&file).map_or(0, |facts| facts.len());
            bytes += if len > MAX_BYTES { 0 } else { len };
            if bytes > MAX_BYTES_OF_ALL {
                let message = format!("the worker files hold more than {MAX_BYTES_OF_ALL} bytes");
                let shown = show(&self.show_from, &file);
                return Err(DiagnosticCode::TooComplex
                    .error(message)
                    .in_file(&shown)
                    .into());
            }
            match self.read(&file, ceiling) {
                Err(mistakes) => reports.extend(mistakes.into_list()),
                Ok(worker) => {
                    if let Some(other) = by_name.get(worker.name()) {
                        reports.add(two_workers(other, &worker));
                    } else {
                        by_name.insert(worker.name().to_owned(), worker);
                    }
                }
            }
        }
        reports.finish()?;
        Ok(by_name.into_values().collect())
    }

    pub(crate) fn one(&self, name: &str, ceiling: &Grant) -> Result<Worker, Diagnostics> {
        if !is_name(name) {
            return Err(bad_name(name).into());
        }
        let files = self.files()?;
        let of_that_stem: Vec<&PathBuf> = files.iter().filter(|file| stem(file) == name).collect();
        // The stem is the name, as a rule; only if no stem fits are the files' own names read.
        let candidates = if of_that_stem.is_empty() {
            files.iter().collect()
        } else {
            of_that_stem
        };
        let mut found: Option<Worker> = None;
        for file in &candidates {
            let worker = self.read(file, ceiling)?;
            if worker.name() == name {
                if let Some(other) = &found {
                    return Err(two_workers(other, &worker).into());
                }
                found = Some(worker);
            }
        }
        found.ok_or_else(|| self.unknown(name, &files).into())
    }

    /// Reports the names in approval rules that neither a tool nor a worker has.
    pub(crate) fn check_names(&self, context: &mut LoadContext<'_>, ceiling: &Grant) {
        let known = context.sources.known_tools.as_deref().unwrap_or_default();
        let files = self.files().unwrap_or_default();
        let workers: Vec<&str> = files.iter().map(|file| stem(file)).collect();
        for (name, at) in std::mem::take(&mut context.named_workers) {
            // A worker file with a mistake is told where workers are read.
            let is_missing = self.one(&name, ceiling).is_err_and(|mistakes| {
                let mut mistakes = mistakes.iter();
                mistakes.any(|mistake| mistake.code() == DiagnosticCode::UnknownWorker)
            });
            let unknown = || unknown_tool_or_worker(known, &workers, &name);
            if let Some(problem) = is_missing.then(unknown).flatten() {
                context.report(problem.at(&at));
            }
        }
    }

    fn unknown(&self, name: &str, files: &[PathBuf]) -> Diagnostic {
        let stems: Vec<&str> = files.iter().map(|file| stem(file)).collect();
        let dirs: Vec<String> = self
            .dirs
            .iter()
            .map(|dir| show(&self.show_from, dir))
            .collect();
        let unknown = DiagnosticCode::UnknownWorker.error(format!("unknown worker `{name}`"));
        let shown: Vec<&str> = stems.iter().copied().take(20).collect();
        let help = match shown.as_slice() {
            [] => format!(
                "no worker files in: {}; run `forge init` or `forge worker new {name}` to create one",
                dirs.join(", ")
            ),
            shown => format!("workers are: {}", shown.join(", ")),
        };
        unknown.help(help).suggest(name, stems)
    }

    /// Every `*.worker` directly in a search path, sorted per directory.
    fn files(&self) -> Result<Vec<PathBuf>, Diagnostics> {
        let mut files = Vec::new();
        for dir in &self.dirs {
            let unreadable = |error: &std::io::Error| {
                let shown = show(&self.show_from, dir);
                let message = format!("cannot read {shown}: {error}");
                Diagnostics::from(DiagnosticCode::Unreadable.error(message).in_file(&shown))
            };
            if let Some(link) = self.link_to(dir) {
                let shown = show(&self.show_from, &link);
                let message = format!("{shown} is a link, and workers are not read through one");
                let mistake = DiagnosticCode::Unreadable.error(message).in_file(&shown);
                let help = "name the directory itself in `worker_paths`";
                return Err(mistake.help(help).into());
            }
            let entries = match std::fs::read_dir(dir) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(&error)),
            };
            let mut here = Vec::new();
            for entry in entries {
                let path = entry.map_err(|error| unreadable(&error))?.path();
                if path
                    .extension()
                    .is_some_and(|extension| extension == "worker")
                {
                    here.push(path);
                }
                if files.len() + here.len() > MAX_WORKERS {
                    let shown = show(&self.show_from, dir);
                    let message = format!("more than {MAX_WORKERS} worker files");
                    let mistake = DiagnosticCode::TooComplex.error(message);
                    return Err(mistake.in_file(&shown).into());
                }
            }
            here.sort();
            files.extend(here);
        }
        Ok(files)
    }

    /// Returns the link below the project by which a search path leads elsewhere. A command can make
    /// one, and a worker file that it made is moved away.
    fn link_to(&self, dir: &Path) -> Option<PathBuf> {
        let mut names = names_on_the_way(dir).ok()?.into_iter();
        names.find(|name| name.starts_with(&self.project) && name.is_symlink())
    }

    /// A file as messages show it.
    pub(crate) fn shown(&self, file: &Path) -> String {
        show(&self.show_from, file)
    }

    pub(crate) fn read(&self, file: &Path, ceiling: &Grant) -> Result<Worker, Diagnostics> {
        let shown = self.shown(file);
        let check = self.sources.writer_check.as_deref();
        let text = read_checked(file, &shown, Layer::Project, check)
            .map_err(|problem| Diagnostics::from(*problem))?;
        let mut context = LoadContext::new(&self.sources, &self.project);
        let mut worker = parse(&mut context, &text, file, ceiling);
        if let Some(program) = worker.as_mut().and_then(Worker::program_mut) {
            let at = Span::start(&text);
            (self.own_files).protect(&mut context.reports, FrontEnd::Paths, program, &at);
            reserved_paths::report(
                &mut context.reports,
                program,
                ceiling.front(),
                &self.sources.out_of_reach,
            );
        }
        let LoadContext { reports, facts, .. } = context;
        let warnings = reports.finish()?;
        match worker {
            Some(worker) => Ok(worker.with_reports(warnings, facts.privileged)),
            // A walk without a worker has noted why; this text is for the case that it did not.
            None => Err(DiagnosticCode::FrontMatter
                .error("not a worker file")
                .in_file(&shown)
                .into()),
        }
    }
}

fn two_workers(first: &Worker, second: &Worker) -> Diagnostic {
    DiagnosticCode::TwoWorkers
        .error(format!(
            "two workers are named `{}`: {} and {}",
            first.name(),
            first.shown(),
            second.shown()
        ))
        .in_file(second.shown())
        .help("rename one of them")
}
