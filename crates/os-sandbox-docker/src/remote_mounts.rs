//! Containers of an engine that does not share the host's files. Their mounts are copies, and the
//! host takes over the changes after the container has ended.

use super::config::User;
use super::container::ContainerOutcome;
use super::containers::Containers;
use super::copy::{CopyBackReport, CopySource, MountCopies, volume_mount};
use super::engine::Engine;
use super::inside_paths::{HOME, TMP};
use super::private_files::PrivateFiles;
use bollard::models::{ContainerCreateBody, Mount};
use os_sandbox::{Command, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Result of copying back, once it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct CopyBackResult(Arc<Mutex<Option<CopyBackReport>>>);

impl CopyBackResult {
    /// Returns one sentence for each change in the container that the host did not take over.
    pub(super) fn refusal_lines(&self) -> Vec<String> {
        let back = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(back) = &*back else {
            return Vec::new();
        };
        let say = |paths: &[PathBuf], why: &str| -> Vec<String> {
            let shown = |path: &PathBuf| {
                let path = path.display().to_string();
                format!("{}: {why}", os_sandbox::mechanism::visible(&path))
            };
            paths.iter().map(shown).collect()
        };
        let failed = back.failed.iter().flat_map(|(path, why)| {
            say(
                std::slice::from_ref(path),
                &format!("could not be written: {why}"),
            )
        });
        [
            say(
                &back.conflicts,
                "was changed here too, and stayed as it is here",
            ),
            say(&back.refused, "is protected, and stayed as it is here"),
            say(
                &back.left_out,
                "is not a file, directory or link, and was not copied",
            ),
        ]
        .into_iter()
        .flatten()
        .chain(failed)
        .collect()
    }
}

/// Copies the mounts of `body` to the engine if it needs copies, and mounts those instead.
pub(super) fn prepare(
    containers: &Containers,
    engine: &Engine,
    command: &Command,
    private: &PrivateFiles,
    user: User,
    body: &mut ContainerCreateBody,
) -> Result<Option<MountCopies>, Error> {
    let state_dir = command.state_dir();
    if containers.shares_files(state_dir)? {
        return Ok(None);
    }
    let policy = command.plan().policy();
    let settings = containers.settings();
    let Some(host) = body.host_config.as_mut() else {
        return Ok(None);
    };
    let own = private.own.iter().map(|own| own.host.as_path());
    let hosts = policy.mounts().iter().map(os_sandbox::Mount::host);
    let hosts: Vec<&Path> = hosts.chain(private.work.as_deref()).chain(own).collect();
    // The other mounts cover names inside these: hidden names are not copied, and changes of
    // protected names are not copied back.
    let copied = |mount: &Mount| {
        let source = mount.source.as_deref().map(Path::new);
        source.is_some_and(|source| hosts.contains(&source))
    };
    let mut mounts = host.mounts.take().unwrap_or_default();
    mounts.retain(copied);
    let sources = mounts.iter().map(|mount| CopySource {
        host: mount.source.clone().unwrap_or_default().into(),
        writable: mount.read_only == Some(false),
    });
    let copies = MountCopies::of(
        engine,
        containers.digest(),
        sources.collect(),
        policy,
        (user.uid, user.gid),
        &settings.copy_limits,
        state_dir,
    )?;
    for (index, mount) in mounts.iter_mut().enumerate() {
        let gone = || Error::new(ErrorKind::Enforcement, "a mount has no copy");
        *mount = Mount {
            target: mount.target.take(),
            read_only: mount.read_only,
            ..volume_mount(copies.volume(index).ok_or_else(gone)?)
        };
    }
    host.mounts = Some(mounts);
    if let Some(tmpfs) = &mut host.tmpfs {
        tmpfs.retain(|path, _| path == HOME || path == TMP);
    }
    Ok(Some(copies))
}

/// Takes over the changes. If that fails, the error replaces the result of the command.
pub(super) async fn copy_back_mounts(
    ending: ContainerOutcome,
    copies: MountCopies,
    copy_back: CopyBackResult,
) -> ContainerOutcome {
    let work = tokio::task::spawn_blocking(move || copies.bring_back());
    let lost = |_| Error::new(ErrorKind::Enforcement, "the thread that copies was lost");
    let brought = work.await.map_err(lost).and_then(|brought| brought);
    let result = ending?;
    *copy_back.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(brought?);
    Ok(result)
}
