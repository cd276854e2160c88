//! Reads a message's body: bounds-checked all the way, although the broker wrote it, because a
//! mistake here would be a mistake in what confines.

use crate::supervisor::terminal::CommandTerminal;
use crate::sys::{self, CStr};
use crate::wire;

/// Become this program.
pub struct Exec<'a> {
    pub path: CStr<'a>,
    pub argv: &'static [usize],
    pub envp: &'static [usize],
    /// To be opened for it.
    pub files: Strings<'a>,
}

/// Run and supervise one target.
pub struct Run<'a> {
    pub flags: u64,
    pub wall_ms: u64,
    pub grace_ms: u64,
    pub probe_pid: i32,
    pub filter: &'a [u8],
    limits: &'a [u8],
    rules: &'a [u8],
    pub directory: CStr<'a>,
    candidates: Strings<'a>,
    pub argv: &'static [usize],
    pub envp: &'static [usize],
    /// The variables as one block, as `/proc/PID/environ` shows them.
    pub env: &'a [u8],
    rule_paths: Strings<'a>,
    probes: Strings<'a>,
    pins: &'a [u8],
    pin_paths: Strings<'a>,
    pub stdio: [i32; 3],
    pub ruleset: Option<i32>,
    /// The channel to the connector.
    pub channel: Option<i32>,
    /// The channel to the maker of sockets for named hosts.
    pub namespace_channel: Option<i32>,
    /// Files of control groups that the target enters.
    pub groups: &'a [i32],
    pub watch_bytes: u64,
    pub watch_threads: u64,
    /// Places below which the supervisor makes calls; `None` if the filter does not ask it.
    pub places: Option<Strings<'a>>,
    /// Landlock rights for the command's terminal; 0 if another rule covers it.
    pub terminal_rights: u64,
    /// The command's terminal, once it is made.
    pub terminal: Option<CommandTerminal>,
}

/// Calls that are reported, and what is needed to tell which of them.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    calls: &'a [u8],
    addresses: &'a [u8],
    /// Paths below which the target may write.
    writable: Strings<'a>,
    /// Directories in them that were made for mounts alone, and cannot be written.
    closed: Strings<'a>,
    /// Places with the rights below them; see [`wire::PLACE`].
    places: Strings<'a>,
    /// Reads, executions and touched objects are reported too.
    pub is_full: bool,
    /// The target has another root directory than the observer.
    pub is_foreign: bool,
    /// The target may write nothing in `/proc`.
    pub proc_is_closed: bool,
    /// Where the reports go.
    pub file: i32,
    /// Configurations of repositories that the broker changes for the target.
    pub configs: Strings<'a>,
    /// The channel to the broker; only with configurations.
    pub channel: Option<i32>,
}

/// One observed call: what it does, and the indices of its arguments.
#[derive(Clone, Copy)]
pub struct ObservedCall {
    /// One of `wire::CALL_…`.
    pub operation: u32,
    paths: [u8; 2],
    /// The argument with the flags.
    pub flags: Option<usize>,
}

/// The arguments that name one file.
#[derive(Clone, Copy)]
pub struct CallPaths {
    /// The descriptor from which a relative path starts; `None` for the working directory.
    pub at: Option<usize>,
    pub path: usize,
}

/// A place that must be the root of a mount when the target starts.
#[derive(Clone, Copy)]
pub struct Pin<'a> {
    /// One of `wire::PIN_…`.
    pub how: u64,
    /// Device and inode of what must be found there; zero is any.
    pub identity: (u64, u64),
    pub path: CStr<'a>,
}

/// A run of strings, each ended by NUL.
#[derive(Clone, Copy)]
pub struct Strings<'a> {
    bytes: &'a [u8],
}

impl<'a> Exec<'a> {
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let argc = u32::from_ne_bytes(body.get(0..4)?.try_into().ok()?) as usize;
        let envc = u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?) as usize;
        let openc = u32::from_ne_bytes(body.get(8..12)?.try_into().ok()?) as usize;
        if openc > wire::MAX_FILES {
            return None;
        }
        let mut rest = body.get(12..)?;
        let path = one(&mut rest)?;
        Some(Exec {
            path,
            argv: list(&mut rest, argc)?,
            envp: list(&mut rest, envc)?,
            files: Strings::take(&mut rest, openc)?,
        })
    }
}

