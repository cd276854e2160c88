//! The archive: an OCI layout that also contains the manifest for `docker load` over its blobs, so
//! that one file works for every engine and tool.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::ImageError;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// Host and user of an image name that leaves them out.
const HUB: &str = "docker.io";
const LIBRARY: &str = "library";

/// Compression of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    Gzip,
    Zstd,
}

impl Compression {
    /// By how they begin.
    pub(super) fn of(head: &[u8]) -> Compression {
        if head.starts_with(&[0x1f, 0x8b]) {
            Compression::Gzip
        } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Compression::Zstd
        } else {
            Compression::Plain
        }
    }

    fn media_type(self) -> String {
        let end = match self {
            Compression::Plain => "",
            Compression::Gzip => "+gzip",
            Compression::Zstd => "+zstd",
        };
        format!("{LAYER}{end}")
    }
}

/// Bytes that are known by their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    /// With `sha256:` in front.
    pub(super) digest: String,
    pub(super) bytes: u64,
    pub(super) packed: Compression,
}

impl Blob {
    fn place(&self) -> String {
        place(&self.digest)
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    shown(Sha256::digest(bytes).as_slice())
}

fn shown(hash: &[u8]) -> String {
    format!("sha256:{}", sandbox_names::hex(hash))
}

fn place(digest: &str) -> String {
    format!("blobs/{}", digest.replacen(':', "/", 1))
}

/// Counts and hashes all bytes that pass through.
pub(super) struct HashingWriter<W> {
    to: W,
    hash: Sha256,
    bytes: u64,
    head: Vec<u8>,
}

impl<W: Write> HashingWriter<W> {
    pub(super) fn new(to: W) -> Self {
        HashingWriter {
            to,
            hash: Sha256::new(),
            bytes: 0,
            head: Vec::new(),
        }
    }

    /// Returns the blob that was written.
    pub(super) fn blob(self) -> Blob {
        Blob {
            digest: shown(self.hash.finalize().as_slice()),
            bytes: self.bytes,
            packed: Compression::of(&self.head),
        }
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        let seen = &bytes[..written];
        if self.head.len() < 4 {
            self.head.extend(seen.iter().take(4));
        }
        self.hash.update(seen);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The manifest of an image with these layers, the lowest first.
pub(super) fn manifest(layers: &[&Blob], config: &[u8]) -> Vec<u8> {
    let layers: Vec<Value> = layers
        .iter()
        .map(|blob| {
            let kind = blob.packed.media_type();
            json!({"mediaType": kind, "digest": blob.digest, "size": blob.bytes})
        })
        .collect();
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "digest": digest(config), "size": config.len()},
        "layers": layers,
    })
    .to_string()
    .into_bytes()
}

/// An archive that is being written.
pub(super) struct ImageArchive<W: Write> {
    builder: Builder<W>,
    /// Digests of the layers written so far: an image can have two equal layers.
    written: BTreeSet<String>,
}

impl<W: Write> ImageArchive<W> {
    pub(super) fn new(to: W) -> Self {
        ImageArchive {
            builder: Builder::new(to),
            written: BTreeSet::new(),
        }
    }

    /// Everything but the layers.
    pub(super) fn head(
        &mut self,
        name: &str,
        layers: &[&Blob],
        config: &[u8],
        manifest: &[u8],
    ) -> Result<(), ImageError> {
        let (_, tag) = name.rsplit_once(':').unwrap_or((name, ""));
        let index = json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [{
                "mediaType": MANIFEST,
                "digest": digest(manifest),
                "size": manifest.len(),
                "annotations": {
                    "io.containerd.image.name": full_name(name),
                    "org.opencontainers.image.ref.name": tag,
                },
            }],
        });
        let places: Vec<String> = layers.iter().map(|blob| blob.place()).collect();
        let of_docker = json!([{
            "Config": place(&digest(config)),
            "RepoTags": [name],
            "Layers": places,
        }]);
        let layout = json!({"imageLayoutVersion": "1.0.0"});
        self.file("oci-layout", layout.to_string().as_bytes())?;
        self.file("index.json", index.to_string().as_bytes())?;
        self.file("manifest.json", of_docker.to_string().as_bytes())?;
        for directory in ["blobs/", "blobs/sha256/"] {
            let mut header = header(0, 0o755);
            header.set_entry_type(EntryType::Directory);
            self.append(&mut header, directory, io::empty())?;
        }
        for bytes in [config, manifest] {
            self.file(&place(&digest(bytes)), bytes)?;
        }
        Ok(())
    }

    /// Appends the layer that `write` produces.
    pub(super) fn copied(
        &mut self,
        blob: &Blob,
        write: impl FnOnce(&mut dyn Write) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        if !self.written.insert(blob.digest.clone()) {
            return Ok(());
        }
        let mut header = header(blob.bytes, 0o644);
        header.set_path(blob.place()).map_err(ImageError::Write)?;
        header.set_cksum();
        let to = self.builder.get_mut();
        to.write_all(header.as_bytes()).map_err(ImageError::Write)?;
        let mut through = HashingWriter::new(&mut *to);
        write(&mut through)?;
        let written = through.blob();
        if written.digest != blob.digest {
            return Err(ImageError::Changed);
        }
        // Up to the next block.
        let rest = (BLOCK_BYTES - blob.bytes % BLOCK_BYTES) % BLOCK_BYTES;
        let zeros = [0; BLOCK_BYTES as usize];
        let rest = usize::try_from(rest).unwrap_or_default();
        to.write_all(&zeros[..rest]).map_err(ImageError::Write)
    }

    pub(super) fn end(self) -> Result<W, ImageError> {
        let mut to = self.builder.into_inner().map_err(ImageError::Write)?;
        to.flush().map_err(ImageError::Write)?;
        Ok(to)
    }

    fn file(&mut self, path: &str, bytes: &[u8]) -> Result<(), ImageError> {
        self.append(&mut header(bytes.len() as u64, 0o644), path, bytes)
    }

    fn append(
        &mut self,
        header: &mut Header,
        path: &str,
        bytes: impl io::Read,
    ) -> Result<(), ImageError> {
        let appended = self.builder.append_data(header, path, bytes);
        appended.map_err(ImageError::Write)
    }
}

/// Block size of a tar archive.
const BLOCK_BYTES: u64 = 512;

pub(super) fn header(bytes: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(bytes);
    header
}

/// A name with all that is left out of it.
fn full_name(name: &str) -> String {
    match name.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => name.to_owned(),
        Some(_) => format!("{HUB}/{name}"),
        None => format!("{HUB}/{LIBRARY}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_full() {
        for (name, full) in [
            ("a:1", "docker.io/library/a:1"),
            ("me/a:1", "docker.io/me/a:1"),
            ("localhost/a:1", "localhost/a:1"),
            ("example.com:5000/a:1", "example.com:5000/a:1"),
        ] {
            assert_eq!(full_name(name), full);
        }
    }

    #[test]
    fn a_layer_that_is_not_what_was_said_is_no_layer() {
        let blob = |bytes: &[u8]| Blob {
            digest: digest(bytes),
            bytes: bytes.len() as u64,
            packed: Compression::Plain,
        };
        let said = blob(b"one");
        let mut archive = ImageArchive::new(Vec::new());
        let error = archive
            .copied(&said, |to| to.write_all(b"two").map_err(ImageError::Write))
            .unwrap_err();
        assert!(matches!(error, ImageError::Changed), "{error:?}");
    }
}
