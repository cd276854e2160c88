//! The fingerprint of a run: its model, and the grants, files and schemas of its workers. A run is
//! resumed only if the fingerprint is unchanged, or a person has seen the changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forge_tools::Redactor;
use sandbox_config::{Grant, Worker};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The configuration that a run depends on.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("workers")).unwrap();
/// use forge_runtime::transcript::RunFingerprint;
/// use forge_tools::Redactor;
/// use sandbox_config::{Grant, Sources, load};
///
/// let basis = |text: &str| {
///     std::fs::write(dir.path().join("workers/w.worker"), text).unwrap();
///     let worker = load(&Sources::new(dir.path())).unwrap().worker("w").unwrap();
///     RunFingerprint::of("p:m", &worker, &Grant::empty(), &[], &Redactor::default())
/// };
/// let before = basis("---\n---\nWork.\n");
/// let changes = basis("---\n---\nRest.\n").since(&before);
/// assert_eq!(changes.len(), 1);
/// assert_eq!(changes[0].to_string(), "the file of the worker `w`");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct RunFingerprint {
    /// `provider:model`.
    pub model: String,
    /// SHA-256 (hex) over the fields below.
    pub policy_sha256: String,
    /// The entry worker's grant, by name of each fact. A value that contains a secret is replaced.
    pub policy: BTreeMap<String, String>,
    /// The entry worker and all workers that can be called, directly or not.
    pub workers: BTreeMap<String, WorkerFingerprint>,
    /// SHA-256 (hex) of the JSON Schema of the answer in this run; `None` if the worker's own
    /// schema applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_sha256: Option<String>,
}

/// One worker of a tree.
///
/// ```
/// use forge_runtime::transcript::WorkerFingerprint;
/// let worker: WorkerFingerprint =
///     serde_json::from_str(r#"{"text_sha256":"ab","policy_sha256":"cd"}"#).unwrap();
/// assert_eq!(worker.text_sha256, "ab");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFingerprint {
    /// SHA-256 (hex) of its file; if it has schemas, over that and them.
    pub text_sha256: String,
    /// SHA-256 (hex) over its grant when it is called by the nearest of its callers; of its
    /// refusal, if that caller does not hold enough.
    pub policy_sha256: String,
}

/// One thing that a run no longer rests upon.
///
/// ```
/// use forge_runtime::transcript::FingerprintChange;
/// let change = FingerprintChange::Policy {
///     name: "limits.max_turns".into(),
///     before: Some("5".into()),
///     now: Some("9".into()),
/// };
/// assert_eq!(change.to_string(), "limits.max_turns: 5, now 9");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FingerprintChange {
    /// Another model.
    Model {
        /// The one that the run had.
        before: String,
        /// The one it would have.
        now: String,
    },
    /// The JSON Schema of the answer in this run.
    Answer,
    /// A fact of the entry worker's grant.
    Policy {
        /// Its name, as in [`Grant::facts`].
        name: String,
        /// The earlier value; `None` if unset.
        before: Option<String>,
        /// The new value.
        now: Option<String>,
    },
    /// The file of a worker.
    Text {
        /// The worker.
        worker: String,
    },
    /// The grant of a called worker.
    Holds {
        /// The worker.
        worker: String,
    },
    /// A worker that could not be called before.
    Added {
        /// The worker.
        worker: String,
    },
    /// A worker that cannot be called any more.
    Removed {
        /// The worker.
        worker: String,
    },
}

impl std::fmt::Display for FingerprintChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".into());
        match self {
            FingerprintChange::Model { before, now } => write!(f, "the model: {before}, now {now}"),
            FingerprintChange::Policy { name, before, now } => {
                write!(f, "{name}: {}, now {}", or_none(before), or_none(now))
            }
            FingerprintChange::Answer => f.write_str("the JSON Schema of the answer"),
            FingerprintChange::Text { worker } => write!(f, "the file of the worker `{worker}`"),
            FingerprintChange::Holds { worker } => write!(f, "what the worker `{worker}` holds"),
            FingerprintChange::Added { worker } => {
                write!(f, "the worker `{worker}` can be called now")
            }
            FingerprintChange::Removed { worker } => {
                write!(f, "the worker `{worker}` cannot be called any more")
            }
        }
    }
}

/// Replaces a value that contains a secret. Placeholders differ from process to process, so they
/// would look like a change; and a renewed token does not count as one.
const HIDDEN: &str = "(holds a secret)";

impl RunFingerprint {
    /// Computes the fingerprint of a run of `worker` with `grant`, where it may call these others.
    pub fn of(
        model: &str,
        worker: &Worker,
        grant: &Grant,
        others: &[Worker],
        redactor: &Redactor,
    ) -> RunFingerprint {
        let mut basis = RunFingerprint {
            model: model.to_owned(),
            policy_sha256: String::new(),
            policy: facts(grant, redactor),
            workers: tree(worker, grant, others, redactor),
            answer_sha256: None,
        };
        basis.policy_sha256 = basis.hash();
        basis
    }

