//! `forge clean`: empties the ephemeral zones and nothing else.
//!
//! Ephemeral files are in the zones below `sandbox.root`. The root must be a directory
//! of ours below the project, reached through no link, and without files that make it a project or
//! a repository. Anybody can write a project file, so any root but the default must be typed by the
//! person as well. The zones' own directories stay: a running worker has them open.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sandbox_config::{Mount, PROJECT_FILES, Project, WithoutDirectories};

use crate::cli::{CleanArgs, Global};
use crate::commands::prelude::*;
use crate::setup;
use crate::state::remove_contents::{RemovalReport, open_below, remove_contents};

/// The root that a project has without a word.
const DEFAULT_ROOT: &str = ".sandbox";

pub(crate) fn run(args: &CleanArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let project = setup::project_or_directory(ambient, WithoutDirectories::DefaultZones)?;
    let Some(root) = project.ephemeral_root() else {
        print_result(
            &ambient.global,
            &json!({"root": null, "dry_run": args.dry_run, "zones": []}),
            "Nothing is ephemeral here: the mounts of this project are directories of yours.",
        )?;
        return Ok(ExitKind::Done);
    };
    let Some(dir) = open_root(&ambient.global, args, &project, root)? else {
        print_result(
            &ambient.global,
            &json!({"root": root.to_string_lossy(), "dry_run": args.dry_run, "zones": []}),
            &format!("Nothing to remove: {} does not exist.", escape_path(root)),
        )?;
        return Ok(ExitKind::Done);
    };
    let mut zones = Vec::new();
    // A run's own directories are kept with the run.
    for mount in project.ceiling().mounts().filter(|m| !m.awaits_run()) {
        if let Some(removed) = zone(&dir, &project, root, mount, args.dry_run)? {
            zones.push((mount, removed));
        }
    }
    report(&ambient.global, args, root, &zones)
}

/// Opens the sandbox root, if it exists and may be emptied.
fn open_root(
    global: &Global,
    args: &CleanArgs,
    project: &Project,
    root: &Path,
) -> Result<Option<OwnedFd>, CliError> {
    let refused = |why: String| refused(root, &why);
    let below = below_project(project, root).map_err(|why| refused(why.to_owned()))?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(project.dir(), flags, Mode::empty())
        .and_then(|dir| open_below(dir.as_fd(), below));
    let dir = match opened {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(None),
        // O_NOFOLLOW with O_DIRECTORY: Linux answers ENOTDIR for a link, others ELOOP.
        Err(Errno::NOTDIR | Errno::LOOP) => {
            let why = "it, or a directory above it, is a link or no directory";
            return Err(refused(why.to_owned()));
        }
        Err(error) => return Err(refused(error.to_string())),
    };
    check_content(project, root, &dir).map_err(refused)?;
    check_agreement(global, args, root, below, &dir)?;
    Ok(Some(dir))
}

fn refused(root: &Path, why: &str) -> CliError {
    CliError::negative(
        "clean.refused",
        format!("{} is not emptied: {why}", escape_path(root)),
    )
}

/// Returns the path of the root below the project, or the reason for leaving it alone.
fn below_project<'a>(project: &Project, root: &'a Path) -> Result<&'a Path, &'static str> {
    let Ok(below) = root.strip_prefix(project.dir()) else {
        return Err("it is not below the project");
    };
    if below.as_os_str().is_empty() {
        return Err("it is the project itself");
    }
    if in_repository(below) {
        return Err("it is in a repository's `.git`");
    }
    if project.file().is_some_and(|file| holds(root, file)) {
        return Err("the project file is below it");
    }
    Ok(below)
}

