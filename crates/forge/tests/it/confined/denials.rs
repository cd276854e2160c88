//! Lines at the end of `forge exec` about refused attempts.

mod hints;

use std::fs;
use std::io::Write as _;

use serde_json::Value;

use super::exec::{mechanisms, mount_layers};
use crate::support::{World, forge_program, ran};

/// Returns the lines of forge about refusals, without the command's own.
fn told(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines();
    lines
        .filter(|line| line.starts_with("refused: ") || line.starts_with("hint: "))
        .collect()
}

#[test]
fn a_failed_command_ends_with_its_refusals() {
    let world = World::new(&[("a.txt", "alpha\n")]);
    let project = world.project().display().to_string();
    let write = "hint: no rule allows it: it is in a directory of the system";
    let outside = format!("refused: create /etc/made (outside; writable: {project})");
    let read_only = format!("refused: write {project}/a.txt ({project} is read-only)");
    for mechanism in mechanisms(&world) {
        let rows: [(&[&str], &str, &[&str]); 4] = [
            (&[], "touch /etc/made", &[&outside, write]),
            (
                &["--read-only"],
                "echo x >> a.txt",
                &[&read_only, "hint: leave out --read-only"],
            ),
            (&[], "touch /etc/made; echo made > b.txt", &[]),
            (&["--quiet"], "touch /etc/made", &[]),
        ];
        for (flags, line, wanted) in rows {
            let command = ["--mechanism", mechanism, "--", "sh", "-c", line];
            let arguments = [&["exec"], flags, &command].concat();
            let ran = world.forge(&arguments);
            assert_eq!(
                told(&ran.stderr),
                wanted,
                "{mechanism}: {line}: {}",
                ran.stderr
            );
        }
    }
}

/// Hidden names that a command that failed could have met.
#[test]
fn a_failed_command_is_told_of_hidden_names() {
    let hint = "to show that name: `sandbox.show: [\".env*\"]`";
    for (files, line, code, says) in [
        (
            &["sub/.env"][..],
            "cat sub/.env",
            1,
            Some(("sub/.env", hint)),
        ),
        (
            &["sub/.env", ".ssh/id"],
            "cp -a . $HOME/c",
            1,
            Some((" and others", "`sandbox.show")),
        ),
        (&["sub/.env"], "true", 0, None),
        (
            &["sub/.env", "b", ".git/info/exclude"],
            "grep -r a . && cp -a . $HOME/d",
            0,
            None,
        ),
        // A directory that could become a repository has a closed file there.
        (
            &["sub/.env", "b"],
            "cp -a . $HOME/d",
            1,
            Some(("sub/.env", hint)),
        ),
        (&["sub/.env"], "mv sub/.env b", 1, None),
        (&["a.txt"], "false", 1, None),
        (&["sub/.env"], "kill -TERM $$", 143, None),
        (
            &[".os-sandbox-quarantine/1/.vscode"],
            "tar cf $HOME/a.tar .",
            0,
            None,
        ),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|file| (*file, "a")).collect();
        let world = World::new(&files);
        if files.iter().any(|(file, _)| file.starts_with(".git/")) {
            let init = world.command("/bin/sh".as_ref(), &["-c", "git init -q"]);
            assert!({ init }.status().unwrap().success());
        }
        for mechanism in ["namespaces", "bubblewrap"] {
            let exec = ["exec", "--mechanism", mechanism, "--"];
            if world.forge(&[&exec[..], &["true"]].concat()).code != 0 {
                continue;
            }
            let ran = world.forge(&[&exec[..], &["sh", "-c", line]].concat());
            ran.code(code);
            let told: Vec<&str> = ran
                .stderr
                .lines()
                .filter(|line| line.contains("commands cannot read"))
                .collect();
            assert_eq!(
                told.len(),
                usize::from(says.is_some()),
                "{mechanism} {line}: {}",
                ran.stderr
            );
            let (name, way) = says.unwrap_or_default();
            assert!(
                told.iter()
                    .all(|told| told.contains(name) && told.contains(way)),
                "{told:?}"
            );
        }
    }
}

