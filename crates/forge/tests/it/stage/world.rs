//! A project, bare repositories beside it, and what a worker would have staged for them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, cap_std};
use forge_git::{
    BranchName, GitBackend as _, GitProgram, GitService, Repo, SecretPolicy, StageRequest,
    StagedStore,
};
use os_sandbox::Support;
use sha2::{Digest as _, Sha256};

use crate::support::World;

/// Whether git can be run confined here; says so where it cannot.
#[expect(clippy::print_stderr, reason = "a skip is seen")]
pub(super) fn has_git() -> bool {
    let found = Command::new("git").arg("--version").output();
    let found = found.is_ok_and(|ran| ran.status.success());
    if !found {
        eprintln!("skipped: there is no git");
    }
    found
}

/// A bare repository beside the project, with a first commit.
pub(super) fn bare(world: &World, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let (path, work) = (world.outside().join(name), world.outside().join("work"));
    git(
        world.outside(),
        &["init", "-q", "--bare", "-b", "main", name],
    );
    std::fs::create_dir_all(&work).unwrap();
    commit(&work, &path, files, "Begin");
    std::fs::remove_dir_all(&work).unwrap();
    path
}

/// What somebody else does to a repository meanwhile.
#[cfg(target_os = "linux")]
pub(super) fn someone_pushes(world: &World, bare: &Path, files: &[(&str, &[u8])]) {
    let work = world.outside().join("work");
    git(
        world.outside(),
        &["clone", "-q", bare.to_str().unwrap(), "work"],
    );
    commit(&work, bare, files, "Meanwhile");
    std::fs::remove_dir_all(&work).unwrap();
}

fn commit(work: &Path, bare: &Path, files: &[(&str, &[u8])], message: &str) {
    if !work.join(".git").exists() {
        git(work, &["init", "-q", "-b", "main", "."]);
    }
    for (name, bytes) in files {
        let path = work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    git(work, &["add", "-A"]);
    git(work, &["commit", "-q", "-m", message]);
    git(work, &["push", "-q", bare.to_str().unwrap(), "main"]);
}

/// Runs git and gives what it printed.
pub(super) fn git(dir: &Path, args: &[&str]) -> String {
    let ran = Command::new("git")
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=me", "-c", "user.email=me@localhost"])
        .args(["-c", "safe.directory=*"])
        .args(args)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "git {args:?}: {complaint}");
    String::from_utf8(ran.stdout).unwrap()
}

/// The head of main.
pub(super) fn head(bare: &Path) -> String {
    git(bare, &["rev-parse", "main"]).trim().to_owned()
}

/// A file of main.
#[cfg(target_os = "linux")]
pub(super) fn shown(bare: &Path, path: &str) -> String {
    git(bare, &["show", &format!("main:{path}")])
}

/// Where what a project stages is kept.
pub(super) fn kept(world: &World, project: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    let whole = project.canonicalize().unwrap();
    let hash = Sha256::digest(whole.as_os_str().as_bytes());
    let key: String = hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    world.outside().join("state/git").join(key).join("staged")
}

/// Stages files (none: to go) as a worker of that project would, and gives the id.
pub(super) fn stage_in(
    world: &World,
    project: &Path,
    bare: &Path,
    files: &[(&str, Option<&[u8]>)],
    message: &str,
) -> String {
    let place = kept(world, project);
    private(&place);
    let cache = world.outside().join("state/git/cache");
    private(&cache);
    let mount = Mount::open_ambient(
        SandboxPath::root(),
        &place,
        Mode::ReadWrite,
        cap_std::ambient_authority(),
    );
    let store = StagedStore::new(mount.unwrap()).unwrap();
    let git = GitService::new(GitProgram::new(cache, Support::detect()), store);
    let (top, there) = (SandboxPath::parse("/w").unwrap(), world.outside().join("w"));
    std::fs::create_dir(&there).unwrap();
    for (name, bytes) in files {
        let Some(bytes) = bytes else { continue };
        let path = there.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let mode = if name.ends_with(".sh") { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mount = Mount::open_ambient(
        top.clone(),
        &there,
        Mode::ReadWrite,
        cap_std::ambient_authority(),
    );
    let worker = FileSandbox::new(vec![mount.unwrap()]).unwrap();
    let path = |(name, _): &(&str, _)| worker.path(&format!("/w/{name}")).unwrap();
    let paths = files.iter().map(path).collect();
    let request = StageRequest {
        repo: Repo::parse(bare.to_str().unwrap()).unwrap(),
        branch: BranchName::default(),
        files: paths,
        from: top,
        message: message.to_owned(),
        secrets: SecretPolicy::Refused,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let staged = runtime.block_on(git.stage(&worker, request)).unwrap();
    std::fs::remove_dir_all(&there).unwrap();
    staged.id().to_string()
}

/// The same in the project of this world.
pub(super) fn stage(
    world: &World,
    bare: &Path,
    files: &[(&str, Option<&[u8]>)],
    message: &str,
) -> String {
    stage_in(world, &world.project(), bare, files, message)
}

/// Makes a directory as forge does.
fn private(dir: &Path) {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(dir).unwrap();
}
