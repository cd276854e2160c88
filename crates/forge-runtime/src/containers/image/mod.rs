//! Images of forge. They are assembled here and not by an engine: a layer depends only on the
//! content, name and mode of its files, so equal programs give equal images, at any place and time.
//! An engine only supplies the base image and loads the result.

mod archive;
mod base;
mod layer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use os_sandbox_docker::ImageName;
use serde_json::{Map, Value, json};

use super::{INSIDE, ProgramBundle, ProgramError};
use archive::Blob;

pub use base::BaseArchive;
pub use layer::{LayerContent, LayerEntry};

/// Label with the version of forge in an image.
pub const VERSION_LABEL: &str = "org.opencontainers.image.version";
/// Label with the protocol version of the node in the image.
pub const NODE_LABEL: &str = "forge.node";
/// Label with the digest of the base image, by its common name.
pub const BASE_LABEL: &str = "org.opencontainers.image.base.digest";

/// Creation time of every image, fixed for reproducible builds.
const EPOCH: &str = "1970-01-01T00:00:00Z";
/// `created_by` of the layer.
const MADE_BY: &str = "forge image build";
/// User and group of a container by default: an ordinary user.
const USER: &str = "1000:1000";
const PASSWD: &str =
    "root:x:0:0:root:/:/sbin/nologin\nworker:x:1000:1000:worker:/tmp:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nworker:x:1000:\n";

/// Why an image could not be built.
///
/// ```
/// use forge_runtime::containers::image::{ImageBuild, ImageError};
/// use forge_runtime::containers::ProgramBundle;
/// use std::path::Path;
///
/// let error = ImageError::from(ProgramBundle::of(Path::new("/nonexistent/forge"), "").unwrap_err());
/// assert!(error.to_string().contains("/nonexistent/forge"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The program cannot be taken along.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A file could not be read.
    #[error("cannot read {}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file changed between two reads.
    #[error("a file changed while the image was made")]
    Changed,
    /// The image below is not one that forge can lie on.
    #[error("the base cannot be used: {0}")]
    Base(String),
    /// The archive could not be written.
    #[error("cannot write the image: {0}")]
    Write(io::Error),
}

/// The ingredients of an image.
///
/// ```
/// # fn main() -> Result<(), forge_runtime::containers::image::ImageError> {
/// # if !cfg!(target_os = "linux") { return Ok(()) }
/// # let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
/// # let own = std::env::current_exe().unwrap();
/// use forge_runtime::containers::{ProgramBundle, image::ImageBuild};
/// use os_sandbox_docker::ImageName;
///
/// let build = ImageBuild::new(ProgramBundle::of(&own, &maps)?, &["node", "serve", "--stdio"])
///     .label("org.opencontainers.image.version", "1.0.0");
/// let name = ImageName::parse("forge-sandbox:1").unwrap();
/// let planned = build.plan(&name)?;
///
/// // The same again is the same image.
/// assert_eq!(planned.id(), build.plan(&name)?.id());
/// let archive = planned.write(Vec::new())?;
/// assert_eq!(archive.len() as u64 % 512, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct ImageBuild {
    program: ProgramBundle,
    entrypoint: Vec<String>,
    labels: BTreeMap<String, String>,
    base: Option<BaseArchive>,
}

/// An image that is known to its last byte, and not written yet.
///
/// See [`ImageBuild`] for an example.
#[derive(Debug)]
pub struct PlannedImage<'a> {
    build: &'a ImageBuild,
    name: String,
    entries: Vec<LayerEntry>,
    layer: Blob,
    config: Vec<u8>,
    manifest: Vec<u8>,
}

impl ImageBuild {
    /// Returns an image that contains only this program, started with these arguments.
    pub fn new(program: ProgramBundle, arguments: &[&str]) -> ImageBuild {
        let mut entrypoint = program.command();
        entrypoint.extend(arguments.iter().map(|word| (*word).to_owned()));
        ImageBuild {
            program,
            entrypoint,
            labels: BTreeMap::new(),
            base: None,
        }
    }

    /// Adds a label, for later queries to an engine.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Puts the image on top of a base image, whose other properties stay unchanged.
    ///
    /// # Errors
    /// [`ImageError::Base`] if it is for another system or processor.
    pub fn on(mut self, base: BaseArchive) -> Result<Self, ImageError> {
        base.fits(self.program.architecture())?;
        self.labels
            .insert(BASE_LABEL.to_owned(), base.id().to_owned());
        self.base = Some(base);
        Ok(self)
    }

    /// Returns the command that a container of it starts.
    pub fn entrypoint(&self) -> &[String] {
        &self.entrypoint
    }

    /// Returns the labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// Returns the entries of its layer, sorted.
    pub fn entries(&self) -> Vec<LayerEntry> {
        let below = INSIDE.trim_start_matches('/');
        let mut entries = vec![LayerEntry::directory(below, 0o755)];
        for part in self.program.parts() {
            let content = LayerContent::Copied(part.host().to_owned());
            entries.push(LayerEntry::new(
                &format!("{below}/{}", part.name()),
                0o755,
                content,
            ));
        }
        if self.base.is_none() {
            entries.extend(surroundings());
            // Started directly, a program looks for its loader where its host has it.
            for (path, name) in self.program.looked_for() {
                let path = path.trim_start_matches('/');
                let above = path.char_indices().filter(|(_, sign)| *sign == '/');
                entries.extend(above.map(|(at, _)| LayerEntry::directory(&path[..at], 0o755)));
                let target = format!("{INSIDE}/{name}");
                entries.push(LayerEntry::new(path, 0o777, LayerContent::Link(target)));
            }
        }
        entries.sort_by(|one, other| one.path().cmp(other.path()));
        entries.dedup_by(|one, other| one.path() == other.path());
        entries
    }

