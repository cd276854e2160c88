//! Mounts for an engine that does not share the host's files. Each mount becomes a volume of the
//! engine. The broker fills it before the container starts, and copies its changes back after the
//! container has ended.
//!
//! Both directions use the archive interface and a container that never starts, so that no program
//! of the image runs or is needed. The crate `tar` packs and finds the entries. This module itself
//! reads the headers before an entry, because the crate would hold as much of them in memory as the
//! archive claims.

mod apply;
mod limits;
mod pack;
#[cfg(test)]
mod tests;
mod tree;
mod unpack;

pub use apply::CopyBackReport;
pub use limits::CopyLimits;

use super::engine::Engine;
use super::transfer_container::{TransferContainer, carrier};
use apply::Protected;
use bollard::models::{Mount, MountType, MountVolumeOptions, VolumeCreateRequest};
use bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use os_sandbox::mechanism::{Pattern, Scratch};
use os_sandbox::{Access, Error, ErrorKind, Policy};
use pack::{Manifest, PackError, PackReport};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use unpack::ArchiveError;

/// Bound on the time for one mount, in one direction.
const COPIED_WITHIN: Duration = Duration::from_secs(30 * 60);
/// Bound on the time in which an engine makes a volume or a container.
const MADE_WITHIN: Duration = Duration::from_secs(60);
/// Size of the pieces that are sent, and the number of pieces that wait.
const PIECE_BYTES: usize = 64 << 10;
const MAX_WAITING: usize = 16;
/// Directory of the volumes in the container that never starts, below its root.
const INSIDE: &str = "os-sandbox-copy";

/// The mounts of a policy as volumes of an engine. Dropping it removes the volumes.
///
/// Names that the policy hides are not copied. Protected names are copied, but their changes are
/// not copied back. Hard links become separate files in both directions; sockets, pipes and devices
/// are not copied.
///
/// ```no_run
/// use os_sandbox_docker::{MountCopies, CopyLimits, Engine, ImageName};
/// use os_sandbox::{Access, Policy};
///
/// let engine = Engine::connect(Some("ssh://builder"))?;
/// let image = engine.image(&ImageName::parse("debian:12")?)?.expect("an image");
/// let policy = Policy::builder().mount("/srv/project", "/", Access::ALL).build()?;
/// let copies = MountCopies::make(&engine, image.id(), &policy, (1000, 1000), &CopyLimits::default(), None)?;
/// let volume = copies.volume(0).expect("one for each mount");
/// // … a container with that volume …
/// let back = copies.bring_back()?;
/// assert!(back.is_whole(), "{back:?}");
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Debug)]
pub struct MountCopies {
    engine: Engine,
    carrier: Option<TransferContainer>,
    mounts: Vec<CopiedMount>,
    limits: CopyLimits,
    state_dir: Option<PathBuf>,
}

/// A directory that is copied.
pub(super) struct CopySource {
    pub(super) host: PathBuf,
    pub(super) writable: bool,
}

#[derive(Debug)]
struct CopiedMount {
    host: PathBuf,
    top: OwnedFd,
    volume: String,
    writable: bool,
    manifest: Manifest,
    left_out: Vec<PathBuf>,
    protected: Protected,
    hidden: Vec<Pattern>,
}

impl MountCopies {
    /// Copies every mount of `policy` to the engine, as files of `owner` (a user and a group
    /// there).
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if a mount exceeds `limits`, [`ErrorKind::Unsupported`] if a mount is
    /// not a directory or the engine does not answer, [`ErrorKind::Io`] if a mount cannot be read.
    pub fn make(
        engine: &Engine,
        image: &str,
        policy: &Policy,
        owner: (u32, u32),
        limits: &CopyLimits,
        state_dir: Option<&Path>,
    ) -> Result<MountCopies, Error> {
        let sources = policy.mounts().iter().map(|mount| CopySource {
            host: mount.host().to_owned(),
            writable: mount.access().contains(Access::WRITE),
        });
        let sources = sources.collect();
        MountCopies::of(engine, image, sources, policy, owner, limits, state_dir)
    }

