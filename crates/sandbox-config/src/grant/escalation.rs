//! A worker asked for more than its parent holds. Two renderings: a person reads config words and
//! places; a model reads neither.

use std::fmt;

use crate::grant::mount::Mode;
use crate::grant::network::NetworkAccess;
use crate::grant::published_ports::PublishedPorts;
use crate::grant::verdict::{Operation, Verdict};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics};
use crate::syntax::text::{ConfigOrigin, Span};
use sandbox_network::HostPattern;

/// Help for a worker that asks for files of a project without any.
pub(crate) const NO_DIRECTORIES: &str =
    "write `sandbox: { root: . }` or `zones` in the project file, or `sandbox: none` here";

/// Every point in which a declaration exceeds the parent; never empty.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
/// #     "sandbox: { zones: { data: { path: data, mode: ro } } }\n").unwrap();
/// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// use sandbox_config::{Declaration, Mode, ZoneDeclaration};
/// let wish = Declaration::zones([ZoneDeclaration::new("data", Mode::ReadWrite)]);
/// let refused = project.ceiling().child(&wish).unwrap_err();
/// assert_eq!(refused.to_string(), "Child requests 'rw' on 'data' but parent only has 'ro'");
/// assert!(refused.for_person().contains("golem-forge.config.yaml:1:"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Escalation {
    violations: Vec<Violation>,
    /// It is the entry worker that asks, and the project that holds.
    of_entry: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Violation {
    Mode {
        zone: String,
        at: Option<Span>,
        /// `mode` was left out, which means rw.
        implied: bool,
        parent: ConfigOrigin,
    },
    Missing {
        zone: String,
        at: Option<Span>,
        available: Vec<(String, Mode)>,
    },
    Approval {
        zone: String,
        operation: Operation,
        wanted: Verdict,
        held: Verdict,
        at: Option<Span>,
    },
    Suffixes {
        zone: String,
        at: Option<Span>,
        held: Vec<String>,
    },
    /// A subtree of which the parent holds nothing.
    Outside {
        place: String,
        at: Option<Span>,
        held: Vec<String>,
    },
    /// `readonly: false` on a read-only directory.
    Upgrade {
        target: String,
        at: Option<Span>,
        parent: ConfigOrigin,
    },
    Network {
        at: Option<Span>,
        /// The excess hosts; empty if every host was asked for or the parent has none.
        beyond: Vec<HostPattern>,
        held: NetworkAccess,
    },
    PublishedPorts {
        at: Option<Span>,
        beyond: PublishedPorts,
        held: PublishedPorts,
    },
    Shell {
        at: Option<Span>,
    },
    Sockets {
        at: Option<Span>,
    },
    /// More than to pull from it.
    Repository {
        name: String,
        at: Option<Span>,
        /// `access` was left out, which means rw.
        implied: bool,
        parent: ConfigOrigin,
    },
    NoRepository {
        name: String,
        at: Option<Span>,
        held: Vec<String>,
    },
}

impl Escalation {
    pub(crate) fn from_list(violations: Vec<Violation>) -> Option<Escalation> {
        (!violations.is_empty()).then_some(Escalation {
            violations,
            of_entry: false,
        })
    }

    /// Marks the escalation as that of the entry worker, which exceeds the project.
    pub(crate) fn of_entry(mut self) -> Escalation {
        self.of_entry = true;
        self
    }

    /// Returns a sentence that names the child and the parent.
    fn with_subjects(&self, sentence: String) -> String {
        if !self.of_entry {
            return sentence;
        }
        sentence
            .replacen("Child requests", "The worker requests", 1)
            .replace("but parent ", "but the project ")
            .replace("that parent ", "that the project ")
    }

    /// Renders the escalation with config words, locations and corrections.
    #[must_use]
    pub fn for_person(&self) -> String {
        let parts: Vec<String> = self
            .diagnostics_list()
            .iter()
            .map(ToString::to_string)
            .collect();
        parts.join("\n\n")
    }

    /// For the model that made the call: no config words, no host paths.
    #[must_use]
    pub fn for_model(&self) -> String {
        let parts: Vec<String> = self
            .violations
            .iter()
            .map(|violation| self.with_subjects(violation.for_model()))
            .collect();
        parts.join("\n")
    }

    /// As mistakes, for `forge check`.
    #[must_use]
    pub fn diagnostics(&self) -> Option<Diagnostics> {
        Diagnostics::from_list(self.diagnostics_list())
    }

    pub(crate) fn diagnostics_list(&self) -> Vec<Diagnostic> {
        let said =
            |violation: &Violation| violation.diagnostic(self.with_subjects(violation.sentence()));
        self.violations.iter().map(said).collect()
    }
}

impl fmt::Display for Escalation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.violations.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.with_subjects(violation.sentence()))?;
        }
        Ok(())
    }
}

impl std::error::Error for Escalation {}

