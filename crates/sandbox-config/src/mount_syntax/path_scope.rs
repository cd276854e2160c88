//! Resolves host directories of the config: one reading of paths for all front-ends, so that none
//! of them has a laxer rule about `..`, links, or paths that leave the project.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use sandbox_names::git::gitfile_target;
use sandbox_names::lexical::normalize;

use crate::grant::file_rules::FileRules;
use crate::grant::mount::{Mode, Mount, NO_RUN_YET, Rooted};
use crate::grant::verdict::MountApproval;
use crate::loading::discover::PROJECT_FILES;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::read;
use crate::syntax::text::{ConfigOrigin, Span};

/// A host directory, resolved as far as it exists.
#[derive(Debug)]
pub(crate) struct HostPath {
    pub(crate) path: PathBuf,
    /// The existing part of it.
    pub(crate) anchor: PathBuf,
    /// The way as written holds a symbolic link.
    pub(crate) through_link: bool,
    /// A variable of the environment whose value is a name in the path.
    pub(crate) variable: Option<String>,
}

impl HostPath {
    /// Returns the mount of the directory, without rules of its own.
    pub(crate) fn mount(self, target: String, mode: Mode, origin: ConfigOrigin) -> Mount {
        Mount {
            name: name_of(&target),
            target,
            host: self.path,
            part: None,
            anchor: self.anchor,
            create: false,
            mode,
            staged: false,
            suffixes: None,
            max_file_bytes: None,
            approval: MountApproval::SILENT,
            usable: true,
            file_rules: FileRules::default(),
            way: Vec::new(),
            own_files: Vec::new(),
            outside: false,
            rooted: Rooted::default(),
            mode_origin: origin.clone(),
            origin,
        }
    }

    pub(crate) fn exists(&self) -> bool {
        self.path == self.anchor
    }

    /// Returns the mistake of a directory that has to exist.
    pub(crate) fn missing(&self, shown: &str, at: &Span) -> Diagnostic {
        let help = format!("make the directory {}", self.path.display());
        let missing = DiagnosticCode::HostPath.at(at, format!("{shown} does not exist"));
        missing.help(help)
    }
}

/// A project file writes this instead of a path: the directory that each run has of its own.
const RUN_WORKSPACE: &str = "run:workspace";

/// The directory of a mount: a path as [`resolve_host_path`] reads it, or the run's own.
pub(crate) fn resolve_mount_path(
    context: &LoadContext<'_>,
    text: &str,
    reach: PathScope<'_>,
    noun: &str,
) -> Result<HostPath, Box<Diagnostic>> {
    if text == RUN_WORKSPACE {
        return Ok(HostPath {
            path: NO_RUN_YET.into(),
            anchor: NO_RUN_YET.into(),
            through_link: false,
            variable: None,
        });
    }
    resolve_host_path(context, text, reach, noun)
}

/// How far a path may lead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PathScope<'a> {
    /// Below this directory and through no link, without exception.
    Below(&'a BaseDir),
    /// From the project directory to anywhere; a path that leaves it asks for a person's yes.
    Anywhere,
}

/// A base directory and the location that names it; `None` if it is forge's own.
#[derive(Clone, Debug)]
pub(crate) struct BaseDir {
    pub(crate) dir: PathBuf,
    pub(crate) at: Option<Span>,
    pub(crate) bounds: &'static ScopeMessages,
}

/// Messages about a path that does not stay below.
#[derive(Debug)]
pub(crate) struct ScopeMessages {
    pub(crate) leaves: &'static str,
    pub(crate) leaves_help: &'static str,
    pub(crate) link_help: &'static str,
}

/// Resolves a path. `noun`: the role of the directory, for messages.
pub(crate) fn resolve_host_path(
    context: &LoadContext<'_>,
    text: &str,
    reach: PathScope<'_>,
    noun: &str,
) -> Result<HostPath, Box<Diagnostic>> {
    let refuse = |message: String| Box::new(DiagnosticCode::HostPath.error(message));
    let expanded = context
        .expand_path(text)
        .map_err(|problem| refuse(format!("cannot expand `{text}`: {problem}")))?;
    let (variable, expanded) = (expanded.variable, expanded.text);
    if expanded.is_empty() || expanded.contains('\0') {
        return Err(refuse("the path is empty or holds a NUL".into()));
    }
    if expanded.len() > MAX_PATH {
        return Err(refuse(format!("the path is longer than {MAX_PATH} bytes")));
    }
    let written = Path::new(&expanded);
    let base = match reach {
        PathScope::Anywhere => context.dir,
        PathScope::Below(below) => {
            if written.is_absolute() || climbs(written) {
                let message = format!("`{text}` leaves {}", below.bounds.leaves);
                return Err(Box::new(refuse(message).help(below.bounds.leaves_help)));
            }
            below.dir.as_path()
        }
    };
    let is_below = matches!(reach, PathScope::Below(_));
    let mut host = resolve(base, written, is_below).map_err(refuse)?;
    host.variable = variable;
    let holds_everything = host.path.parent().is_none();
    if holds_everything {
        return Err(refuse(format!(
            "the root of the file system cannot be a {noun}"
        )));
    }
    match reach {
        PathScope::Below(below) if host.through_link => {
            let is_link =
                std::fs::symlink_metadata(&below.dir).is_ok_and(|found| found.is_symlink());
            let message = match is_link {
                true => format!("`sandbox.root`, which `{text}` is below, is a symbolic link"),
                false => format!("`{text}` leads through a symbolic link"),
            };
            Err(Box::new(refuse(message).help(below.bounds.link_help)))
        }
        PathScope::Below(_) | PathScope::Anywhere => Ok(host),
    }
}

