//! The confinement of commands on this host.

use std::sync::{Arc, OnceLock};

use os_sandbox::{Directories, Support};

/// The confinement of commands.
///
/// ```
/// let support = os_sandbox::Support::detect();
/// let os = forge_runtime::OsSandbox::Detected(std::sync::Arc::new(support));
/// # let _ = os;
/// ```
#[derive(Debug, Clone)]
pub enum OsSandbox {
    /// With the strongest mechanism of this host.
    Detected(Arc<Support>),
    /// As `Detected`, but detection runs for the first worker that may run commands or requires a
    /// sandbox, so that other runs do not wait for it.
    WhenNeeded(Arc<OnceLock<Support>>),
    /// Not at all, because a person typed `--no-os-sandbox`.
    Off,
}

impl OsSandbox {
    /// Returns a sandbox that is detected on first use.
    pub fn when_needed() -> Self {
        OsSandbox::WhenNeeded(Arc::default())
    }

    /// Returns the mechanisms of this host, which this detects if nothing did so before; `None` if
    /// the sandbox is off.
    pub(crate) fn support(&self) -> Option<&Support> {
        match self {
            OsSandbox::Detected(support) => Some(support),
            OsSandbox::WhenNeeded(support) => Some(support.get_or_init(detect)),
            OsSandbox::Off => None,
        }
    }
}

/// Detects the mechanisms of this host, with the probes that the user's cache lists as passed.
pub(crate) fn detect() -> Support {
    Support::detect_cached(&Directories::user())
}
