//! Credential helpers: asked once, as the person's own program, and believed only as far as they
//! speak the protocol.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use forge_git::{
    BranchName, Credential, Credentials, GitErrorKind, GitProgram, GitService, OnDivergence,
    StagedStore,
};
use os_sandbox::Support;

use crate::losses::{FETCH, gits, kill, until, was_asked_for};
use crate::program::{confined, hook, http};
use crate::server::{Mood, Server};
use crate::world::{World, wait};

/// me:s3cret-of-somebody
const LOGIN: &str = "Basic bWU6czNjcmV0LW9mLXNvbWVib2R5";

/// A world whose server wants a login, and a helper beside it that keeps a list of what it was asked.
fn with_helper(script: &str) -> (World, Server, Credentials, std::path::PathBuf) {
    let (mut world, server) = http(Some(LOGIN.to_owned()));
    let held = world._held.as_ref().unwrap().path().to_owned();
    let (helper, log) = (held.join("helper"), held.join("asked"));
    let log_at = log.display();
    let script = format!(
        "{{ echo \"$@\"; cat; env; }} >> {log_at}\n{}",
        script.replace("GOOD", "echo username=me; echo password=s3cret-of-somebody")
    );
    hook(&helper, &script);
    let path = (OsString::from("PATH"), OsString::from("/usr/bin:/bin"));
    let home = (OsString::from("HOME"), OsString::from("/nowhere"));
    let credential = Credential::helper([helper.as_os_str(), "--flag".as_ref()], [path, home]);
    let credentials = Credentials::new()
        .with(&server.origin, credential.unwrap())
        .unwrap();
    world.git = with(&held, &credentials);
    let main = BranchName::default();
    world.others.commit(&main, &[("a.md", Some("a\n"))]);
    (world, server, credentials, log)
}

fn with(held: &Path, credentials: &Credentials) -> Arc<dyn forge_git::GitBackend> {
    let program = GitProgram::new(held.join("cache"), Support::detect());
    let program = program.credentials(credentials.clone());
    Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()))
}

#[test]
fn a_helper_is_asked_once_and_for_its_server_only() {
    if !confined() {
        return;
    }
    let (world, server, credentials, log) = with_helper("GOOD");
    assert_eq!(credentials.secrets(), Vec::<String>::new());
    world.pull(&["a.md"], "/workspace").unwrap();
    world.write("/workspace/a.md", "mine\n");
    let commit = world.stage(&["/workspace/a.md"]).unwrap();
    wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
    assert_eq!(credentials.secrets(), ["s3cret-of-somebody"]);
    let asked = std::fs::read_to_string(&log).unwrap();
    let host = server.origin.strip_prefix("http://").unwrap();
    let told = format!("--flag get\nprotocol=http\nhost={host}\n\n");
    assert!(asked.starts_with(&told), "{asked}");
    assert_eq!(asked.matches("--flag").count(), 1, "{asked}");
    // Of the environment it has what it was given.
    let variables = asked[told.len()..].lines();
    let names: Vec<&str> = variables
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    for name in names {
        let known = [
            "PATH",
            "HOME",
            "GIT_TERMINAL_PROMPT",
            "PWD",
            "SHLVL",
            "_",
            "OLDPWD",
        ];
        assert!(known.contains(&name), "{name}");
    }
    // It is in no file of ours, and in no text.
    let held = world._held.as_ref().unwrap().path();
    let kept = std::process::Command::new("grep")
        .args(["-rlF", "s3cret-of-somebody"])
        .arg(held.join("cache"))
        .output()
        .unwrap();
    assert_eq!(kept.stdout, b"");
    assert!(!format!("{credentials:?}").contains("s3cret"));
}

#[test]
fn a_wrong_answer_is_taken_back_and_not_asked_for_at_once() {
    if !confined() {
        return;
    }
    let (world, server, credentials, log) =
        with_helper("echo username=me; echo password=wr0ng-of-somebody");
    for _ in 0..3 {
        let error = world.pull(&["a.md"], "/workspace").unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Authentication, "{error}");
        assert!(!error.to_string().contains("wr0ng"), "{error}");
    }
    let asked = std::fs::read_to_string(&log).unwrap();
    assert_eq!(asked.matches("--flag get").count(), 1, "{asked}");
    assert_eq!(asked.matches("--flag erase").count(), 1, "{asked}");
    assert!(asked.contains("password=wr0ng-of-somebody"), "{asked}");
    assert!(!asked.contains("--flag store"), "{asked}");
    assert_eq!(credentials.secrets(), Vec::<String>::new());
    // A right that is missing is no wrong password.
    let (world, server_of_another, _, log) = with_helper("GOOD");
    drop(server);
    server_of_another.is(Mood::Status("403 Forbidden"));
    world.pull(&["a.md"], "/workspace").unwrap_err();
    let asked = std::fs::read_to_string(&log).unwrap();
    assert!(!asked.contains("--flag erase"), "{asked}");
}

