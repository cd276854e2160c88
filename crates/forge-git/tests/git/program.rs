//! The git program against real repositories: of this machine, over http, and hostile ones.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forge_git::{
    BranchName, Credential, Credentials, GitErrorKind, GitProgram, GitRepositories as _,
    GitService, OnDivergence, Repo, StagedStore,
};
use os_sandbox::Support;

use crate::server::{Server, serve};
use crate::world::{Others, World, files, wait};

/// Whether commands can be confined here; says so where they cannot.
#[expect(clippy::print_stderr, reason = "a skip is seen, with its reason")]
pub(crate) fn confined() -> bool {
    let policy = os_sandbox::Policy::builder().build().unwrap();
    let plan = os_sandbox::Plan::new(
        &policy,
        &Support::detect(),
        os_sandbox::Requirement::Enforce,
    );
    if let Err(error) = &plan {
        eprintln!("skipped: commands cannot be confined here: {error}");
    }
    plan.is_ok()
}

/// Git as somebody else runs it.
pub(crate) fn git<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, stdin: &[u8]) -> Vec<u8> {
    try_git(args, stdin).unwrap()
}

pub(crate) fn try_git<S: AsRef<OsStr>>(
    args: impl IntoIterator<Item = S>,
    stdin: &[u8],
) -> Result<Vec<u8>, String> {
    let mut child = Command::new("git")
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "x")
        .env("GIT_AUTHOR_EMAIL", "x@x")
        .env("GIT_COMMITTER_NAME", "x")
        .env("GIT_COMMITTER_EMAIL", "x@x")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A bare repository of others.
pub(crate) struct Bare {
    pub(crate) dir: PathBuf,
    /// How it says no.
    hook: &'static str,
}

impl Bare {
    pub(crate) fn make(dir: PathBuf, hook: &'static str) -> Bare {
        let place = dir.to_str().unwrap();
        git(
            ["init", "-q", "--bare", "--initial-branch=main", place],
            b"",
        );
        git(["-C", place, "config", "http.receivepack", "true"], b"");
        Bare { dir, hook }
    }

    /// As services do.
    pub(crate) fn gives_single_files(&self) {
        git(
            self.args(&["config", "uploadpack.allowFilter", "true"]),
            b"",
        );
    }

    pub(crate) fn args<'a>(&'a self, more: &'a [&'a str]) -> Vec<&'a OsStr> {
        let first = [OsStr::new("--git-dir"), self.dir.as_os_str()];
        first
            .into_iter()
            .chain(more.iter().map(OsStr::new))
            .collect()
    }
}

impl Others for Bare {
    fn as_bare(&self) -> Option<&Bare> {
        Some(self)
    }

    fn commit(&self, branch: &BranchName, files: &[(&str, Option<&str>)]) {
        let at = format!("refs/heads/{branch}");
        let mut stream = format!("commit {at}\ncommitter x <x@x> 0 +0000\ndata 7\ntheirs\n\n");
        if try_git(self.args(&["rev-parse", "--verify", &at]), b"").is_ok() {
            stream.push_str(&format!("from {at}^0\n"));
        }
        for (path, content) in files {
            match content {
                None => stream.push_str(&format!("D {path}\n")),
                Some(text) => {
                    stream.push_str(&format!(
                        "M 100644 inline {path}\ndata {}\n{text}\n",
                        text.len()
                    ));
                }
            }
        }
        git(self.args(&["fast-import", "--quiet"]), stream.as_bytes());
    }

    fn read(&self, branch: &BranchName, path: &str) -> Option<Vec<u8>> {
        try_git(
            self.args(&["show", &format!("refs/heads/{branch}:{path}")]),
            b"",
        )
        .ok()
    }

    fn protect(&self, _: &BranchName) {
        hook(
            &self.dir.join("hooks").join(self.hook),
            "echo protected >&2; exit 1",
        );
    }
}

