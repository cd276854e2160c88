//! Commands side by side, and after a killed one: a name that one of them made is never taken for
//! one of the person's.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use super::exec::{mechanisms, mount_layers};
use super::users::UserWorld;
use crate::support::{World, eventually, forge_program, ran};

const GIT: &str = "mkdir -p n/.git/objects n/.git/refs; echo 'ref: refs/heads/main' > n/.git/HEAD; \
                   printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch pwned\\n' \
                   > n/.git/config; ";
const EDITOR: &str = "mkdir -p .vscode; echo evil > .vscode/tasks.json; ";

/// The script that makes a protected name, and a file in it.
const NAMES: [(&str, &str); 2] = [(GIT, "n/.git/config"), (EDITOR, ".vscode/tasks.json")];

fn start(world: &World, mechanism: &str, script: &str) -> Child {
    let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
    let mut command = world.command(forge_program(), &args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// A project with names of the person's.
fn project() -> World {
    let world = World::new(&[(".idea/x", "mine"), ("sub/.envrc", "mine")]);
    world.shell("git init -q; git config core.hooksPath own-hooks");
    world
}

fn check_own(world: &World, at: &str) {
    for name in [".idea/x", "sub/.envrc"] {
        let text = fs::read_to_string(world.project().join(name)).unwrap();
        assert_eq!(text, "mine", "{at}: {name}");
    }
    let config = fs::read_to_string(world.project().join(".git/config")).unwrap();
    assert!(config.contains("own-hooks"), "{at}: {config}");
}

/// The second command starts when the first has made the name, and makes it again when the first has
/// ended.
#[test]
fn a_name_of_one_command_is_not_known_to_the_next() {
    for mechanism in mechanisms(&project()) {
        for (make, name) in NAMES {
            let world = project();
            let at = format!("{mechanism} {name}");
            let waits = "touch first; while [ ! -e second ]; do sleep 0.02; done";
            let mut first = start(&world, mechanism, &format!("{make}{waits}"));
            eventually(&at, || world.project().join("first").exists());
            let waits = "touch second; while [ ! -e over ]; do sleep 0.02; done; ";
            let mut second = start(&world, mechanism, &format!("{waits}{make}"));
            first.wait().unwrap();
            assert!(
                !world.project().join(name).exists(),
                "{at}: after the first"
            );
            world.write("over", "");
            second.wait().unwrap();
            assert!(!world.project().join(name).exists(), "{at}");
            check_own(&world, &at);
        }
    }
}

#[test]
fn a_scan_leaves_what_another_one_took() {
    for mechanism in mechanisms(&project()) {
        let world = project();
        let waits = "touch first; while [ ! -e over ]; do sleep 0.02; done";
        let mut first = start(&world, mechanism, waits);
        eventually(mechanism, || world.project().join("first").exists());
        let second = ["exec", "--mechanism", mechanism, "--", "sh", "-c", EDITOR];
        world.forge(&second).code(0);
        let listed = || world.forge(&["quarantine", "list", "--json"]).stdout;
        let taken = listed();
        assert!(taken.contains(".vscode"), "{mechanism}: {taken}");
        world.write("over", "");
        first.wait().unwrap();
        assert_eq!(listed(), taken, "{mechanism}");
    }
}

/// Files of the person's in protected directories, which a scan takes because a command beside it could
/// have made them. Another command ends later.
#[test]
fn a_scan_leaves_the_quarantine_of_another_one() {
    let names = [".git/hooks/pre-push", ".vscode/mine.json"];
    for mechanism in mechanisms(&project()) {
        let world = project();
        world.write(".vscode/in/old.json", "mine");
        let waits = |name: &str| format!("touch {name}; while [ ! -e over ]; do sleep 0.02; done");
        let mut all = [("landlock", "first"), (mechanism, "second")].map(|(mechanism, name)| {
            let child = start(&world, mechanism, &waits(name));
            eventually(mechanism, || world.project().join(name).exists());
            child
        });
        for name in names {
            world.write(name, "mine");
        }
        let third = ["exec", "--mechanism", "landlock", "--", "true"];
        world.forge(&third).code(0);
        let listed = || world.forge(&["quarantine", "list", "--json"]).stdout;
        let taken = listed();
        assert!(names.iter().all(|name| taken.contains(name)), "{taken}");
        world.write("over", "");
        for child in &mut all {
            child.wait().unwrap();
        }
        assert_eq!(listed(), taken, "{mechanism}");
        for name in names {
            world.forge(&["quarantine", "restore", name]).code(0);
            let text = fs::read_to_string(world.project().join(name)).unwrap();
            assert_eq!(text, "mine", "{mechanism}: {name}");
        }
    }
}

/// A command can add files to what a scan without mounts took: these are judged.
#[test]
fn a_scan_judges_what_commands_add_to_a_quarantine() {
    let world = project();
    let mut first = start(
        &world,
        "landlock",
        "while [ ! -e over ]; do sleep 0.02; done",
    );
    let second = ["exec", "--mechanism", "landlock", "--", "sh", "-c"];
    let make = "mkdir -p n/.vscode; echo evil > n/.vscode/tasks.json";
    world.forge(&[&second[..], &[make]].concat()).code(0);
    let add = "mkdir -p .os-sandbox-quarantine/*/n/; cd .os-sandbox-quarantine/*/n; \
               mkdir -p .git/objects .git/refs .git/hooks; echo 'ref: refs/heads/m' > .git/HEAD; \
               printf '[core]\\n\\tfsmonitor = touch pwned\\n' > .git/config; echo evil > .envrc";
    world.forge(&[&second[..], &[add]].concat()).code(0);
    world.write("over", "");
    first.wait().unwrap();
    let quarantine = world.project().join(".os-sandbox-quarantine");
    let runs = fs::read_dir(quarantine).unwrap().flatten();
    for run in runs.filter(|run| run.path().is_dir()) {
        let has = |name: &str| run.path().join("n").join(name).exists();
        let is_first = has(".vscode/tasks.json");
        assert!(
            !is_first || !has(".git/config") && !has(".envrc"),
            "{run:?}"
        );
    }
}

/// A scan without mounts knows what a command beside it had mounts over: the person changes it while
/// both run.
#[test]
fn a_mount_over_a_directory_counts_for_other_scans() {
    for mechanism in mount_layers(&project()) {
        let world = project();
        world.write(".git/hooks/pre-push", "mine");
        let waits = "touch first; while [ ! -e over ]; do sleep 0.02; done";
        let mut first = start(&world, mechanism, waits);
        eventually(mechanism, || world.project().join("first").exists());
        world.shell("chmod 755 .git/hooks/pre-push");
        let second = ["exec", "--mechanism", "landlock", "--", "true"];
        let ran = world.forge(&second);
        world.write("over", "");
        first.wait().unwrap();
        assert!(
            !ran.stderr.contains("pre-push"),
            "{mechanism}: {}",
            ran.stderr
        );
        assert!(world.project().join(".git/hooks/pre-push").exists());
    }
}

#[test]
fn a_killed_command_leaves_its_names_to_the_next_start() {
    for mechanism in mechanisms(&project()) {
        let world = project();
        let makes: String = NAMES.iter().map(|(make, _)| *make).collect();
        let mut killed = start(&world, mechanism, &format!("{makes}touch made; sleep 600"));
        eventually(mechanism, || world.project().join("made").exists());
        // SIGKILL.
        killed.kill().unwrap();
        killed.wait().unwrap();
        let inside = |world: &World| -> Vec<&str> {
            let there = |name: &&str| world.project().join(name).exists();
            NAMES.iter().map(|(_, name)| *name).filter(there).collect()
        };
        assert_eq!(inside(&world).len(), 2, "{mechanism}");
        // The tree of the killed one ends a moment later, and counts until then.
        let mut said = String::new();
        eventually(mechanism, || {
            let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "true"]);
            said.push_str(&ran.stderr);
            inside(&world).is_empty()
        });
        assert!(said.contains("left by a command"), "{mechanism}: {said}");
        check_own(&world, mechanism);
        let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "true"]);
        assert_eq!(ran.stderr, "", "{mechanism}");
    }
}