/// Programs that say no by 1 did not miss a file.
#[test]
fn an_answer_is_not_a_file_that_could_not_be_read() {
    let world = World::new(&[("sub/.env", "a"), ("b", "a")]);
    for mechanism in mount_layers(&world) {
        for (line, is_told) in [
            ("false", false),
            ("test -f nope", false),
            ("grep -q nothing b", false),
            ("grep -rq nothing .", true),
            ("cp -r sub to", true),
        ] {
            let exec = ["exec", "--mechanism", mechanism, "--"];
            let words: Vec<&str> = exec.into_iter().chain(line.split(' ')).collect();
            let ran = world.forge(&words);
            assert_ne!(ran.code, 0, "{line}");
            let told = ran.stderr.contains("commands cannot read");
            assert_eq!(told, is_told, "{mechanism} {line}: {}", ran.stderr);
        }
    }
}

/// A report of every read says whether the command met a hidden name.
#[test]
fn hidden_names_are_told_by_a_full_report_only_if_they_were_met() {
    let world = World::new(&[("sub/.env", "a"), ("a.txt", "a")]);
    for mechanism in ["namespaces", "bubblewrap"] {
        let exec = |line: &str| {
            let exec = ["exec", "--trace=full", "--mechanism", mechanism];
            world.forge(&[&exec[..], &["--", "sh", "-c", line]].concat())
        };
        if exec("true").code != 0 {
            continue;
        }
        for line in ["exit 77", "grep nothing a.txt"] {
            let told = exec(line).stderr;
            assert!(!told.contains("hidden"), "{mechanism} {line}: {told}");
        }
        exec("cat sub/.env").says(&["sub/.env (hidden name .env*)"]);
    }
}

