//! Repositories of this machine that were made to be obeyed: whatever they name as a program is not
//! started, whatever they point to outside of themselves is not read, and what cannot be had is said
//! in few words. One check for all of them.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use file_sandbox::SandboxPath;
use forge_git::{
    BranchName, GitError, GitProgram, GitService, OnDivergence, Repo, SecretPolicy, StageRequest,
    StagedStore,
};
use os_sandbox::Support;

use crate::program::{Bare, confined, git, hook, world};
use crate::world::{Others as _, World, wait};

/// No row may take longer, on a slow machine with others at work.
const LONG: Duration = Duration::from_secs(600);
/// What stands in a repository that is none of this one's business.
const SECRET: &str = "content-of-another-repository";

/// A bare repository `hostile.git` with `a.md` on `main` and on `other`, what a row makes of it, and
/// a repository of somebody else beside it.
struct Hostile {
    held: PathBuf,
    dir: PathBuf,
    secret: PathBuf,
    /// A command that leaves `trap` in every place that a program started here could write to, also
    /// with words behind it.
    trap: String,
}

impl Hostile {
    fn set(&self, key: &str, value: &str) {
        git(
            ["--git-dir", self.text(&self.dir), "config", key, value],
            b"",
        );
    }

    fn hook(&self, name: &str) {
        hook(&self.dir.join("hooks").join(name), &self.trap);
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let at = self.dir.join(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, text).unwrap();
    }

    fn remove(&self, path: &str) {
        let _not_there = std::fs::remove_file(self.dir.join(path));
    }

    fn rev(&self, name: &str) -> String {
        let id = git(["--git-dir", self.text(&self.dir), "rev-parse", name], b"");
        String::from_utf8(id).unwrap().trim().to_owned()
    }

    fn run(&self, args: &[&str], stdin: &[u8]) -> Vec<u8> {
        let first = ["--git-dir", self.text(&self.dir)];
        git(first.iter().chain(args), stdin)
    }

    fn text<'a>(&self, path: &'a Path) -> &'a str {
        path.to_str().unwrap()
    }
}

/// What is to come of it, at best: what it must not be is checked of every row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ends {
    /// Pulled, staged and pushed as if there were nothing.
    Goes,
    /// Pulled and staged, and the push is refused.
    NoPush,
    /// Nothing can be had of it.
    Nothing,
}
use Ends::{Goes, NoPush, Nothing};

type Row = (&'static str, Ends, fn(&Hostile));

/// Those that git asks, or tells, on the side that is pushed to; and all that it knows elsewhere.
const ASKED: [&str; 5] = [
    "pre-receive",
    "update",
    "proc-receive",
    "reference-transaction",
    "push-to-checkout",
];
const TOLD: [&str; 24] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "post-receive",
    "post-update",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "post-index-change",
    "query-watchman",
];
/// Every setting that names a program, to some command of git.
const PROGRAMS: [&str; 36] = [
    "core.fsmonitor",
    "core.sshCommand",
    "core.gitProxy",
    "core.pager",
    "core.editor",
    "core.askPass",
    "core.alternateRefsCommand",
    "credential.helper",
    "sequence.editor",
    "diff.external",
    "diff.x.command",
    "diff.x.textconv",
    "filter.x.clean",
    "filter.x.smudge",
    "filter.x.process",
    "merge.x.driver",
    "merge.tool",
    "mergetool.x.cmd",
    "difftool.x.cmd",
    "uploadpack.packObjectsHook",
    "gc.recentObjectsHook",
    "gpg.program",
    "gpg.ssh.program",
    "gpg.ssh.defaultKeyCommand",
    "alias.upload-pack",
    "alias.receive-pack",
    "alias.pack-objects",
    "alias.index-pack",
    "alias.unpack-objects",
    "alias.rev-list",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "remote.origin.vcs",
    "trailer.x.cmd",
    "imap.tunnel",
    "sendemail.smtpserver",
];

