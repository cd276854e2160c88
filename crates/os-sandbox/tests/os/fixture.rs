//! A world for one case: mounts with files in them, a secret outside, and a way to run the probe.

use crate::hosts::Answering;
use os_sandbox::{
    Access, Backend, Command, Directories, Exit, Network, Output, Plan, Policy, PolicyBuilder,
    Requirement, Sandbox, Support,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a case runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// Namespaces by the launcher, with Landlock and the filter inside.
    Namespaces,
    /// Namespaces by the launcher and the filter, as on a kernel without Landlock.
    NamespacesAlone,
    /// Namespaces by bubblewrap, with Landlock and the filter inside.
    Bubblewrap,
    /// Namespaces by bubblewrap and the filter, as on a kernel without Landlock.
    BubblewrapAlone,
    /// The first, where mounts inside mounts are left to bubblewrap.
    BubblewrapByPath,
    /// Landlock and the filter.
    Landlock,
    /// Namespaces by birdcage, with Landlock and the filter inside.
    #[cfg(feature = "birdcage")]
    Birdcage,
    /// The same without Landlock.
    #[cfg(feature = "birdcage")]
    BirdcageAlone,
}

impl Mechanism {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mechanism::Namespaces => "namespaces",
            Mechanism::NamespacesAlone => "namespaces-alone",
            Mechanism::Bubblewrap => "bubblewrap",
            Mechanism::BubblewrapAlone => "bubblewrap-alone",
            Mechanism::BubblewrapByPath => "bubblewrap-by-path",
            Mechanism::Landlock => "landlock",
            #[cfg(feature = "birdcage")]
            Mechanism::Birdcage => "birdcage",
            #[cfg(feature = "birdcage")]
            Mechanism::BirdcageAlone => "birdcage-alone",
        }
    }

    pub(crate) fn family(self) -> &'static str {
        match self {
            Mechanism::Namespaces | Mechanism::NamespacesAlone => "namespaces",
            Mechanism::Bubblewrap | Mechanism::BubblewrapAlone | Mechanism::BubblewrapByPath => {
                "bubblewrap"
            }
            Mechanism::Landlock => "landlock",
            #[cfg(feature = "birdcage")]
            Mechanism::Birdcage | Mechanism::BirdcageAlone => "birdcage",
        }
    }

    pub(crate) fn has_mount_layer(self) -> bool {
        self != Mechanism::Landlock
    }

    /// Whether mounts appear at their sandbox paths.
    pub(crate) fn moves(self) -> bool {
        matches!(self.backend(), Backend::Namespaces | Backend::Bubblewrap)
    }

    pub(crate) fn backend(self) -> Backend {
        match self {
            Mechanism::Namespaces | Mechanism::NamespacesAlone => Backend::Namespaces,
            Mechanism::Bubblewrap | Mechanism::BubblewrapAlone | Mechanism::BubblewrapByPath => {
                Backend::Bubblewrap
            }
            Mechanism::Landlock => Backend::Landlock,
            #[cfg(feature = "birdcage")]
            Mechanism::Birdcage | Mechanism::BirdcageAlone => Backend::Birdcage,
        }
    }

    /// `true` for a host without Landlock.
    pub(crate) fn is_alone(self) -> bool {
        matches!(
            self,
            Mechanism::NamespacesAlone | Mechanism::BubblewrapAlone
        )
    }

    /// `true` if single sockets of the host can be opened here.
    pub(crate) fn names_sockets(self) -> bool {
        Support::detect().named_sockets(self.backend())
    }

    pub(crate) fn plan(self, policy: &Policy) -> Sandbox {
        #[cfg(feature = "birdcage")]
        if self.family() == "birdcage" {
            return self.plan_on(policy, crate::birdcage::support());
        }
        self.plan_on(policy, Support::detect())
    }

    pub(crate) fn plan_on(self, policy: &Policy, support: Support) -> Sandbox {
        let support = match self {
            Mechanism::NamespacesAlone | Mechanism::BubblewrapAlone => {
                support.with_landlock_at_most(0)
            }
            Mechanism::BubblewrapByPath => support.without_pins_by_descriptor(),
            Mechanism::Namespaces | Mechanism::Bubblewrap | Mechanism::Landlock => support,
            #[cfg(feature = "birdcage")]
            Mechanism::Birdcage => support,
            #[cfg(feature = "birdcage")]
            Mechanism::BirdcageAlone => support.with_landlock_at_most(0),
        };
        let requirement = match self {
            // Read-only, not executable: only Landlock keeps that, and one mount here is so.
            Mechanism::NamespacesAlone | Mechanism::BubblewrapAlone => Requirement::BestEffort,
            Mechanism::Namespaces
            | Mechanism::Bubblewrap
            | Mechanism::BubblewrapByPath
            | Mechanism::Landlock => Requirement::Enforce,
            #[cfg(feature = "birdcage")]
            Mechanism::Birdcage => Requirement::Enforce,
            // uid 0 keeps the kernel's settings.
            #[cfg(feature = "birdcage")]
            Mechanism::BirdcageAlone => Requirement::BestEffort,
        };
        let plan = Plan::with_mechanism(policy, &support, requirement, self.backend());
        open(plan.expect("a plan"))
    }
}

