//! Repositories of others: over file, http, https and ssh, and what their servers say no with.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use forge_git::{
    BranchName, Credential, Credentials, GitErrorKind, GitProgram, GitRepositories as _,
    GitService, OnDivergence, Repo, StagedStore,
};
use os_sandbox::Support;

use crate::program::{Bare, confined, git, hook, http, over_file, over_http, world_by};
use crate::server::{Mood, Server, certificate, serve_with};
use crate::sshd::{Sshd, sshd};
use crate::world::{World, wait};

/// Every place with a git program over there.
pub(crate) fn everywhere() -> Vec<World> {
    let mut worlds = vec![over_file(), over_http()];
    worlds.extend(over_https());
    worlds.extend(over_ssh());
    worlds
}

/// A git program that reaches the world's repository, with a cache of its own.
pub(crate) fn program(world: &World, cache: &Path) -> GitProgram {
    let program = GitProgram::new(cache, Support::detect());
    match (world.name, sshd()) {
        ("ssh", Some(sshd)) => program.credentials(sshd.credentials()),
        ("https", _) => program.certificates(world._held.as_ref().unwrap().path().join("ca.pem")),
        _ => program,
    }
}

pub(crate) fn over_ssh() -> Option<World> {
    let sshd = sshd()?;
    let held = tempfile::tempdir().unwrap();
    let bare = Bare::make(held.path().join("bare.git"), "pre-receive");
    bare.gives_single_files();
    let repo = Repo::parse(&format!("{}{}", sshd.origin, bare.dir.display())).unwrap();
    let program = GitProgram::new(held.path().join("cache"), Support::detect());
    let program = program.credentials(sshd.credentials());
    Some(world_by(program, "ssh", held, bare, repo))
}

fn https() -> Option<(World, Server)> {
    type Made = Option<(Arc<rustls::ServerConfig>, Vec<u8>)>;
    static ONE: OnceLock<Made> = OnceLock::new();
    let (config, authority) = ONE.get_or_init(|| made("IP:127.0.0.1")).as_ref()?;
    let held = tempfile::tempdir().unwrap();
    std::fs::write(held.path().join("ca.pem"), authority).unwrap();
    let bare = Bare::make(held.path().join("served/bare.git"), "pre-receive");
    let server = serve_with(&held.path().join("served"), None, Some(Arc::clone(config)));
    let repo = Repo::parse(&format!("{}/bare.git", server.origin)).unwrap();
    let program = GitProgram::new(held.path().join("cache"), Support::detect());
    let program = program.certificates(held.path().join("ca.pem"));
    Some((world_by(program, "https", held, bare, repo), server))
}

#[expect(clippy::print_stderr, reason = "a skip is seen, with its reason")]
fn made(names: &str) -> Option<(Arc<rustls::ServerConfig>, Vec<u8>)> {
    let scratch = tempfile::tempdir().unwrap();
    let authority = scratch.path().join("ca.pem");
    match certificate(names, &authority) {
        Ok(config) => Some((config, std::fs::read(authority).unwrap())),
        Err(why) => {
            eprintln!("skipped: repositories over https: {why}");
            None
        }
    }
}

pub(crate) fn over_https() -> Option<World> {
    https().map(|(world, _)| world)
}

fn remote() -> Vec<World> {
    let mut worlds = everywhere();
    worlds.retain(|world| world.name != "file");
    worlds
}

/// Text that no compression makes much smaller.
pub(crate) fn noise(bytes: usize, seed: u64) -> String {
    let mut state = seed;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
    };
    (0..bytes).map(|_| letter()).collect()
}

fn bare(world: &World) -> std::path::PathBuf {
    let held = world._held.as_ref().unwrap().path();
    let served = held.join("served/bare.git");
    match served.is_dir() {
        true => served,
        false => held.join("bare.git"),
    }
}

fn with_one_file(world: &World, text: &str) -> forge_git::StagedCommit {
    let main = BranchName::default();
    world.others.commit(&main, &[("a.md", Some("a\n"))]);
    world.write("/workspace/a.md", text);
    world.stage(&["/workspace/a.md"]).unwrap()
}

