//! Without the feature there are no containers.

use os_sandbox::Support;

pub(crate) fn with(support: Support) -> Support {
    support
}

#[cfg(target_os = "linux")]
pub(crate) fn why_not() -> String {
    "built without the feature docker".to_owned()
}
