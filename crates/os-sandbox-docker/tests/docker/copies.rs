//! Mounts of an engine that is told nothing of our files: copied there, changed there by a real
//! container, and what was changed comes back.

use crate::daemon::{Daemon, IMAGE};
use crate::losses::WITHIN;
use os_sandbox::{Access, ErrorKind, Policy};
use os_sandbox_docker::{CopyLimits, Engine, ImageName, MountCopies};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Who owns the files in the container.
const OWNER: (u32, u32) = (4711, 4712);

struct Place {
    engine: Engine,
    image: String,
    base: tempfile::TempDir,
}

impl Place {
    fn new(daemon: &Daemon) -> Place {
        let engine = Engine::connect(Some(daemon.host())).expect("an engine");
        let name = ImageName::parse(IMAGE).expect("a name");
        let image = engine.image(&name).expect("asked").expect("the image");
        Place {
            image: image.id().to_owned(),
            engine,
            base: tempfile::tempdir().expect("a directory"),
        }
    }

    fn dir(&self, name: &str) -> PathBuf {
        let path = self.base.path().join(name);
        fs::create_dir_all(&path).expect("a directory");
        path
    }

    /// Where forge's own files are; an engine elsewhere does not see it.
    fn state(&self) -> PathBuf {
        self.base.path().join("state")
    }

    fn copy(&self, policy: &Policy, limits: &CopyLimits) -> Result<MountCopies, os_sandbox::Error> {
        let state = self.state();
        MountCopies::make(
            &self.engine,
            &self.image,
            policy,
            OWNER,
            limits,
            Some(&state),
        )
    }
}

/// Runs a script with the volumes at `/0`, `/1` and so on, the first of them writable.
fn run(daemon: &Daemon, copies: &MountCopies, script: &str) -> String {
    let user = format!("{}:{}", OWNER.0, OWNER.1);
    let mut arguments = vec!["run", "--rm", "--network", "none", "--user", &user];
    let mounts: Vec<String> = (0..)
        .map_while(|index| {
            let volume = copies.volume(index)?;
            let only = if index == 0 { "" } else { ",readonly" };
            Some(format!("type=volume,source={volume},target=/{index}{only}"))
        })
        .collect();
    for mount in &mounts {
        arguments.extend(["--mount", mount]);
    }
    arguments.extend([IMAGE, "sh", "-c", script]);
    daemon.docker(&arguments)
}

fn names(paths: &[PathBuf], top: &Path) -> Vec<String> {
    let below = paths
        .iter()
        .map(|path| path.strip_prefix(top).expect("below"));
    let mut names: Vec<String> = below.map(|path| path.display().to_string()).collect();
    names.sort();
    names
}