#[test]
fn what_a_server_refuses_is_told_and_stays_staged() {
    if !confined() {
        return;
    }
    let rows = [
        (
            "pre-receive",
            "printf 'not \\033[31mon\\033[2J fridays\\n' >&2; exit 1",
            "fridays",
        ),
        (
            "pre-receive",
            "i=0; while [ $i -lt 2000 ]; do echo \"line $i of very many\"; i=$((i+1)); done; exit 1",
            "line 3 of very many",
        ),
        (
            "update",
            "echo 'error: GH006: Protected branch update failed for refs/heads/main.' >&2\n\
             echo 'error: Changes must be made through a pull request.' >&2; exit 1",
            "GH006: Protected branch update failed",
        ),
        // Words that mean something else where git says them.
        (
            "pre-receive",
            "echo 'stale info, fetch first: non-fast-forward' >&2; exit 1",
            "stale info",
        ),
    ];
    let worlds: Vec<(usize, usize)> = (0..rows.len())
        .flat_map(|row| (0..remote().len()).map(move |world| (row, world)))
        .collect();
    let count = remote().len();
    // Each row by one transport in a sample, and each transport with a row.
    let by_turns = |_, &(row, world): &(usize, usize)| row % count == world;
    for (row, world) in test_sample::cases("push: refusal × transport", worlds, by_turns) {
        let (at, script, told) = rows[row];
        let world = remote().remove(world);
        hook(&bare(&world).join("hooks").join(at), script);
        let commit = with_one_file(&world, "mine\n");
        let error = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap_err();
        let text = error.to_string();
        assert_eq!(
            error.kind(),
            GitErrorKind::Rejected,
            "{}: {text}",
            world.name
        );
        assert!(text.contains(told), "{}: {text}", world.name);
        assert!(text.contains("hook declined"), "{}: {text}", world.name);
        assert!(!text.contains('\x1b'), "{text:?}");
        assert!(text.len() < 12_000, "{} bytes", text.len());
        assert_eq!(world.there("a.md").as_deref(), Some("a\n"));
        let staged = wait(world.git.list_staged()).unwrap();
        assert_eq!(staged.commits.len(), 1, "{}", world.name);
    }
}

#[test]
fn settings_of_a_server_that_say_no_are_obeyed() {
    if !confined() {
        return;
    }
    for world in remote() {
        let place = bare(&world);
        let place = place.to_str().unwrap();
        let commit = with_one_file(&world, "mine\n");
        git(["-C", place, "config", "receive.maxInputSize", "20"], b"");
        let error = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap_err();
        let (name, kind) = (world.name, error.kind());
        assert!(
            matches!(kind, GitErrorKind::Rejected | GitErrorKind::Failed),
            "{name}: {error}"
        );
        assert_eq!(world.there("a.md").as_deref(), Some("a\n"));
        git(
            ["-C", place, "config", "--unset", "receive.maxInputSize"],
            b"",
        );
        wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
        assert_eq!(world.there("a.md").as_deref(), Some("mine\n"), "{name}");
    }
}

#[test]
fn what_is_large_goes_in_pieces() {
    if !confined() {
        return;
    }
    // Git sends more than 1 MiB in chunks.
    let much = noise(3 << 20, 1);
    // What is no text is shown by its size.
    let much = format!("\0{much}");
    let (over_http, server) = http(None);
    let mut worlds = everywhere();
    worlds.push(over_http);
    for world in worlds {
        let main = BranchName::default();
        world.others.commit(&main, &[("a.md", Some("a\n"))]);
        world.write("/workspace/a.md", &much);
        let commit = world.stage(&["/workspace/a.md"]).unwrap();
        wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
        assert!(
            world.there("a.md").as_deref() == Some(&much),
            "{}",
            world.name
        );
        std::fs::remove_dir_all(world._held.as_ref().unwrap().path().join("cache")).unwrap();
        let away = world.files.path("/workspace/a.md").unwrap();
        world.files.delete(&away).unwrap();
        world.pull(&["a.md"], "/workspace").unwrap();
        let pulled = world.files.read_bytes(&away, 4 << 20).unwrap();
        assert!(pulled == much.as_bytes(), "{}", world.name);
    }
    assert!(server.asked().iter().any(|one| one.chunked));
}

#[test]
fn of_the_files_there_only_those_asked_for_are_fetched() {
    if !confined() {
        return;
    }
    let much = noise(3 << 20, 1);
    let worlds = [Some(over_http()), over_ssh()];
    for world in worlds.into_iter().flatten() {
        let main = BranchName::default();
        let files = [("a.md", Some("a\n")), ("much", Some(much.as_str()))];
        world.others.commit(&main, &files);
        let cache = world._held.as_ref().unwrap().path().join("cache");
        world.pull(&["a.md"], "/workspace").unwrap();
        world.write("/workspace/a.md", "mine\n");
        let commit = world.stage(&["/workspace/a.md"]).unwrap();
        wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
        assert_eq!(world.there("a.md").as_deref(), Some("mine\n"));
        let before = crate::cache::bytes(&cache);
        assert!(before < 1 << 20, "{}: {before}", world.name);
        world.pull(&["much", "a.md"], "/workspace").unwrap();
        let at = world.files.path("/workspace/much").unwrap();
        let pulled = world.files.read_bytes(&at, 4 << 20).unwrap();
        assert!(pulled == much.as_bytes(), "{}", world.name);
        assert!(crate::cache::bytes(&cache) > 2 << 20);
        // Others, on top of it.
        world
            .others
            .commit(&main, &[("b.md", Some("b\n")), ("a.md", Some("theirs\n"))]);
        world.pull(&["a.md", "b.md"], "/workspace").unwrap();
        assert_eq!(world.text("/workspace/a.md"), "theirs\n");
    }
}