/// Everything that this host can do; never less.
pub(crate) fn mechanisms() -> Vec<Mechanism> {
    let support = Support::detect();
    let mut out = Vec::new();
    if support.namespaces() {
        out.push(Mechanism::Namespaces);
        out.push(Mechanism::NamespacesAlone);
    }
    if support.bubblewrap().is_some() {
        out.push(Mechanism::Bubblewrap);
        out.push(Mechanism::BubblewrapAlone);
        if support.pins_by_descriptor() {
            out.push(Mechanism::BubblewrapByPath);
        }
    }
    if support.landlock_abi() >= 6 {
        out.push(Mechanism::Landlock);
    }
    #[cfg(feature = "birdcage")]
    if crate::birdcage::support().birdcage().is_some() {
        if support.landlock_abi() >= 6 {
            out.push(Mechanism::Birdcage);
        }
        out.push(Mechanism::BirdcageAlone);
    }
    out
}

/// Directories on the host: `rw`, `ro`, `outside`.
pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) mechanism: Mechanism,
}

/// Opens a plan with the user's own directories, and a proxy for named hosts.
pub(crate) fn open(plan: Plan) -> Sandbox {
    Sandbox::open(plan, Directories::user()).with_host_proxy(Arc::new(Answering::default()))
}

/// Opens the same plan with a state directory of its own.
pub(crate) fn open_at(sandbox: &Sandbox, state: impl Into<PathBuf>) -> Sandbox {
    sandbox.reopen(Directories::user().with_state(state))
}

impl World {
    pub(crate) fn new(mechanism: Mechanism) -> World {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["rw", "ro", "outside"] {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).expect("a directory");
            std::fs::write(path.join("file"), format!("{name} content")).expect("a file");
        }
        // Held, so that every case runs with a mount inside a mount.
        std::fs::create_dir(dir.path().join("rw/pinned")).expect("a directory");
        std::os::unix::fs::symlink(dir.path().join("outside/file"), dir.path().join("rw/link"))
            .expect("a link");
        let world = World { dir, mechanism };
        let script = world.host("ro").join("script");
        std::fs::write(&script, "#!/bin/sh\necho ran\n").expect("a script");
        set_mode(&script, 0o755);
        world
    }

    pub(crate) fn host(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path in a mount as the target names it.
    pub(crate) fn inside(&self, mount: &str) -> String {
        if self.mechanism.moves() {
            format!("/{mount}")
        } else {
            self.host(mount).display().to_string()
        }
    }

    pub(crate) fn policy(&self) -> PolicyBuilder {
        Policy::builder()
            .mount(self.host("rw"), "/rw", Access::ALL)
            .mount(self.host("ro"), "/ro", Access::READ)
            .mount(probe_program(), "/probe", Access::READ | Access::EXECUTE)
            .network(Network::Denied)
            .protect("pinned")
    }

    pub(crate) fn plan(&self) -> Sandbox {
        self.mechanism
            .plan(&self.policy().build().expect("a policy"))
    }

    /// `{rw}`, `{ro}`, `{outside}` replaced, then run as the probe.
    pub(crate) fn probe(&self, plan: &Sandbox, op: &[String]) -> String {
        let op = op.iter().map(|word| self.fill(word));
        let output = Command::new(plan, "/probe")
            .arg("--probe")
            .args(op)
            .output();
        said(output)
    }

    pub(crate) fn sh(&self, plan: &Sandbox, script: &str) -> Result<Output, os_sandbox::Error> {
        Command::new(plan, "sh")
            .args(["-c", &self.fill(script)])
            .output()
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("{rw}", &self.inside("rw"))
            .replace("{ro}", &self.inside("ro"))
            .replace("{outside}", &self.host("outside").display().to_string())
    }

    /// Whether everything outside the writable mount is as it was.
    pub(crate) fn unharmed(&self) -> Result<(), String> {
        for name in ["ro", "outside"] {
            let path = self.host(name);
            let content =
                std::fs::read_to_string(path.join("file")).map_err(|e| format!("{name}: {e}"))?;
            let mut names: Vec<String> = std::fs::read_dir(&path)
                .map_err(|e| format!("{name}: {e}"))?
                .map(|entry| entry.expect("an entry").file_name().display().to_string())
                .collect();
            names.sort();
            let want: &[&str] = if name == "ro" {
                &["file", "script"]
            } else {
                &["file"]
            };
            if content != format!("{name} content") || names != want {
                return Err(format!("{name} was changed: {content:?} {names:?}"));
            }
        }
        Ok(())
    }
}

/// This program, which is its own target.
pub(crate) fn probe_program() -> PathBuf {
    std::env::current_exe().expect("own path")
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// What the probe said: `ok …` or `errno N`; anything else is told as it is.
pub(crate) fn said(output: Result<Output, os_sandbox::Error>) -> String {
    match output {
        Ok(output) if output.exit == Exit::Code(0) => output.stdout.text().trim().to_owned(),
        Ok(output) => {
            format!(
                "{}: {}{}",
                output.exit,
                output.stdout.text(),
                output.stderr.text()
            )
        }
        Err(error) => format!("error: {error}"),
    }
}
