//! The attempts, and the access that a policy must allow for each.

use os_sandbox::Access;
use serde::Deserialize;

/// A verb of a case's `do`; the words after it are paths of the sandbox, or placeholders that
/// `world.rs` fills in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verb {
    Read,
    List,
    Stat,
    Readlink,
    /// An existing file, from its beginning.
    Write,
    /// A file that must not be there.
    Create,
    Append,
    /// By path, without opening the file.
    Truncate,
    Delete,
    Rmdir,
    Mkdir,
    /// From, to.
    Copy,
    /// From, to; an existing target is replaced.
    Rename,
    /// From, to.
    Hardlink,
    /// Text, place.
    Symlink,
    Chmod,
    Times,
    /// A set-user-id bit for a file.
    Setid,
    Execute,

    Tcp,
    Udp,
    /// Binds a port.
    Listen,
    /// Binds a port and connects to it.
    OwnLoopback,
    Unix,
    /// A socket of an abstract name.
    Abstract,
    /// A pair of connected streams.
    Pair,
    /// A local socket of its own.
    Bind,
    Signal,
    /// A signal for a child of its own.
    SignalOwn,
    Descriptor,
    Variable,
}

/// The handling of a symlink at the last name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

impl Verb {
    pub(crate) fn parse(word: &str) -> Result<Verb, String> {
        let word = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(word);
        Verb::deserialize(word).map_err(|error| error.to_string())
    }

    /// The verb as cases write it.
    pub(crate) fn word(self) -> String {
        let mut out = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_ascii_uppercase() && !out.is_empty() {
                out.push('-');
            }
            out.push(c.to_ascii_lowercase());
        }
        out
    }

    /// Returns the number of words after the verb.
    pub(crate) fn words(self) -> usize {
        match self {
            Verb::Listen | Verb::OwnLoopback | Verb::Pair | Verb::Bind | Verb::SignalOwn => 0,
            Verb::Copy | Verb::Rename | Verb::Hardlink | Verb::Symlink => 2,
            Verb::Read
            | Verb::List
            | Verb::Stat
            | Verb::Readlink
            | Verb::Write
            | Verb::Create
            | Verb::Append
            | Verb::Truncate
            | Verb::Delete
            | Verb::Rmdir
            | Verb::Mkdir
            | Verb::Chmod
            | Verb::Times
            | Verb::Setid
            | Verb::Execute
            | Verb::Tcp
            | Verb::Udp
            | Verb::Unix
            | Verb::Abstract
            | Verb::Signal
            | Verb::Descriptor
            | Verb::Variable => 1,
        }
    }

    /// `true` if success changes the tree.
    pub(crate) fn changes(self) -> bool {
        self.uses()
            .iter()
            .any(|(_, _, access)| access.contains(Access::WRITE))
    }

    /// `true` if it concerns the tree, so that text can decide it.
    pub(crate) fn is_about_files(self) -> bool {
        !self.uses().is_empty()
    }

    /// Returns the words that are paths, each with the handling of a final symlink and the needed
    /// access.
    pub(crate) fn uses(self) -> &'static [(usize, Last, Access)] {
        const READ: Access = Access::READ;
        const WRITE: Access = Access::WRITE;
        match self {
            Verb::Read | Verb::List | Verb::Stat => &[(0, Last::Follow, READ)],
            Verb::Readlink => &[(0, Last::Keep, READ)],
            Verb::Write
            | Verb::Append
            | Verb::Truncate
            | Verb::Chmod
            | Verb::Times
            | Verb::Setid => &[(0, Last::Follow, WRITE)],
            Verb::Create | Verb::Delete | Verb::Rmdir | Verb::Mkdir => &[(0, Last::Keep, WRITE)],
            Verb::Copy => &[(0, Last::Follow, READ), (1, Last::Follow, WRITE)],
            // Why: the rules for the second name could allow writing the file.
            Verb::Rename | Verb::Hardlink => &[(0, Last::Keep, WRITE), (1, Last::Keep, WRITE)],
            Verb::Symlink => &[(1, Last::Keep, WRITE)],
            Verb::Execute => &[(0, Last::Follow, Access::EXECUTE)],
            Verb::Tcp
            | Verb::Udp
            | Verb::Listen
            | Verb::OwnLoopback
            | Verb::Unix
            | Verb::Abstract
            | Verb::Pair
            | Verb::Bind
            | Verb::Signal
            | Verb::SignalOwn
            | Verb::Descriptor
            | Verb::Variable => &[],
        }
    }

    /// `true` if file tools have such an operation.
    pub(crate) fn file_tools_have_it(self) -> bool {
        matches!(
            self,
            Verb::Read
                | Verb::List
                | Verb::Stat
                | Verb::Write
                | Verb::Create
                | Verb::Append
                | Verb::Truncate
                | Verb::Delete
                | Verb::Rmdir
                | Verb::Mkdir
                | Verb::Copy
                | Verb::Rename
        )
    }
}