pub(crate) fn hook(at: &Path, text: &str) {
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    std::fs::write(at, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn world(name: &'static str, held: tempfile::TempDir, bare: Bare, repo: Repo) -> World {
    let program = GitProgram::new(held.path().join("cache"), Support::detect());
    world_by(program, name, held, bare, repo)
}

pub(crate) fn world_by(
    program: GitProgram,
    name: &'static str,
    held: tempfile::TempDir,
    bare: Bare,
    repo: Repo,
) -> World {
    World {
        name,
        git: Arc::new(GitService::new(program, StagedStore::in_memory().unwrap())),
        others: Box::new(bare),
        repo,
        files: files(),
        _held: Some(held),
    }
}

pub(crate) fn over_file() -> World {
    let held = tempfile::tempdir().unwrap();
    let bare = Bare::make(held.path().join("bare.git"), "update");
    let repo = Repo::parse(&format!("file://{}", bare.dir.display())).unwrap();
    world("file", held, bare, repo)
}

pub(crate) fn http(authorization: Option<String>) -> (World, Server) {
    let held = tempfile::tempdir().unwrap();
    let bare = Bare::make(held.path().join("served/bare.git"), "pre-receive");
    bare.gives_single_files();
    let server = serve(&held.path().join("served"), authorization);
    let repo = Repo::parse(&format!("{}/bare.git", server.origin)).unwrap();
    (world("http", held, bare, repo), server)
}

pub(crate) fn over_http() -> World {
    http(None).0
}

#[test]
fn a_token_is_shown_to_its_server_and_to_nobody_else() {
    if !confined() {
        return;
    }
    let token = "t0ken-of-somebody";
    // x-access-token:t0ken-of-somebody
    let login = "Basic eC1hY2Nlc3MtdG9rZW46dDBrZW4tb2Ytc29tZWJvZHk=".to_owned();
    let (mut world, server) = http(Some(login));
    world
        .others
        .commit(&BranchName::default(), &[("a.md", Some("a\n"))]);
    let error = world.pull(&["a.md"], "/workspace").unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::Authentication, "{error}");
    assert!(error.to_string().contains("token"), "{error}");

    let cache = world._held.as_ref().unwrap().path().join("cache");
    for (origin, works) in [
        ("https://github.com", false),
        (server.origin.as_str(), true),
    ] {
        let credential = Credential::token(token).unwrap();
        let credentials = Credentials::new().with(origin, credential).unwrap();
        let program = GitProgram::new(&cache, Support::detect()).credentials(credentials);
        assert!(!format!("{program:?}").contains(token));
        world.git = Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()));
        assert_eq!(world.pull(&["a.md"], "/workspace").is_ok(), works);
    }
    world.write("/workspace/a.md", "mine\n");
    let commit = world.stage(&["/workspace/a.md"]).unwrap();
    wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
    // It is in no file of ours.
    let kept = Command::new("grep")
        .args(["-rlF", token])
        .arg(&cache)
        .output()
        .unwrap();
    assert_eq!(kept.stdout, b"");
}

#[test]
fn a_server_that_falls_silent_is_given_up() {
    if !confined() {
        return;
    }
    let (mut world, server) = http(None);
    world
        .others
        .commit(&BranchName::default(), &[("a.md", Some("a\n"))]);
    let cache = world._held.as_ref().unwrap().path().join("cache");
    let program = GitProgram::new(&cache, Support::detect()).transfer_limit(Duration::from_secs(1));
    world.git = Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()));
    server.silent.store(true, Ordering::SeqCst);
    let error = world.pull(&["a.md"], "/workspace").unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::TimeLimit, "{error}");
    // What it left half does not stand in the way.
    server.silent.store(false, Ordering::SeqCst);
    let bare = std::fs::read_dir(&cache)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("bare");
    std::fs::write(bare.join("shallow.lock"), "").unwrap();
    std::fs::create_dir_all(bare.join("refs/forge/heads")).unwrap();
    std::fs::write(bare.join("refs/forge/heads/main.lock"), "").unwrap();
    let program = GitProgram::new(&cache, Support::detect());
    world.git = Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()));
    world.pull(&["a.md"], "/workspace").unwrap();
}

#[test]
fn a_directory_that_somebody_works_in_is_not_pushed_to() {
    if !confined() {
        return;
    }
    let held = tempfile::tempdir().unwrap();
    let dir = held.path().join("project");
    let place = dir.to_str().unwrap();
    git(["init", "-q", "--initial-branch=main", place], b"");
    std::fs::write(dir.join("a.md"), "a\n").unwrap();
    git(["-C", place, "add", "."], b"");
    git(["-C", place, "commit", "-q", "-m", "first"], b"");
    // What would make it dirty.
    git(
        ["-C", place, "config", "receive.denyCurrentBranch", "ignore"],
        b"",
    );
    let bare = Bare {
        dir: dir.join(".git"),
        hook: "update",
    };
    let repo = Repo::parse(place).unwrap();
    let world = world("project", held, bare, repo);
    world.write("/workspace/a.md", "mine\n");
    let commit = world.stage(&["/workspace/a.md"]).unwrap();
    let error = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains("checked out there"), "{error}");
    assert_eq!(git(["-C", place, "status", "--porcelain"], b""), b"");
}