#[test]
fn a_server_that_gives_no_single_files_is_asked_for_all() {
    if !confined() {
        return;
    }
    let (world, server) = http(None);
    server.old.store(true, std::sync::atomic::Ordering::SeqCst);
    let main = BranchName::default();
    world.others.commit(&main, &[("a.md", Some("a\n"))]);
    let error = world.pull(&["a.md"], "/workspace").unwrap_err();
    assert!(error.to_string().contains("Try again"), "{error}");
    for seed in 1..3 {
        world.pull(&["a.md"], "/workspace").unwrap();
        let text = noise(100, seed);
        world.others.commit(&main, &[("a.md", Some(text.as_str()))]);
    }
    world.write("/workspace/a.md", "mine\n");
    let commit = world.stage(&["/workspace/a.md"]).unwrap();
    wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
}

#[test]
fn a_web_server_has_to_prove_who_it_is() {
    if !confined() {
        return;
    }
    let Some((mut world, server)) = https() else {
        return;
    };
    let main = BranchName::default();
    world.others.commit(&main, &[("a.md", Some("a\n"))]);
    world.pull(&["a.md"], "/workspace").unwrap();
    let held = world._held.as_ref().unwrap().path().to_owned();
    // By the system's own list, which is seen, and does not know it.
    let program = GitProgram::new(held.join("cache"), Support::detect());
    let error = wait(program.head(&world.repo, &main)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("does not prove that it is the one"), "{text}");
    assert!(!text.contains("error adding trust anchors"), "{text}");
    assert!(!text.contains("setting certificate"), "{text}");
    // Another name than the certificate's.
    let port = server.origin.rsplit_once(':').unwrap().1;
    let other = Repo::parse(&format!("https://localhost:{port}/bare.git")).unwrap();
    let program = program.certificates(held.join("ca.pem"));
    let error = wait(program.head(&other, &main)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("does not prove that it is the one"), "{text}");
    // A list that is not there is not replaced by another.
    let program = program.certificates(held.join("nowhere.pem"));
    let error = wait(program.head(&world.repo, &main)).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    // No login goes to a server that is not the one.
    let credentials = Credentials::new();
    let token = Credential::token("t0ken-of-somebody").unwrap();
    let credentials = credentials.with(&server.origin, token).unwrap();
    let program = GitProgram::new(held.join("cache"), Support::detect()).credentials(credentials);
    world.git = Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()));
    world.pull(&["a.md"], "/workspace").unwrap_err();
    assert!(
        server
            .asked()
            .iter()
            .all(|one| one.authorization.is_empty())
    );
}

#[test]
fn a_server_that_hides_or_forbids_is_said_to_want_a_name() {
    if !confined() {
        return;
    }
    for (status, shown, kind, told) in [
        (
            "404 Not Found",
            false,
            GitErrorKind::Authentication,
            "or is hidden",
        ),
        (
            "403 Forbidden",
            false,
            GitErrorKind::Authentication,
            "requires credentials",
        ),
        (
            "401 Unauthorized",
            false,
            GitErrorKind::Authentication,
            "requires credentials",
        ),
        (
            "404 Not Found",
            true,
            GitErrorKind::NotFound,
            "no repository",
        ),
        (
            "403 Forbidden",
            true,
            GitErrorKind::Authentication,
            "rejected the configured credentials",
        ),
        (
            "401 Unauthorized",
            true,
            GitErrorKind::Authentication,
            "rejected the configured credentials",
        ),
        (
            "500 Internal Server Error",
            true,
            GitErrorKind::Failed,
            "500",
        ),
    ] {
        let (world, server) = http(None);
        server.is(Mood::Status(status));
        let mut program = program(&world, &world._held.as_ref().unwrap().path().join("c"));
        if shown {
            let token = Credential::token("t0ken-of-somebody").unwrap();
            let credentials = Credentials::new().with(&server.origin, token).unwrap();
            program = program.credentials(credentials);
        }
        let error = wait(program.head(&world.repo, &BranchName::default())).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{status}: {text}");
        assert!(text.contains(told), "{status}: {text}");
        if kind == GitErrorKind::Authentication {
            let example = format!("\"{}\": {{ token_env: GIT_TOKEN }}", server.origin);
            assert!(text.contains(&example), "{text}");
            assert!(
                text.contains("helper: [git-credential-libsecret]"),
                "{text}"
            );
        }
        assert!(!text.contains("t0ken"), "{text}");
    }
}

