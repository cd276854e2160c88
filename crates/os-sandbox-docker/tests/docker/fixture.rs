//! What most tests need: a workspace of somebody's, and a plan for a container that shows it.

use crate::daemon::{Daemon, IMAGE};
use os_sandbox::{
    Access, Backend, Command, Directories, Output, Plan, Policy, PolicyBuilder, Requirement,
    Sandbox, Support,
};
use os_sandbox_docker::{Containers, Engine, ImageName, Settings};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

/// A directory with `project` (writable) and `data` (read only) in it, and what is nobody's.
pub(crate) struct World {
    pub(crate) scratch: tempfile::TempDir,
}

impl World {
    /// All of it owned by this user.
    pub(crate) fn of(uid: u32) -> World {
        let scratch = tempfile::Builder::new()
            .prefix("os-sandbox-world.")
            .tempdir()
            .expect("a directory");
        let world = World { scratch };
        fs::set_permissions(world.scratch.path(), fs::Permissions::from_mode(0o755))
            .expect("for everybody");
        for name in ["project", "data", "other", "state"] {
            fs::create_dir(world.path(name)).expect("a directory");
        }
        for (name, text) in [
            ("project/file", "in the project\n"),
            ("data/file", "in the data\n"),
            ("other/secret", "nobody's business\n"),
        ] {
            fs::write(world.path(name), text).expect("a file");
        }
        for name in [
            "project",
            "project/file",
            "data",
            "data/file",
            "other",
            "other/secret",
        ] {
            chown(world.path(name), Some(uid), Some(uid)).expect("its owner");
        }
        let own = fs::Permissions::from_mode(0o700);
        fs::set_permissions(world.path("state"), own).expect("for its owner");
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn policy(&self) -> PolicyBuilder {
        Policy::builder()
            .mount(self.path("project"), "/", Access::ALL)
            .mount(
                self.path("data"),
                "/data",
                Access::READ.union(Access::EXECUTE),
            )
    }

    pub(crate) fn plan(&self, engine: &Daemon, policy: PolicyBuilder) -> Sandbox {
        plan(
            engine.host(),
            settings(),
            &policy.build().expect("a policy"),
        )
    }

    /// What a script came to.
    pub(crate) fn sh(&self, plan: &Sandbox, script: &str) -> Output {
        self.command(plan, "sh")
            .args(["-c", script])
            .output()
            .unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    pub(crate) fn command(&self, plan: &Sandbox, program: &str) -> Command {
        Command::new(&open_at(plan, self.path("state")), program)
    }
}

/// Opens the same plan with a state directory of its own.
pub(crate) fn open_at(sandbox: &Sandbox, state: impl Into<PathBuf>) -> Sandbox {
    sandbox.reopen(Directories::user().with_state(state))
}

pub(crate) fn settings() -> Settings {
    Settings::new(ImageName::parse(IMAGE).expect("a name"))
}

pub(crate) fn plan(host: &str, settings: Settings, policy: &Policy) -> Sandbox {
    let engine = Engine::connect(Some(host)).expect("an engine");
    let containers = Containers::new(engine, settings).expect("the image");
    let host = Support::detect().with_docker(containers.support());
    let plan = Plan::with_mechanism(policy, &host, Requirement::Enforce, Backend::Docker);
    Sandbox::with_mechanism(plan.expect("a plan"), Directories::user(), containers)
}
