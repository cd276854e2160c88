//! A policy of the fixtures, and its conversion for commands and for file tools.

use file_sandbox::{FileSandbox, Limits, Mode, Mount, SandboxPath};
use os_sandbox::{Access, Environment, Network, Policy, UnixSockets};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicySpec {
    pub(crate) name: String,
    /// Name inside, directory of the tree, access (`rwx`, `r-x`, `---`).
    pub(crate) mounts: Vec<[String; 3]>,
    #[serde(default)]
    protect: Vec<String>,
    #[serde(default)]
    hide: Vec<String>,
    #[serde(default)]
    network: NetworkSpec,
    #[serde(default)]
    unix_open: bool,
    #[serde(default)]
    unix_named: Vec<String>,
    #[serde(default)]
    pass: Vec<String>,
    /// Limits for file tools only.
    suffixes: Option<Vec<String>>,
    max_file_bytes: Option<u64>,
    max_total_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NetworkSpec {
    #[default]
    Denied,
    Loopback,
    Unrestricted,
}

impl PolicySpec {
    /// Returns the policy for commands. `probe` is the program that makes the attempts.
    pub(crate) fn policy(&self, top: &Path, probe: Option<&Path>) -> Result<Policy, String> {
        let mut builder = Policy::builder()
            .network(match self.network {
                NetworkSpec::Denied => Network::Denied,
                NetworkSpec::Loopback => Network::Loopback,
                NetworkSpec::Unrestricted => Network::Unrestricted,
            })
            .unix_sockets(if self.unix_open {
                UnixSockets::Open
            } else {
                UnixSockets::Closed
            });
        for [shown, dir, letters] in &self.mounts {
            builder = builder.mount(top.join(dir), shown, access(letters)?);
        }
        if let Some(probe) = probe {
            builder = builder.mount(probe, "/probe", Access::READ | Access::EXECUTE);
        }
        for pattern in &self.protect {
            builder = builder.protect(pattern);
        }
        for pattern in &self.hide {
            builder = builder.hide(pattern);
        }
        let outside = BTreeMap::from([("outside".to_owned(), outside(top))]);
        for socket in &self.unix_named {
            builder = builder.unix_socket(fill(socket, &outside));
        }
        let env = self
            .pass
            .iter()
            .fold(Environment::clean(), |env, name| env.pass(name));
        builder.env(env).build().map_err(|error| error.to_string())
    }

    /// Returns the sandbox for file tools, from mounts that `open` returns: writable mounts are
    /// `rw`, readable ones `ro`, unreadable ones hidden in their parent mount.
    pub(crate) fn files(
        &self,
        open: impl Fn(&SandboxPath, &str, Mode) -> Result<Mount, String>,
    ) -> Result<FileSandbox, String> {
        let say = |error: file_sandbox::Error| error.to_string();
        let mut mounts = Vec::new();
        for (index, [shown, dir, letters]) in self.mounts.iter().enumerate() {
            let access = access(letters)?;
            if !access.contains(Access::READ) {
                continue;
            }
            let mode = if access.contains(Access::WRITE) {
                Mode::ReadWrite
            } else {
                Mode::ReadOnly
            };
            let target = SandboxPath::parse(shown).map_err(say)?;
            let closed = self.closed_below(index)?;
            let mount = open(&target, dir, mode)?
                .with_limits(self.limits())
                .protect(&self.protect)
                .and_then(|mount| mount.hide(&self.hide))
                .and_then(|mount| mount.hide(closed))
                .map_err(say)?;
            mounts.push(mount);
        }
        FileSandbox::new(mounts).map_err(say)
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::new();
        if let Some(suffixes) = &self.suffixes {
            limits = limits.suffixes(suffixes);
        }
        if let Some(bytes) = self.max_file_bytes {
            limits = limits.max_file_bytes(bytes);
        }
        if let Some(bytes) = self.max_total_bytes {
            limits = limits.max_total_bytes(bytes, "quota.max_bytes");
        }
        limits
    }

    /// Returns unreadable mounts as anchored names in their parent mount.
    fn closed_below(&self, outer: usize) -> Result<Vec<String>, String> {
        let mut out = Vec::new();
        for [_, dir, letters] in &self.mounts {
            let around =
                |[_, other, _]: &&[String; 3]| other != dir && Path::new(dir).starts_with(other);
            let nearest = self
                .mounts
                .iter()
                .filter(around)
                .max_by_key(|[_, other, _]| other.len());
            if access(letters)?.contains(Access::READ) || nearest != Some(&self.mounts[outer]) {
                continue;
            }
            let below = Path::new(dir).strip_prefix(&self.mounts[outer][1]);
            let below = below.map_err(|error| error.to_string())?;
            out.push(format!("/{}", below.display()));
        }
        Ok(out)
    }

    /// Returns the host path of a sandbox path. A path outside every mount is returned unchanged.
    pub(crate) fn host(&self, top: &Path, path: &str) -> String {
        self.mapped(path, |[_, dir, _]| top.join(dir).display().to_string())
    }

    /// Returns the path inside a mount layer.
    pub(crate) fn inside(&self, policy: &Policy, path: &str) -> String {
        self.mapped(path, |[shown, _, _]| {
            let mount = policy
                .mounts()
                .iter()
                .find(|mount| mount.shown_at() == shown);
            mount.map_or_else(|| shown.clone(), |mount| mount.inside().to_owned())
        })
    }

    fn mapped(&self, path: &str, to: impl Fn(&[String; 3]) -> String) -> String {
        let rest_of = |shown: &str| -> Option<String> {
            let rest = path.strip_prefix(shown.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
        };
        // A path of the host is never one of the mount at /.
        let mount = self
            .mounts
            .iter()
            .filter(|[shown, _, _]| rest_of(shown).is_some())
            .max_by_key(|[shown, _, _]| shown.len());
        match mount.and_then(|mount| Some((mount, rest_of(&mount[0])?))) {
            Some((mount, rest)) => format!("{}{rest}", to(mount)),
            None => path.to_owned(),
        }
    }
}

/// Returns the directory of a tree that is outside every mount.
pub(crate) fn outside(top: &Path) -> String {
    top.join("outside").display().to_string()
}

fn access(letters: &str) -> Result<Access, String> {
    letters.chars().try_fold(Access::NONE, |sum, letter| {
        Ok(sum
            | match letter {
                'r' => Access::READ,
                'w' => Access::WRITE,
                'x' => Access::EXECUTE,
                '-' => Access::NONE,
                other => return Err(format!("no such access: {other}")),
            })
    })
}

/// Returns the top directory for pure enforcers: macOS has no links on the way to it, and Linux no
/// system files.
pub(crate) fn assumed_top() -> PathBuf {
    PathBuf::from("/Users/me/world")
}

pub(crate) fn fill(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = text.to_owned();
    for (name, value) in values {
        out = out.replace(&format!("{{{name}}}"), value);
    }
    out
}
