//! The place of a call: the project's setting, and the one table that answers it
//! (docs/decisions/0013-runner-table.md). The table is pure: the usable runners of this host are
//! handed in.

use crate::grant::docker::{ContainerNetwork, DockerSettings};
use crate::grant::network::NetworkAccess;
use crate::grant::verdict::{Risk, Verdict};
use crate::syntax::text::ConfigOrigin;
use crate::syntax::word::words;

words! {
    /// `execution.mode`.
    ///
    /// ```
    /// use sandbox_config::{ExecutionMode, Grant};
    /// assert_eq!(Grant::empty().execution().mode(), ExecutionMode::PreferLocal);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ExecutionMode {
        /// `local_only`: docker is never used.
        LocalOnly = "local_only",
        /// `prefer_local`: here, if an OS sandbox can be enforced.
        PreferLocal = "prefer_local",
        /// `prefer_docker`: hazardous calls go to a container.
        PreferDocker = "prefer_docker",
        /// `docker_required`: everything goes to a container, or does not run.
        DockerRequired = "docker_required",
    }
}

/// Usable runners of this host, found by trying them.
///
/// ```
/// let usable = sandbox_config::RunnerAvailability { os: true, docker: false, interactive: false };
/// assert!(usable.os);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerAvailability {
    /// An OS sandbox can be enforced.
    pub os: bool,
    /// A container has been run.
    pub docker: bool,
    /// A person can be asked.
    pub interactive: bool,
}

/// Where a call runs.
///
/// ```
/// use sandbox_config::{ExecutionMode, Risk, RunnerKind, RunnerChoice, RunnerAvailability};
/// let usable = RunnerAvailability { os: true, docker: false, interactive: true };
/// let choice = |mode| RunnerKind::select(mode, Risk::Exec, usable);
/// assert_eq!(choice(ExecutionMode::PreferLocal), RunnerChoice::Run(RunnerKind::Local));
/// assert_eq!(choice(ExecutionMode::PreferDocker), RunnerChoice::Confirm(RunnerKind::Local));
/// assert_eq!(choice(ExecutionMode::DockerRequired), RunnerChoice::Refuse);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunnerKind {
    /// In this process, or in a child of it under the OS sandbox.
    Local,
    /// In a container.
    Docker,
}

/// The answer of the table.
///
/// ```
/// use sandbox_config::{RunnerKind, RunnerChoice};
/// assert_ne!(RunnerChoice::Run(RunnerKind::Local), RunnerChoice::Confirm(RunnerKind::Local));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunnerChoice {
    /// There.
    Run(RunnerKind),
    /// There, if a person says so.
    Confirm(RunnerKind),
    /// Nowhere.
    Refuse,
}

impl RunnerKind {
    /// Looks up the table. Equal arguments always give equal answers.
    #[must_use]
    pub fn select(mode: ExecutionMode, risk: Risk, usable: RunnerAvailability) -> RunnerChoice {
        let confirmed = if usable.interactive {
            RunnerChoice::Confirm(RunnerKind::Local)
        } else {
            RunnerChoice::Refuse
        };
        let hazardous = risk.safe_default() != Verdict::Allow;
        match (mode, hazardous) {
            (ExecutionMode::DockerRequired, _) if usable.docker => {
                RunnerChoice::Run(RunnerKind::Docker)
            }
            (ExecutionMode::DockerRequired, _) => RunnerChoice::Refuse,
            (ExecutionMode::LocalOnly, _)
            | (ExecutionMode::PreferLocal | ExecutionMode::PreferDocker, false) => {
                RunnerChoice::Run(RunnerKind::Local)
            }
            (ExecutionMode::PreferLocal, true) if usable.os => RunnerChoice::Run(RunnerKind::Local),
            (ExecutionMode::PreferLocal | ExecutionMode::PreferDocker, true) => {
                if usable.docker {
                    RunnerChoice::Run(RunnerKind::Docker)
                } else {
                    confirmed
                }
            }
        }
    }
}

/// `execution` and `docker`: shared by every worker of a project.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
/// #     "execution: { mode: docker_required }\n").unwrap();
/// use sandbox_config::{Risk, RunnerChoice, Sources, RunnerAvailability, load};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// let usable = RunnerAvailability { os: true, docker: false, interactive: true };
/// let (choice, why) = project.ceiling().execution().select(Risk::ReadOnly, usable);
/// assert_eq!(choice, RunnerChoice::Refuse);
/// assert_eq!(why, "`execution.mode: docker_required`, and docker cannot be used: \
///                  it is not enabled (`docker.enabled`)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionSettings {
    pub(crate) mode: ExecutionMode,
    /// `execution.runners`.
    pub(crate) os: bool,
    pub(crate) containers: bool,
    pub(crate) docker: DockerSettings,
    pub(crate) origin: ConfigOrigin,
    /// Where `docker.network_default` is set.
    pub(crate) network_origin: ConfigOrigin,
}

