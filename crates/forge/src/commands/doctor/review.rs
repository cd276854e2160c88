//! Runs a command in an overlay, to tell whether `--review` works on this machine.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use os_sandbox::{
    Access, Backend, Command, Directories, MechanismReport, Plan, Policy, Requirement, Sandbox,
    Support,
};

use crate::ambient::Ambient;
use crate::state::private_dirs::make_private;

/// Directory in the state of forge.
const PROBE: &str = "review-probe";

/// Returns the row about `--review`.
pub(super) fn row(support: &Support, ambient: &Ambient) -> MechanismReport {
    let outcome = run_in_overlay(support, ambient);
    // A copy is shown at the path of the project.
    let instead = match support.namespaces() || support.bubblewrap().is_some() {
        true => {
            "commands with `--review` are refused; `--review=copy` and `forge run --review` make the \
             changes in a copy"
        }
        false => {
            "commands with `--review` are refused; `forge run --review` makes the changes in a copy"
        }
    };
    MechanismReport {
        name: "review",
        works: outcome.is_ok(),
        details: match outcome {
            Ok(()) => vec!["`--review` keeps what a command changes until you apply it".to_owned()],
            Err(reason) => vec![reason, instead.to_owned()],
        },
    }
}

/// Runs a program in an overlay beside forge's state, where those of commands are: the kernel does
/// not take every file system for the upper directory.
fn run_in_overlay(support: &Support, ambient: &Ambient) -> Result<(), String> {
    fn text(error: impl std::fmt::Display) -> String {
        error.to_string()
    }
    if !support.namespaces() {
        return Err("it takes namespaces".to_owned());
    }
    let state = ambient.state.as_deref().ok_or("missing home directory")?;
    let state = std::path::absolute(state).map_err(text)?;
    let unwritable = |error| format!("cannot use {}: {error}", state.join(PROBE).display());
    let scratch = make_private(&state, Path::new(PROBE)).map_err(unwritable)?;
    let scratch = tempfile::tempdir_in(scratch).map_err(text)?;
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| scratch.path().join(name));
    for dir in [&lower, &upper, &work] {
        std::fs::create_dir(dir).map_err(text)?;
    }
    let policy = Policy::builder().mount(&lower, "/", Access::ALL);
    let policy = policy.overlay("/", &upper, &work).build().map_err(text)?;
    let (requirement, backend) = (Requirement::Enforce, Backend::Namespaces);
    let plan = Plan::with_mechanism(&policy, support, requirement, backend).map_err(text)?;
    let sandbox = Sandbox::open(plan, Directories::user());
    let command = Command::new(&sandbox, "sh").args(["-c", "echo > changed"]);
    let exit = command.output().map_err(text);
    // The kernel's own directory has no rights, so that only root could remove what is below it.
    let own = work.join("work");
    if own.exists() {
        std::fs::set_permissions(&own, Permissions::from_mode(0o700)).map_err(text)?;
    }
    let exit = exit?.exit;
    let is_apart = upper.join("changed").exists() && !lower.join("changed").exists();
    match exit.success() && is_apart {
        true => Ok(()),
        false => Err(format!("a command in an overlay failed: {exit}")),
    }
}