    /// Copies other mounts than the policy's own; the policy's hidden and protected names apply to
    /// them, too.
    pub(super) fn of(
        engine: &Engine,
        image: &str,
        sources: Vec<CopySource>,
        policy: &Policy,
        owner: (u32, u32),
        limits: &CopyLimits,
        state_dir: Option<&Path>,
    ) -> Result<MountCopies, Error> {
        let mut copies = MountCopies {
            engine: engine.clone(),
            carrier: None,
            mounts: Vec::new(),
            limits: *limits,
            state_dir: state_dir.map(Path::to_owned),
        };
        let labels = engine.labels(state_dir);
        for CopySource { host, writable } in sources {
            let top = tree::top(&host).map_err(|error| not_opened(&host, error))?;
            let index = policy.mounts().iter().position(|one| one.host() == host);
            let guards = index.map_or_else(|| policy.guards_of_all(), |at| policy.guards_of(at));
            copies.mounts.push(CopiedMount {
                host,
                top,
                volume: engine.make_volume(&labels)?,
                writable,
                manifest: Manifest::new(),
                left_out: Vec::new(),
                protected: Protected::new(&guards.protect),
                hidden: guards.hide,
            });
        }
        let volumes = copies.mounts.iter().enumerate();
        let mounts = volumes.map(|(index, copied)| Mount {
            target: Some(format!("/{INSIDE}/{index}")),
            ..volume_mount(&copied.volume)
        });
        let carrier = carrier(engine, image, mounts.collect(), labels)?;
        let failed = |error| engine.failed("make a container for copies", &error);
        copies.carrier = Some(carrier.map_err(failed)?);
        for index in 0..copies.mounts.len() {
            copies.send(index, owner)?;
        }
        Ok(copies)
    }

    /// Returns the volume with the copy of the mount at this index in the policy.
    #[must_use]
    pub fn volume(&self, index: usize) -> Option<&str> {
        self.mounts.get(index).map(|copied| copied.volume.as_str())
    }

    /// Returns the paths that were not copied: sockets, pipes, devices, and files that the broker
    /// may not read.
    pub fn left_out(&self) -> impl Iterator<Item = PathBuf> {
        self.mounts
            .iter()
            .flat_map(|copied| copied.left_out.iter().map(|below| copied.host.join(below)))
    }

    /// Takes over the changes in the writable mounts, once no process runs there any more. Changes
    /// that the host's files had meanwhile stay. Each file changes as a whole or not at all. If the
    /// engine's archive is too large or invalid, no file changes.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if the archive is too large, [`ErrorKind::Enforcement`] if it cannot be
    /// the content of a volume, [`ErrorKind::Unsupported`] if the engine does not answer,
    /// [`ErrorKind::Io`] if the host lacks space for it.
    pub fn bring_back(&self) -> Result<CopyBackReport, Error> {
        let mut fetched = Vec::new();
        // All archives arrive before any file changes.
        for (index, copied) in self.mounts.iter().enumerate() {
            if copied.writable {
                fetched.push((copied, self.fetch(index, copied)?));
            }
        }
        let mut all = CopyBackReport::default();
        for (copied, unpacked) in fetched {
            let back = apply::apply(
                copied.top.as_fd(),
                &copied.manifest,
                unpacked,
                &copied.protected,
            );
            let here = |paths: Vec<PathBuf>| paths.into_iter().map(|below| copied.host.join(below));
            all.written.extend(here(back.written));
            all.removed.extend(here(back.removed));
            all.conflicts.extend(here(back.conflicts));
            all.refused.extend(here(back.refused));
            all.left_out.extend(here(back.left_out));
            let failed = back.failed.into_iter();
            all.failed
                .extend(failed.map(|(below, why)| (copied.host.join(below), why)));
        }
        Ok(all)
    }

    fn carrier(&self) -> Result<String, Error> {
        let gone = || Error::new(ErrorKind::Enforcement, "there is no container for copies");
        self.carrier
            .as_ref()
            .map(|carrier| carrier.id().to_owned())
            .ok_or_else(gone)
    }

