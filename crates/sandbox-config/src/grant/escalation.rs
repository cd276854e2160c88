//! A worker asked for more than its parent holds. Two renderings: a person reads config words and
//! places; a model reads neither.

use std::fmt;

use crate::grant::mount::Mount;
use crate::grant::network::NetworkAccess;
use crate::grant::published_ports::PublishedPorts;
use crate::grant::verdict::{Operation, Verdict};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics};
use crate::syntax::text::{ConfigOrigin, Span};

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

/// One point in which a declaration exceeds the parent.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    sentence: String,
    for_model: String,
    diagnostic: Diagnostic,
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
    fn with_subjects(&self, sentence: &str) -> String {
        if !self.of_entry {
            return sentence.to_owned();
        }
        sentence
            .replacen("Child requests", "The worker requests", 1)
            .replace("but parent ", "but the project ")
            .replace("that parent ", "that the project ")
    }

    /// Renders the escalation with config words, locations and corrections.
    #[must_use]
    pub fn for_person(&self) -> String {
        let list = self.diagnostics_list();
        let parts: Vec<String> = list.iter().map(ToString::to_string).collect();
        parts.join("\n\n")
    }

    /// For the model that made the call: no config words, no host paths.
    #[must_use]
    pub fn for_model(&self) -> String {
        self.lines(|violation| &violation.for_model)
    }

    fn lines(&self, of: fn(&Violation) -> &str) -> String {
        let lines = self
            .violations
            .iter()
            .map(|one| self.with_subjects(of(one)));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// As mistakes, for `forge check`.
    #[must_use]
    pub fn diagnostics(&self) -> Option<Diagnostics> {
        Diagnostics::of(self.diagnostics_list())
    }

    pub(crate) fn diagnostics_list(&self) -> Vec<Diagnostic> {
        let said = |one: &Violation| {
            let sentence = self.with_subjects(&one.sentence);
            one.diagnostic.clone().reworded(sentence)
        };
        self.violations.iter().map(said).collect()
    }
}

impl fmt::Display for Escalation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines(|violation| &violation.sentence))
    }
}

impl std::error::Error for Escalation {}

impl Violation {
    fn new(at: Option<&Span>, sentence: impl Into<String>) -> Violation {
        let sentence = sentence.into();
        let diagnostic = DiagnosticCode::ExceedsParent.error(sentence.as_str());
        Violation {
            for_model: sentence.clone(),
            diagnostic: diagnostic.at_any(at),
            sentence,
        }
    }

    /// Adds a line for a model.
    fn tell(mut self, line: &str) -> Violation {
        self.for_model = format!("{}\n{line}", self.for_model);
        self
    }

    fn note(mut self, note: String) -> Violation {
        self.diagnostic = self.diagnostic.note(note);
        self
    }

    fn help(mut self, help: impl Into<String>) -> Violation {
        self.diagnostic = self.diagnostic.help(help);
        self
    }

    fn related_to(mut self, parent: &ConfigOrigin, note: String) -> Violation {
        self.diagnostic = self.diagnostic.related_to(parent, note);
        self
    }

    /// `implied`: `mode` was left out, which means rw.
    pub(crate) fn mode(at: Option<&Span>, implied: bool, held: &Mount) -> Violation {
        let zone = held.name();
        let sentence = format!("Child requests 'rw' on '{zone}' but parent only has 'ro'");
        Violation::new(at, sentence)
            .related_to(&held.mode_origin, format!("zone '{zone}' is ro here"))
            .help(match implied {
                true => "without `mode` a worker asks for rw: declare `mode: ro`, or make the zone rw in the project config",
                false => "declare `mode: ro`, or make the zone rw in the project config",
            })
    }

    pub(crate) fn missing(at: Option<&Span>, zone: &str, held: &[Mount]) -> Violation {
        let available = list(held.iter().map(Mount::name));
        let sentence = format!("Child requests zone '{zone}' but parent doesn't have it");
        let violation = Violation {
            for_model: format!("Child requests '{zone}' but parent doesn't have it"),
            ..Violation::new(at, sentence)
        };
        violation
            .tell(&format!("Available: {available}"))
            .note(format!("Available zones: {available}"))
    }

    pub(crate) fn approval(
        zone: &str,
        (operation, wanted, at): &(Operation, Verdict, Option<Span>),
        held: Verdict,
    ) -> Violation {
        let sentence = format!(
            "Child requests '{wanted}' for {operation} on '{zone}' but parent only has '{held}'"
        );
        Violation::new(at.as_ref(), sentence).help(format!(
            "a worker can only be stricter: leave the key out or write `{held}`"
        ))
    }

