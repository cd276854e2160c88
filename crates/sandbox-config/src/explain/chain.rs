//! The history of a grant: the project's ceiling, then every worker on the way down, each with its
//! declaration. Every link answers a query for itself; the strictest answer holds, and the first
//! link that gives it is the decisive one.

use crate::grant::Grant;
use crate::grant::declaration::Declaration;
use crate::grant::escalation::Escalation;
use crate::grant::mount::{Mode, Mount};
use crate::grant::network::{HostLine, NetworkAccess};
use crate::grant::verdict::{Operation, Verdict};
use crate::project::Project;
use crate::syntax::text::{ConfigOrigin, Layer, Span};
use crate::worker::Worker;
use sandbox_network::{Decision, Host};

/// The grants from the project's ceiling down to one worker.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("workers")).unwrap();
/// # std::fs::write(dir.path().join("workers/fmt.worker"),
/// #     "---\nsandbox: { zones: [{ name: data, mode: ro }] }\n---\nFormat.\n").unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
/// #     "sandbox: { zones: { data: { path: data } } }\n").unwrap();
/// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// use sandbox_config::{GrantChain, Operation, AccessQuery, Verdict};
/// let worker = project.worker("fmt").unwrap();
/// let chain = GrantChain::from_project(&project).call(&worker).unwrap();
///
/// let read = AccessQuery::path("/data/a.md", Operation::Read);
/// assert!(chain.ask(&read).iter().all(|answer| answer.verdict == Verdict::Allow));
/// // Denied, and by whom: the project gives it, the worker's own declaration does not.
/// let write = AccessQuery::path("/data/a.md", Operation::Write);
/// let decisive = chain.decisive(&write);
/// assert_eq!((decisive.who.as_str(), decisive.verdict), ("fmt", Verdict::Block));
/// assert_eq!(decisive.origin.unwrap().to_string(), "workers/fmt.worker:2:40");
/// ```
#[derive(Clone, Debug)]
pub struct GrantChain {
    project: ChainLink,
    workers: Vec<ChainLink>,
}

/// One grant of a chain.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// let chain = sandbox_config::GrantChain::from_project(&project);
/// let link = chain.steps().next().unwrap();
/// assert_eq!(link.who(), "the project");
/// assert_eq!(link.grant().mounts().count(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct ChainLink {
    who: String,
    declaration: Option<Declaration>,
    file: Option<ConfigOrigin>,
    /// Where the project says it.
    network: Option<ConfigOrigin>,
    /// `true` if `network` of the project is a mapping with lists.
    lists_hosts: bool,
    /// The patterns of `network`.
    network_lines: Vec<HostLine>,
    grant: Grant,
}

/// A query to a chain of grants.
///
/// ```
/// use sandbox_config::{Operation, AccessQuery};
/// assert_eq!(
///     AccessQuery::path("/data/a.md", Operation::Write),
///     AccessQuery::Path { path: "/data/a.md".into(), operation: Operation::Write },
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessQuery {
    /// May this be done to this path? As the last worker sees it; protected and hidden names are
    /// the file tools' and the OS sandbox's to add.
    Path {
        /// `/data/a.md`.
        path: String,
        /// Read, write or delete.
        operation: Operation,
    },
    /// May commands use the network at all?
    Network,
    /// May commands talk to this host?
    Host {
        /// `example.com`.
        name: String,
        /// 443, as a rule.
        port: u16,
    },
    /// May this repository be pulled from, or staged for?
    Repository {
        /// In the spelling of [`Repository::address`](crate::Repository::address).
        address: String,
        /// Staged for.
        staging: bool,
    },
    /// May this tool be offered?
    Tool(String),
    /// May this command run? Split into words.
    Command(Vec<String>),
}

impl AccessQuery {
    /// A question about a path.
    #[must_use]
    pub fn path(path: impl Into<String>, operation: Operation) -> AccessQuery {
        AccessQuery::Path {
            path: path.into(),
            operation,
        }
    }
}

