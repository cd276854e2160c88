//! The container engine of the person's surroundings: where docker's own variables say that it is.

use std::path::Path;

use os_sandbox::docker::{Address, Engine};

use crate::ambient::Ambient;
use crate::exit::{Exit, Failure};

/// Reaches it.
pub(crate) fn reach(ambient: &Ambient) -> Result<Engine, Failure> {
    let address = address(ambient).map_err(|error| failed(&error))?;
    Engine::at(address).map_err(|error| failed(&error))
}

/// `DOCKER_HOST`, with `DOCKER_CERT_PATH` if `DOCKER_TLS_VERIFY` is set, as the docker client has it.
fn address(ambient: &Ambient) -> Result<Address, os_sandbox::Error> {
    let address = match ambient.var("DOCKER_HOST") {
        Some(host) => Address::parse(host)?,
        None => Address::default(),
    };
    match (
        ambient.var("DOCKER_TLS_VERIFY"),
        ambient.var("DOCKER_CERT_PATH"),
        &ambient.home,
    ) {
        (None, _, _) => Ok(address),
        (Some(_), Some(place), _) => address.with_certificates(Path::new(place)),
        (Some(_), None, Some(home)) => address.with_certificates(&home.join(".docker")),
        (Some(_), None, None) => address.with_certificates(Path::new(".docker")),
    }
}

/// What an engine would not do.
pub(crate) fn failed(error: &os_sandbox::Error) -> Failure {
    let exit = match error.kind() {
        os_sandbox::ErrorKind::Invalid => Exit::Usage,
        _ => Exit::Unreachable,
    };
    let failure = Failure::new(exit, "engine", error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