/// Makes directories whose path the kernel does not take, with a name at their end, or brings that name
/// up. Argument: `make`, or the directory above.
const DEEP: &str = "
import os, shutil, sys
top = os.getcwd()
for _ in range(40):
    if sys.argv[1] == 'make':
        os.mkdir('d' * 200)
    os.chdir('d' * 200)
if sys.argv[1] == 'make':
    os.makedirs('t/.vscode')
    open('t/.vscode/tasks.json', 'w').write('evil')
else:
    to = os.open(top, os.O_RDONLY)
    os.rename('t', 't', dst_dir_fd=to)
";

/// What a scan could not look for is looked for at the next start, and not taken for the person's.
#[test]
fn a_scan_that_failed_leaves_its_names_to_the_next_start() {
    for mechanism in mechanisms(&project()) {
        let world = project();
        let exec = |args: &[&str]| {
            world.forge(&[&["exec", "--mechanism", mechanism, "--"], args].concat())
        };
        let failed = exec(&["python3", "-c", DEEP, "make"]);
        failed.code(125).says(&["could not be looked for"]);
        let mut moved = world.command("python3".as_ref(), &["-c", DEEP, "move"]);
        assert!(moved.status().unwrap().success());
        world.shell("rm -rf ddd*");
        assert!(world.project().join("t/.vscode/tasks.json").exists());
        let next = exec(&["true"]);
        next.code(0).says(&["t/.vscode", "left by a command"]);
        assert!(!world.project().join("t/.vscode").exists(), "{mechanism}");
        check_own(&world, mechanism);
        assert_eq!(exec(&["true"]).stderr, "", "{mechanism}");
    }
}

