//! Directories in which commands write, and the paths that lead through them: a command decides where
//! such a path ends.
//!
//! Entry point: [`WritablePlaces::on_the_way_to`]. A path is judged by each name on the way to its end,
//! not by its end alone.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Most links that are followed on the way to one path; a kernel follows as many
/// (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Directories in which commands write, without links.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let base = dir.path().canonicalize().unwrap();
/// use sandbox_config::WritablePlaces;
/// let project = base.join("project");
/// std::fs::create_dir(&project).unwrap();
/// std::os::unix::fs::symlink("/usr", project.join("link")).unwrap();
/// let places = WritablePlaces::new([project.clone()]);
/// assert_eq!(places.on_the_way_to(&project.join("link/bin")), Some(project.as_path()));
/// assert_eq!(places.on_the_way_to("/usr/bin".as_ref()), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WritablePlaces(Vec<PathBuf>);

impl WritablePlaces {
    /// Takes those that exist.
    pub fn new(directories: impl IntoIterator<Item = PathBuf>) -> WritablePlaces {
        let mut places = WritablePlaces::default();
        directories.into_iter().for_each(|one| places.add(&one));
        places
    }

    /// Adds a directory, if it exists.
    pub fn add(&mut self, directory: &Path) {
        if let Ok(real) = directory.canonicalize()
            && !self.0.contains(&real)
        {
            self.0.push(real);
        }
    }

    /// Returns the directory through which a path leads, or in which it lies. `None` if no command
    /// can change where the path ends.
    #[must_use]
    pub fn on_the_way_to(&self, path: &Path) -> Option<&Path> {
        let names = names_on_the_way(path).ok()?;
        let around = |name: &PathBuf| self.0.iter().find(|place| name.starts_with(place));
        names.iter().find_map(around).map(PathBuf::as_path)
    }
}

/// Returns each name on the way to the end of a path: those of directories, those of links, the end.
/// The directories of each have no links.
///
/// ```
/// let names = sandbox_config::names_on_the_way("/usr/../etc".as_ref()).unwrap();
/// assert_eq!(names, ["/usr", "/etc"].map(std::path::PathBuf::from));
/// ```
///
/// # Errors
/// The path has too many links.
pub fn names_on_the_way(path: &Path) -> io::Result<Vec<PathBuf>> {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components();
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut rest = VecDeque::from(parts(&std::path::absolute(path)?));
    let (mut at, mut names, mut links) = (PathBuf::from("/"), Vec::new(), 0);
    while let Some(part) = rest.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::Normal(name)) => {
                let name = at.join(name);
                names.push(name.clone());
                let Ok(to) = name.read_link() else {
                    at = name;
                    continue;
                };
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::other("too many links"));
                }
                parts(&to)
                    .into_iter()
                    .rev()
                    .for_each(|part| rest.push_front(part));
            }
            Some(Component::Prefix(_) | Component::CurDir) | None => {}
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn each_name_on_the_way_counts() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["project/bin", "home/bin", "home/other"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        for (link, to) in [
            ("project/out", "../home/bin"),
            ("home/in", "../project/bin"),
            ("home/through", "../project/out"),
            ("home/climbs", "../project/bin/../../home/bin"),
            ("home/beside", "other"),
            ("home/loop", "loop"),
        ] {
            symlink(to, base.join(link)).unwrap();
        }
        let places = WritablePlaces::new([base.join("project"), base.join("absent")]);
        for (path, through) in [
            ("project", true),
            ("project/bin/tool", true),
            ("project/out/tool", true),
            ("home/in", true),
            ("home/in/tool", true),
            ("home/through/tool", true),
            ("home/climbs/tool", true),
            ("home/other/../../project/out", true),
            ("home/beside/tool", false),
            ("home/bin/tool", false),
            ("home/loop", false),
            ("project-of-another", false),
        ] {
            let found = places.on_the_way_to(&base.join(path));
            assert_eq!(found.is_some(), through, "{path}");
        }
    }
}
