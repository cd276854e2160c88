//! `sandbox.programs`: programs of one's home, at their own paths.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::exec::mechanisms;
use crate::support::{Ran, World};

/// A home with programs as version managers and installers leave them.
struct Home {
    world: World,
    home: PathBuf,
}

impl Home {
    fn new() -> Home {
        let world = World::new(&[]);
        let home = world.outside().join("home");
        std::fs::create_dir_all(&home).unwrap();
        let home = home.canonicalize().unwrap();
        let made = Home { world, home };
        made.program("tools/bin/own", "#!/bin/sh\necho own of $0\n");
        made.program("tools/private/key", "secret\n");
        made.program(".local/share/app/1.0/app", "#!/bin/sh\necho app\n");
        made.directory("links");
        symlink("1.0", made.home.join(".local/share/app/current")).unwrap();
        let target = made.home.join(".local/share/app/current/app");
        symlink(target, made.home.join("links/app")).unwrap();
        std::fs::write(made.home.join(".local/share/app/1.0/private"), "secret").unwrap();
        made.program(".rustup/toolchain", "#!/bin/sh\necho $RUSTUP_HOME\n");
        made
    }

    fn directory(&self, path: &str) {
        std::fs::create_dir_all(self.home.join(path)).unwrap();
    }

    fn program(&self, path: &str, text: &str) {
        let path = self.home.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, more: &[&str]) -> String {
        let own = more
            .iter()
            .map(|dir| self.home.join(dir).display().to_string());
        let system = std::env::var("PATH").unwrap();
        own.chain([system]).collect::<Vec<_>>().join(":")
    }

    fn forge(&self, path: &str, args: &[&str]) -> Ran {
        let mut command = self.world.command(crate::support::forge_program(), args);
        command.env("PATH", path).env("HOME", &self.home);
        crate::support::ran(command.output().unwrap())
    }
}

fn says(ran: &Ran, code: i32, stdout: &str) {
    ran.code(code);
    assert_eq!(ran.stdout, stdout, "{}", ran.stderr);
}

#[test]
fn programs_of_ones_home_run_at_their_own_paths() {
    let home = Home::new();
    let path = home.path(&["links", "tools/bin"]);
    let set = "sandbox.programs=[~/tools/bin, ~/links, ~/.rustup]";
    let own = home.home.join("tools/bin/own").display().to_string();
    for mechanism in mechanisms(&home.world) {
        let exec = |script: &str| {
            let args = [
                "exec",
                "-c",
                set,
                "--mechanism",
                mechanism,
                "--",
                "sh",
                "-c",
                script,
            ];
            home.forge(&path, &args)
        };
        says(&exec("own"), 0, &format!("own of {own}\n"));
        says(&exec("app"), 0, "app\n");
        let rustup = home.home.join(".rustup").display().to_string();
        says(&exec("toolchain"), 0, &format!("{rustup}\n"));
        // The person's order.
        let ran = exec("echo $PATH");
        let order: Vec<&str> = ran.stdout.trim().split(':').collect();
        let expected = ["links", "tools/bin", ".rustup"].map(|dir| home.home.join(dir));
        let starts: Vec<&Path> = order.iter().take(3).map(Path::new).collect();
        assert_eq!(starts, expected.iter().collect::<Vec<_>>(), "{mechanism}");
        // Nothing else of the home is there, and nothing is written.
        for hidden in ["tools/private/key", ".local/share/app/1.0/private"] {
            let at = home.home.join(hidden).display().to_string();
            assert_ne!(exec(&format!("cat {at}")).code, 0, "{mechanism} {hidden}");
        }
        assert_ne!(exec(&format!("echo x >> {own}")).code, 0, "{mechanism}");
        assert_ne!(exec(&format!("rm {own}")).code, 0, "{mechanism}");
        assert_ne!(
            exec(&format!(
                "echo x > {}/new",
                home.home.join("tools/bin").display()
            ))
            .code,
            0
        );
    }
    let text = std::fs::read_to_string(own).unwrap();
    assert_eq!(text, "#!/bin/sh\necho own of $0\n");
}

/// A project's word needs a yes; the person's own file does not.
#[test]
fn a_project_needs_a_yes() {
    let home = Home::new();
    let path = home.path(&["tools/bin"]);
    home.world.write(
        "golem-forge.config.yaml",
        "sandbox: { root: ., programs: [~/tools/bin] }\n",
    );
    let ran = home.forge(&path, &["exec", "--", "own"]);
    ran.code(127).says(&[
        "`sandbox.programs[~/tools/bin]` lets commands read and run what lies there",
        "forge trust",
    ]);
    // Told in full once.
    let again = home.forge(&path, &["exec", "--", "true"]);
    again.code(0);
    assert_eq!(
        again.stderr,
        "warning: you have not agreed to sandbox.programs[~/tools/bin]: see `forge trust`\n"
    );
    home.forge(&path, &["trust", "--yes"]).code(0);
    home.forge(&path, &["exec", "--", "own"]).code(0);
}

#[test]
fn init_proposes_what_the_path_has() {
    let home = Home::new();
    let path = home.path(&["tools/bin", "links"]);
    home.world.write("Makefile", "all:\n\town\n");
    home.forge(&path, &["init", "--yes"]).code(0);
    let config = std::fs::read_to_string(home.world.project().join("forge.yaml")).unwrap();
    assert!(
        config.contains("  programs: [~/links, ~/tools/bin]\n"),
        "{config}"
    );
    let ran = home.forge(&path, &["exec", "--", "own"]);
    ran.code(0);
    assert_eq!(ran.stderr, "");
}