const ROWS: &[Row] = &[
    ("nothing", Goes, |_| {}),
    ("hooks that are told", Goes, |it| {
        TOLD.into_iter().for_each(|name| it.hook(name));
    }),
    ("hooks that are asked", NoPush, |it| {
        ASKED.into_iter().for_each(|name| it.hook(name));
    }),
    ("hooks behind a link", NoPush, |it| {
        let real = it.dir.join("real");
        ASKED
            .into_iter()
            .for_each(|name| hook(&real.join(name), &it.trap));
        std::fs::remove_dir_all(it.dir.join("hooks")).unwrap();
        symlink(real, it.dir.join("hooks")).unwrap();
    }),
    ("settings that name programs", Goes, |it| {
        PROGRAMS.into_iter().for_each(|key| it.set(key, &it.trap));
        it.write("info/attributes", "* filter=x diff=x merge=x\n");
    }),
    ("hooks elsewhere", NoPush, |it| {
        hook(&it.dir.join("real/update"), &it.trap);
        it.set("core.hooksPath", "real");
    }),
    ("hooks elsewhere, by an include", NoPush, |it| {
        hook(&it.dir.join("real/update"), &it.trap);
        it.write("more", "[core]\n\thooksPath = real\n\tfsmonitor = x\n");
        it.set("include.path", "more");
    }),
    ("hooks elsewhere, by a condition", NoPush, |it| {
        it.write("more", "[core]\n\thooksPath = real\n");
        it.set("includeIf.gitdir:/**.path", "more");
    }),
    (
        "hooks elsewhere, by a configuration of the worktree",
        NoPush,
        |it| {
            it.set("core.repositoryFormatVersion", "1");
            it.set("extensions.worktreeConfig", "true");
            it.write("config.worktree", "[core]\n\tHOOKSPATH = real\n");
        },
    ),
    ("addresses in place of others", Goes, |it| {
        it.set("url.ext::sh -c x.insteadOf", "other");
        it.set("url.ext::sh -c x.pushInsteadOf", "other");
        it.write("remotes/other", "URL: ext::sh -c x\n");
        it.set("protocol.ext.allow", "always");
    }),
    ("a worktree of the whole machine", Goes, |it| {
        it.set("core.bare", "true");
        it.set("core.worktree", "/");
    }),
    ("an extension that nobody knows", Nothing, |it| {
        it.set("core.repositoryFormatVersion", "1");
        it.set("extensions.surprise", "true");
    }),
    ("a version that nobody knows", Nothing, |it| {
        it.set("core.repositoryFormatVersion", "99");
    }),
    ("what is missing is fetched by a program", Nothing, |it| {
        it.set("core.repositoryFormatVersion", "1");
        it.set("extensions.partialClone", "evil");
        it.set("remote.evil.promisor", "true");
        it.set("remote.evil.url", &format!("ext::sh -c '{}'", it.trap));
        it.set("protocol.ext.allow", "always");
        loosen(it);
        let blob = it.rev("main:a.md");
        it.remove(&format!("objects/{}/{}", &blob[..2], &blob[2..]));
    }),
    ("objects of another repository", Nothing, |it| {
        elsewhere(it, it.text(&it.secret.join("objects")));
    }),
    ("objects of another repository, from here", Nothing, |it| {
        elsewhere(it, "../../secret.git/objects");
    }),
    ("objects of another repository, by a link", Nothing, |it| {
        std::fs::remove_dir_all(it.dir.join("objects")).unwrap();
        symlink(it.secret.join("objects"), it.dir.join("objects")).unwrap();
        it.write("refs/heads/main", secret_head(it));
    }),
    ("a branch that is a link to a file outside", Nothing, |it| {
        it.remove("packed-refs");
        it.remove("refs/heads/main");
        let to = it.held.join("key");
        symlink(to, it.dir.join("refs/heads/main")).unwrap();
    }),
    (
        "packed branches that are a link to a file outside",
        Nothing,
        |it| {
            it.remove("refs/heads/main");
            it.remove("packed-refs");
            symlink(it.held.join("key"), it.dir.join("packed-refs")).unwrap();
        },
    ),
    (
        "a configuration that is a link to a file outside",
        Goes,
        |it| {
            it.remove("config");
            symlink(it.held.join("key"), it.dir.join("config")).unwrap();
        },
    ),
    ("a configuration with no end", Nothing, |it| {
        it.remove("config");
        symlink("/dev/zero", it.dir.join("config")).unwrap();
    }),
    (
        "a configuration that nobody ever writes to",
        Nothing,
        |it| {
            it.remove("config");
            pipe(&it.dir.join("config"));
        },
    ),
    ("a head that nobody ever writes to", Nothing, |it| {
        it.remove("HEAD");
        pipe(&it.dir.join("HEAD"));
    }),
    ("a branch that nobody ever writes to", Nothing, |it| {
        it.remove("packed-refs");
        it.remove("refs/heads/main");
        pipe(&it.dir.join("refs/heads/main"));
    }),
    ("another content in place of one", Goes, |it| {
        let other = it.run(&["hash-object", "-w", "--stdin"], b"replaced\n");
        let other = String::from_utf8(other).unwrap();
        it.run(&["replace", &it.rev("main:a.md"), other.trim()], b"");
    }),
    ("another parent in place of one", Goes, |it| {
        it.write(
            "info/grafts",
            format!("{} {}\n", it.rev("main"), it.rev("other")),
        );
    }),
    ("a history that is cut off", Goes, |it| {
        it.write("shallow", format!("{}\n", it.rev("main")));
    }),
    ("branches with names of no branch", NoPush, |it| {
        for name in [
            "a\nb",
            "..",
            "-u",
            "--upload-pack=x",
            "\u{1b}[2J",
            "caf\u{e9}",
        ] {
            let at = it.dir.join("refs/heads").join(format!("{name} "));
            std::fs::write(at, format!("{}\n", it.rev("main"))).unwrap();
        }
    }),
    ("a hundred thousand branches", Goes, |it| {
        let id = it.rev("main");
        let rows = (0..100_000).map(|n| format!("{id} refs/heads/n{n:06}\n"));
        it.write("packed-refs", rows.collect::<String>());
    }),
    ("packed branches that are none", Nothing, |it| {
        it.remove("refs/heads/main");
        it.write(
            "packed-refs",
            "\x1b]0;owned\x07 refs/heads/main\n".repeat(10_000),
        );
    }),
    ("a branch that is a file", Nothing, |it| {
        it.write("refs/heads/main", format!("{}\n", it.rev("main:a.md")));
        it.remove("packed-refs");
    }),
    ("a branch that leads to itself", Nothing, |it| {
        it.remove("packed-refs");
        it.write("refs/heads/main", "ref: refs/heads/main\n");
    }),
    ("a branch that climbs", Nothing, |it| {
        it.remove("packed-refs");
        it.write("refs/heads/main", "ref: refs/../../key\n");
    }),
    ("an object that is not what it was", Nothing, |it| {
        loosen(it);
        let blob = it.rev("main:a.md");
        let at = format!("objects/{}/{}", &blob[..2], &blob[2..]);
        it.remove(&at);
        it.write(&at, b"x\x9c\x4b\xca\xc9\x4f\x52\x30");
    }),
    ("an object that is missing", Nothing, |it| {
        loosen(it);
        let blob = it.rev("main:a.md");
        it.remove(&format!("objects/{}/{}", &blob[..2], &blob[2..]));
    }),
    ("dates and names beyond all bounds", Goes, |it| {
        let top = it.rev("main^{tree}");
        let who = format!("{} <x> 99999999999999999999 +9999", "n".repeat(100_000));
        commit(
            it,
            &format!("tree {top}\nauthor {who}\ncommitter {who}\n\nx\n"),
        );
    }),
    ("a message of 20 MB", Goes, |it| {
        let top = it.rev("main^{tree}");
        let text = "\x1b[2Jm".repeat(4 << 20);
        commit(
            it,
            &format!("tree {top}\nauthor x <x> 0 +0000\ncommitter x <x> 0 +0000\n\n{text}\n"),
        );
    }),
    ("a commit without its parts", Nothing, |it| {
        commit(it, "tree x\n\n");
    }),
    ("another way to name objects", Nothing, |it| {
        std::fs::remove_dir_all(&it.dir).unwrap();
        let place = it.text(&it.dir);
        git(
            [
                "init",
                "-q",
                "--bare",
                "--object-format=sha256",
                "-b",
                "main",
                place,
            ],
            b"",
        );
        let stream = "commit refs/heads/main\ncommitter x <x@x> 0 +0000\ndata 0\nM 100644 inline a.md\ndata 2\na\n\n";
        it.run(&["fast-import", "--quiet"], stream.as_bytes());
    }),
    ("another way to keep branches", Goes, |it| {
        std::fs::remove_dir_all(&it.dir).unwrap();
        let place = it.text(&it.dir);
        git(
            [
                "init",
                "-q",
                "--bare",
                "--ref-format=reftable",
                "-b",
                "main",
                place,
            ],
            b"",
        );
        for branch in ["main", "other"] {
            let stream = format!(
                "commit refs/heads/{branch}\ncommitter x <x@x> 0 +0000\ndata 0\nM 100644 inline a.md\ndata 2\na\n\n"
            );
            it.run(&["fast-import", "--quiet"], stream.as_bytes());
        }
    }),
    ("a directory inside that is no repository", NoPush, |it| {
        // Git takes the one around it.
        std::fs::create_dir(it.dir.join(".git")).unwrap();
        it.hook("update");
    }),
    ("the real one inside", NoPush, |it| {
        let real = it.held.join("real.git");
        std::fs::rename(&it.dir, &real).unwrap();
        std::fs::create_dir(&it.dir).unwrap();
        std::fs::rename(&real, it.dir.join("real")).unwrap();
        it.write(".git", "gitdir: real\n");
        hook(&it.dir.join("real/hooks/update"), &it.trap);
    }),
    ("the common files elsewhere", NoPush, |it| {
        let real = it.held.join("real.git");
        std::fs::rename(&it.dir, &real).unwrap();
        std::fs::create_dir(&it.dir).unwrap();
        std::fs::rename(&real, it.dir.join("real")).unwrap();
        it.write(".git/HEAD", "ref: refs/heads/main\n");
        it.write(".git/commondir", "../real\n");
        hook(&it.dir.join("real/hooks/update"), &it.trap);
    }),
    ("the real one outside, by a file", Nothing, |it| {
        std::fs::remove_dir_all(&it.dir).unwrap();
        it.write(".git", format!("gitdir: {}\n", it.text(&it.secret)));
    }),
    ("the real one outside, by a link", Nothing, |it| {
        std::fs::remove_dir_all(&it.dir).unwrap();
        std::fs::create_dir(&it.dir).unwrap();
        symlink(&it.secret, it.dir.join(".git")).unwrap();
    }),
    ("itself a link", Nothing, |it| {
        std::fs::remove_dir_all(&it.dir).unwrap();
        symlink(&it.secret, &it.dir).unwrap();
    }),
];

