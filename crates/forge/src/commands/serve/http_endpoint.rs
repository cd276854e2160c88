//! `--http`: the address of `forge mcp`, on this machine only, and its access rules.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forge_mcp::{HttpListener, HttpToken};
use sandbox_config::{WithoutDirectories, WritablePlaces};
use tokio::net::{TcpListener, UnixListener};

use crate::commands::prelude::*;
use crate::output::escape::escape_path;
use crate::setup;
use crate::setup::host_programs::HostPrograms;
use crate::state::run_dir::RunDir;

/// The value of `--http`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HttpEndpoint {
    /// An address that only this machine reaches.
    Loopback(SocketAddr),
    /// A socket that only this user opens.
    Unix(PathBuf),
}

impl FromStr for HttpEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("a path is missing after unix:".to_owned()),
                path => Ok(HttpEndpoint::Unix(PathBuf::from(path))),
            };
        }
        let address = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        let address: SocketAddr = address
            .parse()
            .map_err(|_| "expected ADDRESS:PORT or unix:PATH".to_owned())?;
        if address.ip().is_loopback() {
            Ok(HttpEndpoint::Loopback(address))
        } else {
            Err(format!(
                "{} can be reached from other machines; use 127.0.0.1 or [::1]",
                address.ip()
            ))
        }
    }
}

/// The file of an endpoint, removed on drop.
#[derive(Debug)]
pub(crate) struct EndpointFile(PathBuf);

impl Drop for EndpointFile {
    fn drop(&mut self) {
        // The next reader would report that it exists.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl HttpEndpoint {
    /// Listens there, and says on standard error how to connect. The token goes into a file
    /// that only this user reads: standard error often ends in a log.
    ///
    /// That file is not where runs are kept: a project says where those are, and may name a place
    /// that its workers read.
    pub(crate) async fn listen(
        &self,
        ambient: &Ambient,
    ) -> Result<(HttpListener, EndpointFile), CliError> {
        match self {
            HttpEndpoint::Loopback(address) => {
                let failed = |error| cannot_listen(&address.to_string(), &error);
                let socket = TcpListener::bind(address).await.map_err(failed)?;
                let token = HttpToken::random().map_err(failed)?;
                let state = ambient.state_dir()?;
                let file =
                    RunDir::under(&state.join("http"), "mcp")?.keep("token", token.reveal())?;
                let listener = HttpListener::loopback(socket, token).map_err(failed)?;
                let address = listener.address().unwrap_or(*address);
                stderr::print(format_args!("forge: serving http://{address}/mcp"));
                stderr::print(format_args!(
                    "forge: the token that clients send as `Authorization: Bearer …` is in {}",
                    file.display()
                ));
                Ok((listener, EndpointFile(file)))
            }
            HttpEndpoint::Unix(path) => {
                check_place(path, ambient)?;
                let socket = bind(path)
                    .map_err(|error| cannot_listen(&format!("unix:{}", path.display()), &error))?;
                stderr::print(format_args!(
                    "forge: serving unix:{} at /mcp",
                    path.display()
                ));
                let user = rustix::process::geteuid().as_raw();
                Ok((HttpListener::unix(socket, user), EndpointFile(path.clone())))
            }
        }
    }
}

/// Refuses a socket that commands see. The user of a command is this one too, and the answers of a
/// client are a person's.
fn check_place(path: &Path, ambient: &Ambient) -> Result<(), CliError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let project = setup::project_silently(ambient, WithoutDirectories::WholeDirectory).ok();
    let mounts = project
        .iter()
        .flat_map(|project| project.ceiling().mounts());
    let shown = WritablePlaces::new(mounts.map(|mount| mount.host().to_owned()));
    let shown = shown.on_the_way_to(&path).map(|place| {
        let place = escape_path(place);
        format!("lies in or leads through {place}, which commands of forge see")
    });
    let programs = HostPrograms::around_caller(ambient);
    match shown.or_else(|| programs.place_of_commands(&path)) {
        None => Ok(()),
        Some(why) => Err(CliError::misuse(
            "mcp",
            format!(
                "a command could connect and answer for a person: {} {why}",
                escape_path(&path)
            ),
        )
        .hint(
            "choose a directory that no command sees: --http \"unix:$XDG_RUNTIME_DIR/forge.sock\"",
        )),
    }
}

/// Binds it with a mode that closes it for others. The user of a connection is checked as well,
/// since some systems ignore the mode.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let socket = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}

fn cannot_listen(place: &str, error: &std::io::Error) -> CliError {
    let failure = CliError::negative("mcp", format!("cannot listen on {place}: {error}"));
    if error.kind() == std::io::ErrorKind::AddrInUse {
        failure.hint("another server may be there; if it is a socket that nobody uses, remove it")
    } else {
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine() {
        for (text, place) in [
            ("127.0.0.1:8080", Some("Loopback(127.0.0.1:8080)")),
            ("127.9.9.9:1", Some("Loopback(127.9.9.9:1)")),
            ("[::1]:0", Some("Loopback([::1]:0)")),
            ("localhost:80", Some("Loopback(127.0.0.1:80)")),
            ("unix:/run/x.sock", Some("Unix(\"/run/x.sock\")")),
            ("unix:x", Some("Unix(\"x\")")),
            ("0.0.0.0:8080", None),
            ("[::]:8080", None),
            ("[::ffff:127.0.0.1]:1", None),
            ("192.168.0.1:80", None),
            ("8080", None),
            (":8080", None),
            ("localhost", None),
            ("localhost.evil.example:80", None),
            ("unix:", None),
            ("", None),
        ] {
            let parsed = text
                .parse::<HttpEndpoint>()
                .ok()
                .map(|place| format!("{place:?}"));
            assert_eq!(parsed.as_deref(), place, "{text}");
        }
    }
}
