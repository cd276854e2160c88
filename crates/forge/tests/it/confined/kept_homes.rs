//! The home directories that are kept for commands with presets: listed, removed, bounded, and not
//! disturbed while a command uses them.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use super::users::UserWorld;
use crate::support::{Ran, World, ran};

/// State that nothing outside executes: it is shared under every mechanism.
const TOOL: &str = "\
preset: tool
about: a program of a test
state: [{ path: ~/.tool, mode: share, holds: [tokens] }]
";

fn prepare(world: &World) {
    world.write("forge.yaml", "sandbox: { root: . }\n");
    let home = world.outside().join("home");
    fs::create_dir_all(home.join(".tool")).unwrap();
    fs::write(home.join(".tool/login"), "token").unwrap();
    fs::create_dir_all(home.join(".config/forge/presets")).unwrap();
    fs::write(home.join(".config/forge/presets/tool.yaml"), TOOL).unwrap();
}

/// A command that waits for a line of input before it ends.
struct Waiting {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Waiting {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Lets the command go on, and returns its further output.
    fn finish(mut self) -> String {
        writeln!(self.child.stdin.take().unwrap(), "go").unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl UserWorld {
    fn tool(&self, share: &str, script: &str) -> Ran {
        let args = ["exec", "--preset", "tool", share, "--", "sh", "-c", script];
        self.forge(&args)
    }

    /// Starts a command that prints `ready`, waits, and runs a script.
    fn start(&self, share: &str, script: &str) -> Waiting {
        let script = format!("echo ready; read line; {script}");
        let args = [
            "exec", "-q", "--preset", "tool", share, "--", "sh", "-c", &script,
        ];
        let mut command = self.command(&args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut waiting = Waiting { child, output };
        assert_eq!(waiting.line(), "ready\n");
        waiting
    }

    fn homes(&self) -> Vec<Value> {
        let listed = self.forge(&["preset", "home", "list", "--json"]);
        listed.code(0);
        let object: Value = serde_json::from_str(&listed.stdout).unwrap();
        object["homes"].as_array().unwrap().clone()
    }

    fn home(&self) -> PathBuf {
        PathBuf::from(self.homes()[0]["path"].as_str().unwrap())
    }
}

#[test]
fn they_are_listed_with_size_and_age_and_removed() {
    UserWorld::each(prepare, |user| {
        let none = user.forge(&["preset", "home"]);
        assert_eq!(none.stdout, "No home directory is kept.\n");
        let write = "head -c 5000 /dev/zero > ~/five; mkdir -p ~/a/b; echo > ~/a/b/c";
        user.tool("--no-share", write).code(0);
        let project = user.world.project().canonicalize().unwrap();
        let home = &user.homes()[0];
        assert_eq!(home["project"].as_str().unwrap(), project.to_str().unwrap());
        assert_eq!((&home["bytes"], &home["files"]), (&5001.into(), &2.into()));
        assert_eq!(home["in_use"], false);
        let text = user.forge(&["preset", "home", "list"]).stdout;
        for part in [project.to_str().unwrap(), "5.0 kB", "just now"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Modes that a command left do not keep it.
        let script = "mkdir ~/closed; echo > ~/closed/x; chmod 0 ~/closed ~ 2>/dev/null; true";
        user.tool("--no-share", script).code(0);
        user.tool("--no-share", "true").code(0);
        user.forge(&["preset", "home", "remove", "/nowhere"])
            .code(1)
            .says(&["no home directory is kept for /nowhere"]);
        user.forge(&["preset", "home", "remove"]).code(2);
        let removed = user.forge(&["preset", "home", "remove", "."]);
        removed.code(0);
        assert!(
            removed.stdout.contains("removed the home directory of"),
            "{}",
            removed.stdout
        );
        assert!(user.homes().is_empty());
        for directory in ["homes", "home-records"] {
            let left = user.world.outside().join("state").join(directory);
            assert_eq!(fs::read_dir(left).unwrap().count(), 0, "{directory}");
        }
        // Links in one lead nowhere.
        user.tool(
            "--share",
            &format!("ln -s {}/home ~/link", user.world.outside().display()),
        )
        .code(0);
        user.forge(&["preset", "home", "remove", "--all"]).code(0);
        let login = user.world.outside().join("home/.tool/login");
        assert_eq!(fs::read_to_string(login).unwrap(), "token");
        assert!(user.homes().is_empty());
    });
}

#[test]
fn one_in_use_is_not_removed() {
    UserWorld::each(prepare, |user| {
        let running = user.start("--no-share", "cat ~/mine");
        fs::write(user.home().join("mine"), "still there").unwrap();
        user.own_everything();
        let again = user.tool("--no-share", "true");
        again.code(0);
        assert_eq!(user.homes()[0]["in_use"], true);
        for which in [".", "--all"] {
            let refused = user.forge(&["preset", "home", "remove", which]);
            refused
                .code(1)
                .says(&["commands use the home directory of", "end them first"]);
        }
        assert_eq!(running.finish(), "still there");
        user.forge(&["preset", "home", "remove", "--all"]).code(0);
        assert!(user.homes().is_empty());
    });
}

/// Whoever runs a script in a home directory can leave programs and settings there. Commands with a
/// login or keys of the person's find nothing of those without, or of other presets.
#[test]
fn a_home_is_for_the_same_presets_and_the_same_sharing() {
    let with_more = |world: &World| {
        prepare(world);
        let presets = world.outside().join("home/.config/forge/presets");
        let more = "preset: more\nabout: another one\nenv: { keys: [MORE_API_KEY] }\n";
        fs::write(presets.join("more.yaml"), more).unwrap();
        let around = "preset: around\nabout: with another one\nextends: [tool]\n";
        fs::write(presets.join("around.yaml"), around).unwrap();
    };
    UserWorld::each(with_more, |user| {
        for (of, to, finds) in [
            (["python", "--no-share"], ["tool", "--share"], false),
            (["python", "--no-share"], ["tool", "--no-share"], false),
            (["python", "--no-share"], ["more", "--share"], false),
            (["python", "--share"], ["tool", "--share"], false),
            (["tool", "--no-share"], ["tool", "--share"], false),
            (["tool", "--share"], ["tool", "--no-share"], false),
            (["tool", "--share"], ["python", "--no-share"], false),
            (["tool", "--share"], ["more", "--share"], false),
            (["tool", "--share"], ["tool,more", "--share"], false),
            (["tool", "--share"], ["tool", "--share"], true),
            (["tool", "--share"], ["tool,python", "--share"], true),
            (["tool", "--share"], ["around", "--share"], true),
            (["more,tool", "--share"], ["tool,more", "--share"], true),
            (["python", "--no-share"], ["rust", "--no-share"], true),
            (["python", "--no-share"], ["rust", "--share"], true),
        ] {
            let run = |[presets, share]: [&str; 2], script: &str| {
                let args = [
                    "exec", "-q", "--preset", presets, share, "--", "sh", "-c", script,
                ];
                let ran = user.forge(&args);
                ran.code(0);
                ran.stdout
            };
            run(
                of,
                "echo planted > ~/.bashrc; mkdir ~/bin; echo planted > ~/bin/git",
            );
            let found = run(to, "ls -d ~/.bashrc ~/bin/git 2>/dev/null; true");
            assert_eq!(
                found.lines().count(),
                if finds { 2 } else { 0 },
                "{of:?} {to:?}"
            );
            user.forge(&["preset", "home", "remove", "."]).code(0);
            assert!(user.homes().is_empty(), "{of:?} {to:?}");
        }
    });
}

#[test]
fn the_list_names_the_presets_of_each() {
    UserWorld::each(prepare, |user| {
        user.tool("--share", "true").code(0);
        user.tool("--no-share", "true").code(0);
        user.forge(&["exec", "--preset", "rust", "--", "true"])
            .code(0);
        let homes = user.homes();
        let mut owners: Vec<String> = homes
            .iter()
            .map(|home| format!("{} {}", home["presets"], home["shared"]))
            .collect();
        owners.sort();
        assert_eq!(
            owners,
            [r#"["tool"] false"#, r#"["tool"] true"#, "[] false"]
        );
        let text = user.forge(&["preset", "home"]).stdout;
        for words in [" tool, shared ", " tool  ", " others "] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let removed = user.forge(&["preset", "home", "remove", "."]).stdout;
        assert_eq!(removed.lines().count(), 3, "{removed}");
    });
}

/// The link to shared state does not change while a command relies on it.
#[test]
fn the_links_of_a_running_command_stay() {
    UserWorld::each(prepare, |user| {
        let sharing = user.start("--share", "cat ~/.tool/login; echo new > ~/.tool/new");
        let apart = user.tool("--no-share", "cat ~/.tool/login");
        assert_eq!(apart.stdout, "");
        user.tool("--share", "true").code(0);
        // Nothing is there to share for the moment.
        let own = user.world.outside().join("home/.tool");
        let aside = user.world.outside().join("home/.aside");
        fs::rename(&own, &aside).unwrap();
        let other = user.tool("--share", "echo ran");
        other
            .code(125)
            .says(&["another command uses it and shares something else"]);
        assert_eq!(other.stdout, "");
        fs::rename(&aside, &own).unwrap();
        assert_eq!(sharing.finish(), "token");
        assert_eq!(fs::read_to_string(own.join("new")).unwrap(), "new\n");

        user.tool("--no-share", "mkdir ~/.tool; echo own > ~/.tool/login")
            .code(0);
        let apart = user.tool("--no-share", "cat ~/.tool/login");
        assert_eq!(apart.stdout, "own\n");
    });
}

/// Many at once: each sees the whole of its own state, and nothing is lost.
#[test]
fn starts_at_once_see_no_half_of_a_change() {
    UserWorld::each(prepare, |user| {
        user.tool("--no-share", "mkdir ~/.tool; echo own > ~/.tool/login")
            .code(0);
        let outcomes: Vec<(bool, Ran)> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..12)
                .map(|at| {
                    let shares = at % 2 == 0;
                    let flag = if shares { "--share" } else { "--no-share" };
                    let script = "for n in 1 2 3; do cat ~/.tool/login || exit 9; done";
                    let args = [
                        "exec", "-q", "--preset", "tool", flag, "--", "sh", "-c", script,
                    ];
                    let mut command = user.command(&args);
                    scope.spawn(move || (shares, ran(command.output().unwrap())))
                })
                .collect();
            starts
                .into_iter()
                .map(|start| start.join().unwrap())
                .collect()
        });
        for (shares, ran) in &outcomes {
            ran.code(0);
            let expected = if *shares {
                "token".repeat(3)
            } else {
                "own\n".repeat(3)
            };
            assert_eq!(ran.stdout, expected);
        }
        assert_eq!(user.tool("--share", "cat ~/.tool/login").stdout, "token");
        assert_eq!(user.tool("--no-share", "cat ~/.tool/login").stdout, "own\n");
    });
}

#[test]
fn more_than_the_bounds_are_refused_with_the_command_that_helps() {
    UserWorld::each(prepare, |user| {
        user.tool("--no-share", "true").code(0);
        let homes = user.world.outside().join("state/homes");
        // As large as the bound, without a block on the disk.
        let large = fs::File::create(user.home().join("large")).unwrap();
        large.set_len((16 << 30) + 1).unwrap();
        let name = user.homes()[0]["name"].as_str().unwrap().to_owned();
        let record = user.world.outside().join("state/home-records").join(&name);
        fs::write(&record, "not a record").unwrap();
        user.own_everything();
        let refused = user.tool("--no-share", "echo ran");
        refused
            .code(125)
            .says(&["17179869185 bytes", "forge preset home remove"]);
        assert_eq!(refused.stdout, "");
        large.set_len(1).unwrap();
        user.tool("--no-share", "true").code(0);

        for at in 0..255 {
            let more = homes.join(format!("more-{at}"));
            fs::create_dir(&more).unwrap();
            fs::set_permissions(more, fs::Permissions::from_mode(0o700)).unwrap();
        }
        user.own_everything();
        user.tool("--no-share", "true").code(0);
        let other = user.world.outside().join("other");
        fs::create_dir(&other).unwrap();
        user.own_everything();
        let mut elsewhere = user.command(&["exec", "--preset", "tool", "--", "echo", "ran"]);
        let refused = ran(elsewhere.current_dir(&other).output().unwrap());
        refused
            .code(125)
            .says(&["256 are kept already", "forge preset home remove"]);
        user.forge(&["preset", "home", "remove", "more-7"]).code(0);
        let mut elsewhere = user.command(&["exec", "--preset", "tool", "--", "echo", "ran"]);
        ran(elsewhere.current_dir(&other).output().unwrap()).code(0);
    });
}

/// Of a forge that was killed while it removed one.
#[test]
fn a_removal_that_was_interrupted_is_finished() {
    UserWorld::each(prepare, |user| {
        user.tool("--no-share", "echo > ~/x").code(0);
        let home = user.home();
        let name = home.file_name().unwrap().to_str().unwrap();
        let aside = home.with_file_name(format!(".removing-{name}"));
        fs::rename(&home, &aside).unwrap();
        assert!(user.homes().is_empty());
        user.forge(&["preset", "home", "remove", "--all"]).code(0);
        assert!(!aside.exists());
    });
}

#[test]
fn a_copy_of_an_earlier_command_is_not_there_for_one_that_shares_nothing() {
    const COPYING: &str = "\
preset: tool
about: a program of a test
state: [{ path: ~/.tool.json, mode: copy, holds: [tokens] }]
";
    let with_copy = |world: &World| {
        prepare(world);
        let home = world.outside().join("home");
        fs::write(home.join(".tool.json"), "token\n").unwrap();
        fs::write(home.join(".config/forge/presets/tool.yaml"), COPYING).unwrap();
    };
    UserWorld::each(with_copy, |user| {
        let show = "cat ~/.tool.json; grep -rs token ~ | head -1";
        for (flags, expected) in [
            (["--preset", "tool", "--no-share"], ""),
            (["--preset", "tool", "--share"], "token\n"),
            (["--preset", "tool", "--no-share"], ""),
            // One that does not name the file.
            (["--preset", "rust", "--no-share"], ""),
            // What commands wrote in the copy comes back with it.
            (["--preset", "tool", "--share"], "token\nadded\n"),
        ] {
            let args = [&["exec", "-q"], &flags[..], &["--", "sh", "-c", show]].concat();
            let shown = user.forge(&args).stdout;
            assert!(shown.starts_with(expected), "{flags:?}: {shown}");
            assert_eq!(shown.is_empty(), expected.is_empty(), "{flags:?}: {shown}");
            let receipt = user.forge(&[&["exec", "--json"], &flags[..], &["--", "true"]].concat());
            let lists = receipt.stdout.contains(".tool.json");
            assert_eq!(lists, !expected.is_empty(), "{flags:?}: {}", receipt.stdout);
            let add = "test ! -e ~/.tool.json || echo added >> ~/.tool.json";
            user.forge(&[&["exec", "-q"], &flags[..], &["--", "sh", "-c", add]].concat())
                .code(0);
        }
        let own = user.world.outside().join("home/.tool.json");
        assert_eq!(fs::read_to_string(own).unwrap(), "token\n");
    });
}
