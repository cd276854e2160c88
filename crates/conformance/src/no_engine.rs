//! Replacement for `engine` without the feature: no engine is available.

#[cfg(target_os = "linux")]
use os_sandbox::Support;
use os_sandbox::{Directories, Plan, Sandbox};

pub(crate) fn open(plan: Plan) -> Sandbox {
    Sandbox::open(plan, Directories::user())
}

#[cfg(target_os = "linux")]
pub(crate) fn with(support: Support) -> Support {
    support
}

#[cfg(target_os = "linux")]
pub(crate) fn why_not() -> String {
    "built without the feature docker".to_owned()
}
