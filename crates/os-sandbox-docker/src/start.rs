//! Start of a checked command in a container.

use super::config::{ContainerSpec, User, config};
use super::container::ContainerHandle;
use super::containers::Containers;
use super::copy_streams::Streams;
use super::engine::{Engine, error_text};
use super::inside_paths::{self, HOME, TMP};
use super::labels::labels;
use super::namespace::NamespaceContainer;
use super::private_files::PrivateFiles;
use super::remote_mounts::{self, CopyBackResult, copy_back_mounts};
use super::running::RunningContainer;
use super::supervise::{StartedContainer, supervise};
use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{AttachContainerOptionsBuilder, EventsOptionsBuilder};
use futures_util::StreamExt as _;
use nix::unistd::{getegid, geteuid};
use os_sandbox::mechanism::{Layout, Mechanism, StartedCommand, streams};
use os_sandbox::{Command, Error, ErrorKind, ShownContainer};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::time::Duration;

/// Bound on the time of a start, from the first request until the program runs.
const START_WITHIN: Duration = Duration::from_secs(120);

/// Bound on the time until a container that must not continue has ended.
const END_WITHIN: Duration = Duration::from_secs(40);

impl Mechanism for Containers {
    fn start(&self, command: Command) -> Result<StartedCommand, Error> {
        start(self, command)
    }
}

fn start(containers: &Containers, command: Command) -> Result<StartedCommand, Error> {
    let engine = containers.engine().ok_or_else(gone)?.clone();
    let mut layout = Layout::new(command.plan().policy(), command.state_dir())?;
    if let Some(refused) = command.plan().insists(&layout.notes.degraded, false) {
        return Err(refused);
    }
    let settings = containers.settings();
    let private = PrivateFiles::new(command.plan(), &mut layout, settings, command.state_dir())?;
    let user = User::of(&layout.owners, caller(), containers.host().rootless)?;
    engine.reap_once(command.state_dir());
    let network = NamespaceContainer::start(containers, &engine, &command)?;
    let joined = network.as_ref().map(NamespaceContainer::mode);
    let (mut body, shown) = compose(&command, containers, &layout, &private, user, joined)?;
    let copies = remote_mounts::prepare(containers, &engine, &command, &private, user, &mut body)?;
    let wall = command.wall();
    let (ends, pipes) = streams(command.stdio())?;
    let streams = Streams {
        ends,
        kinds: command.into_stdio(),
    };
    let stdin = body.open_stdin.unwrap_or(false);
    let begun = begin(&engine, body, stdin)?;
    let Layout {
        notes,
        after,
        sources,
        ..
    } = layout;
    if copies.is_none()
        && let Err(changed) = sources.unchanged()
    {
        // If the container stays, the next start finds it by its labels.
        let _gone = engine.answered(END_WITHIN, begun.made.remove());
        return Err(changed);
    }
    let (network, session) = network.map(NamespaceContainer::joined).unzip();
    let copy_back = CopyBackResult::default();
    let running = RunningContainer::new(|end| {
        let copy_back = copy_back.clone();
        let ended = supervise(begun, engine, streams, wall, end);
        async move {
            let ending = ended.await;
            // It has ended long before. If it stays, the next start finds it by its labels.
            if let Some(network) = network {
                let _gone = network.remove().await;
            }
            match copies {
                Some(copies) => copy_back_mounts(ending, copies, copy_back).await,
                None => ending,
            }
        }
    })?;
    Ok(StartedCommand {
        process: Box::new(running.then(after, private, copy_back).proxied(session)),
        pipes,
        notes,
        container: Some(shown),
    })
}

fn gone() -> Error {
    Error::new(
        ErrorKind::Enforcement,
        "the plan's container engine is gone",
    )
}

fn caller() -> User {
    User {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
    }
}

fn compose(
    command: &Command,
    containers: &Containers,
    layout: &Layout,
    private: &PrivateFiles,
    user: User,
    joined_network: Option<String>,
) -> Result<(ContainerCreateBody, ShownContainer), Error> {
    let policy = command.plan().policy();
    config(ContainerSpec {
        policy,
        settings: containers.settings(),
        host: containers.host(),
        digest: containers.digest(),
        image_variables: containers.image().map_or(&[], |image| &image.variables),
        bounds: command.plan().bounds(),
        user,
        placed: &layout.placed,
        private,
        program: &inside_paths::program(command),
        args: command.arguments(),
        variables: &command.variables(OsStr::new(HOME), OsStr::new(TMP)),
        directory: &inside_paths::directory(policy, command.working_directory())?,
        stdin: !matches!(command.stdio()[0], os_sandbox::Stdio::Null),
        labels: labels(command.state_dir()),
        joined_network,
    })
}

/// Makes and starts the container; removes it again if a step fails.
fn begin(
    engine: &Engine,
    body: ContainerCreateBody,
    stdin: bool,
) -> Result<StartedContainer, Error> {
    let program = body.entrypoint.clone().unwrap_or_default().concat();
    let client = engine.client().clone();
    let begun = engine.answered(START_WITHIN, create_and_attach(client, body, stdin))?;
    begun.map_err(|error| refused(&program, &error))
}

async fn create_and_attach(
    client: Docker,
    body: ContainerCreateBody,
    stdin: bool,
) -> Result<StartedContainer, bollard::errors::Error> {
    let made = client.create_container(None, body).await?;
    let made = ContainerHandle::new(client.clone(), made.id);
    let options = AttachContainerOptionsBuilder::new()
        .stdin(stdin)
        .stdout(true)
        .stderr(true)
        .stream(true)
        .build();
    let attached = client.attach_container(made.id(), Some(options)).await?;
    // The stream covers all events since the beginning, so that none is missed.
    let options = EventsOptionsBuilder::new()
        .since("0")
        .filters(&HashMap::from([("container", vec![made.id()])]))
        .build();
    let events = client.events(Some(options)).boxed();
    client.start_container(made.id(), None).await?;
    Ok(StartedContainer {
        made,
        attached,
        events,
    })
}

/// Returns the error for a refused start. Only the text of the engine's answer describes the
/// problem with the program.
fn refused(program: &str, error: &bollard::errors::Error) -> Error {
    use bollard::errors::Error::DockerResponseServerError as Answer;
    let text = error_text(error);
    let has = |words: &str| text.contains(words);
    // If the text names another program, the engine's own init, the engine is at fault.
    let program_itself = has(&format!("exec: \"{program}\""));
    match error {
        Answer { .. } if program_itself && (has("not found") || has("no such file")) => {
            Error::new(ErrorKind::NotFound, format!("{program}: no such program"))
        }
        Answer { .. } if program_itself && has("permission denied") => Error::new(
            ErrorKind::NotExecutable,
            format!("{program}: cannot be started"),
        ),
        Answer {
            status_code: 404, ..
        } if has("No such image") => Error::new(ErrorKind::Unsupported, text).with_hint(
            "the image was there when the engine was looked at; build or fetch it again",
        ),
        Answer { .. } => Error::new(
            ErrorKind::Enforcement,
            format!("the container engine does not start this container: {text}"),
        ),
        _ => Error::new(
            ErrorKind::Enforcement,
            format!("the container engine was lost during the start: {text}"),
        ),
    }
}
