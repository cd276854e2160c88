//! The container engine of the person's surroundings: where docker's own variables say that it is.

use std::ffi::OsString;
use std::path::PathBuf;

use forge_runtime::ContainerSource;
use os_sandbox_docker::{Address, Engine};

use crate::ambient::Ambient;
use crate::commands::image::own_program;
use crate::exit::{CliError, ExitKind};
use crate::setup::authorities;
use crate::setup::host_programs::HostPrograms;

/// Reaches it.
pub(crate) fn reach(ambient: &Ambient) -> Result<Engine, CliError> {
    let programs = HostPrograms::around_caller(ambient);
    let address = address(ambient, &programs).map_err(|error| failed(&error))?;
    let certificates = certificates(ambient);
    let mut paths = address.paths(certificates.as_deref()).into_iter();
    if let Some(why) = paths.find_map(|path| authorities::problem(&path, &programs)) {
        let refused = CliError::misuse("config.bad_value", ContainerSource::untrusted(&why));
        return Err(refused.hint(ContainerSource::UNTRUSTED_HINT));
    }
    let address = match certificates {
        Some(place) => address.with_certificates(&place),
        None => Ok(address),
    };
    let address = address.map_err(|error| failed(&error))?;
    Engine::at(address).map_err(|error| failed(&error))
}

/// Returns the address in `DOCKER_HOST`, without its certificates.
fn address(ambient: &Ambient, programs: &HostPrograms) -> Result<Address, os_sandbox::Error> {
    let address = match ambient.var("DOCKER_HOST") {
        Some(host) => Address::parse(host)?,
        None => Address::default(),
    };
    Ok(match ssh(programs) {
        Some((program, path)) => address.ssh(program, path),
        None => address,
    })
}

/// Returns the directory of the certificates, `DOCKER_CERT_PATH`, if `DOCKER_TLS_VERIFY` is set, as the
/// docker client has it.
fn certificates(ambient: &Ambient) -> Option<PathBuf> {
    ambient.var("DOCKER_TLS_VERIFY")?;
    let beside_home = || match &ambient.home {
        Some(home) => home.join(".docker"),
        None => PathBuf::from(".docker"),
    };
    Some(ambient.path("DOCKER_CERT_PATH").unwrap_or_else(beside_home))
}

/// Returns the person's ssh program and its `PATH`. `None` if only the system's own can be started.
fn ssh(programs: &HostPrograms) -> Option<(PathBuf, OsString)> {
    let program = programs.find("ssh").ok()?;
    Some((program, programs.search_path().into()))
}

/// Returns the source of containers for calls. It does not connect yet.
pub(crate) fn docker(ambient: &Ambient, programs: &HostPrograms) -> ContainerSource {
    let judge = programs.clone();
    let mut docker = ContainerSource::new()
        .ssh(ssh(programs))
        .path_check(move |path| authorities::problem(path, &judge))
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
