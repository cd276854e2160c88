//! The receipt: what was really applied to one command.

use crate::access::Access;
use crate::child::Findings;
use crate::plan::{Backend, Plan};
use crate::promise::{Entry, Promise, State};
use crate::quarantine::Quarantined;
use std::fmt;

/// What was applied to one command; serialisable under the feature `serde`.
///
/// ```
/// use os_sandbox::{Command, Plan, Policy, Requirement, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let policy = Policy::builder().build()?;
/// let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce)?;
/// let mut child = Command::new(&plan, "true").spawn()?;
/// assert_eq!(child.enforcement().policy, policy.hash());
/// child.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Enforcement {
    /// The policy's [`hash`](crate::Policy::hash).
    pub policy: String,
    /// What the command was started under.
    pub backend: Backend,
    /// The version of bubblewrap, if it was used.
    pub bubblewrap: Option<String>,
    /// The Landlock version that was applied; 0 if none was.
    pub landlock_abi: u32,
    /// The Landlock errata that this kernel has fixed, as a bit set.
    pub landlock_errata: u32,
    /// Whether a system call filter was applied.
    pub seccomp: bool,
    /// Each promise and what became of it.
    pub promises: Vec<Entry>,
    /// Where the command sees the mounts.
    pub mounts: Vec<ShownMount>,
    /// Protected names that were found and moved away after the end.
    pub quarantined: Vec<Quarantined>,
}

/// A mount as the command sees it.
///
/// ```
/// use os_sandbox::{Access, ShownMount};
///
/// let mount = ShownMount {
///     name: "/data".into(), inside: "/data".into(), access: Access::READ,
/// };
/// assert_eq!(mount.name, mount.inside);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ShownMount {
    /// Its name in the policy.
    pub name: String,
    /// Its path as the command sees it. Under Landlock alone and Seatbelt, which cannot move
    /// anything, that is the path of the host.
    pub inside: String,
    /// What can be done below it.
    pub access: Access,
}

impl Enforcement {
    pub(crate) fn new(plan: &Plan) -> Enforcement {
        let support = plan.support();
        let (bubblewrap, confined) = match plan.backend() {
            Backend::Bubblewrap => (support.bubblewrap().map(|b| b.version().to_owned()), true),
            Backend::Birdcage | Backend::Landlock | Backend::Seatbelt => (None, true),
            Backend::None => (None, false),
        };
        let mounts = plan
            .policy()
            .mounts()
            .iter()
            .map(|mount| ShownMount {
                name: mount.shown_at().to_owned(),
                inside: match plan.backend() {
                    Backend::Bubblewrap => mount.inside().to_owned(),
                    Backend::Birdcage | Backend::Landlock | Backend::Seatbelt | Backend::None => {
                        mount.host().display().to_string()
                    }
                },
                access: mount.access(),
            })
            .collect();
        Enforcement {
            policy: plan.policy().hash(),
            backend: plan.backend(),
            bubblewrap,
            landlock_abi: if confined { support.landlock_abi() } else { 0 },
            landlock_errata: if confined {
                support.landlock_errata()
            } else {
                0
            },
            seccomp: confined && support.seccomp(),
            promises: plan.entries().to_vec(),
            mounts,
            quarantined: Vec::new(),
        }
    }
}

impl Enforcement {
    /// Takes over what was found after the end.
    pub(crate) fn found(&mut self, findings: Findings) {
        self.note(&findings.notes.0);
        self.quarantined.extend(findings.quarantined);
    }

    /// Weakens what is kept in part only, as the start found out.
    pub(crate) fn note(&mut self, notes: &[(Promise, String)]) {
        for (promise, _) in notes {
            for entry in self
                .promises
                .iter_mut()
                .filter(|entry| entry.promise == *promise)
            {
                entry.state = match entry.state {
                    State::Enforced | State::Detected => State::Degraded,
                    weaker @ (State::Degraded | State::Absent) => weaker,
                };
            }
        }
        self.remark(notes);
    }

    /// Adds to the reasons, and weakens nothing.
    pub(crate) fn remark(&mut self, remarks: &[(Promise, String)]) {
        for (promise, remark) in remarks {
            let entries = self.promises.iter_mut();
            for entry in entries.filter(|entry| entry.promise == *promise) {
                let old = entry.reason.take().map(|old| format!("{old}; "));
                entry.reason = Some(format!("{}{remark}", old.unwrap_or_default()));
            }
        }
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "policy {}", self.policy)?;
        write!(f, "under {}", self.backend)?;
        if let Some(version) = &self.bubblewrap {
            write!(f, " {version}")?;
        }
        if self.landlock_abi > 0 {
            write!(f, ", Landlock ABI {}", self.landlock_abi)?;
        }
        if self.seccomp {
            f.write_str(", seccomp")?;
        }
        writeln!(f)?;
        for entry in &self.promises {
            writeln!(f, "{entry}")?;
        }
        for found in &self.quarantined {
            writeln!(f, "quarantined {found}")?;
        }
        Ok(())
    }
}