/// An ordinary user's command takes the right to look away. What it made is found, and what is the
/// person's stays.
#[test]
fn closed_directories_are_looked_into() {
    for mechanism in mechanisms(&project()) {
        for (script, taken) in [
            ("mkdir -p x/.vscode; chmod 000 .", true),
            ("mkdir -p x/.vscode; chmod 311 .", true),
            ("mkdir -p x/.vscode; chmod 000 x", true),
            ("mkdir -p x/.vscode; chmod 000 sub .", true),
            ("chmod 000 sub", false),
            ("chmod 600 sub", false),
            ("chmod 311 sub", false),
        ] {
            let user = UserWorld::ordinary(|world| {
                world.write("sub/.env", "mine");
                world.write("sub/.envrc", "mine");
            });
            let ran = user.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", script]);
            ran.code(0);
            let at = format!("{mechanism} {script}: {}", ran.stderr);
            assert_eq!(ran.stderr.contains("quarantined:"), taken, "{at}");
            for dir in [".", "sub", "x"] {
                let dir = user.world.project().join(dir);
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                let _ = fs::set_permissions(dir, mode);
            }
            assert!(!user.world.project().join("x/.vscode").exists(), "{at}");
            for name in ["sub/.env", "sub/.envrc"] {
                let text = fs::read_to_string(user.world.project().join(name)).unwrap();
                assert_eq!(text, "mine", "{at}");
            }
        }
    }
}

/// A directory that a command opens again is scanned, no matter whether the person or an earlier
/// command closed it.
#[test]
fn directories_that_were_closed_are_looked_into() {
    const MADE: &str = "chmod 755 sub; mkdir sub/.vscode; echo evil > sub/.vscode/tasks.json";
    for mechanism in mechanisms(&project()) {
        for mode in [0o000, 0o311, 0o600, 0o100] {
            let user = UserWorld::ordinary(|world| world.write("sub/.envrc", "mine"));
            let exec = |script: &str| {
                user.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", script])
            };
            exec(&format!("chmod {mode:03o} sub")).code(0);
            let ran = exec(MADE);
            let at = format!("{mechanism} {mode:o}: {}", ran.stderr);
            let sub = user.world.project().join("sub");
            let now =
                std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&sub).unwrap().permissions());
            // Mounts keep the directory closed.
            let is_open = now & 0o777 == 0o755;
            assert!(is_open || now & 0o777 == mode, "{at}");
            assert!(is_open == ran.stderr.contains("quarantined:"), "{at}");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&sub, mode).unwrap();
            assert!(!sub.join(".vscode").exists(), "{at}");
            assert_eq!(
                fs::read_to_string(sub.join(".envrc")).unwrap(),
                "mine",
                "{at}"
            );
        }
    }
}

