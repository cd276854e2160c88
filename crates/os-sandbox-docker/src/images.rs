//! Images that an engine has: what is known of one, and taking one out of an engine or into it as
//! an archive. Nothing here asks a registry.

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

/// How long an engine may take to say what it knows of an image.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How long an archive may take, in either direction.
const ARCHIVE_WITHIN: Duration = Duration::from_secs(30 * 60);
/// What is read or written at once.
const PIECE_BYTES: usize = 1 << 20;
/// The engine's answer for what it does not have.
const NOT_FOUND: u16 = 404;

/// What an engine says of an image that it has.
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
    /// The names of the variables that it sets.
    pub(super) variables: Vec<String>,
}

impl Image {
    /// What it is called by its content; a name can come to mean another image, this cannot.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The system that its programs are for.
    #[must_use]
    pub fn os(&self) -> &str {
        &self.os
    }

    /// The processor that its programs are for, in the words of images: `amd64`, `arm64`.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// What it starts, if nothing else is said.
    #[must_use]
    pub fn entrypoint(&self) -> &[String] {
        &self.entrypoint
    }

    /// What its maker wrote on it.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }
}

impl Engine {
    /// The image of that name, if the engine has it. It is never fetched from anywhere.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine does not answer, or not in words that can be used.
    pub fn image(&self, name: &ImageName) -> Result<Option<Image>, Error> {
        let client = self.client().clone();
        let asked = name.as_str().to_owned();
        let answer = ask(
            ANSWER_WITHIN,
            async move { client.inspect_image(&asked).await },
        )?;
        let found = match answer {
            Ok(found) => found,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(&format!("look for the image `{name}`"), &error)),
        };
        let config = found.config.unwrap_or_default();
        let id = found.id.unwrap_or_default();
        // It is put into requests again.
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

    /// Takes in the images of an archive, as `docker load` does.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine does not take it, [`ErrorKind::Io`] if the archive
    /// cannot be read.
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

    /// Writes the image as an archive, as `docker save` does, and gives back what it wrote to. More
    /// than `max_bytes` of it is an error.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine does not give it, [`ErrorKind::Limit`] if it is
    /// larger, [`ErrorKind::Io`] if it cannot be written.
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

/// Where it does not hold up the thread of engines.
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

/// What is read, piece by piece: the next one when the last one is gone.
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

/// A client whose own time limit does not end what ours allows.
fn patient(client: &Docker) -> Docker {
    client.clone().with_timeout(ARCHIVE_WITHIN)
}

/// Of `NAME=value`.
fn names(pairs: Vec<String>) -> Vec<String> {
    let name = |pair: &String| pair.split('=').next().unwrap_or_default().to_owned();
    pairs.iter().map(name).collect()
}

fn is_absent(error: &bollard::errors::Error) -> bool {
    matches!(
        error,
        bollard::errors::Error::DockerResponseServerError {
            status_code: NOT_FOUND,
            ..
        }
    )
}

fn failed(doing: &str, error: &bollard::errors::Error) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the container engine could not {doing}: {error}"),
    )
}