    /// Returns the fingerprint of a run with an answer that has to fit this JSON Schema instead of the
    /// worker's.
    pub fn answering(mut self, schema: &Value) -> RunFingerprint {
        self.answer_sha256 = Some(sha256(schema));
        self.policy_sha256 = self.hash();
        self
    }

    /// Returns the fingerprint of a run that reaches a provider there.
    pub fn reaching(mut self, provider: &str, address: &str) -> RunFingerprint {
        let name = format!("providers.{provider}");
        self.policy.insert(name, address.to_owned());
        self.policy_sha256 = self.hash();
        self
    }

    /// Hashes all fields but the model and the hash itself.
    fn hash(&self) -> String {
        sha256(&(&self.policy, &self.workers, &self.answer_sha256))
    }

    /// Returns the differences to `before`, the model first.
    pub fn since(&self, before: &RunFingerprint) -> Vec<FingerprintChange> {
        let mut changes = Vec::new();
        if self.model != before.model {
            changes.push(FingerprintChange::Model {
                before: before.model.clone(),
                now: self.model.clone(),
            });
        }
        if self.answer_sha256 != before.answer_sha256 {
            changes.push(FingerprintChange::Answer);
        }
        let names: BTreeSet<&String> = before.policy.keys().chain(self.policy.keys()).collect();
        for name in names {
            let (was, is) = (before.policy.get(name), self.policy.get(name));
            if was != is {
                changes.push(FingerprintChange::Policy {
                    name: name.clone(),
                    before: was.cloned(),
                    now: is.cloned(),
                });
            }
        }
        let policy_changed = self.policy != before.policy;
        let names: BTreeSet<&String> = before.workers.keys().chain(self.workers.keys()).collect();
        for worker in names {
            let name = worker.clone();
            match (before.workers.get(worker), self.workers.get(worker)) {
                (Some(was), Some(is)) if was.text_sha256 != is.text_sha256 => {
                    changes.push(FingerprintChange::Text { worker: name });
                }
                // Consequences of a change that was reported in full are not repeated.
                (Some(was), Some(is))
                    if was.policy_sha256 != is.policy_sha256 && !policy_changed =>
                {
                    changes.push(FingerprintChange::Holds { worker: name });
                }
                (Some(_), Some(_)) | (None, None) => {}
                (Some(_), None) => changes.push(FingerprintChange::Removed { worker: name }),
                (None, Some(_)) => changes.push(FingerprintChange::Added { worker: name }),
            }
        }
        changes
    }
}

fn facts(grant: &Grant, redactor: &Redactor) -> BTreeMap<String, String> {
    let mut facts = grant.facts();
    for value in facts.values_mut() {
        if redactor.redact(value) != *value {
            HIDDEN.clone_into(value);
        }
    }
    facts
}

/// Returns all workers that can run, each with the grant from the nearest of its callers.
fn tree(
    entry: &Worker,
    grant: &Grant,
    others: &[Worker],
    redactor: &Redactor,
) -> BTreeMap<String, WorkerFingerprint> {
    let policy_of = |grant: &Grant| sha256(&facts(grant, redactor));
    let mut found = BTreeMap::new();
    let mut next = VecDeque::from([(entry, Some(grant.clone()))]);
    found.insert(entry.name().to_owned(), basis_of(entry, &policy_of(grant)));
    while let Some((caller, held)) = next.pop_front() {
        let Some(held) = held else { continue };
        for callee in others
            .iter()
            .filter(|other| caller.delegates().allows(other.name()))
        {
            if found.contains_key(callee.name()) {
                continue;
            }
            let (grant, policy) = match held.child(callee.declaration()) {
                Ok(grant) => {
                    let policy = policy_of(&grant);
                    (Some(grant), policy)
                }
                Err(refusal) => (None, sha256(&refusal.for_model())),
            };
            found.insert(callee.name().to_owned(), basis_of(callee, &policy));
            next.push_back((callee, grant));
        }
    }
    found
}

fn basis_of(worker: &Worker, policy_sha256: &str) -> WorkerFingerprint {
    let schemas = (worker.input_schema(), worker.output_schema());
    WorkerFingerprint {
        text_sha256: match schemas {
            (None, None) => worker.digest().to_owned(),
            // Schemas may have files of their own.
            (input, output) => sha256(&(worker.digest(), input, output)),
        },
        policy_sha256: policy_sha256.to_owned(),
    }
}

/// Hashes a value as JSON, whose maps are sorted.
fn sha256(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    sandbox_names::hex(Sha256::digest(text))
}