#[test]
fn nothing_of_a_hostile_repository_runs() {
    if !confined() {
        return;
    }
    let held = tempfile::tempdir().unwrap();
    // Where it can be written while the repository is pushed to, however it is shown.
    let (dir, trap) = (
        held.path().join("hostile"),
        held.path().join("hostile/trap"),
    );
    let place = dir.to_str().unwrap();
    git(["init", "-q", "--initial-branch=main", place], b"");
    std::fs::write(dir.join("a.md"), "a\n").unwrap();
    std::fs::write(dir.join(".gitattributes"), "* filter=x diff=x merge=x\n").unwrap();
    git(["-C", place, "add", "."], b"");
    git(["-C", place, "commit", "-q", "-m", "first"], b"");
    git(["-C", place, "branch", "other"], b"");
    let touch = format!("touch {} /other/trap ../trap", trap.display());
    for name in [
        "post-receive",
        "post-update",
        "post-checkout",
        "post-index-change",
        "pre-auto-gc",
    ] {
        hook(&dir.join(".git/hooks").join(name), &touch);
    }
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "core.askPass",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "credential.helper",
        "diff.external",
        "filter.x.smudge",
        "filter.x.clean",
        "filter.x.process",
        "diff.x.textconv",
        "uploadpack.packObjectsHook",
        "alias.upload-pack",
        "alias.receive-pack",
        "gc.recentObjectsHook",
        "gpg.program",
    ] {
        git(["-C", place, "config", key, &touch], b"");
    }
    let bare = Bare {
        dir: dir.join(".git"),
        hook: "update",
    };
    let repo = Repo::parse(place).unwrap();
    let world = world("hostile", held, bare, repo);
    let pulled = world
        .pull(&["a.md", ".gitattributes"], "/workspace")
        .unwrap();
    assert_eq!(pulled.files.len(), 2);
    world.write("/workspace/a.md", "mine\n");
    let other = BranchName::parse("other").unwrap();
    let request = forge_git::StageRequest {
        repo: world.repo.clone(),
        branch: other.clone(),
        files: vec![world.files.path("/workspace/a.md").unwrap()],
        from: file_sandbox::SandboxPath::parse("/workspace").unwrap(),
        message: "mine".into(),
        secrets: forge_git::SecretPolicy::Refused,
    };
    let commit = wait(world.git.stage(&world.files, request)).unwrap();
    wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
    assert_eq!(world.others.read(&other, "a.md").unwrap(), b"mine\n");
    for left in [&trap, &dir.join(".git/trap")] {
        assert!(!left.exists(), "{}", left.display());
    }
}

#[test]
fn objects_from_outside_a_repository_are_not_read() {
    if !confined() {
        return;
    }
    let held = tempfile::tempdir().unwrap();
    // A repository of somebody else, and two that point into it.
    let secret = Bare::make(held.path().join("secret.git"), "update");
    secret.commit(&BranchName::default(), &[("key", Some("secret\n"))]);
    let head = git(secret.args(&["rev-parse", "main"]), b"");
    let by_objects = Bare::make(held.path().join("alternates.git"), "update");
    let alternates = format!("{}\n", secret.dir.join("objects").display());
    std::fs::write(by_objects.dir.join("objects/info/alternates"), alternates).unwrap();
    std::fs::write(by_objects.dir.join("refs/heads/main"), head).unwrap();
    let by_link = held.path().join("link");
    std::fs::create_dir(&by_link).unwrap();
    std::os::unix::fs::symlink(&secret.dir, by_link.join(".git")).unwrap();
    let by_file = held.path().join("file");
    std::fs::create_dir(&by_file).unwrap();
    std::fs::write(
        by_file.join(".git"),
        format!("gitdir: {}\n", secret.dir.display()),
    )
    .unwrap();
    let program = GitProgram::new(held.path().join("cache"), Support::detect());
    for place in [&by_objects.dir, &by_link, &by_file] {
        let repo = Repo::parse(place.to_str().unwrap()).unwrap();
        let head = wait(program.head(&repo, &BranchName::default()));
        assert!(head.is_err(), "{}: {head:?}", place.display());
    }
}

