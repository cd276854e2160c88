//! A described tree: created on the host for real enforcers, resolved in memory for pure ones.

use crate::verb::Last;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// The limit of Linux.
const MAX_LINKS: usize = 40;

/// The content of an executable.
const PROGRAM: &str = "#!/bin/sh\necho ran\n";

/// Names are relative to the top, which holds the directories of the mounts and `outside`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tree {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) dirs: Vec<String>,
    /// A file holds its own name, unless `texts` says otherwise.
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    texts: BTreeMap<String, String>,
    /// Files of mode 755 that can be started.
    #[serde(default)]
    programs: Vec<String>,
    /// Name and text; `{top}` is the host path of the top.
    #[serde(default)]
    pub(crate) links: BTreeMap<String, String>,
    /// Second names of files.
    #[serde(default)]
    hard: BTreeMap<String, String>,
    /// Listening sockets.
    #[serde(default)]
    sockets: Vec<String>,
    #[serde(default)]
    fifos: Vec<String>,
    /// Files that have other permissions than 644 or 755, in octal.
    #[serde(default)]
    modes: BTreeMap<String, String>,
}

impl Tree {
    /// Returns every file with its content.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.files.iter().map(|name| (name.as_str(), name.as_str()));
        let texts = self
            .texts
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        let programs = self.programs.iter().map(|name| (name.as_str(), PROGRAM));
        let all: Vec<_> = own.chain(texts).chain(programs).collect();
        let hard: Vec<_> = self
            .hard
            .iter()
            .filter_map(|(name, of)| {
                let (_, text) = all.iter().find(|(file, _)| file == of)?;
                Some((name.as_str(), *text))
            })
            .collect();
        all.into_iter().chain(hard)
    }

    /// Creates it below `top`. The sockets close when the listeners are dropped.
    pub(crate) fn make(&self, top: &Path) -> Result<Vec<UnixListener>, String> {
        let at = |name: &str| top.join(name);
        let say = |name: &str, error: &dyn std::fmt::Display| format!("{name}: {error}");
        let parent = |name: &str| match at(name).parent() {
            Some(parent) => fs::create_dir_all(parent).map_err(|error| say(name, &error)),
            None => Ok(()),
        };
        for name in &self.dirs {
            fs::create_dir_all(at(name)).map_err(|error| say(name, &error))?;
        }
        for (name, text) in self
            .files()
            .filter(|(name, _)| !self.hard.contains_key(*name))
        {
            parent(name)?;
            fs::write(at(name), text).map_err(|error| say(name, &error))?;
            let mode = if self.programs.iter().any(|one| one == name) {
                0o755
            } else {
                0o644
            };
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode))
                .map_err(|error| say(name, &error))?;
        }
        for (name, text) in &self.links {
            parent(name)?;
            let text = text.replace("{top}", &top.display().to_string());
            symlink(text, at(name)).map_err(|error| say(name, &error))?;
        }
        for (name, of) in &self.hard {
            parent(name)?;
            fs::hard_link(at(of), at(name)).map_err(|error| say(name, &error))?;
        }
        for name in &self.fifos {
            parent(name)?;
            nix::unistd::mkfifo(&at(name), nix::sys::stat::Mode::S_IRWXU)
                .map_err(|error| say(name, &error))?;
        }
        for (name, mode) in &self.modes {
            let mode = u32::from_str_radix(mode, 8).map_err(|error| say(name, &error))?;
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode))
                .map_err(|error| say(name, &error))?;
        }
        let mut listeners = Vec::new();
        for name in &self.sockets {
            parent(name)?;
            listeners.push(UnixListener::bind(at(name)).map_err(|error| say(name, &error))?);
        }
        Ok(listeners)
    }

    /// Resolves a host path like the kernel, by the description alone. `None` for a loop.
    pub(crate) fn real(&self, top: &Path, path: &Path, last: Last) -> Option<PathBuf> {
        let mut todo: Vec<PathBuf> = split(path);
        todo.reverse();
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == Path::new("/") {
                at = name;
                continue;
            }
            if name == Path::new("..") {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let text = next
                .strip_prefix(top)
                .ok()
                .and_then(Path::to_str)
                .and_then(|name| self.links.get(name));
            let followed = last == Last::Follow || !todo.is_empty();
            match text {
                Some(text) if followed => {
                    links += 1;
                    if links > MAX_LINKS {
                        return None;
                    }
                    let text = text.replace("{top}", &top.display().to_string());
                    todo.extend(split(Path::new(&text)).into_iter().rev());
                }
                Some(_) | None => at = next,
            }
        }
        Some(at)
    }
}

fn split(path: &Path) -> Vec<PathBuf> {
    path.components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| PathBuf::from(part.as_os_str()))
        .collect()
}

/// All objects below a directory: names, types, bytes, modes, owners, and the times of files.
pub(crate) type Picture = BTreeMap<PathBuf, Seen>;

/// One object, without the time of its last reading. Directories of mounts have no times: the
/// enforcer holds and releases names in them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    mode: u32,
    owner: (u32, u32),
    pub(crate) inode: u64,
    times: Option<(SystemTime, i64, i64)>,
    bytes: Vec<u8>,
    link: Option<PathBuf>,
}

pub(crate) fn picture(top: &Path) -> Result<Picture, String> {
    let say = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut seen = Picture::new();
    let mut pending = vec![top.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).map_err(|error| say(&dir, error))? {
            let path = entry.map_err(|error| say(&dir, error))?.path();
            let meta = path.symlink_metadata().map_err(|error| say(&path, error))?;
            let bytes = if meta.is_file() {
                // The file may be unreadable; then its times must suffice.
                fs::read(&path).unwrap_or_default()
            } else {
                Vec::new()
            };
            let modified = meta.modified().map_err(|error| say(&path, error))?;
            let outside = path.starts_with(top.join("outside"));
            let timed = !meta.is_dir() || outside;
            let now = Seen {
                mode: meta.permissions().mode(),
                owner: (meta.uid(), meta.gid()),
                inode: meta.ino(),
                times: timed.then(|| (modified, meta.ctime(), meta.ctime_nsec())),
                bytes,
                link: fs::read_link(&path).ok(),
            };
            if meta.is_dir() {
                pending.push(path.clone());
            }
            seen.insert(path, now);
        }
    }
    Ok(seen)
}

/// Returns the first difference.
pub(crate) fn changed(before: &Picture, after: &Picture) -> Option<String> {
    let gone = before.keys().find(|path| !after.contains_key(*path));
    if let Some(path) = gone {
        return Some(format!("{} is gone", path.display()));
    }
    after.iter().find_map(|(path, now)| match before.get(path) {
        None => Some(format!("{} is new", path.display())),
        Some(then) if then != now => Some(format!("{} was changed", path.display())),
        Some(_) => None,
    })
}
