//! Memory of the observer (`observe.rs`) for full reports: the objects that were reported, the
//! spellings of paths whose object is known, and the lookups that failed. Everything is a hash, so
//! a wrong report is possible and nothing more.
//!
//! Entry point: [`Lookups::new`]. The memory is allocated once and never grows.

use crate::sys;
use crate::wire;

/// Slots of a table, a power of two. A table is half full at most.
const SLOTS: usize = 16_384;
/// Words of one failed lookup: the object, the last name, then the thread with [`IS_NOISE`].
const LOOKUP_WORDS: usize = 3;
/// The thread has found that last name in another directory.
const IS_NOISE: usize = 1 << 32;

/// The hashes of one run.
pub struct Lookups {
    /// Objects with their operations.
    touched: HashTable,
    /// Absolute paths that led to an object which the target may use. A path can lead elsewhere
    /// later, which is not reported.
    spellings: HashTable,
    /// Absolute paths of directories that the target sees whole.
    directories: HashTable,
    failed: &'static mut [usize],
    count: usize,
    /// Reports about failed lookups that are left.
    reports_left: usize,
}

/// The hashes of one spelling of a path.
#[derive(Clone, Copy)]
pub struct Spelling {
    pub text: u64,
    pub directory: u64,
    /// The last name.
    pub last: u64,
}

/// The result of adding something of which each is reported once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Addition {
    /// To be reported.
    New,
    Known,
    /// The bound was reached just now, which is to be reported.
    Omitted,
}

impl Lookups {
    /// Allocates the memory. `None` without any.
    pub fn new() -> Option<Lookups> {
        Some(Lookups {
            touched: HashTable::new()?,
            spellings: HashTable::new()?,
            directories: HashTable::new()?,
            failed: sys::words(wire::MAX_LOOKUPS * LOOKUP_WORDS).ok()?,
            count: 0,
            reports_left: wire::MAX_LOOKUP_REPORTS,
        })
    }

    /// Adds an object with its operation.
    pub fn touch(&mut self, object: u64) -> Addition {
        if self.touched.contains(object) || self.touched.count > wire::MAX_TOUCHED {
            return Addition::Known;
        }
        self.touched.insert(object);
        match self.touched.count > wire::MAX_TOUCHED {
            true => Addition::Omitted,
            false => Addition::New,
        }
    }

    /// Returns `true` if a spelling leads to a known object.
    pub fn is_known(&self, spelling: u64) -> bool {
        self.spellings.contains(spelling)
    }

    /// Remembers that a spelling leads to an object which the target may use.
    pub fn remember(&mut self, spelling: u64) {
        self.spellings.insert(spelling);
    }

    /// Returns `true` for the path of a directory that the target sees whole.
    pub fn is_shown_directory(&self, directory: u64) -> bool {
        self.directories.contains(directory)
    }

    /// Remembers a directory that the target sees whole.
    pub fn remember_directory(&mut self, directory: u64) {
        self.directories.insert(directory);
    }

    /// Adds a failed lookup, with its slot.
    pub fn fail(&mut self, thread: i32, object: u64, last: u64) -> (Addition, usize) {
        let object = object as usize;
        let thread = thread as u32 as usize;
        let known = self.slots().position(|slot| slot[0] == object);
        let slot = known.unwrap_or(self.count);
        let Some(words) = self.failed.chunks_exact_mut(LOOKUP_WORDS).nth(slot) else {
            return (self.omit(), slot);
        };
        let was_noise = words[2] & IS_NOISE != 0;
        words.copy_from_slice(&[object, last as usize, thread]);
        if known.is_some() && !was_noise {
            return (Addition::Known, slot);
        }
        if self.reports_left <= 1 {
            return (self.omit(), slot);
        }
        self.reports_left -= 1;
        self.count += usize::from(known.is_none());
        (Addition::New, slot)
    }

    /// Returns the slot of a failed lookup for that last name by that thread, which has now
    /// found it. The lookup was a part of a search. `None` if no further one is left.
    pub fn find(&mut self, thread: i32, last: u64) -> Option<usize> {
        let (thread, last) = (thread as u32 as usize, last as usize);
        let slot = self
            .slots()
            .position(|slot| slot[1] == last && slot[2] == thread)?;
        self.failed[slot * LOOKUP_WORDS + 2] |= IS_NOISE;
        Some(slot)
    }

    fn slots(&self) -> impl Iterator<Item = &[usize]> {
        self.failed.chunks_exact(LOOKUP_WORDS).take(self.count)
    }

    /// Tells the bound once.
    fn omit(&mut self) -> Addition {
        match core::mem::take(&mut self.reports_left) {
            0 => Addition::Known,
            _ => Addition::Omitted,
        }
    }
}

/// A set of hashes. A full table forgets all.
struct HashTable {
    slots: &'static mut [usize],
    count: usize,
}

impl HashTable {
    fn new() -> Option<HashTable> {
        let slots = sys::words(SLOTS).ok()?;
        Some(HashTable { slots, count: 0 })
    }

    /// Returns the slot that has the hash, or the free one for it.
    fn slot(&self, hash: usize) -> usize {
        let mut slot = hash % SLOTS;
        while self.slots[slot] != 0 && self.slots[slot] != hash {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    fn contains(&self, hash: u64) -> bool {
        // 0 marks a free slot.
        let hash = hash as usize | 1;
        self.slots[self.slot(hash)] == hash
    }

    fn insert(&mut self, hash: u64) {
        let hash = hash as usize | 1;
        if self.count == SLOTS / 2 {
            self.slots.fill(0);
            self.count = 0;
        }
        let slot = self.slot(hash);
        if self.slots[slot] == 0 {
            self.slots[slot] = hash;
            self.count += 1;
        }
    }
}
