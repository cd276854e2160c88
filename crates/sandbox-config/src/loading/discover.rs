//! Finding the project file: walk up from the start, and stop at a file-system boundary, below
//! the home directory, or just above a `.git`.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::loading::sources::{ProjectFileState, WriterCheck};
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
    discover(start, home.as_deref(), show, None).ok().flatten()
}

/// Returns the project file above `start` (canonical), if one exists.
pub(crate) fn discover(
    start: &Path,
    home: Option<&Path>,
    show: impl Fn(&Path) -> String,
    writer_check: Option<&dyn WriterCheck>,
) -> Result<Option<PathBuf>, Box<Diagnostic>> {
    let nearest = nearest_marked(start, home);
    if let Some(check) = writer_check {
        check_writers(start, home, nearest, &show, check)?;
    }
    let Some(nearest) = nearest else {
        return Ok(None);
    };
    match project_files(nearest).as_slice() {
        [] => match cut_off(nearest, home) {
            None => Ok(None),
            Some(file) => Err(Box::new(keeps_apart(&show(nearest), &show(&file)))),
        },
        [file] if nearest != start && is_foreign(file, start) => {
            Err(Box::new(foreign(&show(file))))
        }
        [file] => Ok(Some(file.clone())),
        [first, second, ..] => Err(Box::new(
            DiagnosticCode::TwoFiles
                .error(format!(
                    "two project files in one directory: {} and {}",
                    show(first),
                    show(second)
                ))
                .in_file(&show(first))
                .help("keep one, or name it with --config"),
        )),
    }
}

/// Refuses a choice that a command may have made: by a new project file or `.git`, or by the removal of
/// a project file.
fn check_writers(
    start: &Path,
    home: Option<&Path>,
    nearest: Option<&Path>,
    show: &impl Fn(&Path) -> String,
    check: &dyn WriterCheck,
) -> Result<(), Box<Diagnostic>> {
    let ask = |path: &Path, state| match check.find(path, state) {
        Some(found) => Err(found.about(&show(path))),
        None => Ok(()),
    };
    for dir in searched(start, home).take_while(|dir| Some(*dir) != nearest) {
        for name in PROJECT_FILES {
            ask(&dir.join(name), ProjectFileState::Absent)?;
        }
    }
    let Some(nearest) = nearest else {
        return Ok(());
    };
    let files = project_files(nearest);
    for file in &files {
        ask(file, ProjectFileState::Present)?;
    }
    let mut above = searched(start, home).filter(|dir| *dir != nearest && nearest.starts_with(dir));
    let governed = above.any(|dir| !project_files(dir).is_empty());
    if files.is_empty() && governed {
        ask(&nearest.join(".git"), ProjectFileState::Present)?;
    }
    Ok(())
}

/// The nearest directory from `start` upwards with a project file or a `.git`.
fn nearest_marked<'p>(start: &'p Path, home: Option<&Path>) -> Option<&'p Path> {
    searched(start, home).find(|dir| has_git(dir) || !project_files(dir).is_empty())
}

/// The directories in which a project file is looked for, from `start` upwards.
fn searched<'p>(start: &'p Path, home: Option<&Path>) -> impl Iterator<Item = &'p Path> {
    let device = |dir: &Path| std::fs::metadata(dir).map(|metadata| metadata.dev()).ok();
    let above = start.ancestors().take(MAX_DEPTH).enumerate();
    let own = device(start);
    // The home directory is searched only if the search starts in it: a file in it would otherwise
    // govern everything below.
    above
        .take_while(move |(step, dir)| *step == 0 || (device(dir) == own && home != Some(*dir)))
        .map(|(_, dir)| dir)
}

fn has_git(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir.join(".git")).is_ok()
}

fn project_files(dir: &Path) -> Vec<PathBuf> {
    let names = PROJECT_FILES.iter().map(|name| dir.join(name));
    names.filter(|path| exists(path)).collect()
}

/// Returns the project file of the repository around `dir`, which has a `.git` of its own. Why: a
/// command of that project may have made it, and the project's rules would hold no longer. Without
/// a repository around, a directory of clones has the file, and each clone is for itself.
fn cut_off(dir: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let around = nearest_marked(dir.parent()?, home)?;
    let is_inside = std::fs::metadata(around).ok()?.dev() == std::fs::metadata(dir).ok()?.dev();
    let file = project_files(around).into_iter().next();
    file.filter(|_| is_inside && has_git(around))
}

fn keeps_apart(dir: &str, file: &str) -> Diagnostic {
    DiagnosticCode::CutOff
        .error(format!(
            "{dir} has a `.git` of its own, inside of the repository with the project file {file}, \
             which would not hold there"
        ))
        .in_file(file)
        .help(
            "go to that project (`-C DIR`), name its file with --config, or take the directory by \
             itself with --no-config; remove the `.git` if a command made it",
        )
}

/// Returns `true` if a project file above `start` belongs neither to the caller, nor to
/// root, nor to the owner of `start`: anybody can put one into a directory that all may write, such as /tmp.
fn is_foreign(file: &Path, start: &Path) -> bool {
    let owner = |path: &Path| {
        std::fs::symlink_metadata(path)
            .ok()
            .map(|facts| facts.uid())
    };
    let mine = [
        Some(0),
        Some(rustix::process::geteuid().as_raw()),
        owner(start),
    ];
    !mine.contains(&owner(file))
}

fn foreign(file: &str) -> Diagnostic {
    DiagnosticCode::ForeignFile
        .error(format!("the project file {file} belongs to another user"))
        .in_file(file)
        .help("if you want it: name it with --config, or go to its directory; else --no-config")
}

/// Returns `true` if the path exists as a possible project file. A socket is not one: while a
/// command runs, or after its caller was killed, it is the placeholder of an absent project file.
fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket())
}