fn secret_head(it: &Hostile) -> Vec<u8> {
    git(["--git-dir", it.text(&it.secret), "rev-parse", "main"], b"")
}

/// Its branch is a commit of the other repository, whose objects are said to be there.
fn elsewhere(it: &Hostile, there: &str) {
    it.write("objects/info/alternates", format!("{there}\n"));
    it.remove("packed-refs");
    it.write("refs/heads/main", secret_head(it));
}

/// Every object in a file of its own.
fn loosen(it: &Hostile) {
    let packs: Vec<PathBuf> = std::fs::read_dir(it.dir.join("objects/pack"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    for pack in packs
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "pack"))
    {
        let bytes = std::fs::read(pack).unwrap();
        packs
            .iter()
            .filter(|path| path.file_stem() == pack.file_stem())
            .for_each(|path| std::fs::remove_file(path).unwrap());
        it.run(&["unpack-objects", "-q"], &bytes);
    }
}

fn commit(it: &Hostile, text: &str) {
    let id = it.run(
        &[
            "hash-object",
            "-t",
            "commit",
            "--literally",
            "-w",
            "--stdin",
        ],
        text.as_bytes(),
    );
    it.remove("packed-refs");
    it.write("refs/heads/main", id);
}

fn pipe(at: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
}

/// Stages `a.md` for the branch `other` as it is now.
fn stage(world: &World, text: &str) -> Result<forge_git::StagedCommit, GitError> {
    world.write("/workspace/a.md", text);
    let request = StageRequest {
        repo: world.repo.clone(),
        branch: BranchName::parse("other").unwrap(),
        files: vec![world.files.path("/workspace/a.md").unwrap()],
        from: SandboxPath::parse("/workspace").unwrap(),
        message: "mine".into(),
        secrets: SecretPolicy::Refused,
    };
    wait(world.git.stage(&world.files, request))
}

