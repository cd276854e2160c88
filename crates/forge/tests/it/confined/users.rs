//! The copy of forge, project and home of one user: root's, and an ordinary user's.

use std::path::Path;
use std::process::Command;

use crate::support::{Ran, World, copy_forge, ran};

const ORDINARY: &str = "65534";

/// Project and home of a user of forge.
pub(super) struct UserWorld {
    pub(super) world: World,
    is_ordinary: bool,
}

impl UserWorld {
    /// Runs a test as this user, and as an ordinary one if this one is root. `prepare` creates the
    /// files of the user.
    pub(super) fn each(prepare: impl Fn(&World), test: impl Fn(&UserWorld)) {
        let is_root = rustix::process::geteuid().is_root();
        for is_ordinary in [false, true].into_iter().filter(|other| is_root || !other) {
            test(&UserWorld::new(is_ordinary, &prepare));
        }
    }

    /// Returns the world of an ordinary user: another one than this user if this one is root.
    pub(super) fn ordinary(prepare: impl Fn(&World)) -> UserWorld {
        UserWorld::new(rustix::process::geteuid().is_root(), prepare)
    }

    /// Returns the id of an ordinary user, or `0` for the user of the test.
    pub(super) fn id(&self) -> &'static str {
        if self.is_ordinary { ORDINARY } else { "0" }
    }

    fn new(is_ordinary: bool, prepare: impl Fn(&World)) -> UserWorld {
        let world = World::new(&[]);
        prepare(&world);
        copy_forge(&world.outside().join("forge"), b"");
        let user = UserWorld { world, is_ordinary };
        user.own_everything();
        user
    }

    /// Gives files that the test has written to the user.
    pub(super) fn own_everything(&self) {
        if self.is_ordinary {
            let mut chown = Command::new("chown");
            chown.arg("-Rh").arg(format!("{ORDINARY}:{ORDINARY}"));
            assert!(chown.arg(self.world.outside()).status().unwrap().success());
        }
    }

    /// Writes a file below the directory around project and home.
    pub(super) fn write(&self, name: &str, text: &str) {
        let file = self.world.outside().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        self.own_everything();
    }

    /// Returns `forge ARGS`, started by the user in the project.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let forge = self.world.outside().join("forge");
        self.program(&forge, args)
    }

    /// Returns a program, started by the user in the project.
    pub(super) fn program(&self, program: &Path, args: &[&str]) -> Command {
        if !self.is_ordinary {
            return self.world.command(program, args);
        }
        let user = ["--reuid", ORDINARY, "--regid", ORDINARY, "--clear-groups"];
        let words = [&user[..], &[program.to_str().unwrap()], args].concat();
        self.world.command(Path::new("setpriv"), &words)
    }

    /// Runs `forge ARGS`.
    pub(super) fn forge(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }
}
