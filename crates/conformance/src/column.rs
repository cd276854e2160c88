//! The enforcers, which are the columns of the matrix.

use crate::verb::Verb;
use os_sandbox::{Backend, HostSpec, Plan, Policy, Requirement, Support};

/// The Landlock versions that have a column.
const ABIS: u32 = 7;

/// An enforcer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// `Policy::allows`: the reference.
    Policy,
    /// `FileSandbox` with `openat2`.
    Files,
    /// `FileSandbox` without `openat2`.
    Walk,
    /// `FileSandbox` in memory.
    Memory,
    /// Landlock and the filter at a version.
    Landlock(u32),
    /// Namespaces by bubblewrap, and the filter.
    Bubblewrap,
    /// Namespaces by bubblewrap, with Landlock and the filter inside.
    Layered,
    /// Namespaces by the launcher, with Landlock and the filter inside.
    Namespaces,
    /// The profile, by `seatbelt-eval`.
    Judged,
    /// The profile, by macOS.
    Seatbelt,
    /// Namespaces by birdcage, with Landlock and the filter inside; an optional feature.
    Birdcage,
    /// A container of an engine, with the filter and without a program of ours inside. An optional
    /// feature.
    Docker,
}

impl Column {
    pub(crate) const ALL: [Column; 18] = [
        Column::Policy,
        Column::Files,
        Column::Walk,
        Column::Memory,
        Column::Landlock(1),
        Column::Landlock(2),
        Column::Landlock(3),
        Column::Landlock(4),
        Column::Landlock(5),
        Column::Landlock(6),
        Column::Landlock(7),
        Column::Bubblewrap,
        Column::Layered,
        Column::Namespaces,
        Column::Judged,
        Column::Seatbelt,
        Column::Birdcage,
        Column::Docker,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Column::Policy => "policy".to_owned(),
            Column::Files => "files".to_owned(),
            Column::Walk => "files-walk".to_owned(),
            Column::Memory => "memory".to_owned(),
            Column::Landlock(abi) => format!("landlock-{abi}"),
            Column::Bubblewrap => "bubblewrap".to_owned(),
            Column::Layered => "layered".to_owned(),
            Column::Namespaces => "namespaces".to_owned(),
            Column::Judged => "seatbelt-judged".to_owned(),
            Column::Seatbelt => "seatbelt".to_owned(),
            Column::Birdcage => "birdcage".to_owned(),
            Column::Docker => "docker".to_owned(),
        }
    }

    /// As the head of a narrow column.
    pub(crate) fn short(self) -> String {
        match self {
            Column::Walk => "walk".to_owned(),
            Column::Landlock(abi) => format!("L{abi}"),
            Column::Bubblewrap => "bwrap".to_owned(),
            Column::Namespaces => "own".to_owned(),
            Column::Judged => "judged".to_owned(),
            Column::Policy
            | Column::Files
            | Column::Memory
            | Column::Layered
            | Column::Seatbelt
            | Column::Birdcage
            | Column::Docker => self.name(),
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Column::Policy => {
                "`Policy::allows`, the reference: by text, links resolved in the described tree"
            }
            Column::Files => "`FileSandbox` with `openat2`",
            Column::Walk => {
                "`FileSandbox` with `openat2` hidden by a filter: the portable resolver"
            }
            Column::Memory => "`FileSandbox` in memory",
            Column::Landlock(_) => "Landlock + seccomp at this version, by the real kernel",
            Column::Bubblewrap => "bubblewrap + seccomp, without Landlock, by the real kernel",
            Column::Layered => "bubblewrap with Landlock and seccomp inside, by the real kernel",
            Column::Namespaces => {
                "namespaces by the launcher with Landlock and seccomp inside, by the real kernel"
            }
            Column::Judged => "the Seatbelt profile, by `seatbelt-eval`",
            Column::Seatbelt => {
                "the Seatbelt profile, by `/usr/bin/sandbox-exec` on macOS; expected to be as judged"
            }
            Column::Birdcage => {
                "birdcage with Landlock and seccomp inside, by the real kernel (feature `birdcage`)"
            }
            Column::Docker => {
                "a container of a Docker engine with the filter, nothing of ours inside (feature `docker`)"
            }
        }
    }

    /// `true` if it can pose the attempt.
    pub(crate) fn has(self, verb: Verb) -> bool {
        match self {
            Column::Policy => verb.is_about_files(),
            Column::Files | Column::Walk | Column::Memory => verb.file_tools_have_it(),
            Column::Landlock(_)
            | Column::Bubblewrap
            | Column::Layered
            | Column::Namespaces
            | Column::Birdcage
            | Column::Docker => true,
            // The profile does not cover how a command is started.
            Column::Judged => !matches!(
                verb,
                Verb::Descriptor | Verb::Variable | Verb::Abstract | Verb::Pair | Verb::Bind
            ),
            // macOS has no abstract names; the operations for pairs and own sockets are unknown.
            Column::Seatbelt => !matches!(verb, Verb::Abstract | Verb::Pair | Verb::Bind),
        }
    }

    pub(crate) fn is_files(self) -> bool {
        matches!(self, Column::Files | Column::Walk | Column::Memory)
    }

    /// Returns the mechanism of plans for this column; `None` for file tools.
    pub(crate) fn backend(self) -> Option<Backend> {
        match self {
            Column::Landlock(_) => Some(Backend::Landlock),
            Column::Bubblewrap | Column::Layered => Some(Backend::Bubblewrap),
            Column::Namespaces => Some(Backend::Namespaces),
            Column::Judged | Column::Seatbelt => Some(Backend::Seatbelt),
            Column::Birdcage => Some(Backend::Birdcage),
            Column::Docker => Some(Backend::Docker),
            Column::Policy | Column::Files | Column::Walk | Column::Memory => None,
        }
    }

    /// The Landlock version of this column.
    pub(crate) fn abi(self) -> u32 {
        match self {
            Column::Landlock(abi) => abi,
            Column::Layered | Column::Namespaces | Column::Birdcage => ABIS,
            Column::Policy
            | Column::Files
            | Column::Walk
            | Column::Memory
            | Column::Bubblewrap
            | Column::Judged
            | Column::Seatbelt
            | Column::Docker => 0,
        }
    }

    /// Returns the plan for an assumed host with this mechanism only, equal on every machine.
    pub(crate) fn assumed_plan(self, policy: &Policy) -> Option<Plan> {
        let backend = self.backend()?;
        let mounts = backend == Backend::Bubblewrap;
        let host = Support::assume(HostSpec {
            landlock_abi: self.abi(),
            seccomp: backend != Backend::Seatbelt,
            connector: true,
            namespaces: backend == Backend::Namespaces,
            bubblewrap: mounts.then(|| "0.12.0".to_owned()),
            pins_by_descriptor: mounts,
            birdcage: backend == Backend::Birdcage,
            docker: backend == Backend::Docker,
            seatbelt: backend == Backend::Seatbelt,
            ..HostSpec::default()
        });
        Plan::with_mechanism(policy, &host, Requirement::BestEffort, backend).ok()
    }

    /// The columns of a word in a case's `at`: a column, `landlock`, `landlock-1..3`, `linux`,
    /// `mounts`, `file-tools`, `commands`, `macos`.
    pub(crate) fn named(word: &str) -> Result<Vec<Column>, String> {
        let pick = |wanted: fn(Column) -> bool| {
            Column::ALL
                .into_iter()
                .filter(|column| wanted(*column))
                .collect()
        };
        let mounts = |column| {
            matches!(
                column,
                Column::Bubblewrap
                    | Column::Layered
                    | Column::Namespaces
                    | Column::Birdcage
                    | Column::Docker
            )
        };
        match word {
            "landlock" => return Ok(pick(|column| matches!(column, Column::Landlock(_)))),
            "mounts" => return Ok(pick(mounts)),
            "linux" => {
                return Ok(pick(|column| {
                    column.abi() > 0 || matches!(column, Column::Bubblewrap | Column::Docker)
                }));
            }
            "macos" => return Ok(pick(|column| column.backend() == Some(Backend::Seatbelt))),
            "file-tools" => return Ok(pick(Column::is_files)),
            "commands" => return Ok(pick(|column| column.backend().is_some())),
            _ => {}
        }
        if let Some(range) = word.strip_prefix("landlock-")
            && let Some((from, to)) = range.split_once("..")
        {
            let number = |text: &str| text.parse().map_err(|_| format!("no such column: {word}"));
            let (from, to): (u32, u32) = (number(from)?, number(to)?);
            return Ok((from..=to.min(ABIS)).map(Column::Landlock).collect());
        }
        Column::ALL
            .into_iter()
            .find(|column| column.name() == word)
            .map(|column| vec![column])
            .ok_or_else(|| format!("no such column: {word}"))
    }
}
