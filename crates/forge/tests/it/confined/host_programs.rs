//! Programs that forge itself starts, and files that it shows for programs: a command never decides
//! which ones.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::exec::{mechanisms, mount_layers};
use crate::support::{Ran, World, forge_program, ran};

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn home(world: &World) -> PathBuf {
    world.outside().join("home").canonicalize().unwrap()
}

/// A repository, in which git has to be asked for the committer.
fn project() -> World {
    let world = World::new(&[
        ("HEAD", "ref: refs/heads/main\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
    ]);
    let settings = home(&world).join(".config/forge");
    fs::create_dir_all(&settings).unwrap();
    let file = "providers: { mine: { wire: openai-chat, base_url: 'http://127.0.0.1:9/', \
                api_key_command: [planted] } }\n";
    fs::write(settings.join("config.yaml"), file).unwrap();
    world
}

/// Each way in which forge starts a program that the environment or a person names: the program, the
/// variable that names it, and the command line.
#[rustfmt::skip]
const STARTS: [(&str, (&str, &str), &[&str]); 7] = [
    ("git", ("A", ""), &["exec", "--", "true"]),
    ("git", ("A", ""), &["doctor", "--git"]),
    ("planted", ("A", ""), &["doctor", "--model", "mine:m"]),
    ("ssh", ("DOCKER_HOST", "ssh://127.0.0.1:1"), &["doctor", "--docker"]),
    ("ssh", ("DOCKER_HOST", "ssh://127.0.0.1:1"), &["image", "build", "--base", "x:1"]),
    ("ssh", ("DOCKER_HOST", "ssh://127.0.0.1:1"), &["-c", "execution.mode=docker_required", "-c",
        "docker.enabled=true", "exec", "--", "true"]),
    ("planted", ("BROWSER", "planted"), &["exec", "--preset", "claude", "--no-share", "--", "sh",
        "-c", "$BROWSER https://claude.ai/x; sleep 0.3"]),
];

/// A directory of PATH below the test's own, with the directory of its program, and `true` if a command
/// can change what is there.
const PLACES: [(&str, &str, bool); 11] = [
    ("project/.venv/bin", "", true),
    ("project/node_modules/.bin", "", true),
    // Links of the person into the project.
    ("home/tools", "project/tools", true),
    ("home/bin", "project/hop", true),
    // Kept home directories.
    ("state/homes/a/bin", "", true),
    // Every user writes there.
    ("open", "", true),
    // An environment that is active.
    ("elsewhere/venv/bin", "", true),
    ("home/.local/bin", "", false),
    // A mount of the project, a directory that the person shows to commands, state that a preset shares.
    ("mounted", "", true),
    ("shown/bin", "", true),
    ("home/.claude/local", "", true),
];

/// Prepares a place, and returns the file that the program there writes.
fn plant(world: &World, place: &str, behind: &str, name: &str) -> PathBuf {
    let (base, marker) = (world.outside(), world.outside().join("started"));
    let directory = base.join(place);
    let text = format!(
        "#!/bin/sh\necho \"$0 $*\" >> {}\nexit 1\n",
        marker.display()
    );
    match behind {
        "" => script(&directory.join(name), &text),
        "project/hop" => {
            script(&base.join(behind).join(name), &text);
            fs::create_dir_all(&directory).unwrap();
            symlink(base.join(behind).join(name), directory.join(name)).unwrap();
        }
        behind => {
            script(&base.join(behind).join(name), &text);
            symlink(base.join(behind), &directory).unwrap();
        }
    }
    match place {
        "open" => fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap(),
        "mounted" => {
            let mounts = "[{ source: ., target: / }, { source: ../mounted, target: /mounted }]";
            world.write("forge.yaml", &format!("sandbox: {{ mounts: {mounts} }}\n"));
        }
        "shown/bin" => {
            let line = format!("write: {}", base.join("shown").display());
            world.forge(&["allow", "--yes", &line]).code(0);
        }
        _ => {}
    }
    marker
}

#[test]
fn no_command_decides_which_program_forge_starts() {
    for (name, (variable, value), arguments) in STARTS {
        for (place, behind, is_writable) in PLACES {
            let world = project();
            let marker = plant(&world, place, behind, name);
            let arguments = [&["--trust"], arguments].concat();
            let mut command = world.command(forge_program(), &arguments);
            command
                .env("PATH", world.outside().join(place))
                .env("VIRTUAL_ENV", world.outside().join("elsewhere/venv"))
                .env(variable, value);
            let ran = ran(command.output().unwrap());
            let started = fs::read_to_string(&marker);
            let about = format!("{name} {arguments:?} {place}: {}{}", ran.stdout, ran.stderr);
            assert_eq!(started.is_err(), is_writable, "{about}\n{started:?}");
        }
    }
}

/// A person is told which program is left out, and why.
#[test]
fn a_program_that_is_left_out_is_named() {
    let world = project();
    plant(&world, "project/.venv/bin", "", "git");
    let mut command = world.command(forge_program(), &["exec", "--", "true"]);
    command.env("PATH", world.project().join(".venv/bin"));
    let said = ran(command.output().unwrap());
    said.code(0).says(&[
        "forge does not start `git`",
        ".venv/bin/git",
        "install it elsewhere",
    ]);
}

#[test]
fn the_program_of_a_client_is_none_that_a_command_can_replace() {
    let world = World::new(&[("a", "")]);
    let program = world.project().join(".venv/bin/forge");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    symlink(forge_program(), &program).unwrap();
    let install = ["mcp", "install", "codex", "--scope", "user"];
    let mut command = world.command(forge_program(), &install);
    command.env("PATH", program.parent().unwrap());
    let shown = ran(command.output().unwrap());
    assert!(!shown.stdout.contains(".venv"), "{}", shown.stdout);
    assert!(
        shown.stdout.contains(forge_program().to_str().unwrap()),
        "{}",
        shown.stdout
    );
}

/// Whoever looks for a program says which project its commands have.
#[test]
fn a_search_for_a_program_knows_the_project() {
    /// Their callers add the rest, or are what the rest is made of.
    const WITHOUT_PROJECT: [&str; 2] = ["setup/host_programs.rs", "setup/presets.rs"];
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut rest = vec![sources.clone()];
    while let Some(path) = rest.pop() {
        if path.is_dir() {
            rest.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        let name = path.strip_prefix(&sources).unwrap().to_str().unwrap();
        let is_search = fs::read_to_string(&path)
            .unwrap()
            .contains("HostPrograms::new(");
        assert!(
            !is_search || WITHOUT_PROJECT.contains(&name),
            "{name}: `HostPrograms::of_project`"
        );
    }
}

/// A program is started by its name in no file: a name is looked for in the `PATH` of forge.
#[test]
fn no_file_starts_a_program_by_its_name() {
    /// Files of shipping crates that start programs outside of the sandbox, by absolute paths.
    const STARTING: [&str; 12] = [
        "forge-git/src/program/helper.rs",
        "forge/src/commands/doctor/git.rs",
        "forge/src/commands/doctor/mcp/client.rs",
        "forge/src/commands/exec/identity.rs",
        "forge/src/setup/host_programs.rs",
        "os-sandbox-docker/src/engine_connector.rs",
        "os-sandbox-docker/src/owner/macos.rs",
        "os-sandbox/src/command.rs",
        "os-sandbox/src/linux/detect.rs",
        "os-sandbox/src/linux/start/launch.rs",
        "os-sandbox/src/macos/spawn.rs",
        "os-sandbox/src/unsupported.rs",
    ];
    const NOT_SHIPPED: [&str; 3] = ["conformance", "mock-provider", "os-sandbox-birdcage"];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut rest, mut found) = (vec![crates.to_owned()], Vec::new());
    while let Some(path) = rest.pop() {
        if path.is_dir() {
            let names = fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().path());
            rest.extend(names.filter(|name| !name.ends_with("tests") && !name.ends_with("target")));
            continue;
        }
        let name = path
            .strip_prefix(crates)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let is_source = name.ends_with(".rs") && name.contains("/src/");
        if !is_source || NOT_SHIPPED.iter().any(|other| name.starts_with(other)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for by_name in text.split("Command::new(\"").skip(1) {
            assert!(
                by_name.starts_with('/'),
                "{name}: {}",
                by_name.lines().next().unwrap()
            );
        }
        let mut imports =
            text.split("process::")
                .skip(1)
                .map(|rest| match rest.strip_prefix('{') {
                    Some(list) => list.split('}').next().unwrap(),
                    None => rest.split(|c: char| !c.is_alphanumeric()).next().unwrap(),
                });
        let is_std = |list: &str| {
            list.split(|c: char| !c.is_alphanumeric())
                .any(|one| one == "Command")
        };
        if imports.any(is_std) {
            found.push(name);
        }
    }
    found.sort();
    assert_eq!(found, STARTING, "start programs with `HostPrograms`");
}

/// A home with private files, and a project with a virtual environment of Python.
fn with_environment() -> World {
    let world = World::new(&[(".venv/bin/x", "#!/bin/sh\n")]);
    let home = home(&world);
    for file in [
        ".ssh/id_test",
        ".ssh/bin/own",
        "private/bin/own",
        "other/node_modules/x/secret",
        "other/node_modules/x/cli",
        ".local/bin/own",
    ] {
        script(&home.join(file), "#!/bin/sh\necho secret\n");
    }
    for (name, to) in [("python", "/usr/bin/python3"), ("python3", "python")] {
        symlink(to, world.project().join(".venv/bin").join(name)).unwrap();
    }
    world.write(".venv/pyvenv.cfg", "home = /usr/bin\n");
    let own = home.join(".local/bin/mytool");
    symlink(world.project().join(".venv/bin/x"), own).unwrap();
    world
}

/// The command that plants a path (`HOME_DIR` is the person's home), the options of the next one, and the
/// file that the next one must not read.
#[rustfmt::skip]
const POINTERS: [(&str, &[&str], &str); 8] = [
    ("ln -s HOME_DIR/.ssh/id_test .venv/bin/anything", &["--preset", "python"], ".ssh/id_test"),
    ("ln -s HOME_DIR/.ssh/id_test .venv/bin/anything", &["--preset", "claude", "--no-share"], ".ssh/id_test"),
    ("ln -s HOME_DIR/private/bin/own .venv/bin/anything", &["--preset", "python"], "private/bin/own"),
    ("mkdir -p v/bin; echo 'home = HOME_DIR/.ssh/bin' > v/pyvenv.cfg; echo x > v/bin/y; ln -s ../../v/bin/y .venv/bin/z",
        &["--preset", "claude", "--no-share"], ".ssh/id_test"),
    ("echo 'home = HOME_DIR/.ssh/bin' > .venv/pyvenv.cfg", &["-c", "sandbox.programs=[~/.local/bin]"], ".ssh/id_test"),
    ("echo 'home = HOME_DIR/private/bin' > .venv/pyvenv.cfg", &["-c", "sandbox.programs=[~/.local/bin]"], "private/bin/own"),
    ("ln -sf HOME_DIR/private/bin/own .venv/bin/x", &["-c", "sandbox.programs=[~/.local/bin]"], "private/bin/own"),
    ("ln -s HOME_DIR/other/node_modules/x/cli .venv/bin/node", &["--preset", "node"], "other/node_modules/x/secret"),
];

fn exec(world: &World, mechanism: &str, options: &[&str], command: &[&str]) -> Ran {
    let all = [
        &["exec", "-q", "--mechanism", mechanism],
        options,
        &["--"],
        command,
    ]
    .concat();
    let mut forge = world.command(forge_program(), &all);
    let own = world.project().join(".venv/bin").display().to_string();
    forge.env("PATH", format!("{own}:/usr/local/bin:/usr/bin:/bin"));
    ran(forge.output().unwrap())
}

#[test]
fn no_command_decides_which_files_the_next_one_sees() {
    let probe = World::new(&[]);
    for mechanism in mechanisms(&probe) {
        for (planted, options, file) in POINTERS {
            let world = with_environment();
            let home = home(&world);
            let planted = planted.replace("HOME_DIR", home.to_str().unwrap());
            exec(&world, mechanism, &[], &["sh", "-ec", &planted]).code(0);
            let file = home.join(file);
            let seen = exec(&world, mechanism, options, &["cat", file.to_str().unwrap()]);
            let about = format!("{mechanism} {planted} {options:?}: {}", seen.stderr);
            assert_eq!(seen.stdout, "", "{about}");
            assert!(seen.code != 0 && seen.code < 125, "{about}");
        }
    }
}

/// An environment of the project has its interpreter, wherever a version manager has put that.
#[test]
fn an_environment_of_the_project_works() {
    let probe = World::new(&[]);
    for mechanism in mount_layers(&probe) {
        let world = with_environment();
        let python = home(&world).join(".pyenv/versions/3.1/bin/python3");
        script(
            &python,
            "#!/bin/sh\nhere=$(dirname \"$(readlink -f \"$0\")\")\ncat \"$here/../lib/python3.1/os.py\"\n",
        );
        script(
            &python.with_file_name("../lib/python3.1/os.py"),
            "modules\n",
        );
        let link = world.project().join(".venv/bin/python");
        fs::remove_file(&link).unwrap();
        symlink(&python, &link).unwrap();
        let ran = exec(
            &world,
            mechanism,
            &["--preset", "python"],
            &[".venv/bin/python"],
        );
        assert_eq!(ran.stdout, "modules\n", "{mechanism}: {}", ran.stderr);
    }
}

/// A link to the directory of a start, below the project; its target below the test's own; and `true`
/// if it is one that a person may name.
const STARTS_IN: [(&str, &str, bool); 4] = [
    ("packages/app", "home/private", false),
    ("packages/up", "", false),
    ("packages/lib", "project/src", true),
    ("plain", "project/src", true),
];

#[test]
fn no_command_decides_where_the_next_one_starts() {
    for (link, target, is_allowed) in STARTS_IN {
        let world = World::new(&[(".git/HEAD", "x"), ("src/a", ""), ("packages/a", "")]);
        script(&home(&world).join("private/key"), "secret\n");
        symlink(world.outside().join(target), world.project().join(link)).unwrap();
        let named = world.forge(&["-C", link, "exec", "--", "ls"]);
        let mut gone = world.command(forge_program(), &["exec", "--", "ls"]);
        let here = world.project().join(link);
        gone.current_dir(&here).env("PWD", &here);
        let by_shell = |script: &str| {
            let forge = forge_program().to_str().unwrap();
            let args = ["-c", script, "sh", forge, here.to_str().unwrap()];
            ran(world.command(Path::new("sh"), &args).output().unwrap())
        };
        let starts = [
            ("-C", named),
            ("PWD", ran(gone.output().unwrap())),
            ("-C .", by_shell("cd \"$2\"; \"$1\" -C . exec -- ls")),
            // The link is another file when forge starts.
            (
                "gone",
                by_shell(
                    "cd \"$2\"; mv \"$2\" \"$2.moved\"; \"$1\" exec -- ls; x=$?; mv \"$2.moved\" \"$2\"; exit $x",
                ),
            ),
            (
                "other",
                by_shell(
                    "cd \"$2\"; mv \"$2\" \"$2.moved\"; mkdir \"$2\"; \"$1\" -C . exec -- ls; x=$?; rmdir \"$2\"; mv \"$2.moved\" \"$2\"; exit $x",
                ),
            ),
        ];
        for (start, ran) in starts {
            let about = format!("{link} {start}: {}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.code == 0, is_allowed, "{about}");
            let is_named = ran.stderr.contains("a command could have made");
            assert_eq!(is_named, !is_allowed, "{about}");
        }
        // By its own path no link is on the way.
        let real = world.outside().join(target).canonicalize().unwrap();
        let itself = world.forge(&["-C", real.to_str().unwrap(), "exec", "--", "true"]);
        assert!(
            !itself.stderr.contains("could have made"),
            "{link}: {}",
            itself.stderr
        );
    }
}

/// `make -C` and programs that change their directory leave the name of the one before.
#[test]
fn a_name_of_the_directory_before_is_no_link() {
    let world = World::new(&[
        (".git/HEAD", "x"),
        ("Makefile", "x"),
        ("forge.yaml", "name: a\n"),
    ]);
    let other = world.outside().join("other");
    fs::create_dir_all(&other).unwrap();
    let script = "import os, subprocess, sys\nos.chdir(sys.argv[1])\n\
                  sys.exit(subprocess.call([sys.argv[2], 'exec', '--', 'true']))";
    let forge = forge_program().to_str().unwrap();
    let args = ["-c", script, other.to_str().unwrap(), forge];
    let mut python = world.command(Path::new("python3"), &args);
    python.env("PWD", world.project());
    ran(python.output().unwrap()).code(0);
}

#[test]
fn pages_are_written_through_no_link() {
    let world = World::new(&[("man/a", "")]);
    let other = world.outside().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), "kept").unwrap();
    symlink(other.join("file"), world.project().join("man/forge.1")).unwrap();
    symlink(&other, world.project().join("out")).unwrap();
    for directory in ["man", "out", "out/new"] {
        let ran = world.forge(&["man", directory]);
        assert_ne!(ran.code, 0, "{directory}");
        assert_eq!(fs::read_to_string(other.join("file")).unwrap(), "kept");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "{directory}");
    }
    for directory in ["new/pages", ".", "new/pages"] {
        world.forge(&["man", directory]).code(0);
        assert!(world.project().join(directory).join("forge.1").is_file());
    }
    let mut there = Command::new(forge_program());
    there.args(["-C", world.project().to_str().unwrap(), "man", "there"]);
    ran(there.current_dir("/").output().unwrap()).code(0);
    assert!(world.project().join("there/forge.1").is_file());
}
