//! An engine with the settings of its containers. The constructor checks once that the image exists
//! and which limits the engine can enforce.

use super::engine::{Engine, ask};
use super::images::Image;
use super::name::ImageName;
use super::namespace::can_pass_sockets;
use super::settings::Settings;
use bollard::models::SystemInfo;
use os_sandbox::mechanism::ContainerSupport;
use os_sandbox::mechanism::seccomp::Arch;
use os_sandbox::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Bound on the time of a question about an engine or an image.
const LOOK_WITHIN: Duration = Duration::from_secs(20);

/// First major version of engines that can make all of a mount read-only (interface 1.44).
const READ_ONLY_BELOW: u32 = 25;

/// An engine with the settings of its containers.
///
/// ```
/// use os_sandbox_docker::{Containers, Engine, ImageName, Settings};
///
/// let settings = Settings::new(ImageName::parse("debian:12")?);
/// if let Ok(engine) = Engine::connect(None) {
///     match Containers::new(engine, settings) {
///         Ok(containers) => assert!(containers.digest().starts_with("sha256:")),
///         Err(missing) => println!("{missing}"),
///     }
/// }
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Containers(Arc<ContainersInner>);

#[derive(Debug)]
struct ContainersInner {
    /// `None` if the engine is only described.
    engine: Option<Engine>,
    settings: Settings,
    /// `None` if the engine is only described.
    image: Option<Image>,
    host: EngineHost,
}

/// Abilities of the engine's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineHost {
    pub(crate) version: String,
    pub(crate) arch: Option<Arch>,
    pub(crate) filters: bool,
    /// `true` if root inside is the caller outside.
    pub(crate) rootless: bool,
    pub(crate) limits_memory: bool,
    pub(crate) limits_swap: bool,
    pub(crate) limits_processes: bool,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) cpus: Option<u64>,
    /// `true` if a read-only mount includes the mounts below it.
    pub(crate) read_only_below: bool,
    /// The release of the containers' kernel.
    pub(crate) kernel: Option<String>,
}

impl Containers {
    /// Checks the engine and the image; both must exist.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the image does not exist, or the engine does not run Linux.
    pub fn new(engine: Engine, settings: Settings) -> Result<Containers, Error> {
        let client = engine.client().clone();
        let info = ask(LOOK_WITHIN, async move { client.info().await })?;
        let info = info.map_err(|error| {
            ErrorKind::Unsupported.error(format!(
                "the container engine does not say what it can do: {error}"
            ))
        })?;
        let host = EngineHost::new(engine.version(), &info)?;
        let image = engine.image(settings.image())?;
        let image = image.ok_or_else(|| missing(settings.image()))?;
        Ok(Containers(Arc::new(ContainersInner {
            engine: Some(engine),
            settings,
            image: Some(image),
            host,
        })))
    }

    /// Returns the digest of the image that all containers are made from, even if its name later
    /// refers to another image.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.0.image.as_ref().map_or("", Image::id)
    }

    /// Returns the engine; `None` if it is only described.
    #[must_use]
    pub fn engine(&self) -> Option<&Engine> {
        self.0.engine.as_ref()
    }

    /// Returns the settings of the containers.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn image(&self) -> Option<&Image> {
        self.0.image.as_ref()
    }

    pub(crate) fn host(&self) -> &EngineHost {
        &self.0.host
    }

    /// Returns the limits that these containers can enforce, for [`Support::with_docker`].
    ///
    /// [`Support::with_docker`]: os_sandbox::Support::with_docker
    #[must_use]
    pub fn support(&self) -> ContainerSupport {
        let ContainersInner { settings, host, .. } = &*self.0;
        ContainerSupport {
            filters: host.filters && host.arch.is_some(),
            own_program: settings.own_program,
            limits_memory: host.limits_memory,
            limits_processes: host.limits_processes,
            memory_bytes: settings.memory_bytes,
            processes: settings.pids,
            machine_bytes: host.memory_bytes,
            named_hosts: match &self.0.engine {
                Some(engine) => can_pass_sockets(
                    engine.address().is_local(),
                    host.kernel.as_deref(),
                    settings.shares_files != Some(false),
                ),
                None => Ok(()),
            },
        }
    }
}

impl EngineHost {
    fn new(version: &str, info: &SystemInfo) -> Result<EngineHost, Error> {
        let system = info.os_type.as_deref().unwrap_or("linux");
        if system != "linux" {
            return Err(ErrorKind::Unsupported
                .error(format!("the container engine runs {system}, not Linux"))
                .with_hint("switch it to Linux containers"));
        }
        let options = info.security_options.as_deref().unwrap_or_default();
        let has = |name: &str| {
            options
                .iter()
                .any(|option| option.split(',').any(|part| part == format!("name={name}")))
        };
        Ok(EngineHost {
            version: version.to_owned(),
            arch: info.architecture.as_deref().and_then(Arch::named),
            filters: has("seccomp"),
            rootless: has("rootless"),
            limits_memory: info.memory_limit.unwrap_or(false),
            limits_swap: info.swap_limit.unwrap_or(false),
            limits_processes: info.pids_limit.unwrap_or(false),
            memory_bytes: info.mem_total.and_then(|bytes| u64::try_from(bytes).ok()),
            cpus: info.ncpu.and_then(|cpus| u64::try_from(cpus).ok()),
            read_only_below: major(version) >= READ_ONLY_BELOW,
            kernel: info.kernel_version.clone(),
        })
    }
}

/// Returns the first number of a version.
fn major(version: &str) -> u32 {
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

fn missing(image: &ImageName) -> Error {
    ErrorKind::Unsupported
        .error(format!(
            "the container engine does not have the image {image}"
        ))
        .with_hint(format!(
            "build it, or fetch it yourself: docker pull {image}; nothing is fetched by itself"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Containers {
        /// Returns containers of an engine that is only described.
        pub(crate) fn assumed() -> Containers {
            let host = EngineHost {
                version: "20.10.24".to_owned(),
                arch: Arch::native(),
                filters: true,
                rootless: false,
                limits_memory: true,
                limits_swap: true,
                limits_processes: true,
                memory_bytes: None,
                cpus: None,
                read_only_below: false,
                kernel: None,
            };
            Containers::assumed_with(Settings::new(ImageName::assumed()), host)
        }

        pub(crate) fn assumed_with(settings: Settings, host: EngineHost) -> Containers {
            Containers(Arc::new(ContainersInner {
                engine: None,
                settings,
                image: None,
                host,
            }))
        }
    }
}
