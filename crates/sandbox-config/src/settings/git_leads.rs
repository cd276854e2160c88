//! Files in the mounts that the user's git executes or obeys because a configuration outside of
//! them says so: the user's own, the system's, and that of a repository around a mount or at the
//! top of another one. They are protected like the names themselves. The configuration of a
//! repository in a mount is read by the guards of that mount, each time.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use sandbox_names::git::{ReferenceKind, gitfile_target};
use sandbox_names::git_config::references;
use sandbox_names::lexical::normalize;

use crate::grant::mount::Mount;
use crate::loading::sources::Sources;
use crate::syntax::read;

/// Bound on a file that is read here.
const MAX_BYTES: u64 = 256 << 10;
/// Bound on how often configuration includes more of it.
const MAX_INCLUDED: usize = 32;
/// Bound on the entries of a directory of hooks.
const MAX_HOOKS: usize = 1000;
/// Bound on the directories above a mount.
const MAX_ABOVE: usize = 64;

/// Where a configuration leads.
struct GitLeads<'s> {
    roots: Vec<PathBuf>,
    home: Option<&'s Path>,
    /// On the host.
    host: Vec<PathBuf>,
    /// In every repository: a person's `core.hooksPath = .githooks`.
    anywhere: Vec<String>,
}

/// Adds them to the protected names of each mount.
pub(crate) fn protect(sources: &Sources, mounts: &mut [Mount]) {
    let mut found = GitLeads {
        roots: mounts.iter().map(|mount| mount.host.clone()).collect(),
        home: sources.home.as_deref(),
        host: Vec::new(),
        anywhere: Vec::new(),
    };
    for file in personal(sources) {
        found.read(file, None);
    }
    let mut seen: Vec<PathBuf> = Vec::new();
    let roots = mounts.iter().map(|mount| mount.host.as_path());
    for around in roots.flat_map(|root| root.ancestors().take(MAX_ABOVE)) {
        let git = around.join(".git");
        if seen.iter().any(|one| one == around) || !git.exists() {
            continue;
        }
        seen.push(around.to_owned());
        let Some(git) = directory(&git) else { continue };
        found.links_in(&git.join("hooks"));
        for name in ["config", "config.worktree"] {
            found.read(git.join(name), Some(around));
        }
    }
    for mount in mounts {
        let mut patterns = found.anywhere.clone();
        let below = found
            .host
            .iter()
            .filter_map(|path| path.strip_prefix(&mount.host).ok());
        patterns.extend(
            below
                .filter_map(Path::to_str)
                .filter(|path| !path.is_empty())
                .map(|path| format!("/{}", sandbox_names::pattern::covering(path))),
        );
        patterns.sort();
        patterns.dedup();
        patterns.retain(|pattern| {
            sandbox_names::pattern::problem(pattern).is_none() && !mount.own_files.contains(pattern)
        });
        mount.own_files.extend(patterns);
    }
}

/// The files that git reads before a repository's.
fn personal(sources: &Sources) -> Vec<PathBuf> {
    let variable = |name: &str| {
        let found = sources.env.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| PathBuf::from(value))
            .filter(|path| path.is_absolute())
    };
    let mut out = match variable("GIT_CONFIG_SYSTEM") {
        Some(file) => vec![file],
        None => vec![PathBuf::from("/etc/gitconfig")],
    };
    match (variable("GIT_CONFIG_GLOBAL"), &sources.home) {
        (Some(file), _) => out.push(file),
        (None, home) => {
            let settings = variable("XDG_CONFIG_HOME");
            let settings = settings.or_else(|| home.as_ref().map(|home| home.join(".config")));
            out.extend(settings.map(|settings| settings.join("git/config")));
            out.extend(home.as_ref().map(|home| home.join(".gitconfig")));
        }
    }
    out
}

/// A repository's directory, which the file of a worktree or a submodule may name.
fn directory(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git.to_owned());
    }
    let content = read::first_bytes(git, MAX_BYTES)?;
    let own = OsStr::from_bytes(gitfile_target(&content)?);
    let own = git.parent()?.join(own);
    // A worktree has the main repository's configuration.
    let common = self::text(&own.join("commondir"));
    let common = common.map(|common| own.join(common.trim()));
    normalize(&common.unwrap_or(own)).canonicalize().ok()
}

impl GitLeads<'_> {
    fn read(&mut self, file: PathBuf, around: Option<&Path>) {
        let mut files = vec![file];
        let mut at = 0;
        while let Some(file) = files.get(at).cloned() {
            at += 1;
            let Some(text) = text(&file) else { continue };
            let led = references(&text);
            if led.drivers && around.is_some() {
                self.anywhere.push(".gitattributes".to_owned());
            }
            for lead in led.paths {
                let path = match (lead.path.strip_prefix("~/"), self.home) {
                    (Some(below), Some(home)) => home.join(below),
                    (Some(_), None) => continue,
                    (None, _) => PathBuf::from(&lead.path),
                };
                let base = match lead.kind {
                    ReferenceKind::Configuration => file.parent(),
                    ReferenceKind::File | ReferenceKind::Program | ReferenceKind::None => around,
                };
                let host = match (path.is_absolute(), base) {
                    (true, _) => Some(normalize(&path)),
                    (false, Some(base)) => Some(normalize(&base.join(&path))),
                    (false, None) => None,
                };
                match (lead.kind, host) {
                    (ReferenceKind::None, _) => {}
                    (ReferenceKind::File, Some(host)) => {
                        self.links_in(&host);
                        self.add(host);
                    }
                    (ReferenceKind::File, None) => self.add_anywhere(&lead.path),
                    (ReferenceKind::Configuration, Some(host)) => {
                        if at < MAX_INCLUDED {
                            files.push(host.clone());
                        }
                        self.add(host);
                    }
                    (ReferenceKind::Configuration, None) => {}
                    (ReferenceKind::Program, Some(host)) => {
                        self.add_program(vec![host], &lead.path)
                    }
                    (ReferenceKind::Program, None) => {
                        let places = self.roots.iter().map(|root| normalize(&root.join(&path)));
                        self.add_program(places.collect(), &lead.path);
                    }
                }
            }
        }
    }

    /// A word of a command, which need not be a file. One with a directory counts as a file that is
    /// not there yet.
    fn add_program(&mut self, places: Vec<PathBuf>, word: &str) {
        for place in places {
            if place.is_file() || word.contains('/') && !place.exists() {
                self.add(place);
            }
        }
    }

    /// A file of every repository, by its path from the top.
    fn add_anywhere(&mut self, path: &str) {
        let path = path.trim_start_matches("./").trim_end_matches('/');
        let mut names = Path::new(path).components();
        if !path.is_empty() && names.all(|c| matches!(c, Component::Normal(_))) {
            self.anywhere.push(sandbox_names::pattern::covering(path));
        }
    }

    /// Adds the targets of the links in a directory of hooks.
    fn links_in(&mut self, directory: &Path) {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries.take(MAX_HOOKS) {
            if entry.file_type().is_ok_and(|kind| kind.is_symlink())
                && let Ok(target) = entry.path().canonicalize()
            {
                self.host.push(target);
            }
        }
    }

    /// As it is written, and where links on the way lead.
    fn add(&mut self, path: PathBuf) {
        if let Ok(real) = path.canonicalize()
            && real != path
        {
            self.host.push(real);
        }
        self.host.push(path);
    }
}

fn text(file: &Path) -> Option<String> {
    let bytes = read::first_bytes(file, MAX_BYTES)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