/// Every file of that name below a directory.
fn named(dir: &Path, name: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name() == name {
            found.push(entry.path());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            named(&entry.path(), name, found);
        }
    }
}

fn check_error(what: &str, error: &GitError) {
    let text = error.to_string();
    assert!(text.len() < 8 << 10, "{what}: {} bytes", text.len());
    let moves = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(moves), "{what}: {text:?}");
    assert!(!text.contains(SECRET), "{what}: {text}");
}

/// What came of a row, where it is not what had to.
fn check((what, ends, make): &Row) -> Option<String> {
    let held = tempfile::tempdir().unwrap();
    let at = held.path().to_owned();
    let secret = Bare::make(at.join("secret.git"), "update");
    secret.commit(&BranchName::default(), &[("a.md", Some(SECRET))]);
    std::fs::write(at.join("key"), SECRET).unwrap();
    let bare = Bare::make(at.join("hostile.git"), "update");
    for name in ["main", "other"] {
        bare.commit(&BranchName::parse(name).unwrap(), &[("a.md", Some("a\n"))]);
    }
    let trap = at.join("trap");
    let trap = format!(
        "for d in {} /cache /other . .. /tmp; do echo $0 > $d/trap; done; :",
        trap.display()
    );
    let hostile = Hostile {
        held: at.clone(),
        dir: bare.dir.clone(),
        secret: secret.dir.clone(),
        trap,
    };
    make(&hostile);
    let repo = Repo::parse(hostile.text(&hostile.dir)).unwrap();
    let mut world = world("hostile", held, bare, repo);
    let program = GitProgram::new(at.join("cache"), Support::detect())
        .transfer_limit(Duration::from_secs(10));
    world.git = Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()));

    let since = Instant::now();
    let pulled = world.pull(&["a.md"], "/workspace");
    let pushed = pulled.as_ref().ok().map(|_| {
        assert_eq!(world.text("/workspace/a.md"), "a\n", "{what}");
        let staged = stage(&world, "mine\n").unwrap_or_else(|error| panic!("{what}: {error}"));
        wait(world.git.push(world.approve(&staged), OnDivergence::Refuse))
    });
    assert!(since.elapsed() < LONG, "{what}: {:?}", since.elapsed());
    for error in [
        pulled.as_ref().err(),
        pushed.as_ref().and_then(|it| it.as_ref().err()),
    ] {
        error.into_iter().for_each(|error| check_error(what, error));
    }
    let came = match &pushed {
        None => Nothing,
        Some(Err(_)) => NoPush,
        Some(Ok(_)) => Goes,
    };
    let mut traps = Vec::new();
    named(&at, "trap", &mut traps);
    assert_eq!(traps, [] as [PathBuf; 0], "{what}");
    assert_eq!(
        secret.read(&BranchName::default(), "a.md").unwrap(),
        SECRET.as_bytes(),
        "{what}"
    );
    (came != *ends).then(|| format!("{what}: {pulled:?} {pushed:?}"))
}