pub(crate) fn there_and_back(daemon: &Daemon) {
    let place = Place::new(daemon);
    let (work, lib) = (place.dir("a work,dir:with \"names\"\n\\"), place.dir("lib"));
    let far = "d".repeat(120);
    let write = |path: &Path, text: &str| fs::write(path, text).expect("a file");
    fs::create_dir_all(work.join(&far)).expect("a directory");
    fs::create_dir_all(work.join(".git/hooks")).expect("a directory");
    write(&work.join(&far).join(&far), "far");
    write(&work.join("odd \n,:\"\\'name"), "odd");
    write(&work.join("changes"), "before");
    write(&work.join("goes"), "before");
    write(&work.join("stays"), "stays");
    write(&work.join("both"), "before");
    write(&work.join(".env"), "a secret");
    write(&work.join("tool"), "#!/bin/sh\necho it runs\n");
    fs::set_permissions(work.join("tool"), Permissions::from_mode(0o755)).expect("a mode");
    symlink("../lib//x", work.join("link")).expect("a link");
    nix::unistd::mkfifo(&work.join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    write(&lib.join("x"), "a library");
    for at in 0..500 {
        write(&lib.join(format!("file-{at}")), &"x".repeat(at));
    }
    let policy = Policy::builder()
        .mount(&work, "/work-here", Access::ALL)
        .mount(&lib, "/lib-here", Access::READ)
        .protect(".git/hooks")
        .hide(".env")
        .build()
        .expect("a policy");
    let copies = place.copy(&policy, &CopyLimits::default()).expect("copies");
    assert_eq!(copies.left_out().collect::<Vec<_>>(), [work.join("fifo")]);
    let seen = run(
        daemon,
        &copies,
        "cd /0; cat */d*; ls -a | wc -l; cat odd*; stat -c '%u:%g %a' . changes tool; ./tool; \
         readlink link; ls .env fifo 2>&1 | wc -l; cat /1/x; ls /1 | wc -l; \
         touch /1/new 2>/dev/null || echo read-only",
    );
    let owner = format!("{}:{}", OWNER.0, OWNER.1);
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
    let want = format!(
        "far11\nodd{owner} {:o}\n{owner} {:o}\n{owner} 755\nit runs\n../lib//x\n2\na library501\nread-only",
        mode(&work),
        mode(&work.join("changes")),
    );
    assert_eq!(seen, want);
    run(
        daemon,
        &copies,
        "cd /0; echo after > changes; rm goes; mkdir -p new/deep; echo new > new/deep/file; \
         ln -s /etc/passwd new/link; ln stays new/same; ln changes new/other; mkfifo new/fifo; \
         echo theirs > both; echo evil > .git/hooks/pre-commit; echo theirs > .env; \
         chmod 600 stays; chmod 4755 tool; head -c 300000 /dev/zero > large; \
         echo x > \"$(printf 'n,e:w \\n\"')\"",
    );
    write(&work.join("both"), "mine, and longer");
    let back = copies.bring_back().expect("back");
    let read = |name: &str| fs::read_to_string(work.join(name)).expect(name);
    assert_eq!(read("changes"), "after\n");
    assert_eq!(
        (read("new/deep/file"), read("new/same"), read("new/other")),
        ("new\n".to_owned(), "stays".to_owned(), "after\n".to_owned())
    );
    assert_eq!(
        fs::read_link(work.join("new/link")).expect("a link"),
        Path::new("/etc/passwd")
    );
    assert_eq!(
        (read("both"), read(".env")),
        ("mine, and longer".to_owned(), "a secret".to_owned())
    );
    assert_eq!(
        fs::metadata(work.join("large")).expect("there").len(),
        300_000
    );
    assert!(!work.join("goes").exists() && !work.join(".git/hooks/pre-commit").exists());
    assert!(work.join("n,e:w \n\"").exists() && work.join("fifo").exists());
    assert_eq!(mode(&work.join("stays")), 0o600);
    let tool = fs::metadata(work.join("tool")).expect("there").mode();
    assert_eq!(tool & 0o7777, 0o755, "no bit that changes who it runs as");
    let here = fs::metadata(&work).expect("there");
    let made = fs::metadata(work.join("new/deep/file")).expect("there");
    assert_eq!((made.uid(), made.gid()), (here.uid(), here.gid()));
    assert_eq!(names(&back.removed, &work), ["goes"]);
    assert_eq!(names(&back.conflicts, &work), [".env", "both"]);
    assert_eq!(names(&back.refused, &work), [".git/hooks/pre-commit"]);
    assert_eq!(names(&back.left_out, &work), ["new/fifo"]);
    assert!(back.failed.is_empty(), "{back:?}");
    let written = names(&back.written, &work);
    for name in ["changes", "large", "stays", "new", "new/deep", "new/same"] {
        assert!(
            written.iter().any(|one| one == name),
            "{name} is not in {written:?}"
        );
    }
    assert!(
        !written.iter().any(|name| name.starts_with(&far)),
        "{written:?}"
    );
    drop(copies);
    assert_eq!(daemon.everything(), Vec::<String>::new());
}

/// An engine that has our files says so by one of them, and one that has not does not.
pub(crate) fn whose_files(daemon: &Daemon) {
    let here = Place::new(daemon);
    let shares = here.engine.shares_files(&here.image, Some(&here.state()));
    assert!(shares.expect("asked"), "an engine on this machine");
    let missing = format!("sha256:{}", "0".repeat(64));
    let error = here
        .engine
        .shares_files(&missing, Some(&here.state()))
        .expect_err("no such image");
    assert_eq!(error.kind(), ErrorKind::Enforcement, "{error}");
    assert_eq!(daemon.everything(), Vec::<String>::new());
    let elsewhere = match Daemon::start_elsewhere() {
        Ok(elsewhere) => elsewhere,
        Err(reason) => {
            println!("  in part skipped: {reason}");
            return;
        }
    };
    let there = Place::new(&elsewhere);
    let shares = there
        .engine
        .shares_files(&there.image, Some(&there.state()));
    assert!(!shares.expect("asked"), "an engine that has not our files");
    assert_eq!(elsewhere.everything(), Vec::<String>::new());
    // What it can be given, and gives back.
    let work = there.dir("work");
    fs::write(work.join("file"), "before").expect("a file");
    let policy = Policy::builder().mount(&work, "/", Access::ALL).build();
    let copies = there
        .copy(&policy.expect("a policy"), &CopyLimits::default())
        .expect("copies");
    run(&elsewhere, &copies, "cat /0/file > /0/copy");
    copies.bring_back().expect("back");
    assert_eq!(
        fs::read_to_string(work.join("copy")).expect("there"),
        "before"
    );
    drop(copies);
    assert_eq!(elsewhere.everything(), Vec::<String>::new());
}

pub(crate) fn bounds(daemon: &Daemon) {
    let place = Place::new(daemon);
    let work = place.dir("work");
    fs::write(work.join("file"), vec![7; 3 << 20]).expect("a file");
    let policy = |host: &Path| {
        let policy = Policy::builder().mount(host, "/", Access::ALL);
        policy.build().expect("a policy")
    };
    let refused = place.copy(&policy(&work), &CopyLimits::default().bytes(2 << 20));
    let refused = refused.map(drop).expect_err("too much");
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    assert!(
        refused.to_string().contains("2 MiB") && refused.hint().is_some(),
        "{refused}"
    );
    // A file is no directory.
    let file = place.copy(&policy(&work.join("file")), &CopyLimits::default());
    assert_eq!(
        file.map(drop).expect_err("a file").kind(),
        ErrorKind::Unsupported
    );
    assert_eq!(daemon.everything(), Vec::<String>::new());
    // More comes back than may: a file with holes, and many of them.
    let limits = CopyLimits::default().bytes(8 << 20).entries(1000);
    let copies = place.copy(&policy(&work), &limits).expect("copies");
    run(
        daemon,
        &copies,
        "cd /0; echo changed > file; truncate -s 20G holes",
    );
    let refused = copies.bring_back().expect_err("too much");
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    run(
        daemon,
        &copies,
        "cd /0; rm holes; i=0; while [ $i -lt 1100 ]; do : > $i; i=$((i+1)); done",
    );
    let refused = copies.bring_back().expect_err("too many");
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    assert!(refused.to_string().contains("1000 files"), "{refused}");
    assert_eq!(
        fs::metadata(work.join("file")).expect("there").len(),
        3 << 20,
        "nothing was changed"
    );
    assert_eq!(fs::read_dir(&work).expect("a list").count(), 1);
    // And then what may.
    run(daemon, &copies, "cd /0; rm [0-9]*");
    assert_eq!(
        names(&copies.bring_back().expect("back").written, &work),
        ["file"]
    );
    drop(copies);
    assert_eq!(daemon.everything(), Vec::<String>::new());
}

pub(crate) fn hostile(daemon: &Daemon) {
    let place = Place::new(daemon);
    let work = place.dir("work");
    fs::write(place.base.path().join("outside"), "kept").expect("a file");
    fs::create_dir(work.join("dir")).expect("a directory");
    fs::write(work.join("dir/outside"), "before").expect("a file");
    let policy = Policy::builder().mount(&work, "/", Access::ALL);
    let policy = policy.build().expect("a policy");
    let copies = place.copy(&policy, &CopyLimits::default()).expect("copies");
    // What a command can do in its own directory: links in place of directories, the directory itself
    // of other rights, names of any bytes.
    run(
        daemon,
        &copies,
        "cd /0; rm -r dir; ln -s .. dir; ln -s / root; ln -s .. up; mkdir shut; echo x > shut/x; \
         chmod 0 shut; chmod 777 .; echo x > \"$(printf '\\001\\377..')\"; mkdir ...; echo x > .../x",
    );
    // And somebody here does the same meanwhile.
    fs::remove_dir_all(work.join("dir")).expect("removed");
    symlink("..", work.join("dir")).expect("a link");
    let back = copies.bring_back().expect("back");
    assert!(
        work.join("shut").is_dir() && work.join("up").is_symlink(),
        "{back:?}"
    );
    assert_eq!(
        fs::read_to_string(work.join("shut/x")).expect("there"),
        "x\n"
    );
    assert_eq!(
        fs::metadata(work.join("shut")).expect("there").mode() & 0o7777,
        0
    );
    let outside = fs::read_to_string(place.base.path().join("outside"));
    assert_eq!(outside.expect("there"), "kept");
    let entries = fs::read_dir(place.base.path()).expect("a list").flatten();
    let mut entries: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    entries.sort();
    assert_eq!(entries, ["outside", "state", "work"]);
    // The engine without its volume: an error, and nothing is removed here.
    let volume = copies.volume(0).expect("a volume").to_owned();
    let ours = daemon.docker(&["ps", "--all", "--quiet"]);
    daemon.docker(&["rm", "--force", &ours]);
    // On a busy machine the engine lets go of it later than of the container.
    let begun = Instant::now();
    while !daemon
        .try_docker(&["volume", "rm", &volume])
        .status
        .success()
    {
        assert!(begun.elapsed() < WITHIN, "{:?}", daemon.everything());
        std::thread::sleep(Duration::from_millis(20));
    }
    let lost = copies.bring_back().expect_err("nothing is there");
    assert_eq!(lost.kind(), ErrorKind::Enforcement, "{lost}");
    assert!(work.join("shut/x").exists());
    drop(copies);
    assert_eq!(daemon.everything(), Vec::<String>::new());
}
