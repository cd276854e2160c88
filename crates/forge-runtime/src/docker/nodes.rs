//! Nodes with the grant of one worker: one for each call, or one for all of them.

use std::sync::Arc;

use file_sandbox::FileSandbox;
use forge_node::{
    CallCompletion, NodeClient, NodeCommandRunner, NodeRunner, NodeSource, PathMapping, Setup,
};
use forge_tools::{
    BoxFuture, CallFailure, EventKind, ExecutionInfo, FailureCode, NamedHostProxy, PolicyEvent,
    Processes, ToolboxBuilder,
};
use os_sandbox::{ParentProxySetting, Plan, Policy, Requirement};
use sandbox_config::{Grant, Reuse};
use sandbox_network::AskHost;

use super::PLACE;
use super::node_containers::ContainersUnavailable;
use super::node_containers::NodeContainers;
use super::thread::{in_nodes, on_nodes};
use crate::equip::{EquipError, HostAccess, hosts_not_kept, programs};

/// Nodes with the grant of one worker.
pub(crate) struct WorkerNodes {
    source: Arc<ContainerNodeSource>,
    policy: Policy,
}

struct ContainerNodeSource {
    containers: NodeContainers,
    plan: Plan,
    setup: Setup,
    /// Connects the nodes with the hosts that the policy names, and clients of this machine with
    /// published ports; `None` without both.
    proxy: Option<NamedHostProxy>,
    /// The one of this session, with `docker.reuse: session`.
    kept: tokio::sync::Mutex<Option<NodeClient>>,
}

impl WorkerNodes {
    /// Returns the nodes of a worker.
    ///
    /// # Errors
    /// If a container cannot enforce the grant.
    pub(crate) fn of(
        containers: &NodeContainers,
        grant: &Grant,
        files: Option<&FileSandbox>,
        commands: bool,
        hosts: &HostAccess<'_>,
    ) -> Result<Self, EquipError> {
        let isolation = |reason: String| EquipError::Container { reason, hint: None };
        let policy = hosts.apply(grant.policy()?);
        let plan = containers.plan(&policy, grant.requirement());
        let plan = plan.map_err(|error| {
            let hint = hosts_not_kept(&policy, &error);
            EquipError::Container {
                hint: Some(hint.map_or_else(|| error.hint(), str::to_owned)),
                reason: error.to_string(),
            }
        })?;
        let places = PathMapping::of(&policy);
        let mut setup = Setup::new().max_write_bytes(grant.limits().max_file_write_bytes());
        if let Some(files) = files {
            let there = setup.files(files, &places);
            setup = there.map_err(|error| isolation(error.to_string()))?;
        }
        if commands {
            // The container enforces the promises; the inner sandbox is additional and best-effort.
            let there = setup.commands(&policy, Requirement::BestEffort, &places);
            setup = there
                .map_err(|error| isolation(error.to_string()))?
                .programs(&programs(grant));
        }
        Ok(WorkerNodes {
            source: Arc::new(ContainerNodeSource {
                containers: containers.clone(),
                proxy: (plan.proxied_hosts().is_some() || plan.published_ports().next().is_some())
                    .then(|| NamedHostProxy::new(&plan))
                    .flatten(),
                plan,
                setup,
                kept: tokio::sync::Mutex::new(None),
            }),
            policy,
        })
    }

    /// The worker's commands, in them.
    pub(crate) fn processes(&self) -> Processes {
        let source = Arc::clone(&self.source);
        Processes::started_by(NodeCommandRunner::shared(source), self.policy.clone())
    }

    /// Returns a toolbox whose file tools run in the nodes.
    pub(crate) fn files(&self, builder: ToolboxBuilder) -> ToolboxBuilder {
        builder.runner(NodeRunner::shared(
            Arc::clone(&self.source) as Arc<dyn NodeSource>
        ))
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.source.plan
    }

    /// Refuses a container that lives through many calls if its connections would belong to one of
    /// them.
    pub(crate) fn check_reuse(&self) -> Result<(), EquipError> {
        match (self.source.containers.0.reuse, &self.source.proxy) {
            (Reuse::Session, Some(_)) => Err(EquipError::Container {
                reason:
                    "in a container that lives through many calls, forge cannot tell to which call \
                         a connection with `network.allow` or `network.loopback_in` belongs"
                        .to_owned(),
                hint: Some("set `docker.reuse: call`".to_owned()),
            }),
            (Reuse::Session, None) | (Reuse::Call, _) => Ok(()),
        }
    }
}

