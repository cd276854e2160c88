//! Proposed grants: the smallest lines for a project file that would have let refused attempts pass.
//! A proposal names one directory, address or socket. It never names `/`, the home directory or a
//! directory around it, a directory of the system or the kernel, a protected or hidden name, or a
//! place of credentials; such refusals are counted instead. Nothing is written.
//!
//! Entry point: [`Proposals::new`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use os_sandbox::{Denial, DenialReason, DeniedOperation};
use sandbox_names::{HIDDEN, PROTECTED, fold, pattern};
use serde_json::{Value, json};

/// Directories of the system and the kernel, of which a project gets no more than forge shows.
const OF_SYSTEM: [&str; 7] = ["/boot", "/dev", "/etc", "/proc", "/root", "/run", "/sys"];
/// Names of places where programs store credentials. The table of hidden names is added.
const OF_CREDENTIALS: [&str; 12] = [
    ".aws",
    ".azure",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".mozilla",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pypirc",
    "gcloud",
];

/// The proposals for the refusals of one run.
#[derive(Debug, Default)]
pub(crate) struct Proposals {
    /// Directories to show; `true` if they are to be written.
    mounts: BTreeMap<PathBuf, bool>,
    programs: BTreeSet<PathBuf>,
    hosts: BTreeSet<String>,
    sockets: BTreeSet<String>,
    /// The number of refusals without a proposal.
    pub(crate) without: usize,
}

impl Proposals {
    /// Finds the proposals. `home`: the person's home directory.
    pub(crate) fn new(denials: &[Denial], home: Option<&Path>) -> Proposals {
        let mut proposals = Proposals::default();
        for denial in denials {
            if !proposals.add(denial, home) {
                proposals.without += 1;
            }
        }
        let all = proposals.mounts.clone();
        // A directory with at least the same access shows everything below it.
        proposals.mounts.retain(|path, is_written| {
            let around = path.ancestors().skip(1);
            !around
                .filter_map(|around| all.get(around))
                .any(|of_around| *of_around || !*is_written)
        });
        proposals
    }

    /// Adds the proposal for one refusal. Returns `false` if none is proposed.
    fn add(&mut self, denial: &Denial, home: Option<&Path>) -> bool {
        let reads = matches!(
            denial.operation,
            DeniedOperation::Read | DeniedOperation::Execute
        );
        match denial.reason {
            DenialReason::Outside | DenialReason::NotShown | DenialReason::ReadOnly(_) => {
                let Some(directory) = grantable(&denial.object, home) else {
                    return false;
                };
                if denial.operation == DeniedOperation::Execute {
                    self.programs.insert(directory);
                } else {
                    *self.mounts.entry(directory).or_default() |= !reads;
                }
                true
            }
            DenialReason::NetworkOff | DenialReason::NotNamed
                if denial.operation == DeniedOperation::Connect =>
            {
                self.hosts.insert(denial.object.clone());
                true
            }
            DenialReason::SocketNotNamed if denial.object.starts_with('/') => {
                self.sockets.insert(denial.object.clone());
                true
            }
            _ => false,
        }
    }

    /// Returns a line for each proposal: the key, and the value to add to it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut names = BTreeSet::new();
        for (path, is_written) in &self.mounts {
            let source = quoted(&path.to_string_lossy());
            let target = quoted(&format!("/{}", unused_name(path, &mut names)));
            let access = match is_written {
                true => "",
                false => ", readonly: true",
            };
            lines.push(format!(
                "`sandbox.mounts`: {{ source: {source}, target: {target}{access} }}"
            ));
        }
        let paths = self.programs.iter().map(|path| path.to_string_lossy());
        lines.extend(paths.map(|path| format!("`sandbox.programs`: {}", quoted(&path))));
        let hosts = self.hosts.iter();
        lines.extend(hosts.map(|host| format!("`network.allow`: {}", quoted(host))));
        let sockets = self.sockets.iter();
        lines.extend(sockets.map(|path| format!("`sandbox.unix_sockets`: {}", quoted(path))));
        lines
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({ "grants": self.lines(), "without_grant": self.without })
    }
}