/// Returns `true` if the directory is outside the project. A person must have agreed to that, to a
/// link on the way, to changing files that nothing could bring back, and to a variable of theirs in the
/// path. `span`: location of the path.
pub(crate) fn is_outside(
    context: &mut LoadContext<'_>,
    host: &HostPath,
    mode: Mode,
    key: &str,
    span: &Span,
) -> bool {
    if host.path == Path::new(NO_RUN_YET) {
        return false;
    }
    let outside = !host.path.starts_with(context.dir);
    let unkept = mode == Mode::ReadWrite
        && !host.path.starts_with(context.dir.join(OWN_ROOT))
        && !in_repository(&host.path, context.sources.home.as_deref());
    let holds_files = unkept && holds_files(&host.path);
    let value = format!("{} {mode}", host.path.display());
    let rule = if outside {
        Some(&trust_rules::OUTSIDE)
    } else if host.through_link {
        Some(&trust_rules::THROUGH_LINK)
    } else if holds_files {
        Some(&trust_rules::IN_PLACE)
    } else {
        if unkept {
            context.needs_no_yes_yet(&trust_rules::IN_PLACE, key, &value, span);
        }
        None
    };
    if let Some(rule) = rule {
        context.agreed(rule, key, &value, span);
    }
    ask_about_variable(context, host, key, span);
    outside
}

/// A person must have agreed to a variable of theirs in the path.
pub(crate) fn ask_about_variable(
    context: &mut LoadContext<'_>,
    host: &HostPath,
    key: &str,
    span: &Span,
) {
    if let Some(variable) = &host.variable {
        context.agreed(&trust_rules::VARIABLE, key, variable, span);
    }
}

/// Forge creates the directories of workers below it.
pub(crate) const OWN_ROOT: &str = ".sandbox";

/// Returns `true` if a directory contains files that could be lost, or cannot be listed. Project
/// files are never written, so they are not at stake.
fn holds_files(dir: &Path) -> bool {
    let own = |name: &OsStr| PROJECT_FILES.iter().any(|own| name == *own) || name == OWN_ROOT;
    match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.any(|entry| !entry.is_ok_and(|entry| own(&entry.file_name()))),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Returns `true` if version control keeps the contents of a directory: a `.git` at it or above,
/// below the home directory.
fn in_repository(dir: &Path, home: Option<&Path>) -> bool {
    let home = home.and_then(|home| home.canonicalize().ok());
    dir.ancestors()
        .take_while(|above| home.as_deref() != Some(*above))
        .any(|above| is_repository(&above.join(".git")))
}

/// A file leads to a repository, which has a HEAD (gitrepository-layout(5)).
fn is_repository(git: &Path) -> bool {
    let leads = || {
        let content = read::first_bytes(git, MAX_PATH as u64)?;
        let target = OsStr::from_bytes(gitfile_target(&content)?);
        Some(git.parent()?.join(target).join("HEAD").is_file())
    };
    match std::fs::metadata(git) {
        Ok(facts) if facts.is_file() => leads() == Some(true),
        Ok(facts) => facts.is_dir(),
        Err(_) => false,
    }
}

/// Returns `true` if a relative path goes above its base at any point.
pub(crate) fn climbs(path: &Path) -> bool {
    let mut depth = 0usize;
    for component in path.components() {
        match component {
            Component::ParentDir => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return true,
            },
            Component::Normal(_) => depth += 1,
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    false
}

/// Longer ones no system call takes.
const MAX_PATH: usize = 4096;

/// `..` is resolved in the text first; then the system resolves the existing part. A path that must
/// stay `below` the base is not named by a link that leads out of it.
fn resolve(base: &Path, written: &Path, below: bool) -> Result<HostPath, String> {
    let plain = normalize(&base.join(written));
    if let Ok(found) = std::fs::symlink_metadata(&plain) {
        if found.is_symlink() {
            let is_inside = || {
                Some(
                    plain
                        .canonicalize()
                        .ok()?
                        .starts_with(base.canonicalize().ok()?),
                )
            };
            let advice = match !below || is_inside() == Some(true) {
                true => "name its target",
                false => "it leads elsewhere, so use a directory instead",
            };
            return Err(format!(
                "`{}` is a symbolic link; {advice}",
                written.display()
            ));
        }
        if !found.is_dir() {
            return Err(format!("`{}` is not a directory", written.display()));
        }
    }
    let existing = plain
        .ancestors()
        .find(|dir| std::fs::symlink_metadata(dir).is_ok())
        .unwrap_or(Path::new("/"));
    let anchor = existing
        .canonicalize()
        .map_err(|error| format!("`{}` cannot be resolved: {error}", existing.display()))?;
    if !anchor.is_dir() {
        return Err(format!("`{}` is not a directory", existing.display()));
    }
    let rest = plain.strip_prefix(existing).unwrap_or(Path::new(""));
    let path = if rest.as_os_str().is_empty() {
        anchor.clone()
    } else {
        anchor.join(rest)
    };
    Ok(HostPath {
        through_link: path != plain,
        path,
        anchor,
        variable: None,
    })
}

/// Returns the target without its first `/`, or the name of the mount at `/`.
pub(crate) fn name_of(target: &str) -> String {
    match target.strip_prefix('/') {
        Some(name) if !name.is_empty() => name.to_owned(),
        Some(_) | None => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn climbing_is_seen_at_any_point() {
        for (path, expected) in [
            ("a/b", false),
            ("./a/../b", false),
            ("..", true),
            ("a/../../a", true),
            (".", false),
        ] {
            assert_eq!(climbs(Path::new(path)), expected, "{path}");
        }
    }
}
