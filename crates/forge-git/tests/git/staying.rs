//! What is staged outlives the process that staged it, whatever ends that.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use file_sandbox::{Mode, Mount, SandboxPath};
use forge_git::{
    BranchName, GitBackend, GitErrorKind, GitService, OnDivergence, Repo, StagedStore,
};

use crate::memory::MemoryRepositories;

use crate::world::{World, files, in_memory, wait};

/// Set for a copy of this test that stages until it is killed.
const WHERE: &str = "FORGE_TEST_STAGE_IN";

pub(crate) fn store(dir: &std::path::Path) -> StagedStore {
    let authority = file_sandbox::cap_std::ambient_authority();
    let mount = Mount::open_ambient(SandboxPath::root(), dir, Mode::ReadWrite, authority);
    StagedStore::new(mount.unwrap()).unwrap()
}

fn world(dir: &std::path::Path) -> World {
    let mut world = in_memory();
    let repositories = MemoryRepositories::new();
    world.repo = Repo::parse("octo/kept").unwrap();
    repositories.commit(
        &world.repo,
        &BranchName::default(),
        [("README.md", Some("hello\n"))],
    );
    world.git = Arc::new(GitService::new(repositories, store(dir)));
    world.files = files();
    world
}

#[test]
fn a_restart_forgets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let first = world(dir.path());
    first.write("/workspace/README.md", "staged\n");
    let staged = first.stage(&["/workspace/README.md"]).unwrap();
    drop(first);
    let second = world(dir.path());
    let kept = wait(second.git.list_staged()).unwrap().commits;
    assert_eq!(kept, std::slice::from_ref(&staged));
    wait(
        second
            .git
            .push(second.approve(&staged), OnDivergence::Refuse),
    )
    .unwrap();
    assert_eq!(wait(second.git.list_staged()).unwrap().commits, []);
}

#[test]
fn what_somebody_changed_in_the_store_is_not_pushed() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path());
    world.write("/workspace/README.md", "staged\n");
    let staged = world.stage(&["/workspace/README.md"]).unwrap();
    let place = dir.path().join("staged").join(staged.id().as_str());
    let approval = world.approve(&staged);
    let hash = file_sandbox::ContentHash::of(b"staged\n").to_string();
    std::fs::write(place.join(hash), "something else\n").unwrap();
    let error = wait(world.git.push(approval, OnDivergence::Refuse)).unwrap_err();
    assert!(
        error.to_string().contains("no longer what it was"),
        "{error}"
    );

    let approval = world.approve(&staged);
    let text = std::fs::read_to_string(place.join("commit.json")).unwrap();
    std::fs::write(
        place.join("commit.json"),
        text.replace("A change", "Another"),
    )
    .unwrap();
    let error = wait(world.git.push(approval, OnDivergence::Refuse)).unwrap_err();
    assert!(
        error.to_string().contains("no longer what was agreed to"),
        "{error}"
    );
    std::fs::write(place.join("commit.json"), &text[..text.len() / 2]).unwrap();
    assert!(
        wait(world.git.diff(staged.id()))
            .unwrap_err()
            .to_string()
            .contains("Discard it")
    );
    wait(world.git.discard(staged.id())).unwrap();
}

#[test]
fn one_that_cannot_be_read_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path());
    for (text, why) in [
        ("", "EOF"),
        ("{}", "missing field"),
        (r#"{"version":1,"more":true}"#, "unknown field"),
    ] {
        world.write("/workspace/README.md", "first\n");
        let first = world.stage(&["/workspace/README.md"]).unwrap();
        let broken = world.stage(&["/workspace/README.md"]).unwrap();
        let last = world.stage(&["/workspace/README.md"]).unwrap();
        let place = dir.path().join("staged").join(broken.id().as_str());
        std::fs::write(place.join("commit.json"), text).unwrap();
        let listed = wait(world.git.list_staged()).unwrap();
        assert_eq!(listed.commits, [first.clone(), last.clone()]);
        assert_eq!(listed.damaged.len(), 1);
        assert_eq!(listed.damaged[0].id, *broken.id());
        let told = listed.damaged[0].why.to_string();
        assert!(told.contains(why) && told.contains("Discard it"), "{told}");
        let error = wait(world.git.diff(broken.id())).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Damaged);
        for commit in [&first, &broken, &last] {
            wait(world.git.discard(commit.id())).unwrap();
        }
        assert_eq!(wait(world.git.list_staged()).unwrap(), Default::default());
    }
}

/// Not a test of its own: what `whatever_ends_it…` starts and kills.
#[test]
fn stages_until_it_is_killed() {
    let Some(dir) = std::env::var_os(WHERE) else {
        return;
    };
    let world = world(dir.as_ref());
    for round in 0.. {
        world.write("/workspace/README.md", &format!("round {round}\n"));
        world.write("/workspace/more.md", &"x\n".repeat(20_000));
        let paths = ["/workspace/README.md", "/workspace/more.md"];
        let staged = world.stage(&paths).unwrap();
        if round % 2 == 0 {
            wait(world.git.discard(staged.id())).unwrap();
        }
    }
}

#[test]
fn whatever_ends_it_a_commit_is_there_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for millis in [0, 3, 7, 11, 16, 23, 31, 40] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "staying::stages_until_it_is_killed"])
            .env(WHERE, dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Two more than there were: it is at work.
        let begun = || std::fs::read_dir(dir.path().join("staged")).map_or(0, Iterator::count);
        let (before, since) = (begun(), Instant::now());
        while begun() < before + 2 {
            assert!(
                since.elapsed() < Duration::from_secs(600),
                "it stages nothing"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
        let world = world(dir.path());
        for staged in wait(world.git.list_staged()).unwrap().commits {
            assert_eq!(staged.files().len(), 2);
            seen += 1;
            // It can be pushed, so all of its contents are there.
            let approval = world.approve(&staged);
            let fresh = MemoryRepositories::new();
            fresh.commit(
                &world.repo,
                &BranchName::default(),
                [("README.md", Some("hello\n"))],
            );
            let git = GitService::new(fresh, store(dir.path()));
            wait(git.push(approval, OnDivergence::Refuse)).unwrap();
        }
    }
    assert!(seen > 0);
}