/// Returns the directory that shows an object. `None` if it may not be proposed.
fn grantable(object: &str, home: Option<&Path>) -> Option<PathBuf> {
    let object = Path::new(object);
    // Escaped characters are not those of the path.
    if !object.is_absolute() || object.to_string_lossy().contains('\\') || is_secret(object) {
        return None;
    }
    let directory = object.ancestors().find(|path| path.is_dir())?;
    // The object may be a link.
    let real = directory.canonicalize().ok()?;
    let is_around_home = home.is_none_or(|home| {
        let real_home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        home.starts_with(directory) || real_home.starts_with(&real)
    });
    let is_of_system = |path: &Path| {
        let mut system = OF_SYSTEM.iter();
        let is_top = path.components().count() <= 2;
        is_top
            || system.any(|top| {
                path.starts_with(top) && !home.is_some_and(|home| path.starts_with(home))
            })
    };
    let is_refused = is_around_home
        || [directory, &real]
            .into_iter()
            .any(|path| is_of_system(path) || is_secret(path));
    (!is_refused).then(|| directory.to_owned())
}

/// Returns `true` for a path with a part that a built-in pattern protects or hides, or that names
/// credentials.
fn is_secret(path: &Path) -> bool {
    let first = |pattern: &'static &str| {
        let pattern = pattern.trim_start_matches('/');
        pattern.split('/').next().map(fold)
    };
    let patterns: Vec<String> = HIDDEN
        .iter()
        .chain(PROTECTED)
        .chain(&OF_CREDENTIALS)
        .filter_map(first)
        // All settings of a person are more than the shell's, which the pattern is about.
        .filter(|pattern| pattern != ".config")
        .collect();
    path.components().any(|part| match part {
        Component::Normal(name) => patterns.iter().any(|one| pattern::fits(one, name)),
        _ => false,
    })
}

/// Returns a name for a mount that no other proposal has.
fn unused_name(path: &Path, used: &mut BTreeSet<String>) -> String {
    let last = path.file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_".contains(*letter);
    let plain: String = last.chars().filter(is_plain).collect();
    // Names of the system's own directories are reserved.
    let plain = match plain.is_empty() || Path::new("/").join(&plain).exists() {
        true => format!("shown-{plain}"),
        false => plain,
    };
    let mut name = plain.clone();
    let mut number = 1;
    while !used.insert(name.clone()) {
        number += 1;
        name = format!("{plain}-{number}");
    }
    name
}

/// Returns a value as YAML reads it; JSON's strings are YAML's too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(operation: DeniedOperation, object: &Path, reason: DenialReason) -> Denial {
        Denial {
            operation,
            object: object.display().to_string(),
            reason,
            program: "cat".into(),
        }
    }

    #[test]
    fn a_proposal_names_the_directory_and_nothing_wider() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().canonicalize().unwrap().join("home");
        for name in ["library/deep", "tools", ".ssh", "secrets"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        let read = |name: &str| {
            denial(
                DeniedOperation::Read,
                &home.join(name),
                DenialReason::NotShown,
            )
        };
        let denials = [
            read("library/a.txt"),
            read("library/deep/b.txt"),
            denial(
                DeniedOperation::Execute,
                &home.join("tools/tool"),
                DenialReason::Outside,
            ),
            denial(
                DeniedOperation::Connect,
                Path::new("192.0.2.1:80"),
                DenialReason::NotNamed,
            ),
            // Never proposed.
            read(".profile"),
            read("plain"),
            read(".ssh/id_ed25519"),
            read("secrets/server.pem"),
            read("secrets/.env"),
            read("../"),
            denial(
                DeniedOperation::Create,
                Path::new("/etc/made"),
                DenialReason::Outside,
            ),
            denial(
                DeniedOperation::Write,
                &home.join("library/x"),
                DenialReason::Protected("x".into()),
            ),
        ];
        let proposals = Proposals::new(&denials, Some(&home));
        let home = home.display();
        let wanted = [
            format!(
                "`sandbox.mounts`: {{ source: \"{home}/library\", target: \"/library\", readonly: true }}"
            ),
            format!("`sandbox.programs`: \"{home}/tools\""),
            "`network.allow`: \"192.0.2.1:80\"".to_owned(),
        ];
        assert_eq!(proposals.lines(), wanted);
        assert_eq!(proposals.without, 8);
    }

    #[test]
    fn without_a_home_no_directory_is_proposed() {
        let scratch = tempfile::tempdir().unwrap();
        let object = scratch.path().join("file");
        let one = denial(DeniedOperation::Read, &object, DenialReason::Outside);
        assert_eq!(Proposals::new(&[one], None).without, 1);
    }
}