    /// Fills one volume.
    fn send(&mut self, index: usize, owner: (u32, u32)) -> Result<(), Error> {
        let carrier = self.carrier()?;
        let limits = self.limits;
        let Some(copied) = self.mounts.get_mut(index) else {
            return Ok(());
        };
        let again = |error| Error::io("out of descriptors", error);
        let top = copied.top.try_clone().map_err(again)?;
        let hidden = copied.hidden.clone();
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let inside = PathBuf::from(format!("{INSIDE}/{index}"));
        let packer = std::thread::spawn(move || {
            let hidden = |at: BorrowedFd<'_>, below: &Path| pack::is_hidden(&hidden, at, below);
            let to = BufWriter::with_capacity(PIECE_BYTES, ChunkSender(sender.clone()));
            let packed = pack::pack(top.as_fd(), &inside, &hidden, owner, &limits, to);
            let packed = packed.and_then(|(packed, mut to)| match to.flush() {
                Ok(()) => Ok(packed),
                Err(error) => Err(PackError::Io(PathBuf::new(), error)),
            });
            if packed.is_err() {
                // The engine could take an archive without an error at its end for a complete one.
                let _gone = sender.blocking_send(Err(io::Error::other("not all could be read")));
            }
            packed
        });
        let body = stream::unfold(receiver, async |mut receiver| {
            let piece = receiver.recv().await?;
            Some((piece, receiver))
        });
        let client = self.engine.client().clone().with_timeout(COPIED_WITHIN);
        let sent = self.engine.answered(COPIED_WITHIN, async move {
            // The archive starts at the root, because an engine refuses links that lead out of the
            // directory in which it unpacks, and does not change that directory itself.
            let options = UploadToContainerOptionsBuilder::new().path("/").build();
            let body = bollard::body_try_stream(body);
            client
                .upload_to_container(&carrier, Some(options), body)
                .await
        });
        let packed = packer
            .join()
            .map_err(|_| Error::new(ErrorKind::Enforcement, "the thread that packs was lost"))?;
        let packed = sent_whole(&self.engine, &copied.host, packed, sent)?;
        copied.manifest = packed.manifest;
        copied.left_out = packed.left_out;
        Ok(())
    }

    /// Reads one volume, to its end.
    fn fetch(&self, index: usize, copied: &CopiedMount) -> Result<unpack::Unpacked, Error> {
        let shown = copied.host.display();
        let carrier = self.carrier()?;
        let store = private_file(self.state_dir.as_deref())?;
        let client = self.engine.client().clone().with_timeout(COPIED_WITHIN);
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let path = format!("/{INSIDE}/{index}/.");
        let reader = std::thread::scope(|scope| {
            let limits = &self.limits;
            let unpacker = scope.spawn(move || {
                let from = io::BufReader::with_capacity(PIECE_BYTES, ChunkReceiver::new(receiver));
                unpack::unpack(from, &copied.manifest, limits, store)
            });
            let fetched = self.engine.answered(COPIED_WITHIN, async move {
                let options = DownloadFromContainerOptionsBuilder::new()
                    .path(&path)
                    .build();
                let mut pieces = client
                    .download_from_container(&carrier, Some(options))
                    .boxed();
                while let Some(piece) = pieces.next().await {
                    let piece = match piece {
                        Ok(piece) => piece,
                        Err(error) => {
                            let cut = io::Error::from(io::ErrorKind::ConnectionAborted);
                            let _gone = sender.send(Err(cut)).await;
                            return Err(error);
                        }
                    };
                    // The reader has stopped early.
                    if sender.send(Ok(piece)).await.is_err() {
                        break;
                    }
                }
                Ok(())
            });
            (unpacker.join(), fetched)
        });
        let (unpacked, fetched) = reader;
        let unpacked = unpacked
            .map_err(|_| Error::new(ErrorKind::Enforcement, "the thread that unpacks was lost"))?;
        match (unpacked, fetched) {
            (Err(ArchiveError::TooMuch(why)), _) => Err(too_much(&format!(
                "what was changed in {shown} is not taken over: at the engine {why}"
            ))),
            (Err(ArchiveError::Hostile(why)), _) => Err(ErrorKind::Enforcement.error(format!(
                "what was changed in {shown} is not taken over: the engine sends {why}"
            ))),
            (_, Err(late)) => Err(late),
            (_, Ok(Err(error))) => Err(self.engine.failed(&format!("give back {shown}"), &error)),
            (Err(ArchiveError::Io(error)), Ok(Ok(()))) => {
                Err(Error::io(format!("could not take back {shown}"), error))
            }
            (Ok(unpacked), Ok(Ok(()))) => Ok(unpacked),
        }
    }
}

