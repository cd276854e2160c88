//! Finding the project file: walk up from the start, and stop at a file-system boundary, below
//! the home directory, or just above a `.git`.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};

/// The names of a project file, in the order in which messages name them. All are read alike
/// (behaviour C5), and two in one directory are an error. `forge init` writes the first.
///
/// ```
/// assert!(sandbox_config::PROJECT_FILES.contains(&"forge.yaml"));
/// ```
pub const PROJECT_FILES: [&str; 6] = [
    "forge.yaml",
    "forge.yml",
    "golem-forge.config.yaml",
    "golem-forge.config.yml",
    "program.yaml",
    "program.yml",
];

/// More directories than any path has.
const MAX_DEPTH: usize = 4096;

/// Returns the project file that governs `start` (canonical), if exactly one does: in it, or above
/// it up to the home directory, a git repository, or another file system.
pub fn find_project_file(start: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let home = home.and_then(|home| home.canonicalize().ok());
    let show = |path: &Path| path.display().to_string();
    discover(start, home.as_deref(), show).ok().flatten()
}

/// Returns the project file above `start` (canonical), if one exists.
pub(crate) fn discover(
    start: &Path,
    home: Option<&Path>,
    show: impl Fn(&Path) -> String,
) -> Result<Option<PathBuf>, Box<Diagnostic>> {
    let device = std::fs::metadata(start).map(|metadata| metadata.dev()).ok();
    for (step, dir) in start.ancestors().take(MAX_DEPTH).enumerate() {
        let crossed = std::fs::metadata(dir).map(|metadata| metadata.dev()).ok() != device;
        // The home directory is searched only if the search starts in it: a file in it would
        // otherwise govern everything below.
        if step > 0 && (crossed || home == Some(dir)) {
            return Ok(None);
        }
        let found: Vec<PathBuf> = PROJECT_FILES
            .iter()
            .map(|name| dir.join(name))
            .filter(|path| exists(path))
            .collect();
        match found.as_slice() {
            [] => {}
            [file] => return Ok(Some(file.clone())),
            [first, second, ..] => {
                return Err(Box::new(
                    DiagnosticCode::TwoFiles
                        .error(format!(
                            "two project files in one directory: {} and {}",
                            show(first),
                            show(second)
                        ))
                        .in_file(&show(first))
                        .help("keep one, or name it with --config"),
                ));
            }
        }
        if std::fs::symlink_metadata(dir.join(".git")).is_ok() {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Returns `true` if the path exists as a possible project file. A socket is not one: while a
/// command runs, or after its caller was killed, it is the placeholder of an absent project file.
fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket())
}
