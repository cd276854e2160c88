//! Where the project is: its directory and its file.

use std::path::{Path, PathBuf};

use crate::loading::discover::discover;
use crate::loading::sources::{ConfigChoice, Sources};
use crate::syntax::diagnostic::{DiagnosticCode, Diagnostics};

/// Where the project is.
pub(crate) struct ProjectLocation {
    /// Canonical; names in messages are relative to it.
    pub(crate) start: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) file: Option<PathBuf>,
}

impl ProjectLocation {
    pub(crate) fn show(&self, path: &Path) -> String {
        show(&self.start, path)
    }

    /// Returns the location for reading a text that is not a project's.
    pub(crate) fn without_file(&self) -> ProjectLocation {
        ProjectLocation {
            start: self.start.clone(),
            dir: self.dir.clone(),
            file: None,
        }
    }
}

/// A path as messages show it.
pub(crate) fn show(start: &Path, path: &Path) -> String {
    path.strip_prefix(start)
        .ok()
        .filter(|relative| !relative.as_os_str().is_empty())
        .unwrap_or(path)
        .display()
        .to_string()
}

/// The directory of the project, canonical: that of its file or, without one, where the search
/// began. Whether the file can be loaded is not looked at.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # std::fs::create_dir(dir.path().join("src"))?;
/// std::fs::write(dir.path().join("golem-forge.config.yaml"), "nonsense: {")?;
/// let sources = sandbox_config::Sources::new(dir.path().join("src"));
/// assert_eq!(sandbox_config::project_dir(&sources).unwrap(), dir.path().canonicalize()?);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// One directory contains two project files, or a directory cannot be read.
pub fn project_dir(sources: &Sources) -> Result<PathBuf, Diagnostics> {
    Ok(locate(sources)?.dir)
}

/// Returns the project file that [`load`](crate::load) would read, even if it cannot be loaded.
///
/// # Errors
/// As [`project_dir`].
pub fn project_file(sources: &Sources) -> Result<Option<PathBuf>, Diagnostics> {
    Ok(locate(sources)?.file)
}

pub(crate) fn locate(sources: &Sources) -> Result<ProjectLocation, Diagnostics> {
    let unreadable = |path: &Path, error: std::io::Error| {
        let shown = path.display().to_string();
        Diagnostics::from(
            DiagnosticCode::Unreadable
                .error(format!("cannot read {shown}: {error}"))
                .in_file(&shown),
        )
    };
    let start = sources
        .start
        .canonicalize()
        .map_err(|error| unreadable(&sources.start, error))?;
    if !start.is_dir() {
        let shown = sources.start.display().to_string();
        return Err(Diagnostics::from(
            DiagnosticCode::Unreadable
                .error(format!("{shown} is not a directory"))
                .in_file(&shown),
        ));
    }
    let home = sources.home.as_ref();
    let home = home.and_then(|home| home.canonicalize().ok());
    let file = match &sources.choice {
        ConfigChoice::None => None,
        ConfigChoice::File(file) => Some(start.join(file)),
        ConfigChoice::Discover => {
            let show = |path: &Path| show(&start, path);
            discover(
                &start,
                home.as_deref(),
                show,
                sources.writer_check.as_deref(),
            )
            .map_err(|problem| Diagnostics::from(*problem))?
        }
    };
    let dir = match file.as_deref().and_then(Path::parent) {
        Some(parent) => parent
            .canonicalize()
            .map_err(|error| unreadable(parent, error))?,
        None => start.clone(),
    };
    Ok(ProjectLocation { start, dir, file })
}