impl Default for ExecutionSettings {
    fn default() -> ExecutionSettings {
        ExecutionSettings {
            mode: ExecutionMode::PreferLocal,
            os: true,
            containers: true,
            docker: DockerSettings::default(),
            origin: ConfigOrigin::built_in(),
            network_origin: ConfigOrigin::built_in(),
        }
    }
}

impl ExecutionSettings {
    sandbox_names::getters! {
        /// `execution.mode`.
        pub mode: ExecutionMode = mode;
        /// `docker`.
        pub docker: &DockerSettings = &docker;
        /// Where the mode is set.
        pub origin: &ConfigOrigin = &origin;
        /// Returns `true` if commands may run on this host, under the OS sandbox (`execution.runners`).
        pub uses_os: bool = os;
    }

    /// Why docker is not to be tried at all, if it is not.
    #[must_use]
    pub fn without_docker(&self) -> Option<&'static str> {
        if !self.containers {
            Some("`execution.runners` does not list it")
        } else if !self.docker.enabled {
            Some("it is not enabled (`docker.enabled`)")
        } else {
            None
        }
    }

    /// Why commands in containers do not have the network that `network` and
    /// `docker.network_default` seem to give them, each by itself; `None` if the two agree.
    ///
    /// ```
    /// use sandbox_config::{ExecutionSettings, NetworkAccess};
    /// // Containers are not enabled.
    /// let execution = ExecutionSettings::default();
    /// assert_eq!(execution.network_in_containers(&NetworkAccess::Unrestricted), None);
    /// ```
    #[must_use]
    pub fn network_in_containers(&self, network: &NetworkAccess) -> Option<&'static str> {
        if self.mode == ExecutionMode::LocalOnly || self.without_docker().is_some() {
            return None;
        }
        match (network, self.docker.network_default) {
            (NetworkAccess::Unrestricted, ContainerNetwork::None) => Some(
                "commands in containers have no network: `network` is on, and \
                 `docker.network_default` is `none`",
            ),
            (NetworkAccess::Denied, ContainerNetwork::Bridge) => Some(
                "commands in containers have no network: `docker.network_default` is `bridge`, \
                 and `network` is off",
            ),
            (NetworkAccess::Unrestricted, ContainerNetwork::Bridge)
            | (NetworkAccess::Denied, ContainerNetwork::None)
            | (NetworkAccess::Hosts(_), _) => None,
        }
    }

    /// The table's answer under this project's settings, and why, for people and records.
    #[must_use]
    pub fn select(&self, risk: Risk, usable: RunnerAvailability) -> (RunnerChoice, String) {
        self.select_knowing(risk, usable, "nothing that runs containers is available")
    }

    /// As [`ExecutionSettings::select`], with the known reason why docker cannot be used, if
    /// `usable` says that.
    #[must_use]
    pub fn select_knowing(
        &self,
        risk: Risk,
        usable: RunnerAvailability,
        why_not: &str,
    ) -> (RunnerChoice, String) {
        let mode = self.mode;
        let hazardous = risk.safe_default() != Verdict::Allow;
        let no_docker = match self.without_docker() {
            Some(why) => Some(why),
            None if usable.docker => None,
            None => Some(why_not),
        };
        let usable = RunnerAvailability {
            os: usable.os && self.os,
            docker: no_docker.is_none(),
            ..usable
        };
        let choice = match RunnerKind::select(mode, risk, usable) {
            // Files are this process's own business; hazardous calls need a listed runner.
            RunnerChoice::Run(RunnerKind::Local) | RunnerChoice::Confirm(RunnerKind::Local)
                if hazardous && !self.os =>
            {
                RunnerChoice::Refuse
            }
            choice => choice,
        };
        let docker = no_docker.unwrap_or("it can");
        let no_os = if usable.os || mode != ExecutionMode::PreferLocal {
            ""
        } else {
            ", no OS sandbox can be enforced"
        };
        let why = match choice {
            RunnerChoice::Run(RunnerKind::Local) if !hazardous => {
                format!("local: risk `{risk}` under `execution.mode: {mode}`")
            }
            RunnerChoice::Run(RunnerKind::Local) => format!("local: `execution.mode: {mode}`"),
            RunnerChoice::Run(RunnerKind::Docker) => format!("docker: `execution.mode: {mode}`"),
            RunnerChoice::Refuse if !self.os && mode != ExecutionMode::DockerRequired => {
                format!("`execution.runners` does not list os, and docker cannot be used: {docker}")
            }
            RunnerChoice::Confirm(_) => format!(
                "local if a person agrees: `execution.mode: {mode}`{no_os}, and docker cannot be \
                 used: {docker}"
            ),
            RunnerChoice::Refuse => {
                format!("`execution.mode: {mode}`{no_os}, and docker cannot be used: {docker}")
            }
        };
        (choice, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::word::ConfigWord;

    /// The table of docs/decisions/0013-runner-table.md, cell by cell: mode, hazardous, os, docker, interactive → choice.
    const TABLE: &str = "
        local_only      no  -  -  -  local
        local_only      yes -  -  -  local
        prefer_local    no  -  -  -  local
        prefer_local    yes y  -  -  local
        prefer_local    yes n  y  -  docker
        prefer_local    yes n  n  y  confirm
        prefer_local    yes n  n  n  refuse
        prefer_docker   no  -  -  -  local
        prefer_docker   yes -  y  -  docker
        prefer_docker   yes -  n  y  confirm
        prefer_docker   yes -  n  n  refuse
        docker_required no  -  y  -  docker
        docker_required yes -  y  -  docker
        docker_required no  -  n  -  refuse
        docker_required yes -  n  -  refuse
    ";

    #[test]
    fn every_cell_of_the_matrix() {
        let fits = |cell: &str, value: bool| match cell {
            "-" => true,
            "y" | "yes" => value,
            _ => !value,
        };
        let rows: Vec<Vec<&str>> = TABLE
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|row| !row.is_empty())
            .collect();
        let mut used = vec![false; rows.len()];
        for &(word, mode) in ExecutionMode::WORDS {
            assert_eq!(mode.to_string(), word);
            for risk in Risk::ALL {
                let hazardous = !matches!(risk, Risk::ReadOnly | Risk::WritesWorkspace);
                for bits in 0..8u8 {
                    let usable = RunnerAvailability {
                        os: bits & 1 != 0,
                        docker: bits & 2 != 0,
                        interactive: bits & 4 != 0,
                    };
                    let found: Vec<usize> = rows
                        .iter()
                        .enumerate()
                        .filter(|(_, row)| {
                            row[0] == word
                                && fits(row[1], hazardous)
                                && fits(row[2], usable.os)
                                && fits(row[3], usable.docker)
                                && fits(row[4], usable.interactive)
                        })
                        .map(|(index, _)| index)
                        .collect();
                    let [index] = found[..] else {
                        panic!("{word} {risk} {usable:?}: {} rows", found.len());
                    };
                    used[index] = true;
                    let expected = match rows[index][5] {
                        "local" => RunnerChoice::Run(RunnerKind::Local),
                        "docker" => RunnerChoice::Run(RunnerKind::Docker),
                        "confirm" => RunnerChoice::Confirm(RunnerKind::Local),
                        _ => RunnerChoice::Refuse,
                    };
                    assert_eq!(
                        RunnerKind::select(mode, risk, usable),
                        expected,
                        "{word} {risk} {usable:?}"
                    );
                }
            }
        }
        assert!(used.iter().all(|used| *used), "a row that nothing reaches");
    }

    #[test]
    fn a_runner_that_is_not_listed_is_not_chosen() {
        for &(_, mode) in ExecutionMode::WORDS {
            for bits in 0..8u8 {
                let usable = RunnerAvailability {
                    os: bits & 1 != 0,
                    docker: bits & 2 != 0,
                    interactive: bits & 4 != 0,
                };
                for risk in Risk::ALL {
                    let mut execution = ExecutionSettings {
                        mode,
                        containers: false,
                        ..ExecutionSettings::default()
                    };
                    execution.docker.enabled = true;
                    let (choice, _) = execution.select(risk, usable);
                    assert_ne!(choice, RunnerChoice::Run(RunnerKind::Docker));
                    execution.containers = true;
                    execution.os = false;
                    let (choice, why) = execution.select(risk, usable);
                    if matches!(risk, Risk::WritesFs | Risk::Network | Risk::Exec) {
                        assert_ne!(choice, RunnerChoice::Run(RunnerKind::Local));
                        assert_ne!(choice, RunnerChoice::Confirm(RunnerKind::Local));
                    }
                    assert_eq!((choice, why), execution.select(risk, usable));
                }
            }
        }
    }
}
