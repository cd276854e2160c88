//! The needs of a worker. A declaration is a request: nothing in it gives anything, only
//! [`Grant::child`](crate::Grant::child) turns it into rights, and never into more than the parent
//! holds. So any code may build one.

use crate::grant::confinement::SocketRequest;
use crate::grant::limits::RunLimits;
use crate::grant::mount::Mode;
use crate::grant::network::{HostLine, NetworkAccess};
use crate::grant::published_ports::PublishedPorts;
use crate::grant::restrict::{NarrowedDirectory, Restrict};
use crate::grant::shell::RuleList;
use crate::grant::verdict::{ApprovalPolicy, Operation, Verdict};
use crate::syntax::text::Span;

/// A repository that a worker asks for.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryRequest {
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) access: Mode,
    pub(crate) at: Option<Span>,
    /// `access` was left out, which means rw.
    pub(crate) implied: bool,
}

/// A worker's declaration. A worker does not get undeclared rights, except limits, tools and
/// approval, which pass down as they are.
///
/// ```
/// use sandbox_config::{Declaration, Mode, ZoneDeclaration};
/// let wish = Declaration::zones([ZoneDeclaration::new("data", Mode::ReadOnly)]);
/// assert!(!wish.is_undeclared() && Declaration::undeclared().is_undeclared());
/// ```
#[derive(Clone, Debug)]
pub struct Declaration {
    pub(crate) mounts: MountRequest,
    /// Location of the `sandbox` key.
    pub(crate) sandbox: Option<Span>,
    pub(crate) network: Option<(NetworkAccess, Option<Span>)>,
    /// `network.loopback_in`.
    pub(crate) published_ports: PublishedPorts,
    /// The patterns of `network`.
    pub(crate) network_lines: Vec<HostLine>,
    pub(crate) shell: Option<(Option<RuleList>, Option<Span>)>,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) limits: RunLimits,
    /// Approval requirements in addition to the project's.
    pub(crate) approval: Option<ApprovalPolicy>,
    pub(crate) unix_sockets: Option<(SocketRequest, Option<Span>)>,
    pub(crate) repositories: Option<Vec<RepositoryRequest>>,
}

/// The `sandbox` key of a worker.
#[derive(Clone, Debug)]
pub(crate) enum MountRequest {
    /// Absent: the project's front-end decides.
    Undeclared,
    /// `none`, or an empty list.
    Nothing,
    /// `inherit`.
    Inherit,
    Zones(Vec<ZoneDeclaration>),
    /// `restrict`, `readonly`, `rebase`.
    Restrict(Restrict),
    /// The old form, in a program with one root.
    Places(Vec<NarrowedDirectory>),
}

impl Declaration {
    fn new(mounts: MountRequest) -> Declaration {
        Declaration {
            mounts,
            sandbox: None,
            network: None,
            published_ports: PublishedPorts::default(),
            network_lines: Vec::new(),
            shell: None,
            tools: None,
            limits: RunLimits::UNLIMITED,
            approval: None,
            unix_sockets: None,
            repositories: None,
        }
    }

    /// A worker without a `sandbox` key.
    #[must_use]
    pub fn undeclared() -> Declaration {
        Declaration::new(MountRequest::Undeclared)
    }

    /// `sandbox: none`: a pure function.
    #[must_use]
    pub fn none() -> Declaration {
        Declaration::new(MountRequest::Nothing)
    }

    /// `sandbox: inherit`: all mounts of the parent.
    #[must_use]
    pub fn inherit() -> Declaration {
        Declaration::new(MountRequest::Inherit)
    }

    /// `sandbox: {zones: […]}`. An empty list is `none`.
    #[must_use]
    pub fn zones(zones: impl IntoIterator<Item = ZoneDeclaration>) -> Declaration {
        let zones: Vec<_> = zones.into_iter().collect();
        if zones.is_empty() {
            return Declaration::none();
        }
        Declaration::new(MountRequest::Zones(zones))
    }

    /// `sandbox: {restrict: …}`: a subtree.
    #[must_use]
    pub fn restrict(to: Restrict) -> Declaration {
        Declaration::new(MountRequest::Restrict(to))
    }

    sandbox_names::setters! {
        /// Ask for the network.
        with_network(access: NetworkAccess) => network = Some((access, None));
        /// Ask for at most these limits.
        with_limits(limits: RunLimits) => limits = limits;
    }

    /// Returns `true` if the worker has a list of hosts of its own, which further hosts of the
    /// project do not change.
    ///
    /// ```
    /// use sandbox_config::{Declaration, NetworkAccess};
    /// assert!(!Declaration::inherit().declares_network());
    /// let off = Declaration::inherit().with_network(NetworkAccess::Denied);
    /// assert!(off.declares_network());
    /// ```
    #[must_use]
    pub fn declares_network(&self) -> bool {
        self.network.is_some()
    }

    /// Ask for the shell under the parent's rules.
    #[must_use]
    pub fn with_shell(mut self) -> Declaration {
        self.shell = Some((None, None));
        self
    }

    /// No `sandbox` key.
    #[must_use]
    pub fn is_undeclared(&self) -> bool {
        matches!(self.mounts, MountRequest::Undeclared)
    }
}

/// One zone that a worker asks for.
///
/// ```
/// use sandbox_config::{Mode, Operation, Verdict, ZoneDeclaration};
/// let wish = ZoneDeclaration::new("data", Mode::ReadWrite)
///     .approval(Operation::Delete, Verdict::Block)
///     .delegate_only();
/// assert_eq!(wish.name(), "data");
/// ```
#[derive(Clone, Debug)]
pub struct ZoneDeclaration {
    pub(crate) name: String,
    pub(crate) name_span: Option<Span>,
    pub(crate) mode: Mode,
    /// Location of `mode`; `None` if it was left out.
    pub(crate) mode_span: Option<Span>,
    pub(crate) usable: bool,
    pub(crate) approval: Vec<(Operation, Verdict, Option<Span>)>,
    pub(crate) suffixes: Option<(Vec<String>, Option<Span>)>,
    pub(crate) max_file_bytes: Option<u64>,
}

impl ZoneDeclaration {
    /// Ask for a zone.
    #[must_use]
    pub fn new(name: impl Into<String>, mode: Mode) -> ZoneDeclaration {
        ZoneDeclaration {
            name: name.into(),
            name_span: None,
            mode,
            mode_span: None,
            usable: true,
            approval: Vec::new(),
            suffixes: None,
            max_file_bytes: None,
        }
    }

    /// The zone's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// State consent for one operation.
    #[must_use]
    pub fn approval(mut self, operation: Operation, verdict: Verdict) -> ZoneDeclaration {
        self.approval.push((operation, verdict, None));
        self
    }

    /// `use: false`: hold it to pass it on, without touching it.
    #[must_use]
    pub fn delegate_only(mut self) -> ZoneDeclaration {
        self.usable = false;
        self
    }

    /// Only files with these suffixes.
    #[must_use]
    pub fn suffixes(
        mut self,
        suffixes: impl IntoIterator<Item = impl Into<String>>,
    ) -> ZoneDeclaration {
        let lower = suffixes.into_iter().map(|s| s.into().to_lowercase());
        self.suffixes = Some((lower.collect(), None));
        self
    }

    /// No file above this size.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> ZoneDeclaration {
        self.max_file_bytes = Some(bytes);
        self
    }
}