/// A file system that the host itself mounts read-only refuses nothing on forge's behalf.
#[test]
fn a_file_system_that_is_read_only_outside_too_is_no_refusal() {
    const DISK: &str = "mkdir disk; mount -t tmpfs tmpfs disk; mkdir disk/dir; mount -o remount,ro disk; \
        cd disk; \"$0\" exec --mechanism \"$1\" --trace=full -- sh -c 'touch z dir/z; rmdir dir'";
    if !rustix::process::geteuid().is_root() {
        let _told = writeln!(std::io::stderr(), "skipped: only root mounts a disk");
        return;
    }
    for mechanism in mechanisms(&World::new(&[])) {
        let world = World::new(&[]);
        let forge = forge_program();
        let own = ["-m", "--propagation", "private", "/bin/sh", "-ec", DISK];
        let words = [&own[..], &[forge.to_str().unwrap(), mechanism]].concat();
        let ran = ran(world.command("unshare".as_ref(), &words).output().unwrap());
        ran.code(1).says(&["Read-only file system"]);
        assert!(!ran.stderr.contains("protected part"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("disk/z ("), "{}", ran.stderr);
    }
}

/// Under Landlock alone `/tmp` and `/dev/shm` are the host's. Scripts use fixed names there.
#[test]
fn a_refused_file_in_tmp_names_the_own_directory() {
    let world = World::new(&[]);
    if !mechanisms(&world).contains(&"landlock") {
        let _told = writeln!(std::io::stderr(), "skipped: no Landlock");
        return;
    }
    for (place, told) in [
        ("/tmp", "$TMPDIR"),
        ("/dev/shm", "shared memory and semaphores"),
    ] {
        let file = format!("{place}/none-{}", std::process::id());
        let touch = ["exec", "--mechanism", "landlock", "--", "touch", &file];
        world.forge(&touch).code(1).says(&[told]);
    }
    let own = "touch $TMPDIR/x && ls $TMPDIR";
    let ran = world.forge(&["exec", "--mechanism", "landlock", "--", "sh", "-c", own]);
    assert_eq!(ran.code(0).stdout, "x\n");
}

/// A command has a `/tmp` of its own, so that the host's is at another path.
#[test]
fn a_project_at_tmp_is_told_where_it_is() {
    const OWN: &str = "mount -t tmpfs tmpfs /mnt; mkdir /mnt/home; export HOME=/mnt/home; \
        export FORGE_STATE_DIR=/mnt/state; mount -t tmpfs tmpfs /tmp; mkdir /tmp/deep; cd /tmp/$2; \"$0\" exec --mechanism \"$1\" -- pwd";
    if !rustix::process::geteuid().is_root() {
        let _told = writeln!(std::io::stderr(), "skipped: only root mounts a disk");
        return;
    }
    for mechanism in mount_layers(&World::new(&[])) {
        for (dir, inside, is_told) in [("", "/work\n", true), ("deep", "/tmp/deep\n", false)] {
            let world = World::new(&[]);
            let forge = forge_program();
            let own = ["-m", "--propagation", "private", "/bin/sh", "-ec", OWN];
            let words = [&own[..], &[forge.to_str().unwrap(), mechanism, dir]].concat();
            let ran = ran(world.command("unshare".as_ref(), &words).output().unwrap());
            assert_eq!(ran.code(0).stdout, inside, "{mechanism}: {ran:?}");
            let told = ran.stderr.contains("note: the command finds /tmp at /work");
            assert_eq!(told, is_told, "{mechanism}: {}", ran.stderr);
        }
    }
}

/// A repository whose directory no mount shows is named before git looks for it.
#[test]
fn a_repository_outside_the_mounts_is_named() {
    let world = World::new(&[("a.txt", "alpha\n"), ("sub/b.txt", "")]);
    let script = "git init -q -b main && git add . && git -c user.name=a -c user.email=a@b commit -qm first \
                  && git worktree add -q ../tree && mkdir ../tree/deep && mkdir ../super && cd ../super \
                  && git init -q && git -c protocol.file.allow=always submodule --quiet add ../project sub \
                  && mkdir sub/deep && cd ../project && mkdir ../forged && echo \"gitdir: $PWD/.git/worktrees/tree\" > ../forged/.git";
    let made = world.command("/bin/sh".as_ref(), &["-ec", script]).output();
    assert!(made.unwrap().status.success());
    let project = world.project().canonicalize().unwrap();
    let git = project.join(".git");
    let read = format!("forge allow read:{}", git.display());
    let start = format!("forge -C {} exec", project.display());
    let outside = world.outside().canonicalize().unwrap();
    let outside = outside.display();
    let tree = format!("forge -C {outside}/tree exec");
    let sub = format!("forge -C {outside}/super/sub exec");
    let module = format!("forge allow read:{outside}/super/.git/modules/sub");
    for mechanism in mechanisms(&world) {
        let has_layer = mechanism != "landlock";
        for (dir, flags, says) in [
            ("project", &[][..], None),
            ("project/sub", &[][..], Some(&start)),
            ("tree", &[], Some(&read)),
            (
                "tree",
                &["-c", "git.mode=commit"],
                (!has_layer).then_some(&read),
            ),
            ("tree/deep", &[], Some(&tree)),
            ("super/sub", &[], Some(&module)),
            ("super/sub/deep", &[], Some(&sub)),
            // A command could have written this one.
            ("forged", &[], None),
        ] {
            let exec = ["exec", "--mechanism", mechanism];
            let args = [&exec[..], flags, &["--", "git", "log", "--format=%s"]].concat();
            let ran = world.forge_in(&world.outside().join(dir), &args);
            let told: Vec<&str> = ran
                .stderr
                .lines()
                .filter(|line| line.contains("git finds no repository"))
                .collect();
            let about = format!("{mechanism} {dir} {flags:?}: {}", ran.stderr);
            assert_eq!(told.len(), usize::from(says.is_some()), "{about}");
            assert!(
                told.iter()
                    .zip(says)
                    .all(|(told, says)| told.contains(says.as_str())),
                "{about}"
            );
            assert_eq!(
                ran.stdout == "first\n",
                says.is_none() && dir != "forged",
                "{about}"
            );
        }
        let tree = world.outside().join("tree");
        let branch = |name: &str| {
            let branch = format!("{name}-{mechanism}");
            let flags = ["-c", "git.mode=commit", "--", "git", "branch", &branch];
            let exec = ["exec", "--mechanism", mechanism];
            world.forge_in(&tree, &[&exec[..], &flags].concat())
        };
        if has_layer {
            branch("without-rule").code(0);
        }
        let allowed = format!("read:{}", git.display());
        world.forge_in(&tree, &["allow", &allowed, "--yes"]).code(0);
        let ran = world.forge_in(
            &tree,
            &[
                "exec",
                "--mechanism",
                mechanism,
                "git",
                "log",
                "--format=%s",
            ],
        );
        assert_eq!(ran.code(0).stdout, "first\n", "{mechanism}");
        assert!(!ran.stderr.contains("git finds"), "{}", ran.stderr);
        let ran = branch("refused");
        let hint = "hint: to let it write there: forge ";
        let hint = ran.stderr.lines().find_map(|line| line.strip_prefix(hint));
        let hint = hint.unwrap_or_else(|| panic!("{mechanism}: {}", ran.stderr));
        let typed: Vec<&str> = hint.split(' ').chain(["--yes"]).collect();
        world.forge_in(&tree, &typed).code(0);
        branch("allowed").code(0);
        for rule in [&allowed, typed[1]] {
            let remove = ["allow", "--remove", rule, "--yes"];
            world.forge_in(&tree, &remove).code(0);
        }
    }
}

/// With `sandbox.trace: full` a refused read is in the lines of a failed command, and in the receipt
/// with everything that it touched; without, it is in neither.
#[test]
fn a_project_can_ask_for_full_reports() {
    for (settings, is_full) in [
        ("trace: full", true),
        ("trace: refused", false),
        ("review: false", false),
    ] {
        let world = World::new(&[(
            "forge.yaml",
            &format!("sandbox: {{ root: ., {settings} }}\n"),
        )]);
        world.write("a.txt", "alpha\n");
        fs::write(world.outside().join("notes"), "").unwrap();
        let outside = world.outside().join("notes").display().to_string();
        for mechanism in mechanisms(&world) {
            let command = ["--mechanism", mechanism, "--", "cat", "a.txt", &outside];
            let ran = world.forge(&[&["exec"][..], &command].concat());
            let is_told = ran.stderr.contains("refused: read");
            assert_eq!(is_told, is_full, "{settings}, {mechanism}: {}", ran.stderr);
            let ran = world.forge(&[&["exec", "--json"][..], &command].concat());
            let object: Value = serde_json::from_str(&ran.stdout).unwrap();
            let touched = &object["enforcement"]["touched"];
            let has = touched.to_string().contains("a.txt");
            assert_eq!(has, is_full, "{settings}, {mechanism}: {object}");
        }
    }
}

#[test]
fn a_trace_lists_everything_whatever_came_of_the_command() {
    let world = World::new(&[]);
    let touched = "refused: create /etc/made (outside), to touch";
    let many = "i=0; while [ $i -lt 9 ]; do mkdir /usr/made$i 2>&-; i=$((i+1)); done; true";
    for mechanism in mechanisms(&world) {
        for (line, lines, first) in [
            ("touch /etc/made 2>&-; true", 1, touched),
            (many, 9, "refused: create /usr/made0 (outside), to mkdir"),
            ("true", 1, "refused: no change of a file and no connection"),
        ] {
            let command = [
                "exec",
                "--trace",
                "--mechanism",
                mechanism,
                "--",
                "sh",
                "-c",
                line,
            ];
            let ran = world.forge(&command);
            ran.code(0);
            let refused = told(&ran.stderr).into_iter();
            let refused: Vec<&str> = refused.filter(|line| line.starts_with("refused")).collect();
            assert_eq!(refused.len(), lines, "{mechanism}: {line}: {}", ran.stderr);
            assert_eq!(refused[0], first, "{mechanism}: {line}");
        }
    }
}

#[test]
fn without_a_trace_nothing_is_observed() {
    let world = World::new(&[]);
    for mechanism in mechanisms(&world) {
        let line = ["--", "touch", "/etc/made"];
        let flags = ["exec", "--trace=off", "--json", "--mechanism", mechanism];
        let ran = world.forge(&[&flags[..], &line].concat());
        let object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let receipt = &object["enforcement"];
        assert_eq!(
            receipt["reports_denials"], false,
            "{mechanism}: {}",
            ran.stdout
        );
        assert!(
            receipt.get("denials").is_none(),
            "{mechanism}: {}",
            ran.stdout
        );
    }
}

#[test]
fn the_receipt_lists_them_whatever_came_of_the_command() {
    let world = World::new(&[("a.txt", "alpha\n")]);
    for mechanism in mechanisms(&world) {
        let line = ["--", "sh", "-c", "touch /etc/made; true"];
        let arguments = [&["exec", "--json", "--mechanism", mechanism][..], &line].concat();
        let ran = world.forge(&arguments);
        ran.code(0);
        let object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let wanted = serde_json::json!([{
            "operation": "create",
            "object": "/etc/made",
            "reason": "outside",
            "program": "touch",
        }]);
        assert_eq!(object["enforcement"]["denials"], wanted, "{}", ran.stdout);
    }
}

/// Without a network namespace the socket is refused and not the connect.
#[test]
fn a_refused_socket_is_named_with_its_key() {
    let world = World::new(&[]);
    let script = "import socket; socket.socket(socket.AF_UNIX)";
    let command = ["python3", "-c", script];
    let arguments = [&["exec", "--mechanism", "landlock", "--"][..], &command].concat();
    let ran = world.forge(&arguments);
    if ran.stderr.contains("mechanism") && !mechanisms(&world).contains(&"landlock") {
        eprintln!("skipped: this host has no Landlock");
        return;
    }
    let wanted = [
        "refused: make a local socket (local sockets are closed)",
        "hint: a look for the name of a user tries a local socket too, and goes on without it; to let a command use local sockets: for once, -c sandbox.unix_sockets=open",
    ];
    assert_eq!(told(&ran.stderr), wanted, "{}", ran.stderr);
    // The setting would be refused beside a list of hosts.
    let listed = ["-c", "network.allow=[example.com]", "--"];
    let arguments = [&["exec", "--mechanism", "landlock"][..], &listed, &command].concat();
    let ran = world.forge(&arguments);
    let hints = told(&ran.stderr);
    assert!(
        hints
            .iter()
            .any(|line| line.contains("beside a list of hosts")),
        "{}",
        ran.stderr
    );
    assert!(
        hints.iter().all(|line| !line.contains("unix_sockets=open")),
        "{hints:?}"
    );
}

/// A full trace lists what was touched and what was refused, reads too, and proposes the directory
/// that is missing and nothing wider.
#[test]
fn a_full_trace_proposes_the_smallest_grants() {
    let world = World::new(&[("a.txt", "alpha\n")]);
    let other = world.outside().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("data.txt"), "text").unwrap();
    let top = world.project();
    let (project, other) = (top.display(), other.display());
    let line = format!("cat a.txt {other}/data.txt; echo made > b.txt; true");
    for mechanism in mechanisms(&world) {
        let why = match mechanism {
            "landlock" => "outside",
            _ => "no mount shows it",
        };
        let refused = format!("refused: read {other}/data.txt ({why})");
        let grant = format!("grant: forge allow read:{other}");
        let ran = world.forge(&[
            "exec",
            "--trace=full",
            "--mechanism",
            mechanism,
            "--",
            "sh",
            "-c",
            &line,
        ]);
        ran.code(0).says(&[
            &format!("touched: read 1 in {project}"),
            &format!("touched: written 1 in {project}"),
            &format!("{refused}, to cat"),
            &grant,
        ]);
        let again = world.forge(&["explain", "--from-run", "last"]);
        again.code(0);
        assert_eq!(again.stdout, format!("{refused}\n{grant}\n"));
    }
}