/// A protected directory that is closed stops no later command: neither one of the person's, nor one
/// that a command made, which is in the quarantine.
#[test]
fn closed_directories_stop_no_later_command() {
    for mechanism in mechanisms(&project()) {
        for closed in [
            "mkdir -p sub/.vscode/a; chmod 0 sub/.vscode",
            "mkdir -p .vscode/a/b; chmod 0 .vscode/a",
            "mkdir -p .git/hooks/sub; chmod 0 .git/hooks/sub",
            "mkdir -p x/.vscode/b; chmod 0 x/.vscode/b x/.vscode",
        ] {
            for by_command in [false, true] {
                let user = UserWorld::ordinary(|world| {
                    world.write(".vscode/mine", "");
                    world.write(".git/hooks/mine", "");
                });
                let exec = |script: &str| {
                    user.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", script])
                };
                match by_command {
                    true => drop(exec(closed)),
                    false => {
                        let sh = std::path::Path::new("/bin/sh");
                        let made = user.program(sh, &["-c", closed]).status().unwrap();
                        assert!(made.success(), "{closed}");
                    }
                }
                for _ in 0..2 {
                    let ran = exec("echo ran");
                    assert_eq!(ran.code, 0, "{mechanism} {closed}: {}", ran.stderr);
                }
            }
        }
    }
}

/// More names than one walk takes.
#[test]
fn names_beyond_the_bound_of_a_walk_are_moved_too() {
    const MANY: &str = "
import os
os.makedirs('.git/hooks', exist_ok=True)
for at in range(90_000):
    os.close(os.open('.env%d' % at, os.O_CREAT | os.O_WRONLY))
os.makedirs('x/.vscode')
";
    let world = World::new(&[]);
    let mechanism = mechanisms(&world)[0];
    let ran = world.forge(&[
        "exec",
        "--mechanism",
        mechanism,
        "--",
        "python3",
        "-c",
        MANY,
    ]);
    ran.code(0);
    assert!(!world.project().join("x/.vscode").exists());
    let left = fs::read_dir(world.project()).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(".env"));
    assert_eq!(left.count(), 0);
}

/// What was there before all of them, and what git outside changes meanwhile, stays.
#[test]
fn commands_side_by_side_take_nothing_of_the_persons() {
    for mechanism in mechanisms(&project()) {
        let world = project();
        let waits = "touch first; while [ ! -e second ]; do sleep 0.02; done";
        let mut first = start(&world, mechanism, waits);
        eventually(mechanism, || world.project().join("first").exists());
        // Under Landlock alone nobody can tell who wrote what git would run.
        let key = match mechanism {
            "landlock" => "user.name",
            _ => "alias.mine",
        };
        world.shell(&format!("git config {key} '!true'"));
        for other in ["true", "git config user.email a@b", "true"] {
            let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", other];
            let ran = world.forge(&args);
            assert!(!ran.stderr.contains("quarantined"), "{mechanism}: {ran:?}");
        }
        let mut list = Command::new("git");
        let listed = list.args(["config", "--get", key]);
        let listed = listed.current_dir(world.project()).output().unwrap();
        assert!(listed.status.success(), "{mechanism}");
        check_own(&world, mechanism);
        world.write("second", "");
        first.wait().unwrap();
    }
}

/// Without a place for the record this command's names are the person's for the next one, which is
/// told.
#[test]
fn a_command_without_a_record_says_so() {
    let world = World::new(&[]);
    // Files where both places for it are.
    let places = world.outside().join("places");
    fs::create_dir(&places).unwrap();
    let of_user = format!("os-sandbox-state-{}", rustix::process::geteuid().as_raw());
    for name in ["os-sandbox", &of_user] {
        fs::write(places.join(name), "").unwrap();
    }
    for mechanism in mechanisms(&world) {
        let flags = ["exec", "--mechanism", mechanism, "--", "true"];
        let with = world.forge(&flags);
        assert_eq!((with.code, &*with.stderr), (0, ""), "{mechanism}");
        let mut forge = world.command(forge_program(), &flags);
        forge.env("XDG_STATE_HOME", &places).env("TMPDIR", &places);
        let ran = ran(forge.output().unwrap());
        match mechanism {
            // Its HOME would be there.
            "landlock" => ran.code(125).says(&["no place for the command's HOME"]),
            _ => ran
                .code(0)
                .says(&["note: protected names: without a record of this command"]),
        };
    }
}

