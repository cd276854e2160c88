//! The job of the program `os-sandbox-birdcage`, which this crate writes and the program reads:
//! strings that each end in NUL. The first names the format, the second the network, and each other
//! string is a letter and a path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The format of this build. A program of another build refuses the job.
const FORMAT: &[u8] = b"os-sandbox-birdcage 1";
const OWN_NETWORK: &[u8] = b"own";
const HOST_NETWORK: &[u8] = b"host";

/// The descriptor of the job.
pub const FD_JOB: i32 = 3;
/// The descriptor of the program that birdcage starts.
pub const FD_IMAGE: i32 = 4;
/// The maximum size of a job, in bytes.
pub const MAX_BYTES: u64 = 8 << 20;

/// An access that birdcage grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Reading.
    Read,
    /// Writing, and reading.
    Write,
    /// Starting programs, and reading.
    Execute,
}

impl Right {
    fn letter(self) -> u8 {
        match self {
            Right::Read => b'r',
            Right::Write => b'w',
            Right::Execute => b'x',
        }
    }

    fn of(letter: u8) -> Option<Right> {
        [Right::Read, Right::Write, Right::Execute]
            .into_iter()
            .find(|right| right.letter() == letter)
    }
}

/// A job for birdcage. Several rights for one path add up.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BirdcageJob {
    /// `true` if it has the network of the host.
    pub host_network: bool,
    /// The granted accesses.
    pub exceptions: Vec<(Right, PathBuf)>,
}

impl BirdcageJob {
    /// Returns the job in the format of the program. Paths with a NUL were refused earlier; here
    /// one would only corrupt the job.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let network = if self.host_network {
            HOST_NETWORK
        } else {
            OWN_NETWORK
        };
        let mut out = [FORMAT, b"\0", network, b"\0"].concat();
        for (right, path) in &self.exceptions {
            out.push(right.letter());
            out.extend_from_slice(path.as_os_str().as_bytes());
            out.push(0);
        }
        out
    }

    /// Parses a job. `None` if it is not one of ours.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<BirdcageJob> {
        let bytes = bytes.strip_suffix(b"\0")?;
        let mut words = bytes.split(|byte| *byte == 0);
        if words.next()? != FORMAT {
            return None;
        }
        let host_network = match words.next()? {
            OWN_NETWORK => false,
            HOST_NETWORK => true,
            _ => return None,
        };
        let exception = |word: &[u8]| {
            let (letter, path) = word.split_first()?;
            let path = Path::new(OsStr::from_bytes(path));
            path.is_absolute()
                .then_some((Right::of(*letter)?, path.to_owned()))
        };
        Some(BirdcageJob {
            host_network,
            exceptions: words.map(exception).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_comes_back_and_nothing_else_is_one() {
        let job = BirdcageJob {
            host_network: true,
            exceptions: vec![
                (Right::Read, PathBuf::from("/usr")),
                (Right::Execute, PathBuf::from("/usr")),
                (Right::Write, PathBuf::from(OsStr::from_bytes(b"/\xff\n"))),
            ],
        };
        assert_eq!(BirdcageJob::parse(&job.bytes()), Some(job));
        let none = BirdcageJob::default();
        assert_eq!(BirdcageJob::parse(&none.bytes()), Some(none));
        for wrong in [
            &b""[..],
            b"\0",
            b"os-sandbox-birdcage 1\0",
            b"os-sandbox-birdcage 2\0own\0",
            b"os-sandbox-birdcage 1\0\0",
            b"os-sandbox-birdcage 1\0own\0r/usr",
            b"os-sandbox-birdcage 1\0own\0rusr\0",
            b"os-sandbox-birdcage 1\0own\0q/usr\0",
            b"os-sandbox-birdcage 1\0own\0\0",
        ] {
            assert_eq!(BirdcageJob::parse(wrong), None, "{wrong:?}");
        }
    }
}