/// Checks that the open root belongs to the user, and is neither a project nor a repository.
fn check_content(project: &Project, root: &Path, dir: &OwnedFd) -> Result<(), String> {
    let owner = rustix::fs::fstat(dir).map(|stat| stat.st_uid);
    match owner {
        Ok(owner) if owner == rustix::process::geteuid().as_raw() => {}
        Ok(_) => return Err("it belongs to another user".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    for name in PROJECT_FILES.into_iter().chain([".git"]) {
        let found = rustix::fs::statat(dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok() {
            return Err(format!(
                "it holds a `{name}`, so it is not a sandbox directory"
            ));
        }
    }
    let mut workers = project.worker_dirs().iter();
    match workers.any(|workers| workers.starts_with(root)) {
        true => Err("the project's workers are below it".to_owned()),
        false => Ok(()),
    }
}

/// Checks that the person has typed a root other than the default.
fn check_agreement(
    global: &Global,
    args: &CleanArgs,
    root: &Path,
    below: &Path,
    dir: &OwnedFd,
) -> Result<(), CliError> {
    let typed = args.root.as_ref().map(|typed| match &global.directory {
        Some(base) => base.join(typed),
        None => typed.clone(),
    });
    match typed {
        None if below == Path::new(DEFAULT_ROOT) => Ok(()),
        None => {
            let why =
                format!("it is not `{DEFAULT_ROOT}`, and only the project says that it may be");
            Err(refused(root, &why).hint(format!(
                "look at what is in it; to empty its zones name it yourself: `forge clean --root {}`",
                escape_path(below)
            )))
        }
        Some(typed) if is_same(dir, &typed) => Ok(()),
        Some(typed) => Err(refused(
            root,
            &format!("`--root {}` is another directory", escape_path(&typed)),
        )),
    }
}

/// `true` if a name on the way is `.git`, in any case: some file systems ignore case.
fn in_repository(below: &Path) -> bool {
    below.components().any(|component| match component {
        Component::Normal(name) => name.eq_ignore_ascii_case(".git"),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => false,
        // The target of such a path is unknown.
        Component::ParentDir => true,
    })
}

fn holds(root: &Path, file: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    file.starts_with(root) || real(file).starts_with(real(root))
}

/// `true` if the typed path is the open directory.
fn is_same(dir: &OwnedFd, typed: &Path) -> bool {
    let there = rustix::fs::stat(typed);
    let open = rustix::fs::fstat(dir);
    match (there, open) {
        (Ok(there), Ok(open)) => (there.st_dev, there.st_ino) == (open.st_dev, open.st_ino),
        (_, _) => false,
    }
}

/// Empties one zone. `None` if its directory does not exist.
fn zone(
    root: &OwnedFd,
    project: &Project,
    shown: &Path,
    mount: &Mount,
    dry_run: bool,
) -> Result<Option<RemovalReport>, CliError> {
    let refuse = |why: String| {
        CliError::negative(
            "clean.refused",
            format!("zone `{}` is not emptied: {why}", escape(mount.name())),
        )
    };
    let below = mount.host().strip_prefix(shown).map_err(|_| {
        refuse(format!(
            "{} is not below {}",
            escape_path(mount.host()),
            escape_path(shown)
        ))
    })?;
    if in_repository(below) {
        return Err(refuse("it is in a repository's `.git`".to_owned()));
    }
    if project.file().is_some_and(|file| holds(mount.host(), file)) {
        return Err(refuse("the project file is below it".to_owned()));
    }
    let dir = match open_below(root.as_fd(), below) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return Err(refuse("its directory is a link or no directory".to_owned()));
        }
        Err(error) => return Err(refuse(error.to_string())),
    };
    remove_contents(&dir, dry_run)
        .map(Some)
        .map_err(|error| refuse(error.to_string()))
}

fn report(
    global: &Global,
    args: &CleanArgs,
    root: &Path,
    zones: &[(&Mount, RemovalReport)],
) -> Result<ExitKind, CliError> {
    let verb = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    let mut lines: Vec<String> = zones
        .iter()
        .map(|(mount, removed)| {
            format!(
                "{}: {verb} {} and {} ({})",
                escape(mount.target()),
                count(removed.files, "file", "files"),
                count(removed.directories, "directory", "directories"),
                count(removed.bytes, "byte", "bytes"),
            )
        })
        .collect();
    if lines.is_empty() {
        lines.push(format!("Nothing to remove below {}.", escape_path(root)));
    }
    let object = json!({
        "root": root.to_string_lossy(),
        "dry_run": args.dry_run,
        "zones": zones.iter().map(|(mount, removed)| json!({
            "name": mount.name(),
            "host": mount.host().to_string_lossy(),
            "files": removed.files,
            "directories": removed.directories,
            "bytes": removed.bytes,
            "left": removed.left_count,
        })).collect::<Vec<Value>>(),
    });
    print_result(global, &object, &lines.join("\n"))?;
    let mut left = 0;
    for (mount, removed) in zones {
        left += removed.left_count;
        if !global.json {
            for (path, why) in &removed.left {
                stderr::print(format_args!(
                    "{}: {why}",
                    escape_path(&mount.host().join(path))
                ));
            }
        }
    }
    if left > 0 {
        return Err(CliError::negative(
            "clean.incomplete",
            format!("{left} things could not be removed"),
        ));
    }
    Ok(ExitKind::Done)
}

fn count(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{number} {noun}")
}
