//! Lines of a person's rules that show directories: `read:`, `write:` and `programs:` with an
//! absolute path. Commands that the person types see a directory of `read:` or `write:` at its own
//! path; `programs:` adds to `sandbox.programs`.
//!
//! Entry point: [`add`]. A line whose directory cannot be shown as it is written has no effect and a
//! warning. It never follows a link, because a command could have made it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::grant::Grant;
use crate::grant::mount::counts_everywhere;
use crate::grant::preset::SharedState;
use crate::loading::load_context::LoadContext;
use crate::loading::reserved_paths::{self, ReservedPath};
use crate::open::guards::MountGuardPatterns;
use crate::project::Project;
use crate::project::personal_rules::PersonalRules;
use crate::settings::confinement::program_dirs;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::text::ConfigOrigin;

/// Bound on the directories in one file of rules.
pub(crate) const MAX_PATHS: usize = 64;

/// Access that a line gives to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersonalAccess {
    Read,
    Write,
    Programs,
}

/// The beginning of a line, and its access.
const PREFIXES: [(&str, PersonalAccess); 3] = [
    ("read:", PersonalAccess::Read),
    ("write:", PersonalAccess::Write),
    ("programs:", PersonalAccess::Programs),
];

/// One line of the file that shows a directory.
#[derive(Clone, Debug)]
pub(crate) struct PersonalPath {
    pub(crate) access: PersonalAccess,
    pub(crate) path: PathBuf,
    pub(crate) origin: ConfigOrigin,
}

impl PersonalPath {
    /// Splits a line into its access and the text of its path; `None` if it is of another kind.
    pub(crate) fn split(line: &str) -> Option<(PersonalAccess, &str)> {
        let mut prefixes = PREFIXES.iter();
        prefixes.find_map(|(prefix, access)| Some((*access, line.strip_prefix(prefix)?.trim())))
    }

    /// Parses the path of a line; `None` if it is relative or climbs.
    pub(crate) fn parse_path(text: &str) -> Option<PathBuf> {
        let path: PathBuf = Path::new(text).components().collect();
        let climbs = path.components().any(|part| part.as_os_str() == "..");
        (path.is_absolute() && !climbs).then_some(path)
    }

    /// Returns the line in the form that the file has.
    pub(crate) fn text(&self) -> String {
        let prefix = PREFIXES.iter().find(|(_, access)| *access == self.access);
        let prefix = prefix.map_or("", |(prefix, _)| prefix);
        format!("{prefix}{}", self.path.display())
    }
}

/// Directories and names that no line shows.
#[derive(Clone, Debug)]
struct PersonalPathLimits {
    home: Option<PathBuf>,
    mounts: Vec<(String, PathBuf)>,
    out_of_reach: Vec<ReservedPath>,
    hide: Vec<String>,
    protect: Vec<String>,
}

impl PersonalPathLimits {
    fn new(
        ceiling: &Grant,
        out_of_reach: &[ReservedPath],
        home: Option<&Path>,
    ) -> PersonalPathLimits {
        let mounts = ceiling.mounts().filter(|mount| !mount.awaits_run());
        let mounts = mounts.map(|mount| (mount.name().to_owned(), mount.host().to_owned()));
        let everywhere = |patterns: &[String]| {
            let patterns = patterns.iter().filter(|one| counts_everywhere(one));
            patterns.cloned().collect()
        };
        PersonalPathLimits {
            home: home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned())),
            mounts: mounts.collect(),
            out_of_reach: out_of_reach.to_vec(),
            hide: everywhere(&ceiling.hide),
            protect: everywhere(&ceiling.protect),
        }
    }

    /// Returns the reason for which a line shows nothing.
    fn problem(&self, line: &PersonalPath) -> Option<String> {
        let path = &line.path;
        let real = match path.canonicalize() {
            Ok(real) if real == *path => real,
            Ok(real) => return Some(format!("it leads through a link to {}", real.display())),
            Err(error) => return Some(format!("it cannot be opened: {error}")),
        };
        if !real.is_dir() {
            return Some("it is not a directory".to_owned());
        }
        let of_kernel = ["/proc", "/sys", "/dev"];
        if real.parent().is_none() || of_kernel.iter().any(|top| real.starts_with(top)) {
            return Some("it is a directory of the system".to_owned());
        }
        if self
            .home
            .as_ref()
            .is_some_and(|home| home.starts_with(&real))
        {
            return Some("it holds the home directory".to_owned());
        }
        for (_, host) in &self.mounts {
            if host.starts_with(&real) {
                let name = host.display();
                return Some(format!("{name}, a directory of the project, is in it"));
            }
            if real.starts_with(host) {
                let name = host.display();
                return Some(format!("it is in {name}, a directory of the project"));
            }
        }
        if let Some(own) = reserved_paths::meets(&real, &self.out_of_reach) {
            let noun = own.noun();
            return Some(format!(
                "it is not apart from {noun}, which no command may reach"
            ));
        }
        let is_writable = line.access == PersonalAccess::Write;
        let is_hidden = hides(&real, &self.hide);
        if is_hidden || is_writable && MountGuardPatterns::on_path(&real, &self.protect).everything
        {
            let kind = if is_hidden { "hidden" } else { "protected" };
            return Some(format!("it lies in a {kind} name"));
        }
        None
    }

    /// Returns a warning for each line that shows nothing.
    fn problems<'p>(
        &self,
        lines: impl IntoIterator<Item = &'p PersonalPath>,
    ) -> impl Iterator<Item = Diagnostic> {
        lines.into_iter().filter_map(|line| {
            let message = format!("`{}` has no effect: {}", line.text(), self.problem(line)?);
            let warning = DiagnosticCode::NoEffect.warning(message);
            Some(warning.at_origin(&line.origin))
        })
    }
}

