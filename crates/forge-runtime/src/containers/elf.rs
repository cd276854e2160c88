//! The requirements of a Linux program: processor, loader, libraries. Reads a few numbers of its
//! file, within bounds; runs nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const MAX_SEGMENTS: u16 = 128;
const DYNAMIC_BYTES: usize = 16;
const MAX_DYNAMIC: u64 = 4096;
const MAX_NAME_BYTES: usize = 256;

const SEGMENT_LOAD: u32 = 1;
const SEGMENT_DYNAMIC: u32 = 2;
const SEGMENT_INTERPRETER: u32 = 3;

const TAG_END: u64 = 0;
const TAG_NEEDED: u64 = 1;
const TAG_STRINGS: u64 = 5;
const TAG_OWN_NAME: u64 = 14;

/// The processors that forge is built for.
const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// The parsed facts of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elf {
    /// In the words of images.
    pub(super) architecture: &'static str,
    /// The loader that starts it; `None` if it starts itself.
    pub(super) interpreter: Option<String>,
    /// The name (`DT_SONAME`) by which other files need this library.
    pub(super) own_name: Option<String>,
    /// The libraries that it needs, by those names.
    pub(super) needed: Vec<String>,
}

/// One part of the file.
struct ElfSegment {
    kind: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

impl Elf {
    /// Reads `file`. The error text names the problem.
    pub(super) fn read(file: &File) -> Result<Elf, String> {
        let head: [u8; HEADER_BYTES] = at(file, 0)?;
        // 64 bits, least byte first.
        if !head.starts_with(b"\x7fELF\x02\x01") {
            return Err("not a program for Linux".to_owned());
        }
        let architecture = match u16_at(&head, 18) {
            X86_64 => "amd64",
            AARCH64 => "arm64",
            other => {
                return Err(format!(
                    "it is for a processor that forge does not know ({other})"
                ));
            }
        };
        let segments = segments(file, &head)?;
        let of = |kind| segments.iter().find(move |segment| segment.kind == kind);
        let interpreter = match of(SEGMENT_INTERPRETER) {
            Some(segment) => Some(text(file, segment.offset)?),
            None => None,
        };
        let mut elf = Elf {
            architecture,
            interpreter,
            own_name: None,
            needed: Vec::new(),
        };
        if let Some(dynamic) = of(SEGMENT_DYNAMIC) {
            elf.links(file, dynamic, &segments)?;
        }
        Ok(elf)
    }