    pub(crate) fn suffixes(at: Option<&Span>, zone: &str, held: &[String]) -> Violation {
        let held = held.join(", ");
        let sentence = format!("Child requests suffixes on '{zone}' that parent doesn't have");
        Violation::new(at, sentence)
            .tell(&format!("Allowed suffixes: {held}"))
            .note(format!("the parent allows: {held}"))
    }

    /// A subtree of which the parent holds nothing.
    pub(crate) fn outside(at: Option<&Span>, place: &str, held: &[Mount]) -> Violation {
        let available = format!("Available: {}", list(held.iter().map(Mount::target)));
        let sentence = format!("Child requests '{place}' but parent doesn't have it");
        let violation = Violation::new(at, sentence).tell(&available);
        match held {
            [] => violation.help(NO_DIRECTORIES),
            _ => violation
                .note(available)
                .help("a place is counted from the `/` that the caller sees"),
        }
    }

    /// `readonly: false` on a read-only directory.
    pub(crate) fn upgrade(at: Option<&Span>, held: &Mount) -> Violation {
        let target = held.target();
        Violation::new(at, "Cannot upgrade read-only sandbox to read-write")
            .related_to(&held.mode_origin, format!("`{target}` is read-only here"))
            .help("leave `readonly` out, or make it read-write for the caller")
    }

    pub(crate) fn network(
        at: Option<&Span>,
        wanted: &NetworkAccess,
        held: &NetworkAccess,
    ) -> Violation {
        let beyond = wanted.excess_over(held);
        let hosts: Vec<String> = beyond.iter().map(|host| format!("'{host}'")).collect();
        let sentence = match (held, hosts.join(", ")) {
            (NetworkAccess::Denied, _) => {
                "Child requests network access but parent doesn't have it".to_owned()
            }
            (_, hosts) if hosts.is_empty() => {
                "Child requests the whole network but parent only has some hosts".to_owned()
            }
            (_, hosts) => {
                format!("Child requests network access to {hosts} but parent doesn't have it")
            }
        };
        let violation = Violation::new(at, sentence);
        match held {
            NetworkAccess::Hosts(_) => violation
                .tell(&format!("Allowed hosts: {held}"))
                .note(format!("the parent allows: {held}")),
            _ => violation.help("write `network: false`, or give the caller the network"),
        }
    }

    pub(crate) fn published_ports(
        at: Option<&Span>,
        beyond: &PublishedPorts,
        held: &PublishedPorts,
    ) -> Violation {
        let sentence =
            format!("Child requests published ports {beyond} but parent doesn't have them");
        let violation = Violation::new(at, sentence);
        match held.is_empty() {
            true => violation.help("leave `loopback_in` out, or give it to the caller"),
            false => violation.note(format!("the parent publishes: {held}")),
        }
    }

    pub(crate) fn shell(at: Option<&Span>) -> Violation {
        Violation::new(at, "Child requests the shell but parent doesn't have it").help(
            "remove `shell`, or give it to the caller as well (and to the project, if it has no `shell`)",
        )
    }

    pub(crate) fn sockets(at: Option<&Span>) -> Violation {
        let sentence = "Child requests local sockets but parent doesn't have them";
        Violation::new(at, sentence)
            .help("write `unix_sockets: inherit` for what the caller has, or name fewer")
    }

    /// More than to pull from it. `implied`: `access` was left out, which means rw.
    pub(crate) fn repository(
        at: Option<&Span>,
        implied: bool,
        name: &str,
        parent: &ConfigOrigin,
    ) -> Violation {
        let sentence =
            format!("Child requests 'rw' on repository '{name}' but parent only has 'ro'");
        Violation::new(at, sentence)
            .related_to(parent, format!("'{name}' is ro here"))
            .help(match implied {
                true => "without `access` a worker asks for rw: write `{ repo: …, access: ro }`, or make it rw in the project config",
                false => "write `access: ro`, or make it rw in the project config",
            })
    }

    pub(crate) fn no_repository<'n>(
        at: Option<&Span>,
        name: &str,
        held: impl Iterator<Item = &'n str>,
    ) -> Violation {
        let available = list(held);
        let sentence = format!("Child requests repository '{name}' but parent doesn't have it");
        Violation::new(at, sentence)
            .tell(&format!("Available: {available}"))
            .note(format!("Available repositories: {available}"))
            .help("list it under `git.repositories` of the project and of every caller")
    }
}

/// Returns the names, or `none`.
pub(crate) fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}
