//! Settings of containers besides the policy: data of the caller's configuration, checked once.
//! Settings can only narrow the policy.

use super::copy::CopyLimits;
use super::name::ImageName;
use os_sandbox::{Error, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// Bound on the name of a network.
const MAX_NAME_BYTES: usize = 512;
/// Bound on the number of the caller's own mounts.
const MAX_MOUNTS: usize = 64;

/// Settings of containers. The engine never fetches the image; it has to exist.
///
/// ```
/// use os_sandbox_docker::{ImageName, Settings};
///
/// let settings = Settings::new(ImageName::parse("debian:12")?)
///     .cpu_milli(1000)
///     .memory_bytes(512 << 20)
///     .pids(256);
/// assert_eq!(settings.image().as_str(), "debian:12");
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(super) image: ImageName,
    pub(super) cpu_milli: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) pids: Option<u64>,
    pub(super) read_only_root: bool,
    pub(super) network: String,
    pub(super) mounts: Vec<OwnMount>,
    pub(super) copy_limits: CopyLimits,
    /// `None` if the broker finds it out.
    pub(super) shares_files: Option<bool>,
    pub(super) own_program: bool,
}

/// A file or directory of the caller that every container sees, read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnMount {
    pub(super) host: PathBuf,
    pub(super) inside: String,
}

impl OwnMount {
    /// Returns the mount with the host's path without links, so that a link that is replaced
    /// meanwhile does not lead the engine elsewhere.
    pub(super) fn resolved(&self) -> Result<OwnMount, Error> {
        let failed = |error| Error::io(format!("could not open {}", self.host.display()), error);
        Ok(OwnMount {
            host: self.host.canonicalize().map_err(failed)?,
            inside: self.inside.clone(),
        })
    }
}

impl Settings {
    /// Creates settings for containers of this image, with no limits besides the policy's.
    #[must_use]
    pub fn new(image: ImageName) -> Settings {
        Settings {
            image,
            cpu_milli: None,
            memory_bytes: None,
            pids: None,
            read_only_root: true,
            network: "bridge".to_owned(),
            mounts: Vec::new(),
            copy_limits: CopyLimits::default(),
            shares_files: None,
            own_program: false,
        }
    }

    /// Sets the bounds on each mount that is copied to an engine that does not share the host's
    /// files.
    #[must_use]
    pub fn copy_limits(mut self, limits: CopyLimits) -> Settings {
        self.copy_limits = limits;
        self
    }

    /// Sets whether the engine shares the host's files, so that the broker does not find it out.
    /// With `false`, mounts are copied to any engine.
    #[must_use]
    pub fn shares_files(mut self, shares: bool) -> Settings {
        self.shares_files = Some(shares);
        self
    }

    /// Returns the image as it was named.
    #[must_use]
    pub fn image(&self) -> &ImageName {
        &self.image
    }

    /// Sets the limit on thousandths of a processor; the default is all processors.
    #[must_use]
    pub fn cpu_milli(mut self, milli: u64) -> Settings {
        self.cpu_milli = Some(milli);
        self
    }

    /// Sets the limit on memory, swap included. A lower limit of the policy still applies.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Settings {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Sets the limit on processes and threads. A lower limit of the policy still applies.
    #[must_use]
    pub fn pids(mut self, pids: u64) -> Settings {
        self.pids = Some(pids);
        self
    }

    /// Sets whether the image's files are read-only, which is the default. Written files disappear
    /// with the container in any case.
    #[must_use]
    pub fn read_only_root(mut self, read_only: bool) -> Settings {
        self.read_only_root = read_only;
        self
    }

    /// Sets the engine's network for a container whose policy has
    /// [`Network::Unrestricted`](os_sandbox::Network::Unrestricted); the default is `bridge`. With
    /// other policies, a container gets no network.
    ///
    /// ```
    /// use os_sandbox_docker::{ImageName, Settings};
    ///
    /// let settings = Settings::new(ImageName::parse("debian:12")?);
    /// assert!(settings.clone().network("builds").is_ok());
    /// assert!(settings.network("host").is_err());
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if `name` is not the name of a network, or names the host's own
    /// network or that of another container.
    pub fn network(mut self, name: impl Into<String>) -> Result<Settings, Error> {
        let name = name.into();
        if !is_name(&name) {
            return Err(
                Error::invalid(format!("not the name of a network: {name:?}"))
                    .with_hint("name a network of the engine, such as bridge, or none"),
            );
        }
        if name == "host" {
            return Err(Error::invalid(
                "a container in the host's own network is not confined by it",
            )
            .with_hint("name a network of the engine, such as bridge, or none"));
        }
        self.network = name;
        Ok(self)
    }

    /// Sets whether the command is the caller's own program, which confines the programs that it
    /// starts by a filter of its own. It may then open files with `openat2`. A filter cannot check
    /// the arguments of that call, so the program itself is responsible for set-id bits.
    #[must_use]
    pub fn own_program(mut self, own: bool) -> Settings {
        self.own_program = own;
        self
    }

    /// Adds a directory or file of the host, read-only, at a path inside. The caller uses it for
    /// files that it needs itself, such as its own program.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if a path is not absolute or has `..`; [`ErrorKind::Limit`] if the
    /// settings have too many mounts.
    pub fn mount(
        mut self,
        host: impl AsRef<Path>,
        inside: impl Into<String>,
    ) -> Result<Settings, Error> {
        let (host, inside) = (host.as_ref().to_owned(), inside.into());
        for path in [&*host, Path::new(&inside)] {
            let plain =
                |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
            if !path.is_absolute()
                || path.parent().is_none()
                || !path.components().all(plain)
                || path.as_os_str().as_encoded_bytes().contains(&0)
            {
                return Err(Error::invalid(format!(
                    "not a path to mount: {}",
                    path.display()
                )));
            }
        }
        if self.mounts.len() >= MAX_MOUNTS {
            return Err(ErrorKind::Limit
                .error(format!("more than {MAX_MOUNTS} mounts of the caller's own")));
        }
        self.mounts.push(OwnMount { host, inside });
        Ok(self)
    }
}

/// Returns `true` if a command line, a path or a header cannot give the text another meaning.
fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || "._-".contains(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new(ImageName::parse("a").unwrap())
    }

    #[test]
    fn networks_that_are_nobody_elses() {
        for good in ["none", "bridge", "builds-2"] {
            assert_eq!(settings().network(good).unwrap().network, good);
        }
        for bad in ["", "host", "container:x", "--net", "a b"] {
            assert!(settings().network(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn own_mounts() {
        assert!(settings().mount("/a, b:c\n", "/.node").is_ok());
        for (host, inside) in [
            ("a", "/b"),
            ("/a/../b", "/b"),
            ("/a", "b"),
            ("/a", "/"),
            ("/a", "/b\0"),
        ] {
            assert!(settings().mount(host, inside).is_err(), "{host} {inside}");
        }
        let full =
            (0..MAX_MOUNTS).try_fold(settings(), |all, at| all.mount("/a", format!("/{at}")));
        assert_eq!(
            full.unwrap().mount("/a", "/b").unwrap_err().kind(),
            ErrorKind::Limit
        );
    }
}