#[test]
fn a_trace_is_off_or_full() {
    let world = World::new(&[]);
    let ran = world.forge(&["exec", "--trace=off", "--full", "--", "touch", "made"]);
    ran.code(125).says(&["`--trace=off` reports nothing"]);
    assert!(!world.project().join("made").exists());
}

/// Only a command that names a file of its directory, or reads one, is told that it sees none there.
#[test]
fn a_command_is_told_of_files_that_it_does_not_see() {
    let zones = "sandbox: { zones: { data: { path: ./data } } }\n";
    for (file, flags, line, is_told) in [
        (zones, &[][..], "cat a.txt", true),
        (zones, &[], "make all", true),
        (zones, &[], "exit 3", false),
        (zones, &[], "cat absent", false),
        ("sandbox: { root: . }\n", &[], "cat a.txt; false", false),
        (
            "sandbox: { root: . }\n",
            &["--review=copy"],
            "cat a.txt; false",
            false,
        ),
    ] {
        let world = World::new(&[("forge.yaml", file), ("a.txt", ""), ("Makefile", "")]);
        fs::create_dir_all(world.project().join(".sandbox/data")).unwrap();
        let args = [&["exec"], flags, &["--", "sh", "-c", line]].concat();
        let ran = world.forge(&args);
        assert_ne!(ran.code, 0, "{line}");
        let told = ran.stderr.contains("not its own files");
        assert_eq!(told, is_told, "{file} {flags:?} {line}: {}", ran.stderr);
    }
}