impl<'a> Run<'a> {
    pub fn parse(body: &'a [u8], fds: &'a [i32]) -> Option<Self> {
        let word = |index: usize| body.get(index * 8..index * 8 + 8).map(number);
        let count = |index: usize| {
            let count = usize::try_from(word(index)?).ok()?;
            (count <= body.len()).then_some(count)
        };
        let flags = word(wire::WORD_FLAGS)?;
        let mut rest = body.get(wire::RUN_WORDS * 8..)?;
        let mut rows = |count: usize, bytes| take(&mut rest, count.checked_mul(bytes)?);
        let filter = rows(count(wire::WORD_FILTER_LEN)?, 8)?;
        let limits = rows(count(wire::WORD_LIMITS)?, 24)?;
        let rules = rows(count(wire::WORD_RULES)?, 8)?;
        let pins = rows(count(wire::WORD_PINS)?, 24)?;
        let directory = one(&mut rest)?;
        let candidates = Strings::take(&mut rest, count(wire::WORD_CANDIDATES)?)?;
        let argv = list(&mut rest, count(wire::WORD_ARGS)?)?;
        let variables = count(wire::WORD_ENV)?;
        let env = Strings::take(&mut rest, variables)?.bytes;
        let (stdio, others) = fds.split_first_chunk()?;
        let mut others = others.iter().copied();
        let mut optional = |flag| match flags & flag {
            0 => Some(None),
            _ => others.next().map(Some),
        };
        Some(Run {
            flags,
            wall_ms: word(wire::WORD_WALL_MS)?,
            grace_ms: word(wire::WORD_GRACE_MS)?,
            probe_pid: i32::try_from(word(wire::WORD_PROBE_PID)?).ok()?,
            filter,
            limits,
            rules,
            directory,
            candidates,
            argv,
            envp: list(&mut &*env, variables)?,
            env,
            // The fields from here on are in the order of the message and of its descriptors.
            rule_paths: Strings::take(&mut rest, count(wire::WORD_RULES)?)?,
            probes: match count(wire::WORD_PROBES)? {
                strings @ (0 | wire::PROBE_STRINGS) => Strings::take(&mut rest, strings)?,
                _ => return None,
            },
            pins,
            pin_paths: Strings::take(&mut rest, count(wire::WORD_PINS)?)?,
            places: match count(wire::WORD_PLACES)? {
                0 => None,
                places => Some(Strings::take(&mut rest, places)?),
            },
            stdio: *stdio,
            ruleset: optional(wire::FLAG_RULESET)?,
            channel: optional(wire::FLAG_CONNECT)?,
            namespace_channel: optional(wire::FLAG_SOCKETS)?,
            groups: fds.get(fds.len().checked_sub(count(wire::WORD_GROUPS)?)?..)?,
            watch_bytes: word(wire::WORD_WATCH_BYTES)?,
            watch_threads: word(wire::WORD_WATCH_THREADS)?,
            terminal_rights: word(wire::WORD_TERMINAL)?,
            terminal: None,
        })
    }

    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    pub fn candidates(&self) -> Strings<'a> {
        self.candidates
    }

    pub fn probes(&self) -> Strings<'a> {
        self.probes
    }

    /// Resource, soft and hard limit.
    pub fn limits(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.limits.chunks_exact(24).map(|three| {
            (
                number(&three[0..8]),
                number(&three[8..16]),
                number(&three[16..24]),
            )
        })
    }

    /// Those nearer to the root first.
    pub fn pins(&self) -> impl Iterator<Item = Pin<'a>> {
        self.pins
            .chunks_exact(24)
            .zip(self.pin_paths)
            .map(|(three, path)| Pin {
                how: number(&three[0..8]),
                identity: (number(&three[8..16]), number(&three[16..24])),
                path,
            })
    }

    /// Landlock rights and the path below which they hold.
    pub fn rules(&self) -> impl Iterator<Item = (u64, CStr<'a>)> {
        self.rules.chunks_exact(8).map(number).zip(self.rule_paths)
    }
}

