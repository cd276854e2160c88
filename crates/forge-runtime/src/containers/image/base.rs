//! The image below, as an engine gives it out: an archive of which names and digests are looked at
//! and the layers are copied as they are.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};
use tar::EntryType;

use super::ImageError;
use super::archive::{self, Blob, Compression, HashingWriter};

/// Most names in the archive of an image.
const MAX_ENTRIES: usize = 10_000;
/// Most layers of an image; engines take fewer.
const MAX_LAYERS: usize = 500;
/// Largest file of the archive that is read as a whole.
const MAX_TEXT_BYTES: u64 = 4 << 20;
const PIECE_BYTES: usize = 1 << 20;
/// Most links that are followed to another name.
const MAX_LINKS: usize = 8;

/// An image that another one is put upon.
///
/// ```no_run
/// use forge_runtime::containers::image::BaseArchive;
/// use os_sandbox_docker::{Engine, ImageName};
///
/// let engine = Engine::connect(None).unwrap();
/// let image = engine.image(&ImageName::parse("debian:12").unwrap()).unwrap().unwrap();
/// let archive = std::fs::File::options().read(true).write(true).create_new(true)
///     .open("debian.tar").unwrap();
/// let archive = engine.save_image(&image, archive, 1 << 30).unwrap();
/// let base = BaseArchive::read(image.id(), archive).unwrap();
/// assert_eq!(base.id(), image.id());
/// ```
#[derive(Debug)]
pub struct BaseArchive {
    id: String,
    os: String,
    architecture: String,
    config: Map<String, Value>,
    layers: Vec<Blob>,
    /// Locations of the layers in the archive.
    places: BTreeMap<String, ArchiveSpan>,
    archive: File,
}

/// A piece of the archive.
#[derive(Clone, Copy, Debug)]
struct ArchiveSpan {
    at: u64,
    bytes: u64,
}

impl BaseArchive {
    /// Takes the archive that the engine gave for the image of this id.
    ///
    /// # Errors
    /// [`ImageError::Base`] if it is not that image, [`ImageError::Read`] if it cannot be read.
    pub fn read(id: &str, mut archive: File) -> Result<BaseArchive, ImageError> {
        archive.seek(SeekFrom::Start(0)).map_err(unread)?;
        let names = ArchiveIndex::of(&archive)?;
        let listed = names.value(&archive, "manifest.json")?;
        let listed = listed
            .get(0)
            .ok_or_else(|| odd("its archive lists no image"))?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let config = text(&listed["Config"]).ok_or_else(|| odd("it has no configuration"))?;
        let bytes = names.bytes(&archive, &config)?;
        // Engines call an image by its configuration or by its manifest.
        let other = format!("blobs/{}", id.replacen(':', "/", 1));
        if archive::digest(&bytes) != id && !names.has(&archive, &other, id)? {
            return Err(odd("the engine gave another image"));
        }
        let config: Map<String, Value> = serde_json::from_slice(&bytes)
            .map_err(|error| odd(&format!("its configuration does not parse: {error}")))?;
        let layers = listed["Layers"].as_array().cloned().unwrap_or_default();
        let said = config
            .get("rootfs")
            .and_then(|root| root["diff_ids"].as_array().cloned())
            .unwrap_or_default();
        if layers.len() != said.len() || layers.len() > MAX_LAYERS {
            return Err(odd("it is not made of the layers that it names"));
        }
        let mut base = BaseArchive {
            id: id.to_owned(),
            os: config.get("os").and_then(text).unwrap_or_default(),
            architecture: config
                .get("architecture")
                .and_then(text)
                .unwrap_or_default(),
            config,
            layers: Vec::new(),
            places: BTreeMap::new(),
            archive,
        };
        for (layer, said) in layers.iter().zip(&said) {
            let name = text(layer).ok_or_else(|| odd("one of its layers has no name"))?;
            base.layer(names.span(&name)?, said)?;
        }
        Ok(base)
    }

    sandbox_names::getters! {
        /// Returns its digest.
        pub id: &str = &id;
        pub(super) config: &Map<String, Value> = &config;
        pub(super) layers: &[Blob] = &layers;
    }

    /// Checks that a program for this processor runs on it.
    pub(super) fn fits(&self, architecture: &str) -> Result<(), ImageError> {
        if self.os == "linux" && self.architecture == architecture {
            Ok(())
        } else {
            Err(ImageError::Base(format!(
                "it is for {} on {}, and this forge for linux on {architecture}",
                self.os, self.architecture
            )))
        }
    }