/// A command in the home directory gets one reason, and a directory that the user cannot list is
/// named by the path that the user sees.
#[test]
fn a_home_directory_is_no_project() {
    let world = World::new(&[]);
    for (dir, is) in [
        ("home", "this is your home directory"),
        (".", "around your home directory"),
    ] {
        let ran = world.forge_in(&world.outside().join(dir), &["exec", "ls"]);
        ran.code(125).says(&[is, "-C DIR"]);
        assert!(ran.stderr.lines().count() <= 3, "{}", ran.stderr);
    }
}

/// A port that a rule of the person's needs is not published; that is about no mount.
#[test]
fn a_port_of_a_named_host_is_not_published() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    let rule = ["allow", "--yes", "host:localhost:8555"];
    world.forge(&rule).code(0);
    for mechanism in mount_layers(&world) {
        let port = ["--trust", "-c", "network.loopback_in=[8555]"];
        let exec = ["exec", "--mechanism", mechanism, "--", "true"];
        let ran = world.forge(&[&port[..], &exec].concat());
        ran.code(125)
            .says(&["error: port 8555 is published", "publish another one"]);
    }
}

/// Each line is one write, so output of a command that runs at the same time does not get into it.
#[test]
fn a_line_is_written_at_once() {
    let world = World::new(&[]);
    let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
    let mut command = world.command(forge_program(), &["exec", "no-such-program-anywhere"]);
    let theirs = std::os::fd::OwnedFd::from(theirs);
    let status = command.stderr(theirs).status().unwrap();
    assert!(!status.success());
    ours.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    let mut writes = Vec::new();
    while let Ok(length) = ours.recv(&mut buffer) {
        writes.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    assert!(!writes.is_empty());
    assert!(
        writes
            .iter()
            .all(|one| one.len() > 1 && one.ends_with('\n')),
        "{writes:?}"
    );
}

#[test]
fn a_variable_that_is_absent_has_a_hint() {
    let world = World::new(&[]);
    let ran = world.forge(&["exec", "--env", "ABSENT", "--", "true"]);
    ran.code(125)
        .says(&["hint: export it first, or write NAME=VALUE"]);
}

/// The command's own /tmp has the directories around a project in it, which it cannot write.
#[test]
fn a_refused_write_beside_a_mount_below_tmp_is_told() {
    let config = "sandbox: { mode: direct, zones: { workspace: { path: ./workspace } } }\n";
    let tmp = tempfile::tempdir_in("/tmp").unwrap();
    let project = tmp.path().canonicalize().unwrap();
    std::fs::write(project.join("forge.yaml"), config).unwrap();
    std::fs::create_dir(project.join("workspace")).unwrap();
    let world = World::new(&[]);
    let here = project.display().to_string();
    for mechanism in mount_layers(&world) {
        for (line, refused, written) in [
            ("touch made", Some(format!("create {here}/made")), false),
            ("mkdir made", Some(format!("create {here}/made")), false),
            (
                "touch new/made",
                Some(format!("create {here}/new/made")),
                false,
            ),
            ("touch workspace/made", None, true),
            ("touch /tmp/made; touch /tmp/no/made", None, true),
        ] {
            let exec = ["exec", "--trace=full", "--json", "--mechanism", mechanism];
            let command = [&["-C", &*here], &exec[..], &["--", "sh", "-c", line]].concat();
            let ran = world.forge(&command);
            let object: Value = serde_json::from_str(&ran.stdout).unwrap();
            let denials = object["enforcement"]["denials"].to_string();
            let touched = object["enforcement"]["touched"]["written"].to_string();
            let told = format!("{mechanism}: {line}: {denials} {touched}");
            let is_refused = denials.contains("made");
            assert_eq!(is_refused, refused.is_some(), "{told}");
            assert_eq!(touched.contains("/made"), written, "{told}");
            assert!(!touched.contains("no/made"), "{told}");
        }
        let exec = [
            "-C",
            &here,
            "exec",
            "--mechanism",
            mechanism,
            "--",
            "touch",
            "made",
        ];
        let ran = world.forge(&exec);
        let told = told(&ran.stderr);
        assert!(told[0].contains("(outside"), "{told:?}");
        assert!(told[1].contains("`sandbox: { root: . }`"), "{told:?}");
    }
}

/// git exits with 0 after a checkout that could not replace protected files.
#[test]
fn a_success_tells_of_protected_names_that_stayed() {
    let world = World::new(&[
        ("forge.yaml", "sandbox: { root: . }\n"),
        (".vscode/a.json", "1"),
    ]);
    world.shell("git init -q; git add -A; git commit -qm 1; echo '# 2' >> forge.yaml");
    world.shell("echo 2 > .vscode/a.json; git commit -qam 2");
    for mechanism in ["namespaces", "bubblewrap"] {
        let exec = |words: &[&str]| {
            world.forge(&[&["exec", "--mechanism", mechanism, "--"], words].concat())
        };
        let ran = exec(&["git", "switch", "-q", "-d", "HEAD~1"]);
        ran.code(0).says(&[
            "refused: remove ",
            "/forge.yaml (protected name forge.yaml)\n",
            "/.vscode/a.json (protected name .vscode)\n",
            "hint: to let it change that name: `sandbox.unprotect: [\".vscode\"]`",
        ]);
        world.shell("git checkout -qf master 2>/dev/null || git checkout -qf main");
        for script in ["mv forge.yaml b", "echo > .vscode/a.json", "mv .vscode c"] {
            let ran = exec(&["sh", "-c", &format!("{script} 2>&-; true")]);
            ran.code(0).says(&["refused: "]);
        }
        // Everything else is tried and got over.
        for script in [
            "touch /etc/made",
            "touch .vscode/new",
            "cat /root/x",
            "mkdir .vscode",
        ] {
            let ran = exec(&["sh", "-c", &format!("{script} 2>&-; true")]);
            assert_eq!(ran.code(0).stderr, "", "{mechanism} {script}");
        }
    }
}

/// `<(…)` is a descriptor of the person's shell.
#[test]
fn descriptors_of_the_shell_are_not_passed_on() {
    let world = World::new(&[]);
    let hint =
        "hint: descriptors of your shell (`<(…)`) are not passed on: forge exec bash -c '…'\n";
    for (words, is_told) in [
        (&["cat", "/dev/fd/63"][..], true),
        (&["cat", "/proc/self/fd/11"], true),
        (&["sh", "-c", "cat /dev/fd/0; exit 1"], false),
        (&["cat", "/dev/fd/0", "nosuch"], false),
        (&["test", "-e", "/dev/fd/x"], false),
        (&["true", "/dev/fd/63"], false),
    ] {
        let ran = world.forge(&[&["exec", "--"], words].concat());
        assert_eq!(ran.stderr.contains(hint), is_told, "{words:?}: {ran:?}");
    }
}