impl<'a> Observed<'a> {
    /// `file`: the file of reports.
    pub fn take(rest: &mut &'a [u8], file: i32) -> Option<Self> {
        let head = take(rest, wire::OBSERVED_WORDS * 4)?;
        let word = |index: usize| {
            let bytes = head.get(index * 4..index * 4 + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let flags = word(4)?;
        Some(Observed {
            calls: take(
                rest,
                (word(0)? as usize).checked_mul(wire::OBSERVED_CALL_BYTES)?,
            )?,
            addresses: take(rest, (word(1)? as usize).checked_mul(wire::ADDRESS_BYTES)?)?,
            writable: Strings::take(rest, word(2)? as usize)?,
            closed: Strings::take(rest, word(3)? as usize)?,
            places: Strings::take(rest, word(5)? as usize)?,
            is_full: flags & wire::OBSERVED_FULL != 0,
            is_foreign: flags & wire::OBSERVED_FOREIGN != 0,
            proc_is_closed: flags & wire::OBSERVED_PROC_CLOSED != 0,
            file,
            configs: Strings { bytes: b"" },
            channel: None,
        })
    }

    /// Returns `true` if the target may write at a path, which is in `directory`: the deepest of the
    /// writable paths and closed directories decides.
    pub fn is_writable(&self, path: &[u8], directory: &[u8]) -> bool {
        let deepest = |roots: Strings<'a>, path| {
            let roots = roots.map(|root| root.bytes());
            roots
                .filter(|root| is_below(path, root))
                .map(<[u8]>::len)
                .max()
        };
        deepest(self.writable, path) > deepest(self.closed, directory)
    }

    /// Returns the rights of the target for a path. In a root directory of its own, mounts cover
    /// each other, and the deepest place decides. Elsewhere the rights of all places around it add
    /// up, as Landlock's do.
    pub fn rights(&self, path: &[u8]) -> u8 {
        let mut rights = 0;
        let mut deepest = 0;
        for (given, place) in self.places() {
            if !is_below(path, place) {
                continue;
            }
            if !self.is_foreign {
                rights |= given;
            } else if place.len() >= deepest {
                rights = given;
                deepest = place.len();
            }
        }
        rights
    }

    /// Returns `true` if a path that is missing for the target can exist outside. `directory`: its
    /// directory, if that exists.
    pub fn can_exist_outside(&self, path: &[u8], directory: Option<&[u8]>) -> bool {
        let around = self.places().filter(|(_, place)| is_below(path, place));
        let (rights, deepest) = around
            .max_by_key(|(_, place)| place.len())
            .unwrap_or((0, b"/"));
        if rights & wire::PLACE_WHOLE != 0 {
            return false;
        }
        match directory {
            // Any other directory there was made by the target.
            Some(directory) if rights & wire::PLACE_OWN != 0 => {
                directory == deepest || self.places().any(|(_, place)| is_below(place, directory))
            }
            _ => true,
        }
    }

    fn places(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        self.places.filter_map(|place| {
            let (rights, path) = place.bytes().split_first()?;
            Some((rights.wrapping_sub(wire::PLACE), path))
        })
    }

    pub fn call(&self, number: u32) -> Option<ObservedCall> {
        let mut rows = self.calls.chunks_exact(wire::OBSERVED_CALL_BYTES);
        let row = rows.find(|row| row[0..4] == number.to_ne_bytes())?;
        Some(ObservedCall {
            operation: row[4].into(),
            paths: [row[5], row[6]],
            flags: index(row[7]),
        })
    }

    /// Returns `true` if an address of the internet is one that the target may connect: a row says
    /// so. `address` has the bytes of IPv4 first, as in a row.
    pub fn allows(&self, is_v6: bool, address: &[u8; 16], port: u16) -> bool {
        let mut rows = self.addresses.chunks_exact(wire::ADDRESS_BYTES);
        rows.any(|row| {
            let wanted = u16::from_ne_bytes([row[2], row[3]]);
            let bits = usize::from(row[1]).min(128);
            let (whole, rest) = (bits / 8, bits % 8);
            let mask = !(0xffu8 >> rest);
            (row[0] != 0) == is_v6
                && (wanted == 0 || wanted == port)
                && row[4..4 + whole] == address[..whole]
                && (rest == 0 || (row[4 + whole] ^ address[whole]) & mask == 0)
        })
    }
}

impl ObservedCall {
    pub fn paths(self) -> impl Iterator<Item = CallPaths> {
        self.paths.into_iter().filter_map(|both| {
            Some(CallPaths {
                at: index(both >> 4),
                path: index(both & 0xf)?,
            })
        })
    }
}

/// The index of an argument; larger numbers mean none.
fn index(number: u8) -> Option<usize> {
    (number < 6).then_some(number.into())
}

impl<'a> Strings<'a> {
    pub fn take(rest: &mut &'a [u8], count: usize) -> Option<Self> {
        let start = *rest;
        for _ in 0..count {
            one(rest)?;
        }
        start
            .get(..start.len() - rest.len())
            .map(|bytes| Strings { bytes })
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = CStr<'a>;

    fn next(&mut self) -> Option<CStr<'a>> {
        one(&mut self.bytes)
    }
}

/// Returns `true` for a path at or below another one.
pub fn is_below(path: &[u8], root: &[u8]) -> bool {
    match path.strip_prefix(root) {
        Some(rest) => rest.is_empty() || rest[0] == b'/' || root == b"/",
        None => false,
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut word = [0u8; 8];
    word.copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(bytes)?;
    *rest = tail;
    Some(head)
}

/// The next string with its NUL.
pub fn one<'a>(rest: &mut &'a [u8]) -> Option<CStr<'a>> {
    let end = rest.iter().position(|byte| *byte == 0)?;
    CStr::new(take(rest, end + 1)?)
}

/// The next `count` strings as the list of addresses that `execve` wants. The strings live in
/// memory that is never given back.
fn list(rest: &mut &[u8], count: usize) -> Option<&'static [usize]> {
    if count > rest.len() {
        return None;
    }
    let words = sys::words(count + 1).ok()?;
    for slot in words.iter_mut().take(count) {
        *slot = one(rest)?.pointer();
    }
    Some(words)
}