#[test]
fn a_hundred_thousand_files_are_bounded() {
    if !confined() {
        return;
    }
    let world = over_file();
    let names: Vec<String> = (0..100_000)
        .map(|n| format!("d{}/{n}.md", n % 300))
        .collect();
    let all: Vec<(&str, Option<&str>)> = names
        .iter()
        .map(|name| (name.as_str(), Some("x\n")))
        .collect();
    world.others.commit(&BranchName::default(), &all);
    let since = Instant::now();
    world.pull(&["d0/0.md"], "/workspace").unwrap();
    world.write("/workspace/d0/0.md", "mine\n");
    world.stage(&["/workspace/d0/0.md"]).unwrap();
    let error = world
        .pull(&["d0", "d1", "d2", "d3"], "/workspace")
        .unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::TooLarge, "{error}");
    assert!(since.elapsed() < Duration::from_secs(600));
}

#[test]
fn what_unpacks_to_more_than_is_taken_is_not_unpacked() {
    if !confined() {
        return;
    }
    let world = over_file();
    // 200 MB of one letter are 200 KB in a pack.
    let much = "x".repeat(200_000_000);
    world
        .others
        .commit(&BranchName::default(), &[("bomb", Some(&much))]);
    let error = world.pull(&["bomb"], "/workspace").unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::TooLarge, "{error}");
    world.write("/workspace/bomb", "mine\n");
    let error = world.stage(&["/workspace/bomb"]).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::TooLarge, "{error}");
}

#[test]
fn what_is_no_repository_is_said_to_be_none() {
    if !confined() {
        return;
    }
    let held = tempfile::tempdir().unwrap();
    let program = GitProgram::new(held.path().join("cache"), Support::detect());
    for place in [held.path().join("nowhere"), held.path().to_owned()] {
        let repo = Repo::parse(place.to_str().unwrap()).unwrap();
        let error = wait(program.head(&repo, &BranchName::default())).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::NotFound, "{error}");
    }
    let ssh = Repo::parse("ssh://git@localhost/x").unwrap();
    let error = wait(program.head(&ssh, &BranchName::default())).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::Authentication);
    let world = over_file();
    let commit = world.pull(&["a"], "/workspace").unwrap_err();
    assert!(commit.to_string().contains("no branch 'main'"), "{commit}");
    // The first commit makes the branch.
    world.write("/workspace/a.md", "first\n");
    let commit = world.stage(&["/workspace/a.md"]).unwrap();
    wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
    assert_eq!(world.there("a.md").as_deref(), Some("first\n"));
}

#[test]
fn of_two_pushes_at_once_one_wins() {
    if !confined() {
        return;
    }
    for mut world in crate::remote::everywhere() {
        world
            .others
            .commit(&BranchName::default(), &[("a.md", Some("a\n"))]);
        let held = tempfile::tempdir().unwrap();
        let mut pushes = Vec::new();
        for who in ["one", "other"] {
            let program = crate::remote::program(&world, &held.path().join(who));
            world.git = Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()));
            world.write("/workspace/a.md", &format!("{who}\n"));
            let commit = world.stage(&["/workspace/a.md"]).unwrap();
            pushes.push((who, Arc::clone(&world.git), world.approve(&commit)));
        }
        let at_once: Vec<_> = pushes
            .into_iter()
            .map(|(who, git, approval)| {
                std::thread::spawn(move || {
                    let pushed = wait(git.push(approval, OnDivergence::Refuse));
                    (who, pushed, wait(git.list_staged()).unwrap().commits.len())
                })
            })
            .collect();
        let ends: Vec<_> = at_once
            .into_iter()
            .map(|push| push.join().unwrap())
            .collect();
        let won: Vec<&str> = ends
            .iter()
            .filter(|(_, pushed, _)| pushed.is_ok())
            .map(|(who, ..)| *who)
            .collect();
        assert_eq!(won.len(), 1, "{}: {ends:?}", world.name);
        assert_eq!(world.there("a.md"), Some(format!("{}\n", won[0])));
        for (_, pushed, staged) in ends {
            // Whoever lost has it still.
            assert_eq!(staged, usize::from(pushed.is_err()));
            if let Err(error) = pushed {
                assert_eq!(error.kind(), GitErrorKind::Moved, "{error}");
            }
        }
    }
}
