//! A layer: files with fixed owner and time, sorted, so that its bytes depend on nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType};

use super::ImageError;
use super::archive::{Blob, HashingWriter, header};

/// One name of a layer.
///
/// ```
/// use forge_runtime::containers::image::{LayerContent, LayerEntry};
///
/// let entry = LayerEntry::new("etc/hostname", 0o644, LayerContent::Text("sandbox\n".to_owned()));
/// assert_eq!(entry.path(), "etc/hostname");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerEntry {
    path: String,
    mode: u32,
    content: LayerContent,
}

/// Content of one entry of a layer.
///
/// See [`LayerEntry`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerContent {
    /// A directory.
    Directory,
    /// A file with this text.
    Text(String),
    /// A file with the content of this host file.
    Copied(PathBuf),
    /// A link with this text.
    Link(String),
}

impl LayerEntry {
    /// A name below the root, without a slash in front.
    pub fn new(path: &str, mode: u32, content: LayerContent) -> LayerEntry {
        LayerEntry {
            path: path.to_owned(),
            mode,
            content,
        }
    }

    pub(super) fn directory(path: &str, mode: u32) -> LayerEntry {
        LayerEntry::new(path, mode, LayerContent::Directory)
    }

    sandbox_names::getters! {
        /// Returns its path, relative to the root.
        pub path: &str = &path;
        /// Its rights.
        pub mode: u32 = mode;
        /// Returns the content.
        pub content: &LayerContent = &content;
    }
}

/// Computes the digest and size of the layer by writing it to a sink.
pub(super) fn digest(entries: &[LayerEntry]) -> Result<Blob, ImageError> {
    let mut made = HashingWriter::new(io::sink());
    write(entries, &mut made)?;
    Ok(made.blob())
}

/// Writes the layer.
pub(super) fn write(entries: &[LayerEntry], to: &mut dyn Write) -> Result<(), ImageError> {
    let mut builder = Builder::new(to);
    for entry in entries {
        append(&mut builder, entry)?;
    }
    builder.finish().map_err(ImageError::Write)
}

fn append(builder: &mut Builder<&mut dyn Write>, entry: &LayerEntry) -> Result<(), ImageError> {
    let mut header = header(0, entry.mode);
    match &entry.content {
        LayerContent::Directory => {
            header.set_entry_type(EntryType::Directory);
            let path = format!("{}/", entry.path);
            builder.append_data(&mut header, path, io::empty())
        }
        LayerContent::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            builder.append_link(&mut header, &entry.path, target)
        }
        LayerContent::Text(text) => {
            header.set_size(text.len() as u64);
            builder.append_data(&mut header, &entry.path, text.as_bytes())
        }
        LayerContent::Copied(file) => {
            let (bytes, opened) = open(file)?;
            header.set_size(bytes);
            let mut exact = ExactReader {
                file: opened,
                left: bytes,
                failed: None,
            };
            let appended = builder.append_data(&mut header, &entry.path, &mut exact);
            match exact.failed {
                Some(ExactReadError::Short) => return Err(ImageError::Changed),
                Some(ExactReadError::Read(source)) => return Err(unread(file, source)),
                None => appended,
            }
        }
    }
    .map_err(ImageError::Write)
}

fn open(file: &Path) -> Result<(u64, File), ImageError> {
    let opened = File::open(file).and_then(|opened| {
        let facts = opened.metadata()?;
        Ok((facts.len(), opened))
    });
    opened.map_err(|source| unread(file, source))
}

fn unread(file: &Path, source: io::Error) -> ImageError {
    ImageError::Read {
        file: file.to_owned(),
        source,
    }
}

/// As many bytes as were announced, from a file that may have become another one meanwhile.
struct ExactReader {
    file: File,
    left: u64,
    failed: Option<ExactReadError>,
}

/// The cause of a failed read, which the archive writer does not distinguish.
enum ExactReadError {
    Short,
    Read(io::Error),
}

impl Read for ExactReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        match self.file.read(&mut buffer[..most]) {
            Ok(0) => {
                self.failed = Some(ExactReadError::Short);
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Ok(read) => {
                self.left -= read as u64;
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failed = Some(ExactReadError::Read(error));
                Err(kind.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn made(entries: &[LayerEntry]) -> Vec<u8> {
        let mut layer = Vec::new();
        write(entries, &mut layer).unwrap();
        layer
    }

    #[test]
    fn a_layer_says_nothing_of_where_and_when() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let entries = |dir: &Path| {
            let file = dir.join("program");
            std::fs::write(&file, b"program").unwrap();
            vec![
                LayerEntry::directory("tmp", 0o1777),
                LayerEntry::new("a", 0o755, LayerContent::Copied(file)),
                LayerEntry::new("b", 0o777, LayerContent::Link("/a".to_owned())),
                LayerEntry::new("c", 0o644, LayerContent::Text("text".to_owned())),
            ]
        };
        let first = made(&entries(one.path()));
        let again = entries(other.path());
        let old = std::time::SystemTime::UNIX_EPOCH;
        File::open(other.path().join("program"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        assert!(first == made(&again), "the bytes differ");
        assert_eq!(digest(&again).unwrap().bytes, first.len() as u64);

        let mut seen = BTreeMap::new();
        for entry in tar::Archive::new(first.as_slice()).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.mtime().unwrap(), 0);
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            seen.insert(path, (header.entry_type(), header.mode().unwrap()));
        }
        let expected = BTreeMap::from([
            ("a".to_owned(), (EntryType::Regular, 0o755)),
            ("b".to_owned(), (EntryType::Symlink, 0o777)),
            ("c".to_owned(), (EntryType::Regular, 0o644)),
            ("tmp/".to_owned(), (EntryType::Directory, 0o1777)),
        ]);
        assert_eq!(seen, expected);
    }

    #[test]
    fn another_content_is_another_layer() {
        let entry = |text: &str| {
            [LayerEntry::new(
                "a",
                0o644,
                LayerContent::Text(text.to_owned()),
            )]
        };
        assert_ne!(digest(&entry("x")).unwrap(), digest(&entry("y")).unwrap());
        let mode = [LayerEntry::new(
            "a",
            0o600,
            LayerContent::Text("x".to_owned()),
        )];
        assert_ne!(digest(&entry("x")).unwrap(), digest(&mode).unwrap());
    }

    #[test]
    fn a_file_that_is_gone_is_named() {
        let gone = LayerEntry::new("a", 0o644, LayerContent::Copied("/nonexistent/file".into()));
        let error = digest(&[gone]).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/file"), "{error}");
    }
}
