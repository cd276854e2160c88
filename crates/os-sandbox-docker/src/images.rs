//! Images that an engine has: their properties, and their transfer out of an engine or into it as
//! an archive. Nothing in this module asks a registry.

use super::container::has_status;
use super::engine::{Engine, ask};
use super::name::ImageName;
use bollard::Docker;
use bollard::query_parameters::ImportImageOptionsBuilder;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use os_sandbox::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::time::Duration;

/// Bound on the time of a question about an image.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Bound on the time of the transfer of an archive, in either direction.
const ARCHIVE_WITHIN: Duration = Duration::from_secs(30 * 60);
/// Bytes that are read or written at once.
const PIECE_BYTES: usize = 1 << 20;

/// An engine's description of an image that it has.
///
/// ```no_run
/// use os_sandbox_docker::{Engine, ImageName};
///
/// let engine = Engine::connect(None)?;
/// match engine.image(&ImageName::parse("forge-sandbox:1")?)? {
///     Some(image) => assert!(image.id().starts_with("sha256:")),
///     None => eprintln!("there is no such image"),
/// }
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    id: String,
    os: String,
    architecture: String,
    entrypoint: Vec<String>,
    labels: BTreeMap<String, String>,
    /// Names of the variables that the image sets.
    pub(super) variables: Vec<String>,
}

impl Image {
    /// Returns the name by content. Another name can later refer to another image; this one cannot.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the operating system of the image's programs.
    #[must_use]
    pub fn os(&self) -> &str {
        &self.os
    }

    /// Returns the processor of the image's programs, in the words of images: `amd64`, `arm64`.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Returns the program that the image starts by default.
    #[must_use]
    pub fn entrypoint(&self) -> &[String] {
        &self.entrypoint
    }

    /// Returns the labels that the image's maker set.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }
}

impl Engine {
    /// Returns the image of that name; `None` if the engine does not have it. The engine never
    /// fetches it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine does not answer, or its answer cannot be used.
    pub fn image(&self, name: &ImageName) -> Result<Option<Image>, Error> {
        let client = self.client().clone();
        let asked = name.as_str().to_owned();
        let answer = ask(
            ANSWER_WITHIN,
            async move { client.inspect_image(&asked).await },
        )?;
        let found = match answer {
            Ok(found) => found,
            Err(error) if has_status(&error, &[404]) => return Ok(None),
            Err(error) => return Err(failed(&format!("look for the image `{name}`"), &error)),
        };
        let config = found.config.unwrap_or_default();
        let id = found.id.unwrap_or_default();
        // Later requests contain the id.
        ImageName::parse(&id).map_err(|_| {
            let error = format!("the container engine has no id for the image `{name}`");
            Error::new(ErrorKind::Unsupported, error)
        })?;
        Ok(Some(Image {
            id,
            os: found.os.unwrap_or_default(),
            architecture: found.architecture.unwrap_or_default(),
            entrypoint: config.entrypoint.unwrap_or_default(),
            labels: config.labels.unwrap_or_default().into_iter().collect(),
            variables: names(config.env.unwrap_or_default()),
        }))
    }

    /// Loads the images of an archive into the engine, as `docker load` does.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine does not take the archive, [`ErrorKind::Io`] if the
    /// archive cannot be read.
    pub fn load_images(&self, archive: impl Read + Send + 'static) -> Result<(), Error> {
        let client = patient(self.client());
        let answer = ask(ARCHIVE_WITHIN, async move {
            let options = ImportImageOptionsBuilder::new().quiet(true).build();
            let mut answers = client
                .import_image_stream(options, pieces(archive), None)
                .boxed();
            while let Some(answer) = answers.next().await {
                answer?;
            }
            Ok(())
        })?;
        answer.map_err(|error| failed("take in the image", &error))
    }

    /// Writes the image as an archive, as `docker save` does, and returns the writer. An archive of
    /// more than `max_bytes` is an error.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine does not send the image, [`ErrorKind::Limit`] if
    /// the archive is larger, [`ErrorKind::Io`] if it cannot be written.
    pub fn save_image<W: Write + Send + 'static>(
        &self,
        image: &Image,
        to: W,
        max_bytes: u64,
    ) -> Result<W, Error> {
        let client = patient(self.client());
        let id = image.id.clone();
        ask(ARCHIVE_WITHIN, async move {
            let mut to = to;
            let mut bytes = 0u64;
            let mut held = Vec::with_capacity(PIECE_BYTES);
            let mut pieces = client.export_image(&id).boxed();
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|error| failed("give out the image", &error))?;
                bytes = bytes.saturating_add(piece.len() as u64);
                if bytes > max_bytes {
                    let error = format!("the image {id} is larger than {max_bytes} bytes");
                    return Err(Error::new(ErrorKind::Limit, error));
                }
                held.extend_from_slice(&piece);
                if held.len() >= PIECE_BYTES {
                    (to, held) = written(to, held).await?;
                }
            }
            Ok(written(to, held).await?.0)
        })?
    }
}

/// Writes on a thread that may block, so that the thread for engines continues.
async fn written<W: Write + Send + 'static>(
    mut to: W,
    mut held: Vec<u8>,
) -> Result<(W, Vec<u8>), Error> {
    let work = tokio::task::spawn_blocking(move || {
        to.write_all(&held)?;
        held.clear();
        Ok((to, held))
    });
    let done = work.await.map_err(io::Error::other).and_then(|done| done);
    done.map_err(|error| Error::io("could not write the image", error))
}

/// Returns the archive in pieces; it reads each piece once the previous one is gone.
fn pieces(
    archive: impl Read + Send + 'static,
) -> impl stream::Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::unfold(Some(archive), async |archive| {
        let mut archive = archive?;
        let work = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let read = archive
                .by_ref()
                .take(PIECE_BYTES as u64)
                .read_to_end(&mut piece);
            read.map(|_| (Bytes::from(piece), archive))
        });
        match work.await.map_err(io::Error::other).and_then(|read| read) {
            Ok((piece, _)) if piece.is_empty() => None,
            Ok((piece, archive)) => Some((Ok(piece), Some(archive))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

/// Returns a client whose own time limit is not shorter than the limit of this module.
fn patient(client: &Docker) -> Docker {
    client.clone().with_timeout(ARCHIVE_WITHIN)
}

/// Returns the names of `NAME=value` pairs.
fn names(pairs: Vec<String>) -> Vec<String> {
    let name = |pair: &String| pair.split('=').next().unwrap_or_default().to_owned();
    pairs.iter().map(name).collect()
}

fn failed(doing: &str, error: &bollard::errors::Error) -> Error {
    ErrorKind::Unsupported.error(format!("the container engine could not {doing}: {error}"))
}
