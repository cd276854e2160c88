//! The setup of a node: its files and its policy for commands, at the node's own paths. The broker
//! makes it from its own objects, so that the two cannot drift apart.

use cap_std::AmbientAuthority;
use file_sandbox::{FileSandbox, Mount, SandboxPath};
use forge_tools::ProgramList;
use os_sandbox::{Plan, Policy, Requirement};
use serde::{Deserialize, Serialize};

use crate::error::NodeError;
use crate::path_mapping::PathMapping;
use crate::wire_commands::WireCommands;
use crate::wire_files::{WireFiles, preload};

/// The setup of a node; see [`NodeClient::connect`](crate::NodeClient::connect).
///
/// ```
/// use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
/// use forge_node::{PathMapping, Setup};
///
/// # let host = tempfile::tempdir().unwrap();
/// let data = SandboxPath::parse("/data").unwrap();
/// let authority = cap_std::ambient_authority();
/// let mount = Mount::open_ambient(data, host.path(), Mode::ReadOnly, authority).unwrap();
/// let files = FileSandbox::new(vec![mount]).unwrap();
/// let setup = Setup::new().files(&files, &PathMapping::Same).unwrap();
/// # let _ = setup;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Setup {
    files: Option<WireFiles>,
    commands: Option<WireCommands>,
    max_write_bytes: Option<u64>,
    /// The files of the mounts in memory; sent one by one.
    #[serde(skip)]
    pub(crate) preloaded: Vec<(SandboxPath, Vec<u8>)>,
}

impl Setup {
    /// Nothing: neither files nor commands.
    pub fn new() -> Setup {
        Setup::default()
    }

    /// Adds these files; `places` maps their directories to the node's. The files of read-only
    /// mounts in memory are read here, to be sent along; blocks.
    ///
    /// # Errors
    ///
    /// A directory is missing for the node, or a mount in memory is writable: writes to it would
    /// not arrive here.
    pub fn files(mut self, files: &FileSandbox, places: &PathMapping) -> Result<Setup, NodeError> {
        for mount in files.mounts() {
            if mount.is_memory() && !mount.mode().can_write() {
                preload(files, mount.target(), &mut self.preloaded)?;
            }
        }
        self.files = Some(WireFiles::new(files, places)?);
        Ok(self)
    }

    /// Commands under `policy`, held there as strictly as `requirement` says. Variables have the
    /// values that they have here.
    ///
    /// # Errors
    ///
    /// A directory is not there for the node.
    pub fn commands(
        mut self,
        policy: &Policy,
        requirement: Requirement,
        places: &PathMapping,
    ) -> Result<Setup, NodeError> {
        self.commands = Some(WireCommands::new(policy, requirement, places)?);
        Ok(self)
    }

    /// Which programs may be started, looked at once more where they are. Say it after
    /// [`commands`](Self::commands).
    pub fn programs(mut self, lists: &[ProgramList]) -> Setup {
        if let Some(commands) = &mut self.commands {
            commands.programs = lists.to_vec();
        }
        self
    }

    /// Most bytes that one call may write to a file.
    pub fn max_write_bytes(mut self, bytes: u64) -> Setup {
        self.max_write_bytes = Some(bytes);
        self
    }
}

/// A setup, opened.
#[derive(Default)]
pub(crate) struct OpenedSetup {
    pub(crate) files: Option<FileSandbox>,
    /// Those in memory, which can still be filled.
    pub(crate) memory: Vec<Mount>,
    pub(crate) plan: Option<Plan>,
    pub(crate) programs: Vec<ProgramList>,
    /// The programs are those of a container's image.
    pub(crate) own_container: bool,
    pub(crate) max_write_bytes: Option<u64>,
}

impl Setup {
    /// Opens the files and the plan. Blocks.
    ///
    /// # Errors
    ///
    /// In words for people: something is not there, or cannot be kept.
    pub(crate) fn open(self, authority: AmbientAuthority) -> Result<OpenedSetup, String> {
        let mut opened = OpenedSetup {
            max_write_bytes: self.max_write_bytes,
            ..OpenedSetup::default()
        };
        if let Some(files) = self.files {
            let error = |error: file_sandbox::Error| error.to_string();
            let (files, memory) = files.open(authority).map_err(error)?;
            opened.files = Some(files);
            opened.memory = memory;
        }
        if let Some(mut commands) = self.commands {
            opened.programs = std::mem::take(&mut commands.programs);
            opened.own_container = commands.own_container;
            opened.plan = Some(commands.plan()?);
        }
        Ok(opened)
    }
}