/// Returns `true` if a directory has a hidden name, lies in one, or holds a part of one.
fn hides(path: &Path, patterns: &[String]) -> bool {
    let names = patterns.iter().filter(|pattern| !pattern.starts_with('/'));
    let guards = MountGuardPatterns::on_path(path, names);
    // The name itself, or the beginning of a pattern of several names.
    guards.everything || !guards.inside.is_empty()
}

/// The directories of a person's rules in one project.
#[derive(Clone, Debug)]
pub(crate) struct PersonalPaths {
    limits: PersonalPathLimits,
    /// Those that can be read or written, each once.
    dirs: Vec<SharedState>,
}

/// Adds the directories of a person's rules: those with programs to the ceiling, the others to the
/// returned ones.
pub(crate) fn add(
    context: &mut LoadContext<'_>,
    out_of_reach: &[ReservedPath],
    lines: &[PersonalPath],
    ceiling: &mut Grant,
) -> PersonalPaths {
    let home = context.sources.home.as_deref();
    let limits = PersonalPathLimits::new(ceiling, out_of_reach, home);
    for warning in limits.problems(lines) {
        context.report(warning);
    }
    let mut shown: BTreeMap<&Path, bool> = BTreeMap::new();
    let mut programs = ceiling.confinement.programs.directories().to_vec();
    let before = programs.len();
    for line in lines.iter().filter(|line| limits.problem(line).is_none()) {
        match line.access {
            PersonalAccess::Programs if programs.contains(&line.path) => {}
            PersonalAccess::Programs => programs.push(line.path.clone()),
            access => {
                *shown.entry(&line.path).or_default() |= access == PersonalAccess::Write;
            }
        }
    }
    if programs.len() > before {
        ceiling.confinement.programs = program_dirs(context, programs);
    }
    // A directory with at least the same access shows everything below it.
    let is_covered = |path: &Path, is_writable: bool| {
        let mut around = path.ancestors().skip(1);
        around.any(|outer| {
            shown
                .get(outer)
                .is_some_and(|of_outer| *of_outer || !is_writable)
        })
    };
    let kept = shown
        .iter()
        .filter(|(path, is_writable)| !is_covered(path, **is_writable));
    let dirs = kept.map(|(path, is_writable)| SharedState {
        host: path.to_path_buf(),
        writable: *is_writable,
        executable: true,
        protect: MountGuardPatterns::on_path(path, &limits.protect).inside,
    });
    PersonalPaths {
        dirs: dirs.collect(),
        limits,
    }
}

impl Project {
    /// Returns the directories that the person's rules for this project show the commands that the
    /// person types (`read:`, `write:`). Workers do not have them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
    /// assert!(project.personal_dirs().is_empty());
    /// ```
    #[must_use]
    pub fn personal_dirs(&self) -> &[SharedState] {
        &self.personal_paths.dirs
    }
}

impl PersonalRules {
    /// Returns a warning for each line of these rules whose directory this project cannot be shown:
    /// it is absent or behind a link, a mount of the project is in or around it, or its name is hidden
    /// or protected.
    #[must_use]
    pub fn unusable_paths(&self, project: &Project) -> Vec<Diagnostic> {
        project
            .personal_paths
            .limits
            .problems(&self.paths)
            .collect()
    }
}