/// The answer of one grant of a chain.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// use sandbox_config::{GrantChain, AccessQuery, Verdict};
/// let answer = GrantChain::from_project(&project).decisive(&AccessQuery::Network);
/// assert_eq!(answer.verdict, Verdict::Block);
/// assert_eq!(answer.rule, "network: false");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessAnswer {
    /// `the project`, or the worker's name.
    pub who: String,
    /// The verdict of this grant.
    pub verdict: Verdict,
    /// The rule behind the verdict, in the words of the config file.
    pub rule: String,
    /// Location of the rule; `None` if it is a default or absent from the file.
    pub origin: Option<ConfigOrigin>,
}

impl GrantChain {
    /// Returns the chain of the project's ceiling, without workers.
    #[must_use]
    pub fn from_project(project: &Project) -> GrantChain {
        GrantChain {
            project: ChainLink {
                who: "the project".to_owned(),
                declaration: None,
                file: None,
                network: project.network_at().cloned(),
                lists_hosts: project.lists_hosts(),
                network_lines: project.network_lines().to_vec(),
                grant: project.ceiling().clone(),
            },
            workers: Vec::new(),
        }
    }

    /// A person starts this worker ([`Project::entry_grant`]).
    ///
    /// # Errors
    /// It declares more than the ceiling.
    pub fn entry(&self, worker: &Worker) -> Result<GrantChain, Escalation> {
        let ceiling = worker.ceiling(&self.project.grant);
        let grant = ceiling.entry(worker.declaration())?;
        Ok(GrantChain {
            project: ChainLink {
                grant: ceiling.into_owned(),
                ..self.project.clone()
            },
            workers: vec![ChainLink::from_worker(worker, grant)],
        })
    }

    /// The last worker calls this one ([`Grant::child`]).
    ///
    /// # Errors
    /// It declares more than the last one holds.
    pub fn call(&self, worker: &Worker) -> Result<GrantChain, Escalation> {
        let grant = self.grant().child(worker.declaration())?;
        let mut chain = self.clone();
        chain.workers.push(ChainLink::from_worker(worker, grant));
        Ok(chain)
    }

    /// Returns the chain with a last link that holds the same without writing ([`Grant::read_only`]).
    /// `name`: that of the link in answers.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
    /// use sandbox_config::{AccessQuery, GrantChain, Operation, Verdict};
    /// let chain = GrantChain::from_project(&project).read_only("--read-only");
    /// let write = AccessQuery::path("/workspace/a.md", Operation::Write);
    /// assert_eq!(chain.decisive(&write).verdict, Verdict::Block);
    /// ```
    #[must_use]
    pub fn read_only(mut self, name: &str) -> GrantChain {
        let last = self.last();
        let link = ChainLink {
            who: name.to_owned(),
            grant: last.grant.read_only(),
            ..last.clone()
        };
        self.workers.push(link);
        self
    }

    /// Returns the grant of the last link.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.last().grant
    }

    fn last(&self) -> &ChainLink {
        self.workers.last().unwrap_or(&self.project)
    }

    /// From the project down.
    pub fn steps(&self) -> impl Iterator<Item = &ChainLink> {
        std::iter::once(&self.project).chain(&self.workers)
    }

    /// Returns the answer of every grant on the way, from the project down. Verdicts only get
    /// stricter, with two exceptions: a worker may settle an unstated verdict either way, and a
    /// mount that is held without being used (`use: false`) is used by workers below.
    #[must_use]
    pub fn ask(&self, question: &AccessQuery) -> Vec<AccessAnswer> {
        let last = self.workers.len();
        self.steps()
            .enumerate()
            .map(|(index, link)| link.answer(&self.as_seen_by(link, question), index == last))
            .collect()
    }

    /// A path belongs to the last link; a link above a `rebase` sees the file at another path.
    fn as_seen_by(&self, link: &ChainLink, question: &AccessQuery) -> AccessQuery {
        let mut seen = question.clone();
        if let AccessQuery::Path { path, .. } = &mut seen {
            let host = self.grant().host_of(path);
            let there = host.and_then(|host| link.grant.sandbox_path(&host));
            *path = there.unwrap_or_else(|| path.clone());
        }
        seen
    }

    /// Returns the answer that holds for the last link: the first one with its verdict.
    #[must_use]
    pub fn decisive(&self, question: &AccessQuery) -> AccessAnswer {
        let own = self.last().answer(question, true);
        self.ask(question)
            .into_iter()
            .find(|answer| answer.verdict == own.verdict)
            .unwrap_or(own)
    }
}