/// What is missing says where it is, and which key shows it.
#[test]
fn a_program_that_is_not_seen_says_why() {
    let home = Home::new();
    let path = home.path(&["tools/bin", "links"]);
    home.program("tools/bin/broken", "#!/nowhere/python\n");
    let interpreter = home.home.join("tools/bin/own").display().to_string();
    home.world.write("by-own", &format!("#!{interpreter}\n"));
    home.world.write("by-nothing", "#!/nowhere/python\n");
    for script in ["by-own", "by-nothing"] {
        let file = home.world.project().join(script);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for mechanism in mechanisms(&home.world) {
        let exec = |program: &str| {
            let ran = home.forge(&path, &["exec", "--mechanism", mechanism, "--", program]);
            assert!(matches!(ran.code, 126 | 127), "{}", ran.stderr);
            ran.stderr
        };
        let own = exec("own");
        assert!(
            own.contains("tools/bin/own, which commands do not see"),
            "{own}"
        );
        assert!(own.contains("programs: [~/tools/bin]"), "{own}");
        let script = exec("./by-own");
        assert!(script.contains("it runs with"), "{script}");
        assert!(script.contains("programs: [~/tools/bin]"), "{script}");
        let nothing = exec("./by-nothing");
        assert!(
            nothing.contains("names /nowhere/python, which does not exist"),
            "{nothing}"
        );
        for flag in ["--review", "--trace"] {
            let value = if flag == "--review" { "copy" } else { "full" };
            let ran = home.forge(
                &path,
                &["exec", "--mechanism", mechanism, flag, value, "true"],
            );
            // A host that mounts no overlays refuses the option first.
            let expected = format!("did you mean {flag}={value}?");
            assert!(
                ran.stderr.contains(&expected) || ran.code == 125,
                "{}",
                ran.stderr
            );
        }
        let unknown = exec("no-such-program-anywhere");
        assert!(
            unknown.contains("it is not in your PATH outside of the sandbox either"),
            "{unknown}"
        );
        let here = exec("by-own");
        assert!(here.contains("in this directory is ./by-own"), "{here}");
    }
}

#[test]
fn what_cannot_be_shown_for_its_programs() {
    let home = Home::new();
    let path = home.path(&[]);
    home.directory("state");
    for (list, expected) in [
        ("['~']", "it holds the home directory"),
        ("['/']", "it is not a directory of programs"),
        ("[/proc/self]", "it is not a directory of programs"),
        ("[tools/bin]", "it is not an absolute path"),
        ("[~/../x]", "it is not an absolute path"),
    ] {
        let set = format!("sandbox.programs={list}");
        let ran = home.forge(&path, &["exec", "-c", &set, "--", "true"]);
        ran.code(125).says(&[expected]);
    }
    let project = home.world.project().join("bin").display().to_string();
    std::fs::create_dir(&project).unwrap();
    let set = format!("sandbox.programs=[{project}]");
    let ran = home.forge(&path, &["exec", "-c", &set, "--", "true"]);
    ran.code(125).says(&["it is not apart from"]);
    let state = home.world.outside().join("state").display().to_string();
    let set = format!("sandbox.programs=[{state}]");
    let ran = home.forge(&path, &["exec", "-c", &set, "--", "true"]);
    ran.code(125)
        .says(&["it is not apart from", "which no worker may reach"]);
    // What is not there is no mistake: a team's file names what one of them has.
    let set = "sandbox.programs=[~/.not-there]";
    home.forge(&path, &["exec", "-c", set, "--", "true"])
        .code(0);
}

/// An active virtual environment, or another directory of the person's PATH in the project, comes first
/// in a command's PATH too. A program elsewhere in it stays unseen, and is told.
#[test]
fn programs_of_the_project_are_those_of_the_persons_path() {
    let home = Home::new();
    let project = home.world.project().canonicalize().unwrap();
    let script = |text: &str| format!("#!/bin/sh\necho {text}\n");
    for (name, text) in [(".venv/bin/uname", "venv"), ("bin/uname", "second")] {
        let at = project.join(name);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(&at, script(text)).unwrap();
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    home.program("tools/bin/uname", &script("home"));
    let of_project = |name: &str| project.join(name).display().to_string();
    let system = home.path(&[]);
    for mechanism in mechanisms(&home.world) {
        let run = |path: &str, words: &[&str]| {
            let args = [&["exec", "--mechanism", mechanism, "--"], words].concat();
            home.forge(path, &args)
        };
        let both = format!("{}:{}:{system}", of_project("bin"), of_project(".venv/bin"));
        says(&run(&both, &["uname"]), 0, "second\n");
        let venv = format!("{}:{system}", of_project(".venv/bin"));
        says(&run(&venv, &["sh", "-c", "uname"]), 0, "venv\n");
        let ran = run(&home.path(&["tools/bin"]), &["uname"]);
        says(&ran, 0, "Linux\n");
        ran.says(&["note: runs /usr/bin/uname; yours is", "tools/bin/uname"]);
        let ran = run(&system, &["uname"]);
        says(&ran, 0, "Linux\n");
        assert_eq!(ran.stderr, "", "{mechanism}");
    }
}
