//! What is lost in the middle: a server, our git, this process. The repository over there is as it
//! was or has all of it, what is staged is staged, and what is left half stands in nobody's way.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use file_sandbox::{Mode, Mount, SandboxPath};
use forge_git::{
    BranchName, GitErrorKind, GitProgram, GitRepositories as _, GitService, OnDivergence, Repo,
    StagedStore,
};
use os_sandbox::Support;

use crate::program::{confined, hook, http};
use crate::remote::over_ssh;
use crate::server::{Mood, Server};
use crate::world::{World, wait};

pub(crate) const FETCH: &str = "/git-upload-pack";
const PUSH: &str = "/git-receive-pack";

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(600), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn staged(world: &World) -> usize {
    wait(world.git.list_staged()).unwrap().commits.len()
}

fn with_one_file(world: &World) -> forge_git::StagedCommit {
    let main = BranchName::default();
    world.others.commit(&main, &[("a.md", Some("a\n"))]);
    world.write("/workspace/a.md", "mine\n");
    world.stage(&["/workspace/a.md"]).unwrap()
}

pub(crate) fn was_asked_for(server: &Server, what: &str) -> bool {
    let asked = server.asked();
    asked
        .iter()
        .any(|one| one.first.starts_with("POST") && one.first.contains(what))
}

/// The processes of our git that talk to it, by what stands in their arguments.
pub(crate) fn gits(about: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_one = |id: &i32| {
        let read = |name: &str| std::fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
        let arguments = read("cmdline");
        let arguments = String::from_utf8_lossy(&arguments);
        read("comm").starts_with(b"git") && arguments.contains(about)
    };
    ids.filter(is_one).collect()
}

pub(crate) fn kill(ids: &[i32]) {
    let ids = ids.iter().map(i32::to_string);
    let _some_have_gone = Command::new("kill").arg("-9").args(ids).output().unwrap();
}

#[test]
fn a_server_that_ends_in_the_middle_of_a_pull() {
    if !confined() {
        return;
    }
    for mood in [
        Mood::HalfAnswer(FETCH),
        Mood::HalfRequest(FETCH, 20),
        Mood::Garbage,
        Mood::Endless,
    ] {
        let (mut world, server) = http(None);
        let main = BranchName::default();
        world.others.commit(&main, &[("a.md", Some("a\n"))]);
        let cache = world._held.as_ref().unwrap().path().join("cache");
        let limited = GitProgram::new(&cache, Support::detect());
        let limited = limited.transfer_limit(Duration::from_secs(5));
        server.is(mood.clone());
        let since = Instant::now();
        let error = wait(limited.head(&world.repo, &main)).unwrap_err();
        let kind = error.kind();
        assert!(
            matches!(
                kind,
                GitErrorKind::Failed | GitErrorKind::TimeLimit | GitErrorKind::TooLarge
            ),
            "{mood:?}: {kind:?} {error}"
        );
        assert!(error.to_string().len() < 12_000);
        assert!(since.elapsed() < Duration::from_secs(600), "{mood:?}");
        server.is(Mood::Well);
        let program = GitProgram::new(&cache, Support::detect());
        world.git = Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()));
        world.pull(&["a.md"], "/workspace").unwrap();
    }
}

#[test]
fn a_server_that_ends_in_the_middle_of_a_push() {
    if !confined() {
        return;
    }
    for (mood, after) in [
        (Mood::HalfRequest(PUSH, 20), "a\n"),
        // It has taken it, and could not say so.
        (Mood::HalfAnswer(PUSH), "mine\n"),
    ] {
        let (world, server) = http(None);
        let commit = with_one_file(&world);
        server.is(mood.clone());
        let error = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Failed, "{mood:?}: {error}");
        assert_eq!(world.there("a.md").as_deref(), Some(after), "{mood:?}");
        assert_eq!(staged(&world), 1);
        server.is(Mood::Well);
        wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
        assert_eq!(world.there("a.md").as_deref(), Some("mine\n"));
        assert_eq!(staged(&world), 0);
    }
}

#[test]
fn git_that_is_killed_leaves_nothing_in_the_way() {
    if !confined() {
        return;
    }
    for what in [FETCH, PUSH] {
        let (world, server) = http(None);
        let commit = with_one_file(&world);
        server.asked.lock().unwrap().clear();
        server.is(Mood::Silent(what));
        let approval = world.approve(&commit);
        let git = Arc::clone(&world.git);
        let push = std::thread::spawn(move || wait(git.push(approval, OnDivergence::Refuse)));
        until("it is asked", || was_asked_for(&server, what));
        let ours = gits(&server.origin);
        assert!(!ours.is_empty());
        kill(&ours);
        let error = push.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Failed, "{error}");
        assert_eq!(world.there("a.md").as_deref(), Some("a\n"));
        assert_eq!(staged(&world), 1);
        server.is(Mood::Well);
        wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
        assert_eq!(world.there("a.md").as_deref(), Some("mine\n"));
    }
}