impl ChainLink {
    fn from_worker(worker: &Worker, grant: Grant) -> ChainLink {
        ChainLink {
            who: worker.name().to_owned(),
            declaration: Some(worker.declaration().clone()),
            file: Some(worker.origin().clone()),
            network: None,
            lists_hosts: false,
            network_lines: worker.declaration().network_lines.clone(),
            grant,
        }
    }

    sandbox_names::getters! {
        /// `the project`, or the worker's name.
        pub who: &str = &who;
        /// Returns the grant of this link.
        pub grant: &Grant = &grant;
        /// Returns the worker's declaration; `None` for the project.
        pub declaration: Option<&Declaration> = declaration.as_ref();
        /// Returns the first line of the worker's file; `None` for the project.
        pub file: Option<&ConfigOrigin> = file.as_ref();
    }

    fn answer(&self, question: &AccessQuery, is_last: bool) -> AccessAnswer {
        match question {
            AccessQuery::Path { path, operation } => self.on_path(path, *operation, is_last),
            AccessQuery::Network => self.on_network(),
            AccessQuery::Host { name, port } => self.on_host(name, *port),
            AccessQuery::Repository { address, staging } => self.on_repository(address, *staging),
            AccessQuery::Tool(name) => self.on_tool(name),
            AccessQuery::Command(words) => self.on_command(words),
        }
    }

    fn answer_with(
        &self,
        verdict: Verdict,
        rule: impl Into<String>,
        origin: Option<ConfigOrigin>,
    ) -> AccessAnswer {
        AccessAnswer {
            who: self.who.clone(),
            verdict,
            rule: rule.into(),
            origin: origin.filter(|origin| origin.name().is_some()),
        }
    }

    fn on_repository(&self, address: &str, staging: bool) -> AccessAnswer {
        let Some(held) = self.grant.repository(address) else {
            return self.answer_with(
                Verdict::Block,
                "`git.repositories` does not name it",
                self.file.clone(),
            );
        };
        let rule = format!("{} is {}", held.name(), held.access());
        let verdict = match staging && held.access() == Mode::ReadOnly {
            true => Verdict::Block,
            false => Verdict::Allow,
        };
        self.answer_with(verdict, rule, Some(held.origin().clone()))
    }

    fn on_path(&self, path: &str, operation: Operation, is_last: bool) -> AccessAnswer {
        // A mount that is held and not used is a right of the called workers.
        let refusal = if is_last {
            self.grant.refusal(path, operation)
        } else {
            self.grant.missing_right(path, operation)
        };
        if let Some(refusal) = refusal {
            let origin = refusal.origin().cloned();
            let origin = origin.or_else(|| self.place_of_sandbox());
            return self.answer_with(Verdict::Block, refusal.for_person(), origin);
        }
        let Some(mount) = self.grant.mount_at(path) else {
            return self.answer_with(Verdict::Allow, "the names of what is held", None);
        };
        if let Some(suffixes) = unfit(mount, path) {
            let rule = format!("{} takes {suffixes} only", mount.target());
            return self.answer_with(Verdict::Block, rule, Some(mount.origin.clone()));
        }
        let verdict = mount.approval().verdict(operation);
        let mut rule = format!("{operation} in {} is `{verdict}`", mount.target());
        if mount.is_staged() && operation != Operation::Read {
            rule += ", and `mode: staged` keeps changes for a review";
        }
        self.answer_with(verdict, rule, Some(mount.origin.clone()))
    }