#[test]
fn a_repository_that_is_made_to_be_obeyed_is_not() {
    if !confined() {
        return;
    }
    // Two at a time: most of each is waiting for a program to start.
    let (even, odd): (Vec<_>, Vec<_>) = ROWS.iter().enumerate().partition(|(n, _)| n % 2 == 0);
    let others = std::thread::scope(|scope| {
        let of = |half: Vec<(usize, &'static Row)>| {
            scope.spawn(move || {
                let rows = half.into_iter();
                rows.filter_map(|(_, row)| check(row)).collect::<Vec<_>>()
            })
        };
        let halves = [of(even), of(odd)];
        halves.map(|half| half.join().unwrap()).concat()
    });
    assert!(others.is_empty(), "{others:#?}");
}

/// The cache lies where nobody but us writes. If somebody did, nothing of it would run either.
#[test]
fn what_is_planted_into_the_cache_does_not_run() {
    if !confined() {
        return;
    }
    let world = crate::program::over_file();
    world.others.commit(
        &BranchName::parse("other").unwrap(),
        &[("a.md", Some("a\n"))],
    );
    stage(&world, "first\n").unwrap();
    let cache = world._held.as_ref().unwrap().path().join("cache");
    let mut found = Vec::new();
    named(&cache, "bare", &mut found);
    let bare = found.pop().unwrap();
    let trap = "for d in /cache /other .; do echo $0 > $d/trap; done; :";
    for name in TOLD.into_iter().chain(ASKED) {
        hook(&bare.join("hooks").join(name), trap);
    }
    let place = bare.to_str().unwrap();
    for key in PROGRAMS
        .into_iter()
        .filter(|key| !key.starts_with("alias."))
    {
        git(["--git-dir", place, "config", key, trap], b"");
    }
    std::fs::create_dir_all(bare.join("info")).unwrap();
    std::fs::write(bare.join("info/attributes"), "* filter=x diff=x merge=x\n").unwrap();
    let staged = stage(&world, "second\n").unwrap();
    wait(world.git.push(world.approve(&staged), OnDivergence::Refuse)).unwrap();
    let mut traps = Vec::new();
    named(world._held.as_ref().unwrap().path(), "trap", &mut traps);
    assert_eq!(traps, [] as [PathBuf; 0]);
}

/// Git looks at whose a repository is before it believes its configuration.
#[test]
fn a_repository_of_another_user_is_read_without_being_obeyed() {
    if !confined() || !rustix::process::getuid().is_root() {
        return;
    }
    let world = crate::program::over_file();
    let other = BranchName::parse("other").unwrap();
    world.others.commit(&other, &[("a.md", Some("a\n"))]);
    let dir = crate::hostile_trees::bare(&world).dir.clone();
    let mut all = Vec::new();
    files_below(&dir, &mut all);
    for path in &all {
        std::os::unix::fs::chown(path, Some(12345), Some(12345)).unwrap();
    }
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    // One version of git reads it, another does not; none of them is made to by us.
    let pushed = stage(&world, "mine\n")
        .and_then(|staged| wait(world.git.push(world.approve(&staged), OnDivergence::Refuse)));
    let text = match pushed {
        Ok(_) => "mine\n",
        Err(error) => {
            check_error("another user", &error);
            "a\n"
        }
    };
    assert_eq!(world.others.read(&other, "a.md").unwrap(), text.as_bytes());
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    found.push(dir.to_owned());
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files_below(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}