    fn links(
        &mut self,
        file: &File,
        dynamic: &ElfSegment,
        segments: &[ElfSegment],
    ) -> Result<(), String> {
        let mut entries = Vec::new();
        for number in 0..(dynamic.bytes / DYNAMIC_BYTES as u64).min(MAX_DYNAMIC) {
            let place = dynamic.offset.saturating_add(number * DYNAMIC_BYTES as u64);
            let entry: [u8; DYNAMIC_BYTES] = at(file, place)?;
            let (tag, value) = (u64_at(&entry, 0), u64_at(&entry, 8));
            if tag == TAG_END {
                break;
            }
            entries.push((tag, value));
        }
        let names = |wanted: u64| {
            let found = entries.iter().filter(move |(tag, _)| *tag == wanted);
            found.map(|(_, value)| *value)
        };
        let Some(strings) = names(TAG_STRINGS).next() else {
            return Ok(());
        };
        let strings = segments
            .iter()
            .filter(|segment| segment.kind == SEGMENT_LOAD)
            .find_map(|segment| {
                let inside = strings.checked_sub(segment.address)?;
                (inside < segment.bytes).then(|| segment.offset.saturating_add(inside))
            })
            .ok_or("its list of libraries lies outside of it")?;
        let name = |value: u64| text(file, strings.saturating_add(value));
        self.own_name = names(TAG_OWN_NAME).next().map(name).transpose()?;
        self.needed = names(TAG_NEEDED).map(name).collect::<Result<_, _>>()?;
        Ok(())
    }
}

fn segments(file: &File, head: &[u8]) -> Result<Vec<ElfSegment>, String> {
    let (table, count) = (u64_at(head, 32), u16_at(head, 56));
    if usize::from(u16_at(head, 54)) != SEGMENT_BYTES || count > MAX_SEGMENTS {
        return Err("its table of segments is none".to_owned());
    }
    (0..u64::from(count))
        .map(|number| {
            let place = table.saturating_add(number * SEGMENT_BYTES as u64);
            let entry: [u8; SEGMENT_BYTES] = at(file, place)?;
            Ok(ElfSegment {
                kind: u32::from_le_bytes(bytes(&entry, 0)),
                offset: u64_at(&entry, 8),
                address: u64_at(&entry, 16),
                bytes: u64_at(&entry, 32),
            })
        })
        .collect()
}

/// The text that begins there, up to its end.
fn text(file: &File, place: u64) -> Result<String, String> {
    let mut held = [0; MAX_NAME_BYTES];
    // The end of the file may come first.
    let mut read = 0;
    while read < held.len() {
        match file.read_at(&mut held[read..], place.saturating_add(read as u64)) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let end = held[..read].iter().position(|byte| *byte == 0);
    let name = end.and_then(|end| std::str::from_utf8(&held[..end]).ok());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte);
    match name {
        Some(name) if !name.is_empty() && name.bytes().all(plain) => Ok(name.to_owned()),
        Some(_) | None => Err("the name of a library in it is none".to_owned()),
    }
}

fn at<const N: usize>(file: &File, place: u64) -> Result<[u8; N], String> {
    let mut held = [0; N];
    match file.read_exact_at(&mut held, place) {
        Ok(()) => Ok(held),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err("not a program for Linux".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn bytes<const N: usize>(from: &[u8], place: usize) -> [u8; N] {
    let mut held = [0; N];
    if let Some(found) = from.get(place..place + N) {
        held.copy_from_slice(found);
    }
    held
}

fn u16_at(from: &[u8], place: usize) -> u16 {
    u16::from_le_bytes(bytes(from, place))
}

fn u64_at(from: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes(from, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_program_names_its_loader_and_what_it_needs() {
        let own = std::env::current_exe().unwrap();
        let elf = Elf::read(&File::open(&own).unwrap()).unwrap();
        let architecture = if cfg!(target_arch = "x86_64") {
            "amd64"
        } else {
            "arm64"
        };
        assert_eq!(elf.architecture, architecture);
        assert_eq!(elf.own_name, None);
        if let Some(interpreter) = elf.interpreter {
            assert!(
                elf.needed.iter().any(|name| name.starts_with("libc.")),
                "{:?}",
                elf.needed
            );
            let loader = Elf::read(&File::open(interpreter).unwrap()).unwrap();
            assert_eq!(loader.interpreter, None);
            assert!(loader.own_name.is_some_and(|name| name.starts_with("ld-")));
        }
    }

    #[test]
    fn what_is_no_program_is_said() {
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x01\x01", &[0; 4096]] {
            let why = Elf::read(&file(bytes)).unwrap_err();
            assert_eq!(why, "not a program for Linux");
        }
        let mut other = b"\x7fELF\x02\x01".to_vec();
        other.resize(64, 0);
        other[18] = 40;
        let why = Elf::read(&file(&other)).unwrap_err();
        assert_eq!(why, "it is for a processor that forge does not know (40)");
    }

    proptest! {
        /// Any bytes behind a good beginning: an answer, no panic, no long wait.
        #[test]
        fn any_file_has_an_answer(
            rest in proptest::collection::vec(any::<u8>(), 58..1024),
            count in 0u16..200,
            table in 0u64..600,
        ) {
            let mut all = b"\x7fELF\x02\x01".to_vec();
            all.extend(rest);
            all[18..20].copy_from_slice(&X86_64.to_le_bytes());
            all[32..40].copy_from_slice(&table.to_le_bytes());
            all[54..56].copy_from_slice(&56u16.to_le_bytes());
            all[56..58].copy_from_slice(&count.to_le_bytes());
            let _ = Elf::read(&file(&all));
        }
    }
}