/// Under Landlock alone HOME and TMPDIR of a command are directories of the host, which another command
/// of the user may have in a project that it can write.
#[test]
fn a_command_writes_nothing_in_the_home_of_another() {
    for mechanism in mechanisms(&project()) {
        let world = project();
        fs::create_dir(world.project().join("tmp")).unwrap();
        let start = |script: &str| {
            let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
            let mut command = world.command(forge_program(), &args);
            command.env("TMPDIR", world.project().join("tmp"));
            command.stderr(Stdio::null()).spawn().unwrap()
        };
        let waits = "while [ ! -e second ]; do sleep 0.02; done; ";
        let looks = "ls -A $HOME $TMPDIR | grep planted > found; touch over";
        let mut first = start(&format!(
            "echo $HOME $TMPDIR > places.new; mv places.new places; {waits}{looks}"
        ));
        eventually(mechanism, || world.project().join("places").exists());
        let mut second = start(
            "for place in $(cat places); do echo x > $place/planted; done; ls -A tmp > listed; touch second",
        );
        second.wait().unwrap();
        first.wait().unwrap();
        let text = |name: &str| fs::read_to_string(world.project().join(name)).unwrap();
        assert!(world.project().join("over").exists(), "{mechanism}");
        assert_eq!(text("found"), "", "{mechanism}: {}", text("places"));
        assert_eq!(text("listed"), "", "{mechanism}");
    }
}

/// Under Landlock alone a command can change the modes of its user's directories. None sends the home
/// of a later command to a place where another command can write.
#[test]
fn a_mode_sends_no_home_to_the_temporary_directory() {
    let world = World::new(&[]);
    let state = world.outside().join("home/.local/state");
    let own = state.join("os-sandbox");
    fs::create_dir_all(&own).unwrap();
    for mechanism in mechanisms(&world) {
        for mode in [0o755, 0o711, 0o500, 0o000, 0o777] {
            fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
            let script = "echo $HOME $TMPDIR";
            let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", script]);
            let at = format!("{mechanism} {mode:o}: {} {}", ran.stdout, ran.stderr);
            let in_state = |place: &str| place.starts_with(&*state.to_string_lossy());
            match mode {
                // Others could have put something there.
                0o777 => assert!(
                    ran.code != 0 && ran.stderr.contains("written by others"),
                    "{at}"
                ),
                _ if mechanism == "landlock" => {
                    let mut places = ran.stdout.split_whitespace();
                    assert!(ran.code == 0 && places.all(in_state), "{at}");
                }
                _ => assert_eq!(ran.code, 0, "{at}"),
            }
        }
    }
}

/// A directory of another user that appears while a command runs, as those of a database in a container
/// do, is none of the command's: it fails neither that command nor a later one. Where the command could
/// enter, nobody knows what it put there.
#[test]
fn directories_of_another_user_stop_no_command() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a directory of another user");
        return;
    }
    for mechanism in mechanisms(&project()) {
        for (mode, code) in [
            (0o700, 0),
            (0o750, 0),
            (0o710, 0),
            (0o311, 125),
            (0o733, 125),
        ] {
            for killed in [false, true] {
                let user = UserWorld::ordinary(|_| {});
                let project = user.world.project();
                let exec = ["exec", "--mechanism", mechanism, "--", "sh", "-c"];
                let waits = "touch first; while [ ! -e second ]; do sleep 0.02; done";
                let mut first = user.command(&[&exec[..], &[waits]].concat());
                let mut first = first.stderr(Stdio::piped()).spawn().unwrap();
                let at = format!("{mechanism} {mode:o} {killed}");
                eventually(&at, || project.join("first").exists());
                fs::create_dir(project.join("data")).unwrap();
                fs::set_permissions(project.join("data"), Permissions::from_mode(mode)).unwrap();
                if killed {
                    first.kill().unwrap();
                }
                fs::write(project.join("second"), "").unwrap();
                let first = ran(first.wait_with_output().unwrap());
                if !killed {
                    assert_eq!(first.code, code, "{at}: {}", first.stderr);
                    first.says(match code {
                        0 => &["/data cannot be listed, and belongs to another user"],
                        _ => &["protected names that it made could not be looked for"],
                    });
                }
                for _ in 0..2 {
                    let later = user.forge(&[&exec[..], &["exit 7"]].concat());
                    let want = if code == 0 { 7 } else { code };
                    assert_eq!(later.code, want, "{at}: {}", later.stderr);
                }
            }
        }
    }
}