impl Violation {
    /// Seed 000's sentences.
    fn sentence(&self) -> String {
        match self {
            Violation::Mode { zone, .. } => {
                format!("Child requests 'rw' on '{zone}' but parent only has 'ro'")
            }
            Violation::Missing { zone, .. } => {
                format!("Child requests zone '{zone}' but parent doesn't have it")
            }
            Violation::Approval {
                zone,
                operation,
                wanted,
                held,
                ..
            } => format!(
                "Child requests '{wanted}' for {operation} on '{zone}' but parent only has '{held}'"
            ),
            Violation::Suffixes { zone, .. } => {
                format!("Child requests suffixes on '{zone}' that parent doesn't have")
            }
            Violation::Outside { place, .. } => {
                format!("Child requests '{place}' but parent doesn't have it")
            }
            Violation::Upgrade { .. } => {
                "Cannot upgrade read-only sandbox to read-write".to_owned()
            }
            Violation::Network {
                held: NetworkAccess::Denied,
                ..
            } => "Child requests network access but parent doesn't have it".to_owned(),
            Violation::Network { beyond, .. } if beyond.is_empty() => {
                "Child requests the whole network but parent only has some hosts".to_owned()
            }
            Violation::Network { beyond, .. } => {
                let hosts: Vec<String> = beyond.iter().map(|host| format!("'{host}'")).collect();
                format!(
                    "Child requests network access to {} but parent doesn't have it",
                    hosts.join(", ")
                )
            }
            Violation::PublishedPorts { beyond, .. } => {
                format!("Child requests published ports {beyond} but parent doesn't have them")
            }
            Violation::Sockets { .. } => {
                "Child requests local sockets but parent doesn't have them".to_owned()
            }
            Violation::Repository { name, .. } => {
                format!("Child requests 'rw' on repository '{name}' but parent only has 'ro'")
            }
            Violation::NoRepository { name, .. } => {
                format!("Child requests repository '{name}' but parent doesn't have it")
            }
            Violation::Shell { .. } => {
                "Child requests the shell but parent doesn't have it".to_owned()
            }
        }
    }

    fn for_model(&self) -> String {
        match self {
            Violation::Missing {
                zone, available, ..
            } => format!(
                "Child requests '{zone}' but parent doesn't have it\nAvailable: {}",
                names(available)
            ),
            Violation::Suffixes { held, .. } => {
                format!("{}\nAllowed suffixes: {}", self.sentence(), held.join(", "))
            }
            Violation::Network {
                held: held @ NetworkAccess::Hosts(_),
                ..
            } => format!("{}\nAllowed hosts: {held}", self.sentence()),
            Violation::Outside { held, .. } | Violation::NoRepository { held, .. } => {
                format!("{}\nAvailable: {}", self.sentence(), list(held))
            }
            Violation::Mode { .. }
            | Violation::Approval { .. }
            | Violation::Upgrade { .. }
            | Violation::Network { .. }
            | Violation::PublishedPorts { .. }
            | Violation::Sockets { .. }
            | Violation::Repository { .. }
            | Violation::Shell { .. } => self.sentence(),
        }
    }

    /// The place in the worker's file.
    fn at(&self) -> Option<&Span> {
        match self {
            Violation::Mode { at, .. }
            | Violation::Missing { at, .. }
            | Violation::Approval { at, .. }
            | Violation::Suffixes { at, .. }
            | Violation::Outside { at, .. }
            | Violation::Upgrade { at, .. }
            | Violation::Network { at, .. }
            | Violation::PublishedPorts { at, .. }
            | Violation::Shell { at }
            | Violation::Sockets { at }
            | Violation::Repository { at, .. }
            | Violation::NoRepository { at, .. } => at.as_ref(),
        }
    }

    fn diagnostic(&self, sentence: String) -> Diagnostic {
        let mut diagnostic = DiagnosticCode::ExceedsParent.error(sentence);
        if let Some(span) = self.at() {
            diagnostic = diagnostic.at(span);
        }
        match self {
            Violation::Mode { zone, implied, parent, .. } => diagnostic
                .related_to(parent, format!("zone '{zone}' is ro here"))
                .help(match implied {
                    true => "without `mode` a worker asks for rw: declare `mode: ro`, or make the zone rw in the project config",
                    false => "declare `mode: ro`, or make the zone rw in the project config",
                }),
            Violation::Missing { available, .. } => {
                diagnostic.note(format!("Available zones: {}", names(available)))
            }
            Violation::Approval { held, .. } => diagnostic.help(format!(
                "a worker can only be stricter: leave the key out or write `{held}`"
            )),
            Violation::Suffixes { held, .. } => {
                diagnostic.note(format!("the parent allows: {}", held.join(", ")))
            }
            Violation::Outside { held, .. } if held.is_empty() => diagnostic.help(NO_DIRECTORIES),
            Violation::Outside { held, .. } => diagnostic
                .note(format!("Available: {}", list(held)))
                .help("a place is counted from the `/` that the caller sees"),
            Violation::Upgrade { target, parent, .. } => diagnostic
                .related_to(parent, format!("`{target}` is read-only here"))
                .help("leave `readonly` out, or make it read-write for the caller"),
            Violation::Network {
                held: held @ NetworkAccess::Hosts(_),
                ..
            } => diagnostic.note(format!("the parent allows: {held}")),
            Violation::Network { .. } => {
                diagnostic.help("write `network: false`, or give the caller the network")
            }
            Violation::PublishedPorts { held, .. } if !held.is_empty() => {
                diagnostic.note(format!("the parent publishes: {held}"))
            }
            Violation::PublishedPorts { .. } => {
                diagnostic.help("leave `loopback_in` out, or give it to the caller")
            }
            Violation::Sockets { .. } => diagnostic.help(
                "write `unix_sockets: inherit` for what the caller has, or name fewer",
            ),
            Violation::Repository { name, implied, parent, .. } => diagnostic
                .related_to(parent, format!("'{name}' is ro here"))
                .help(match implied {
                    true => "without `access` a worker asks for rw: write `{ repo: …, access: ro }`, or make it rw in the project config",
                    false => "write `access: ro`, or make it rw in the project config",
                }),
            Violation::NoRepository { held, .. } => diagnostic
                .note(format!("Available repositories: {}", list(held)))
                .help("list it under `git.repositories` of the project and of every caller"),
            Violation::Shell { .. } => diagnostic.help(
                "remove `shell`, or give it to the caller as well (and to the project, if it has no `shell`)",
            ),
        }
    }
}

fn names(available: &[(String, Mode)]) -> String {
    let names: Vec<String> = available.iter().map(|(name, _)| name.clone()).collect();
    list(&names)
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