#[test]
fn another_server_is_not_gone_to() {
    if !confined() {
        return;
    }
    let (mut world, server) = http(None);
    let (other, elsewhere) = http(None);
    let main = BranchName::default();
    for one in [&world, &other] {
        one.others.commit(&main, &[("a.md", Some("a\n"))]);
    }
    server.is(Mood::Elsewhere(elsewhere.origin.clone()));
    let token = Credential::token("t0ken-of-somebody").unwrap();
    let credentials = Credentials::new().with(&server.origin, token).unwrap();
    let cache = world._held.as_ref().unwrap().path().join("cache");
    let program = GitProgram::new(cache, Support::detect()).credentials(credentials);
    world.git = Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()));
    let error = world.pull(&["a.md"], "/workspace").unwrap_err();
    assert!(error.to_string().contains("302"), "{error}");
    assert_ne!(server.asked()[0].authorization, "");
    assert_eq!(elsewhere.asked().len(), 0);
}

fn ssh_error(sshd: &Sshd, world: &World, agent: &str, known: &str) -> forge_git::GitError {
    let cache = world._held.as_ref().unwrap().path().join("cache");
    let program = GitProgram::new(cache, Support::detect());
    let program = program.credentials(sshd.credentials_with(agent, known));
    wait(program.head(&world.repo, &BranchName::default())).unwrap_err()
}

#[test]
fn an_ssh_server_is_known_and_knows_who_is_asking() {
    let Some((sshd, world)) = sshd().zip(over_ssh()).filter(|_| confined()) else {
        return;
    };
    let scan = format!("ssh-keyscan -p {} 127.0.0.1", sshd.port);
    for (agent, known, told) in [
        ("agent", "unknown", vec!["is not known", scan.as_str()]),
        (
            "agent",
            "changed",
            vec![
                "is not the one that is known",
                "ssh-keygen -R '[127.0.0.1]:",
            ],
        ),
        (
            "empty",
            "known",
            vec![
                "takes no key of the ssh agent",
                "ssh-add -l",
                "https address",
            ],
        ),
        (
            "nowhere",
            "known",
            vec!["the ssh agent that is named", "agent: true"],
        ),
        (
            "agent",
            "nowhere",
            vec!["the list of known hosts that is named"],
        ),
        // A file is no agent.
        ("key", "known", vec!["takes no key of the ssh agent"]),
    ] {
        let error = ssh_error(sshd, &world, agent, known);
        let text = error.to_string();
        assert_eq!(error.kind(), GitErrorKind::Authentication, "{text}");
        for part in told {
            assert!(text.contains(part), "{part}: {text}");
        }
        let dir = sshd.at("");
        assert!(!text.contains(dir.to_str().unwrap()), "{text}");
    }
    // Nobody is named at all.
    let program = GitProgram::new(
        world._held.as_ref().unwrap().path().join("c"),
        Support::detect(),
    );
    let error = wait(program.head(&world.repo, &BranchName::default())).unwrap_err();
    let example = format!("\"{}\": {{ agent: true", sshd.origin);
    assert!(error.to_string().contains(&example), "{error}");
    // A repository that is not there.
    let nowhere = Repo::parse(&format!("{}/nowhere.git", sshd.origin)).unwrap();
    let program = program.credentials(sshd.credentials());
    let error = wait(program.head(&nowhere, &BranchName::default())).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::NotFound, "{error}");
    // Nobody is there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let origin = format!("ssh://127.0.0.1:{port}");
    let agent = Credential::agent(sshd.at("agent"), sshd.at("known")).unwrap();
    let program = program.credentials(Credentials::new().with(&origin, agent).unwrap());
    let nobody = Repo::parse(&format!("{origin}/x.git")).unwrap();
    let error = wait(program.head(&nobody, &BranchName::default())).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("Connection refused"), "{error}");
    let nobody = Repo::parse(&format!("http://127.0.0.1:{port}/x.git")).unwrap();
    let error = wait(program.head(&nobody, &BranchName::default())).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::Unreachable, "{error}");
}

#[test]
fn of_a_person_ssh_reads_nothing() {
    let Some((sshd, world)) = sshd().zip(over_ssh()).filter(|_| confined()) else {
        return;
    };
    let main = BranchName::default();
    world.others.commit(&main, &[("a.md", Some("a\n"))]);
    world.pull(&["a.md"], "/workspace").unwrap();
    let error = ssh_error(sshd, &world, "agent", "unknown");
    assert_eq!(error.kind(), GitErrorKind::Authentication);
    // It was not taken for the right one, and nothing was written down.
    assert_eq!(std::fs::read(sshd.at("unknown")).unwrap(), b"");
}