#[test]
fn a_helper_that_has_no_answer_says_why() {
    if !confined() {
        return;
    }
    for (script, why) in [
        (
            "echo 'no keyring here' >&2; exit 3",
            "failed: no keyring here",
        ),
        ("exit 1", "failed"),
        ("true", "knows no user and password"),
        (
            "printf 'username=me\\r\\npassword=x\\r\\n'",
            "control characters",
        ),
        ("echo host=evil.example; GOOD", "another server"),
        ("echo quit=1", "nobody is to be asked"),
        ("yes username=me", "without end"),
    ] {
        let (world, server, _, _) = with_helper(script);
        let error = world.pull(&["a.md"], "/workspace").unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), GitErrorKind::Authentication, "{text}");
        assert!(text.contains(why), "{why}: {text}");
        assert!(text.contains("token_env: GIT_TOKEN"), "{text}");
        assert!(
            server
                .asked()
                .iter()
                .all(|one| one.authorization.is_empty())
        );
    }
    let missing = Credential::helper(["/no/such/helper"], []).unwrap();
    let (mut world, server) = http(Some(LOGIN.to_owned()));
    let credentials = Credentials::new().with(&server.origin, missing).unwrap();
    let held = world._held.as_ref().unwrap().path().to_owned();
    world.git = with(&held, &credentials);
    let error = world.pull(&["a.md"], "/workspace").unwrap_err();
    assert!(error.to_string().contains("cannot be started"), "{error}");
    // A variable that is named and not set.
    let absent = Credential::absent("GIT_TOKEN, which is named for it, is not set");
    let credentials = Credentials::new().with(&server.origin, absent).unwrap();
    world.git = with(&held, &credentials);
    let error = world.pull(&["a.md"], "/workspace").unwrap_err();
    assert!(
        error.to_string().contains("and GIT_TOKEN, which is named"),
        "{error}"
    );
}

#[test]
fn what_a_server_repeats_of_a_login_is_not_told() {
    if !confined() {
        return;
    }
    let (mut world, server) = http(None);
    let main = BranchName::default();
    world.others.commit(&main, &[("a.md", Some("a\n"))]);
    let token = "t0ken-of-somebody";
    let credential = Credential::token(token).unwrap();
    let credentials = Credentials::new().with(&server.origin, credential).unwrap();
    let held = world._held.as_ref().unwrap().path().to_owned();
    world.git = with(&held, &credentials);
    world.write("/workspace/a.md", "mine\n");
    let commit = world.stage(&["/workspace/a.md"]).unwrap();
    // x-access-token:t0ken-of-somebody
    let encoded = "eC1hY2Nlc3MtdG9rZW46dDBrZW4tb2Ytc29tZWJvZHk=";
    let says = format!("echo you are {token} or {encoded} >&2; exit 1");
    hook(&held.join("served/bare.git/hooks/pre-receive"), &says);
    let error = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("you are … or …"), "{text}");
    assert!(
        server
            .asked()
            .iter()
            .any(|one| one.authorization.contains(encoded))
    );
}

#[test]
fn a_login_is_in_no_argument_while_it_is_used() {
    if !confined() {
        return;
    }
    let (world, server, credentials, _) = with_helper("GOOD");
    server.is(Mood::Silent(FETCH));
    let pull = std::thread::spawn(move || world.pull(&["a.md"], "/workspace").unwrap_err());
    until("it is asked", || was_asked_for(&server, FETCH));
    assert_eq!(credentials.secrets(), ["s3cret-of-somebody"]);
    let encoded = LOGIN.strip_prefix("Basic ").unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut looked_at = 0;
    for process in processes {
        let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments);
        for secret in ["s3cret-of-somebody", encoded] {
            assert!(!arguments.contains(secret), "{arguments}");
        }
        looked_at += usize::from(arguments.contains(&server.origin));
    }
    assert!(looked_at > 0);
    let ours = gits(&server.origin);
    assert!(!ours.is_empty());
    kill(&ours);
    pull.join().unwrap();
}