impl NodeContainers {
    /// Starts a node for a command that a person typed, under `grant`, in a container that ends
    /// with it. Lists of programs do not apply there. Named hosts are reached through the parent
    /// proxy, if it is given.
    ///
    /// # Errors
    /// If a container cannot enforce the grant, or none could be started.
    pub async fn node(
        &self,
        grant: &Grant,
        parent_proxy: Option<&ParentProxySetting>,
    ) -> Result<NodeClient, EquipError> {
        let hosts = HostAccess {
            parent_proxy,
            asks: false,
        };
        let WorkerNodes { source, .. } = WorkerNodes::of(self, grant, None, true, &hosts)?;
        let setup = source.setup.clone().programs(&[]);
        source
            .try_start(setup, None)
            .await
            .map_err(|why| EquipError::Container {
                reason: why.to_string(),
                hint: why.remediation().map(str::to_owned),
            })
    }
}

impl NodeContainers {
    /// Starts a container with the directories and the network of `grant` and a node for commands,
    /// and ends it again. Blocks.
    ///
    /// # Errors
    /// As [`node`](Self::node).
    pub fn try_for(&self, grant: &Grant) -> Result<(), EquipError> {
        let (this, grant) = (self.clone(), grant.clone());
        let failed = |reason: String| EquipError::Container { reason, hint: None };
        let tried = in_nodes(async move {
            let hosts = HostAccess {
                parent_proxy: None,
                asks: false,
            };
            WorkerNodes::of(&this, &grant, None, true, &hosts)?.check_reuse()?;
            let node = this.node(&grant, None).await?;
            this.over(node).await.map_err(failed)
        });
        tried.map_err(failed)?.map(|_| ())
    }
}

impl ContainerNodeSource {
    async fn try_start(
        &self,
        setup: Setup,
        ask: Option<Arc<dyn AskHost>>,
    ) -> Result<NodeClient, ContainersUnavailable> {
        let (containers, plan) = (self.containers.clone(), self.plan.clone());
        let proxy = self.proxy.as_ref().map(|proxy| match ask {
            Some(ask) => proxy.asking(ask),
            None => proxy.proxy(),
        });
        let started = on_nodes(async move { containers.start(&plan, setup, proxy).await }).await;
        started
            .map_err(ContainersUnavailable::new)
            .and_then(|node| node)
    }

    async fn start(&self, ask: Option<Arc<dyn AskHost>>) -> Result<NodeClient, CallFailure> {
        let started = self.try_start(self.setup.clone(), ask).await;
        started.map_err(|why| {
            // The model gets no details about this machine; the record is for people.
            let why = format!("cannot start a container: {}", why.with_remediation());
            let event = PolicyEvent::new(EventKind::Refused, why);
            FailureCode::IsolationUnavailable
                .failure("The isolation that this call needs is not available; nothing was done.")
                .ran(ExecutionInfo {
                    events: vec![event],
                    ..ExecutionInfo::at("none")
                })
        })
    }
}

impl NodeSource for ContainerNodeSource {
    fn place(&self) -> &'static str {
        PLACE
    }

    fn node(&self) -> BoxFuture<'_, Result<NodeClient, CallFailure>> {
        Box::pin(async move {
            match self.containers.0.reuse {
                Reuse::Call => self.start(None).await,
                Reuse::Session => {
                    let mut kept = self.kept.lock().await;
                    if let Some(node) = kept.as_ref().filter(|node| node.ended().is_none()) {
                        return Ok(node.clone());
                    }
                    let node = self.start(None).await?;
                    *kept = Some(node.clone());
                    Ok(node)
                }
            }
        })
    }

    fn node_asking(&self, ask: Arc<dyn AskHost>) -> BoxFuture<'_, Result<NodeClient, CallFailure>> {
        match self.containers.0.reuse {
            Reuse::Call => Box::pin(self.start(Some(ask))),
            // It serves many calls, and reaches no named hosts.
            Reuse::Session => self.node(),
        }
    }

    fn over(&self, node: NodeClient) -> BoxFuture<'_, Result<CallCompletion, CallFailure>> {
        Box::pin(async move {
            match self.containers.0.reuse {
                Reuse::Session => Ok(CallCompletion::default()),
                Reuse::Call => self.containers.over(node).await.map_err(|why| {
                    let why = format!("the end of its container is not known: {why}");
                    let event = PolicyEvent::new(EventKind::Refused, why);
                    FailureCode::IsolationEnded
                        .failure(
                            "The call was made, and the isolation that it ran in did not end as it \
                         should: what it changed may not be there.",
                        )
                        .hint("Look at what it has done before you try again.")
                        .ran(ExecutionInfo {
                            runner: PLACE,
                            enforcement: None,
                            events: vec![event],
                            artifacts: Vec::new(),
                        })
                }),
            }
        })
    }
}
