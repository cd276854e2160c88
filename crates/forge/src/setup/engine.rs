//! The container engine of the person's surroundings: where docker's own variables say that it is.

use std::ffi::OsString;
use std::path::PathBuf;

use forge_runtime::ContainerSource;
use os_sandbox_docker::{Address, Engine};

use crate::ambient::Ambient;
use crate::commands::image::own_program;
use crate::exit::{CliError, ExitKind};
use crate::setup::host_programs::HostPrograms;

/// Reaches it.
pub(crate) fn reach(ambient: &Ambient) -> Result<Engine, CliError> {
    let address = address(ambient).map_err(|error| failed(&error))?;
    Engine::at(address).map_err(|error| failed(&error))
}

/// `DOCKER_HOST`, with `DOCKER_CERT_PATH` if `DOCKER_TLS_VERIFY` is set, as the docker client has it.
fn address(ambient: &Ambient) -> Result<Address, os_sandbox::Error> {
    let address = match ambient.var("DOCKER_HOST") {
        Some(host) => Address::parse(host)?,
        None => Address::default(),
    };
    let address = match ssh(&HostPrograms::around_caller(ambient)) {
        Some((program, path)) => address.ssh(program, path),
        None => address,
    };
    match certificates(ambient) {
        None => Ok(address),
        Some(place) => address.with_certificates(&place),
    }
}

/// Returns the directory of the certificates, if TLS is configured.
fn certificates(ambient: &Ambient) -> Option<PathBuf> {
    ambient.var("DOCKER_TLS_VERIFY")?;
    let beside_home = || match &ambient.home {
        Some(home) => home.join(".docker"),
        None => PathBuf::from(".docker"),
    };
    Some(
        ambient
            .var("DOCKER_CERT_PATH")
            .map_or_else(beside_home, PathBuf::from),
    )
}

/// Returns the person's ssh program and its `PATH`. `None` if only the system's own can be started.
fn ssh(programs: &HostPrograms) -> Option<(PathBuf, OsString)> {
    let program = programs.find("ssh").ok()?;
    Some((program, programs.search_path().into()))
}

/// Returns the source of containers for calls. It does not connect yet.
pub(crate) fn docker(ambient: &Ambient, programs: &HostPrograms) -> ContainerSource {
    let mut docker = ContainerSource::new()
        .ssh(ssh(programs))
        .program(|| own_program().map_err(|failure| failure.message().to_owned()));
    if let Some(host) = ambient.var("DOCKER_HOST") {
        docker = docker.host(host);
    }
    if let Some(place) = certificates(ambient) {
        docker = docker.certificates(place);
    }
    match state_dir(ambient) {
        Some(state) => docker.state_dir(state),
        None => docker,
    }
}

/// Returns the state directory of containers: no mount may hold it, and engines mount files in it.
pub(crate) fn state_dir(ambient: &Ambient) -> Option<PathBuf> {
    Some(ambient.state.as_ref()?.join("containers"))
}

/// Converts an error of the engine.
pub(crate) fn failed(error: &os_sandbox::Error) -> CliError {
    let exit = match error.kind() {
        os_sandbox::ErrorKind::Invalid => ExitKind::Usage,
        _ => ExitKind::Unreachable,
    };
    let failure = CliError::new(exit, "engine", error.to_string());
    failure.maybe_hint(error.hint())
}