    /// Computes the image by reading all of its files.
    ///
    /// # Errors
    /// [`ImageError::Read`] if a file cannot be read, [`ImageError::Base`] if the name is one that
    /// no image can be given.
    pub fn plan(&self, name: &ImageName) -> Result<PlannedImage<'_>, ImageError> {
        let name = name.tagged().ok_or_else(|| {
            ImageError::Base(format!(
                "`{name}` says which image it is: it cannot be another"
            ))
        })?;
        let entries = self.entries();
        let layer = layer::digest(&entries)?;
        let config = self.config(&layer);
        let manifest = archive::manifest(&self.layers(&layer), &config);
        Ok(PlannedImage {
            build: self,
            name,
            entries,
            layer,
            config,
            manifest,
        })
    }

    /// All layers, the lowest first.
    fn layers<'a>(&'a self, own: &'a Blob) -> Vec<&'a Blob> {
        let below = self.base.iter().flat_map(BaseArchive::layers);
        below.chain([own]).collect()
    }

    /// Returns the configuration document of the image.
    fn config(&self, layer: &Blob) -> Vec<u8> {
        let mut config = match &self.base {
            Some(base) => base.config().clone(),
            None => Map::from_iter([
                (
                    "architecture".to_owned(),
                    json!(self.program.architecture()),
                ),
                (
                    "config".to_owned(),
                    json!({"User": USER, "WorkingDir": "/work"}),
                ),
                ("created".to_owned(), json!(EPOCH)),
                ("os".to_owned(), json!("linux")),
            ]),
        };
        edit(&mut config, "config", |run| {
            run.insert("Entrypoint".to_owned(), json!(self.entrypoint));
            run.remove("Cmd");
            edit(run, "Labels", |labels| {
                let own = self.labels.iter();
                labels.extend(own.map(|(name, value)| (name.clone(), json!(value))));
            });
        });
        edit(&mut config, "rootfs", |root| {
            root.insert("type".to_owned(), json!("layers"));
            push(root, "diff_ids", json!(layer.digest));
        });
        let made = json!({"created": EPOCH, "created_by": MADE_BY});
        push(&mut config, "history", made);
        Value::Object(config).to_string().into_bytes()
    }
}

impl PlannedImage<'_> {
    /// Returns the image id: the digest of its configuration, which names its layers.
    pub fn id(&self) -> String {
        archive::digest(&self.config)
    }

    /// The digest of its manifest, by which engines with another store, and registries, call it.
    pub fn manifest(&self) -> String {
        archive::digest(&self.manifest)
    }

    /// The layer with forge in it.
    pub fn layer(&self) -> &str {
        &self.layer.digest
    }

    /// Bytes of that layer.
    pub fn layer_bytes(&self) -> u64 {
        self.layer.bytes
    }

    /// Writes it as an archive that `docker load` takes, and every tool for OCI layouts.
    ///
    /// # Errors
    /// [`ImageError::Write`] if that fails, [`ImageError::Changed`] if a file differs from the
    /// plan.
    pub fn write<W: Write>(&self, to: W) -> Result<W, ImageError> {
        let layers = self.build.layers(&self.layer);
        let mut archive = archive::ImageArchive::new(to);
        archive.head(&self.name, &layers, &self.config, &self.manifest)?;
        if let Some(base) = &self.build.base {
            for blob in base.layers() {
                archive.copied(blob, |to| base.copy(blob, to))?;
            }
        }
        archive.copied(&self.layer, |to| layer::write(&self.entries, to))?;
        archive.end()
    }
}

/// Returns the minimal system around the program.
fn surroundings() -> [LayerEntry; 5] {
    let text = |path, text: &str| LayerEntry::new(path, 0o644, LayerContent::Text(text.to_owned()));
    [
        LayerEntry::directory("etc", 0o755),
        text("etc/group", GROUP),
        text("etc/passwd", PASSWD),
        LayerEntry::directory("tmp", 0o1777),
        LayerEntry::directory("work", 0o755),
    ]
}

/// Changes the object of that name; creates it if missing.
fn edit(of: &mut Map<String, Value>, name: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut object = match of.remove(name) {
        Some(Value::Object(found)) => found,
        // An image may say null.
        Some(_) | None => Map::new(),
    };
    change(&mut object);
    of.insert(name.to_owned(), Value::Object(object));
}

/// Appends to the list of that name; creates it if missing.
fn push(of: &mut Map<String, Value>, name: &str, value: Value) {
    let mut list = match of.remove(name) {
        Some(Value::Array(found)) => found,
        Some(_) | None => Vec::new(),
    };
    list.push(value);
    of.insert(name.to_owned(), Value::Array(list));
}