impl Drop for MountCopies {
    fn drop(&mut self) {
        // The engine does not remove volumes in use, so the container goes first.
        self.carrier = None;
        // A volume that stays has our labels; the next broker removes it once this process is gone.
        for copied in &self.mounts {
            let _next_time = self.engine.remove_volume(&copied.volume);
        }
    }
}

impl Engine {
    fn make_volume(&self, labels: &HashMap<String, String>) -> Result<String, Error> {
        let client = self.client().clone();
        let request = VolumeCreateRequest {
            labels: Some(labels.clone()),
            ..VolumeCreateRequest::default()
        };
        let made = self.answered(
            MADE_WITHIN,
            async move { client.create_volume(request).await },
        )?;
        let made = made.map_err(|error| self.failed("make a volume", &error))?;
        Ok(made.name)
    }
}

/// A mount of a volume, which gets no files of the image. Its target is missing.
pub(super) fn volume_mount(volume: &str) -> Mount {
    Mount {
        source: Some(volume.to_owned()),
        typ: Some(MountType::VOLUME),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

fn not_opened(host: &Path, error: io::Error) -> Error {
    let shown = host.display();
    match error.raw_os_error().map(nix::errno::Errno::from_raw) {
        Some(nix::errno::Errno::ENOTDIR) => ErrorKind::Unsupported
            .error(format!(
                "{shown} is a file, and only directories can be copied to an engine elsewhere"
            ))
            .with_hint("mount the directory that it is in, or use an engine on this machine"),
        _ => Error::io(format!("could not copy {shown}"), error),
    }
}

fn too_much(what: &str) -> Error {
    Error::new(ErrorKind::Limit, what)
        .with_hint("leave out what is not needed there, or use an engine on this machine")
}

/// Returns the packed tree if the engine has taken all of it. An error on this side is the reason
/// for the engine's error.
fn sent_whole(
    engine: &Engine,
    host: &Path,
    packed: Result<PackReport, PackError>,
    sent: Result<Result<(), bollard::errors::Error>, Error>,
) -> Result<PackReport, Error> {
    let shown = host.display();
    let refused = |error| engine.failed(&format!("take {shown}"), &error);
    match packed {
        Ok(packed) => sent?.map(|()| packed).map_err(refused),
        Err(PackError::TooMuch(why)) => Err(too_much(&format!(
            "{shown} is not copied to the engine: {why}"
        ))),
        Err(PackError::Io(_, error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            sent?.map_err(refused)?;
            Err(engine.lost(&"the engine stopped reading"))
        }
        Err(PackError::Io(below, error)) => {
            let path = host.join(below);
            Err(Error::io(
                format!("could not copy {}", path.display()),
                error,
            ))
        }
    }
}

/// Makes a file without a name for the content that comes back.
fn private_file(state_dir: Option<&Path>) -> Result<File, Error> {
    let failed = |error| Error::io("could not make a private file for what comes back", error);
    let scratch = Scratch::in_state(state_dir)?;
    let path = scratch.tmp().join("back");
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true);
    let file = options.open(&path).map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    Ok(file)
}

/// ChunkSender of an archive on their way to an engine.
struct ChunkSender(mpsc::Sender<io::Result<Bytes>>);

impl Write for ChunkSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        let sent = self.0.blocking_send(Ok(piece));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// ChunkSender of an archive on their way from an engine.
struct ChunkReceiver {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl ChunkReceiver {
    fn new(pieces: mpsc::Receiver<io::Result<Bytes>>) -> ChunkReceiver {
        ChunkReceiver {
            pieces,
            piece: Bytes::new(),
        }
    }
}

impl Read for ChunkReceiver {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let count = self.piece.len().min(into.len());
        into[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