    fn on_network(&self) -> AccessAnswer {
        let own = self.declaration.as_ref();
        let declared = own.and_then(|own| own.network.as_ref());
        let origin = declared.and_then(|(_, at)| at.as_ref()).map(Span::origin);
        let origin = origin.or_else(|| self.network.clone());
        match self.grant.network() {
            NetworkAccess::Denied if self.declaration.is_some() && declared.is_none() => self
                .answer_with(
                    Verdict::Block,
                    "`network` is not declared; a worker gets it by `network:` in its file",
                    self.file.clone(),
                ),
            NetworkAccess::Denied if !self.grant.published_ports().is_empty() => {
                let ports = self.grant.published_ports();
                let rule = format!("only network.loopback_in: {ports}");
                self.answer_with(Verdict::Block, &rule, origin)
            }
            NetworkAccess::Denied => {
                let is_of_user = origin.as_ref().is_some_and(|at| at.layer() == Layer::User);
                let rule = match (self.lists_hosts, is_of_user) {
                    (true, true) => "`network.allow` names no host of the project",
                    (true, false) => "`network` allows no host",
                    (false, _) => "network: false",
                };
                self.answer_with(Verdict::Block, rule, origin)
            }
            NetworkAccess::Unrestricted => {
                self.answer_with(Verdict::Allow, "network: true", origin)
            }
            NetworkAccess::Hosts(_) => {
                let rule = format!("network.allow: {}", self.grant.network());
                self.answer_with(Verdict::Allow, &rule, origin)
            }
        }
    }

    fn on_host(&self, name: &str, port: u16) -> AccessAnswer {
        let answer = self.on_network();
        let NetworkAccess::Hosts(rules) = self.grant.network() else {
            return answer;
        };
        let decision = match Host::parse(name) {
            Ok(host) => rules.decide(&host, port),
            Err(_) => Decision::Unlisted,
        };
        let (verdict, pattern) = match decision {
            Decision::Allowed(pattern) => (Verdict::Allow, pattern),
            Decision::Denied(pattern) => (Verdict::Block, pattern),
            Decision::Unlisted => {
                let rule = format!("`network.allow` does not name it: {}", self.grant.network());
                return self.answer_with(Verdict::Block, rule, answer.origin);
            }
        };
        let is_denied = verdict == Verdict::Block;
        let mut lines = self.network_lines.iter();
        // The pattern of a worker may be a part of a caller's.
        let line =
            lines.find(|line| line.is_denial() == is_denied && pattern.is_within(&line.pattern));
        match line {
            Some(line) => {
                let rule = format!("network.{}: {}", line.key, line.pattern);
                self.answer_with(verdict, rule, Some(line.origin.clone()))
            }
            None => {
                let key = if is_denied { "deny" } else { "allow" };
                let rule = format!("network.{key}: {pattern}, inherited");
                self.answer_with(verdict, rule, answer.origin)
            }
        }
    }

    fn on_tool(&self, name: &str) -> AccessAnswer {
        match self.grant.tools() {
            None => self.answer_with(Verdict::Allow, "every tool", None),
            Some(tools) => {
                let list: Vec<&str> = tools.iter().map(String::as_str).collect();
                let verdict = match self.grant.allows_tool(name) {
                    true => Verdict::Allow,
                    false => Verdict::Block,
                };
                let rule = format!("tools: [{}]", list.join(", "));
                self.answer_with(verdict, rule, self.file.clone())
            }
        }
    }

    fn on_command(&self, words: &[String]) -> AccessAnswer {
        let Some(rules) = self.grant.shell() else {
            return self.answer_with(Verdict::Block, "`shell` is not declared", self.file.clone());
        };
        let matched = rules.decide(words);
        let rule = match matched.rule() {
            Some(rule) if matched.is_personal() => {
                format!("`{rule}`, a rule of the person's own for this project")
            }
            Some(rule) => format!("{rule}: {}", matched.verdict()),
            None => format!("default: {}", matched.verdict()),
        };
        self.answer_with(matched.verdict(), rule, Some(matched.origin().clone()))
    }

    /// Where a worker says which directories it needs, or where its file begins.
    fn place_of_sandbox(&self) -> Option<ConfigOrigin> {
        let own = self.declaration.as_ref();
        let declared = own.and_then(|own| own.sandbox.as_ref());
        declared.map(Span::origin).or_else(|| self.file.clone())
    }
}

/// The suffixes of a mount, if this path has none of them.
fn unfit(mount: &Mount, path: &str) -> Option<String> {
    let suffixes = mount.suffixes()?;
    let lower = path.to_lowercase();
    let is_mount_itself = path == mount.target();
    let fits = is_mount_itself || suffixes.iter().any(|suffix| lower.ends_with(suffix));
    (!fits).then(|| suffixes.join(", "))
}
