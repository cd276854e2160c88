//! Project and worker files: mounts, policy, and grants that only narrow.
//!
//! A **project** file limits what its workers may access: this limit is the **ceiling**, a
//! [`Grant`]. A **worker** file lists its needs: a [`Declaration`]. [`Grant::child`] is their meet
//! and the only way down, so a worker never holds more than its caller. A **mount** is a host
//! directory shown at a sandbox path; a **zone** is a named mount in config files. A **verdict**
//! decides if something happens, is asked about, or never happens. A file that does not validate
//! yields [`Diagnostics`]: all its mistakes at once, each with file, line, column and a correction;
//! nothing runs on it.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use sandbox_config::{load, Declaration, Mode, Sources, ZoneDeclaration};
//!
//! std::fs::write(dir.path().join("golem-forge.config.yaml"), "
//! sandbox:
//!   zones:
//!     data: { path: ./data, mode: ro }
//!     workspace: { path: ./workspace, mode: rw }
//! ").unwrap();
//! let project = load(&Sources::new(dir.path())).unwrap();
//!
//! // Allowed: a child that reads the files that its parent can read.
//! let reader = Declaration::zones([ZoneDeclaration::new("data", Mode::ReadOnly)]);
//! let reader = project.ceiling().child(&reader).unwrap();
//! assert_eq!(reader.mount_access("data"), Some(Mode::ReadOnly));
//! assert_eq!(reader.mount_access("workspace"), None);
//!
//! // Denied: a child that writes where its parent only reads.
//! let writer = Declaration::zones([ZoneDeclaration::new("data", Mode::ReadWrite)]);
//! assert_eq!(
//!     project.ceiling().child(&writer).unwrap_err().to_string(),
//!     "Child requests 'rw' on 'data' but parent only has 'ro'",
//! );
//! ```
//!
//! This crate does not know tools, models, or how anything is enforced.

#![forbid(unsafe_code)]

// Modules import each other one way only, each from those on its left: syntax, grant, keys, loading,
// then schema, open, provider, mount_syntax, preset, then settings, worker, project, review, explain.
mod explain;
mod grant;
mod keys;
mod loading;
mod mount_syntax;
mod preset;
mod project;
mod provider;
mod review;
mod settings;
mod worker;

pub mod schema;

mod syntax;

mod open;

pub use explain::chain::{AccessAnswer, AccessQuery, ChainLink, GrantChain};
pub use grant::attachments::AttachmentPolicy;
pub use grant::confinement::{Confinement, GitConfigMode, GitMode, Survivors, Trace, UnixSockets};
pub use grant::declaration::{Declaration, ZoneDeclaration};
pub use grant::docker::{ContainerNetwork, DockerSettings, Reuse};
pub use grant::escalation::Escalation;
pub use grant::execution::{
    ExecutionMode, ExecutionSettings, RunnerAvailability, RunnerChoice, RunnerKind,
};
pub use grant::file_rules::{FileRules, HardLinks};
pub use grant::front_end::FrontEnd;
pub use grant::git::Repository;
pub use grant::limits::{RunLimit, RunLimits};
pub use grant::meet::MountSource;
pub use grant::mount::{Mode, Mount};
pub use grant::network::NetworkAccess;
pub use grant::preset::{PresetRights, SharedState};
pub use grant::programs::{ProgramDirs, is_version_manager};
pub use grant::published_ports::PublishedPorts;
pub use grant::refusal::AccessRefusal;
pub use grant::restrict::{Restrict, RestrictPathError};
pub use grant::shell::{CommandPattern, CommandPatternError, ProgramLists, RuleMatch, ShellRules};
pub use grant::verdict::{ApprovalMode, ApprovalPolicy, MountApproval, Operation, Risk, Verdict};
pub use grant::{EnvironmentGrant, Grant};
pub use keys::{SeenName, StateMode, UNPROTECTABLE};
pub use loading::discover::{PROJECT_FILES, find_project_file};
pub use loading::location::{project_dir, project_file};
pub use loading::reserved_paths::ReservedPath;
pub use loading::sources::{
    ConfigChoice, ProjectFileState, RepositoryCheck, SchemaCheck, SchemaMistake, Sources,
    TrustedSettings, WithoutDirectories, WriterCheck, WriterFinding,
};
pub use loading::trust::PrivilegedSetting;
pub use loading::trust_rules::{TrustRule, Untrusted};
pub use loading::worker_names::{Delegates, is_worker_name};
pub use loading::writable_places::{WritablePlaces, names_on_the_way};
#[cfg(feature = "files")]
pub use open::files::MountOpener;
#[cfg(any(feature = "files", feature = "process"))]
pub use open::host_dirs::GrantError;
#[cfg(feature = "process")]
pub use open::process::ExtraDirs;
pub use preset::library::PresetLibrary;
pub use preset::server_url::{ServerUrl, is_origin};
pub use preset::set::{FoundRegistry, PresetChoice, PresetSet};
pub use preset::{
    HostGroup, Preset, PresetCredential, PresetState, RegistrySetting, VerifiedVersion,
};
pub use project::personal_rules::PersonalRules;
pub use project::settings::{EffectiveSettings, Setting, UnknownKey};
pub use project::{Project, load};
pub use provider::{ApiKey, ProviderSettings, TokenPrices, UnknownProvider, Wire};
pub use review::Review;
pub use review::tree::{CallStatus, DelegationNode};
pub use sandbox_network::{AskableHosts, HostError, HostPattern};
pub use settings::git::{CredentialSource, GitCredential, GitSettings};
pub use syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics, nearest};
pub use syntax::text::{ConfigOrigin, Layer};
pub use worker::Worker;

#[cfg(test)]
mod tests {
    mod key_effects;
    mod reference_page;
    mod sample_projects;
    mod schema_agreement;
    mod user_limit_cases;
}
