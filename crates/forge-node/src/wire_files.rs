//! The files of a node's setup, as they go over the wire: made from the broker's mounts, opened as
//! the node's.

use std::path::PathBuf;

use cap_std::AmbientAuthority;
use file_sandbox::{FileSandbox, HardLinks, Mode, Mount, RootStyle, SandboxPath};
use forge_tools::MAX_FILE_WRITE_KEY;
use serde::{Deserialize, Serialize};

use crate::error::NodeError;
use crate::path_mapping::{PathMapping, not_there};

/// The settings that refusals of a full directory name.
const MAX_TOTAL_KEY: &str = "quota.max_bytes";
const MAX_FILES_KEY: &str = "quota.max_files";

/// Most bytes of all files in memory mounts together.
const MAX_PLANTED_BYTES: u64 = 64 * 1024 * 1024;

/// Most files there.
const MAX_PLANTED: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WireFiles {
    relative_roots: bool,
    mounts: Vec<WireFileMount>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFileMount {
    path: String,
    /// `None` for a mount in memory.
    place: Option<PathBuf>,
    writable: bool,
    suffixes: Option<Vec<String>>,
    max_file_bytes: Option<u64>,
    max_write_bytes: Option<u64>,
    quota_bytes: Option<u64>,
    quota_files: Option<u64>,
    #[serde(with = "WireLinks")]
    hard_links: HardLinks,
    strict_paths: bool,
    durable: bool,
    protected: Vec<String>,
    hidden: Vec<String>,
    rules_from: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "HardLinks", rename_all = "snake_case")]
enum WireLinks {
    Allow,
    ReadOnly,
    Deny,
}

impl WireFiles {
    /// Describes the mounts; `places` maps their directories to the node's.
    ///
    /// # Errors
    ///
    /// A directory is missing for the node, or a mount in memory is writable.
    pub(crate) fn new(files: &FileSandbox, places: &PathMapping) -> Result<WireFiles, NodeError> {
        let mounts = files.mounts().iter();
        Ok(WireFiles {
            relative_roots: files.root_style() == RootStyle::Relative,
            mounts: mounts
                .map(|mount| WireFileMount::new(mount, places))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Opens the mounts, and returns those in memory as well, which can still be filled.
    pub(crate) fn open(
        self,
        authority: AmbientAuthority,
    ) -> Result<(FileSandbox, Vec<Mount>), file_sandbox::Error> {
        let style = match self.relative_roots {
            true => RootStyle::Relative,
            false => RootStyle::Absolute,
        };
        let mut memory = Vec::new();
        let mut builder = FileSandbox::builder().root_style(style);
        for mount in self.mounts {
            let in_memory = mount.place.is_none();
            let mount = mount.open(authority)?;
            if in_memory {
                memory.push(mount.clone());
            }
            builder = builder.mount(mount);
        }
        Ok((builder.build()?, memory))
    }
}

impl WireFileMount {
    fn new(mount: &Mount, places: &PathMapping) -> Result<WireFileMount, NodeError> {
        let path = mount.target().as_str();
        let writable = mount.mode().can_write();
        let place = match mount.host() {
            Some(host) => Some(places.find_mount(host, path)?),
            None if mount.is_memory() && !writable => None,
            None => return Err(not_there(path)),
        };
        let limits = mount.limits();
        let rules_from = mount.rule_base().ok_or_else(|| not_there(path))?;
        Ok(WireFileMount {
            path: path.to_owned(),
            place,
            writable,
            suffixes: limits.allowed_suffixes().map(<[String]>::to_vec),
            max_file_bytes: limits.file_byte_limit(),
            max_write_bytes: limits.write_byte_limit(),
            quota_bytes: limits.quota_bytes(),
            quota_files: limits.quota_files(),
            hard_links: limits.hard_link_policy(),
            strict_paths: limits.has_strict_paths(),
            durable: limits.is_durable(),
            protected: mount.protected_names().map(str::to_owned).collect(),
            hidden: mount.hidden_names().map(str::to_owned).collect(),
            rules_from: rules_from.into_iter().map(str::to_owned).collect(),
        })
    }

    fn open(self, authority: AmbientAuthority) -> Result<Mount, file_sandbox::Error> {
        let target = SandboxPath::parse(&self.path)?;
        let mode = match self.writable {
            true => Mode::ReadWrite,
            false => Mode::ReadOnly,
        };
        let mount = match &self.place {
            Some(place) => Mount::open_ambient(target, place, mode, authority)?,
            None => Mount::memory(target, mode),
        };
        let mut limits = file_sandbox::Limits::new()
            .strict_paths(self.strict_paths)
            .durable(self.durable)
            .hard_links(self.hard_links);
        if let Some(suffixes) = &self.suffixes {
            limits = limits.suffixes(suffixes);
        }
        if let Some(max) = self.max_file_bytes {
            limits = limits.max_file_bytes(max);
        }
        if let Some(max) = self.max_write_bytes {
            limits = limits.max_write_bytes(max, MAX_FILE_WRITE_KEY);
        }
        if let Some(max) = self.quota_bytes {
            limits = limits.max_total_bytes(max, MAX_TOTAL_KEY);
        }
        if let Some(max) = self.quota_files {
            limits = limits.max_files(max, MAX_FILES_KEY);
        }
        Ok(mount
            .with_limits(limits)
            .protect(&self.protected)?
            .hide(&self.hidden)?
            .with_rule_base(&self.rules_from))
    }
}

/// Copies the files of a mount in memory.
pub(crate) fn preload(
    files: &FileSandbox,
    top: &SandboxPath,
    into: &mut Vec<(SandboxPath, Vec<u8>)>,
) -> Result<(), NodeError> {
    let refused = |why: String| NodeError::Unsupported(format!("{}: {why}", top.as_str()));
    let options = file_sandbox::ListOptions::new().max_entries(MAX_PLANTED);
    let options = options.pattern("**/*");
    let listed = files.list(top, options);
    let listed = listed.map_err(|error| refused(error.to_string()))?;
    let mut left = MAX_PLANTED_BYTES;
    for (_, bytes) in into.iter() {
        left = left.saturating_sub(bytes.len() as u64);
    }
    if listed.more {
        return Err(refused("it holds too many files to be sent".to_owned()));
    }
    for entry in listed.entries {
        if entry.kind != file_sandbox::EntryKind::File {
            continue;
        }
        let path = top.join(&entry.name);
        let path = path.map_err(|error| refused(error.to_string()))?;
        let bytes = files.read_bytes(&path, left);
        let bytes = bytes.map_err(|error| refused(error.to_string()))?;
        left = left.saturating_sub(bytes.len() as u64);
        into.push((path, bytes));
    }
    Ok(())
}