    /// Copies a layer of it.
    pub(super) fn copy(&self, blob: &Blob, to: &mut dyn Write) -> Result<(), ImageError> {
        match self.places.get(&blob.digest) {
            Some(span) => copy(&self.archive, *span, to),
            None => Err(ImageError::Changed),
        }
    }

    fn layer(&mut self, span: ArchiveSpan, said: &Value) -> Result<(), ImageError> {
        let mut hashed = HashingWriter::new(io::sink());
        copy(&self.archive, span, &mut hashed)?;
        let blob = hashed.blob();
        // The digest of a compressed layer is over the uncompressed bytes: the engine compares it.
        if blob.packed == Compression::Plain && said.as_str() != Some(blob.digest.as_str()) {
            return Err(odd("one of its layers is not what it says"));
        }
        self.places.insert(blob.digest.clone(), span);
        self.layers.push(blob);
        Ok(())
    }
}

/// The files and links of an archive.
#[derive(Debug, Default)]
struct ArchiveIndex {
    files: BTreeMap<PathBuf, ArchiveSpan>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl ArchiveIndex {
    fn of(archive: &File) -> Result<ArchiveIndex, ImageError> {
        let mut names = ArchiveIndex::default();
        let mut reader = tar::Archive::new(archive);
        let entries = reader.entries_with_seek().map_err(unread)?;
        for (count, entry) in entries.enumerate() {
            if count >= MAX_ENTRIES {
                return Err(odd("its archive has too many names"));
            }
            let entry = entry.map_err(unread)?;
            let path = entry.path().map_err(unread)?.into_owned();
            match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => {
                    let span = ArchiveSpan {
                        at: entry.raw_file_position(),
                        bytes: entry.size(),
                    };
                    names.files.insert(plain(&path), span);
                }
                // Older engines write a layer once and links to it.
                EntryType::Symlink | EntryType::Link => {
                    let target = entry.link_name().map_err(unread)?;
                    let target = target.map(|name| name.into_owned()).unwrap_or_default();
                    let from = match entry.header().entry_type() {
                        EntryType::Symlink => path.parent().unwrap_or(Path::new("")),
                        _ => Path::new(""),
                    };
                    names.links.insert(plain(&path), plain(&from.join(target)));
                }
                _ => {}
            }
        }
        Ok(names)
    }

    fn span(&self, name: &str) -> Result<ArchiveSpan, ImageError> {
        let mut path = plain(Path::new(name));
        for _ in 0..MAX_LINKS {
            if let Some(span) = self.files.get(&path) {
                return Ok(*span);
            }
            match self.links.get(&path) {
                Some(target) => path = target.clone(),
                None => break,
            }
        }
        Err(odd("a part of it is not in its archive"))
    }

    fn bytes(&self, archive: &File, name: &str) -> Result<Vec<u8>, ImageError> {
        let span = self.span(name)?;
        if span.bytes > MAX_TEXT_BYTES {
            return Err(odd("its configuration is too long"));
        }
        let mut bytes = Vec::new();
        copy(archive, span, &mut bytes)?;
        Ok(bytes)
    }

    fn value(&self, archive: &File, name: &str) -> Result<Value, ImageError> {
        let bytes = self.bytes(archive, name)?;
        serde_json::from_slice(&bytes).map_err(|_| odd("its archive has no list that parses"))
    }

    /// Returns `true` if a file of that name has that digest.
    fn has(&self, archive: &File, name: &str, digest: &str) -> Result<bool, ImageError> {
        if !self.files.contains_key(&plain(Path::new(name))) {
            return Ok(false);
        }
        Ok(archive::digest(&self.bytes(archive, name)?) == digest)
    }
}

/// A name in an archive, in its one spelling.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain
}

fn copy(archive: &File, span: ArchiveSpan, to: &mut dyn Write) -> Result<(), ImageError> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut done = 0;
    while done < span.bytes {
        let most = usize::try_from(span.bytes - done).unwrap_or(usize::MAX);
        let piece = &mut piece[..most.min(PIECE_BYTES)];
        archive
            .read_exact_at(piece, span.at.saturating_add(done))
            .map_err(unread)?;
        to.write_all(piece).map_err(ImageError::Write)?;
        done += piece.len() as u64;
    }
    Ok(())
}

fn odd(why: &str) -> ImageError {
    ImageError::Base(why.to_owned())
}

fn unread(source: io::Error) -> ImageError {
    ImageError::Base(format!("its archive cannot be read: {source}"))
}