#[test]
fn over_ssh_either_side_may_be_killed() {
    let Some(world) = over_ssh().filter(|_| confined()) else {
        return;
    };
    let held = world._held.as_ref().unwrap().path().to_owned();
    let commit = with_one_file(&world);
    let place = held.join("bare.git/hooks/pre-receive");
    // Theirs: who runs the hook goes.
    hook(&place, "kill -9 $PPID; exit 0");
    let error = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::Failed, "{error}");
    assert_eq!(world.there("a.md").as_deref(), Some("a\n"));
    assert_eq!(staged(&world), 1);
    // Ours: while the hook thinks about it.
    let (begun, go) = (held.join("begun"), held.join("go"));
    let text = format!(
        "touch {}; n=0; until [ -e {} ] || [ $n -gt 6000 ]; do n=$((n+1)); sleep 0.1; done",
        begun.display(),
        go.display()
    );
    hook(&place, &text);
    let (approval, git) = (world.approve(&commit), Arc::clone(&world.git));
    let push = std::thread::spawn(move || wait(git.push(approval, OnDivergence::Refuse)));
    until("it has begun", || begun.exists());
    let ours: Vec<i32> = gits(world.repo.to_string().as_str());
    assert!(!ours.is_empty());
    kill(&ours);
    let error = push.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::Failed, "{error}");
    assert_eq!(staged(&world), 1);
    std::fs::write(&go, "").unwrap();
    std::fs::remove_file(&place).unwrap();
    // It may still be taken over there, and is then known as ours.
    wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
    assert_eq!(world.there("a.md").as_deref(), Some("mine\n"));
    assert_eq!(staged(&world), 0);
}

/// What the process that is killed has been told.
const DIR: &str = "GIT_TEST_DIR";
const ORIGIN: &str = "GIT_TEST_ORIGIN";

fn of_process(dir: &Path) -> GitService<GitProgram> {
    let program = GitProgram::new(dir.join("cache"), Support::detect());
    let staged = dir.join("staged");
    std::fs::create_dir_all(&staged).unwrap();
    let authority = file_sandbox::cap_std::ambient_authority();
    let mount = Mount::open_ambient(SandboxPath::root(), &staged, Mode::ReadWrite, authority);
    GitService::new(program, StagedStore::new(mount.unwrap()).unwrap())
}

#[test]
#[ignore = "runs in a process of its own, which is killed"]
fn a_process_that_is_killed() {
    let (Some(dir), Ok(origin)) = (
        std::env::var_os(DIR).map(PathBuf::from),
        std::env::var(ORIGIN),
    ) else {
        return;
    };
    let (mut world, _) = http(None);
    world.git = Arc::new(of_process(&dir));
    world.repo = Repo::parse(&format!("{origin}/bare.git")).unwrap();
    world.write("/workspace/a.md", "mine\n");
    let commit = world.stage(&["/workspace/a.md"]).unwrap();
    std::fs::write(dir.join("is_staged"), "").unwrap();
    until("it may go on", || dir.join("go").exists());
    let _killed = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse));
}

#[test]
fn forge_that_is_killed_in_the_middle_of_a_push() {
    if !confined() {
        return;
    }
    for what in [FETCH, PUSH] {
        let (mut world, server) = http(None);
        let main = BranchName::default();
        world.others.commit(&main, &[("a.md", Some("a\n"))]);
        let dir = world._held.as_ref().unwrap().path().join("process");
        std::fs::create_dir(&dir).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "losses::a_process_that_is_killed"])
            .env(DIR, &dir)
            .env(ORIGIN, &server.origin)
            // What it leaves goes with us.
            .env("TMPDIR", &dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("it is staged", || dir.join("is_staged").exists());
        server.asked.lock().unwrap().clear();
        server.is(Mood::Silent(what));
        std::fs::write(dir.join("go"), "").unwrap();
        until("it is asked", || was_asked_for(&server, what));
        assert!(!gits(&server.origin).is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        until("nothing of it is left", || gits(&server.origin).is_empty());
        assert_eq!(world.there("a.md").as_deref(), Some("a\n"));
        server.is(Mood::Well);
        world.git = Arc::new(of_process(&dir));
        let still = wait(world.git.list_staged()).unwrap().commits;
        assert_eq!(still.len(), 1);
        wait(
            world
                .git
                .push(world.approve(&still[0]), OnDivergence::Refuse),
        )
        .unwrap();
        assert_eq!(world.there("a.md").as_deref(), Some("mine\n"));
        assert_eq!(staged(&world), 0);
    }
}
