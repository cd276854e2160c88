//! Watches over a tree by looking at it, for hosts where no control group may be made. Between two
//! looks a tree can go over its limits; what is counted is what `/proc` shows (proc_pid_status(5)):
//! threads, and of memory what is private or shared without a file, with what of it is swapped
//! out, and the files in the private file systems in memory. Those that have no name (memfd) are
//! seen as far as they are mapped.

use crate::job::Run;
use crate::listing;
use crate::proc_path::ProcPath;
use crate::sys;
use crate::wire;

/// Private file systems inside bubblewrap, which live in memory.
const IN_MEMORY: [&[u8]; 3] = [b"/tmp\0", b"/home/sandbox\0", b"/dev/shm\0"];
const INTERVAL_MS: u64 = 100;
/// Looking takes at most a twentieth of the time, and is never further apart than this.
const SHARE: u64 = 20;
const MAX_INTERVAL_MS: u64 = 1000;
/// Most processes that one look counts if the job does not limit them.
const MAX_LOOKED: usize = 1 << 16;
/// Room for the name of a process, which the kernel cuts after 15 bytes.
const NAME_BYTES: usize = 2 * wire::NAME_PART_BYTES;
/// Room for one file of `/proc`, or a part of a list of it.
const TEXT_BYTES: usize = 16 << 10;

pub struct LimitMonitor {
    bytes: u64,
    threads: u64,
    next_ms: u64,
    /// Whose `/proc` shows the tree and nobody else.
    alone: bool,
    me: usize,
    processes: &'static mut [usize],
    text: &'static mut [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    /// Memory that several processes share counts for each of them.
    Quick,
    /// It is divided among them, which takes the kernel a walk through their page tables.
    Exact,
}

impl LimitMonitor {
    /// `None` if the job asks for nothing to be watched.
    pub fn new(run: &Run<'_>, me: i32) -> sys::Result<Option<LimitMonitor>> {
        if run.watch_bytes == 0 && run.watch_threads == 0 {
            return Ok(None);
        }
        let room = match usize::try_from(run.watch_threads) {
            Ok(0) | Err(_) => MAX_LOOKED,
            // One more than allowed is all that must be seen, and one is ourselves.
            Ok(threads) => threads.saturating_add(2).min(MAX_LOOKED),
        };
        LimitMonitor::with_room(run, me, room).map(Some)
    }

    fn with_room(run: &Run<'_>, me: i32, room: usize) -> sys::Result<LimitMonitor> {
        Ok(LimitMonitor {
            bytes: run.watch_bytes,
            threads: run.watch_threads,
            next_ms: sys::monotonic_ms() + INTERVAL_MS,
            alone: run.has(wire::FLAG_PID1),
            me: me as usize,
            processes: sys::words(room)?,
            text: sys::memory(TEXT_BYTES)?,
        })
    }

    /// Tells the broker the number of the processes of the tree, and the names of some. Without memory
    /// it is not told.
    pub fn tell_processes(run: &Run<'_>) {
        let Ok(mut all) = LimitMonitor::with_room(run, sys::getpid(), MAX_LOOKED) else {
            return;
        };
        let found = all.list();
        let (mut count, mut different) = (0, 0);
        let mut names = [[0u8; NAME_BYTES]; wire::MAX_NAMES];
        for pid in &all.processes[..found] {
            let Some(name) = running_name(*pid as i32) else {
                continue;
            };
            count += 1;
            if names[..different.min(wire::MAX_NAMES)].contains(&name) {
                continue;
            }
            if let Some(slot) = names.get_mut(different) {
                *slot = name;
            }
            // Further ones all count as different.
            different += 1;
        }
        if count == 0 {
            return;
        }
        let has_more = different > wire::MAX_NAMES;
        crate::tell(wire::RECORD_STILL_RAN, has_more.into(), 0, count);
        for name in &names[..different.min(wire::MAX_NAMES)] {
            for part in name.as_chunks::<4>().0.chunks_exact(3) {
                let [a, b, c] = [0, 1, 2].map(|at| u32::from_ne_bytes(part[at]));
                crate::tell(wire::RECORD_NAME_PART, a as i32, b as i32, c);
            }
        }
    }

    fn list(&mut self) -> usize {
        match self.alone {
            true => self.everybody(),
            false => self.descendants(),
        }
    }

    /// Milliseconds until the next look.
    pub fn left_ms(&self) -> u64 {
        self.next_ms.saturating_sub(sys::monotonic_ms())
    }

    /// Which limit the tree is over, if its time to look has come.
    pub fn look(&mut self) -> Option<i32> {
        let start = sys::monotonic_ms();
        if start < self.next_ms {
            return None;
        }
        let over = self.over();
        let now = sys::monotonic_ms();
        let pause = (now - start).saturating_mul(SHARE);
        self.next_ms = now + pause.clamp(INTERVAL_MS, MAX_INTERVAL_MS);
        over
    }

    fn over(&mut self) -> Option<i32> {
        let found = self.list();
        let over = |limit: u64, used: u64| limit > 0 && used > limit;
        if over(self.threads, found as u64) {
            return Some(wire::OVER_THREADS);
        }
        let (bytes, threads) = self.sum(found, Count::Quick);
        if over(self.threads, threads) {
            return Some(wire::OVER_THREADS);
        }
        (over(self.bytes, bytes) && over(self.bytes, self.sum(found, Count::Exact).0))
            .then_some(wire::OVER_BYTES)
    }

    /// Fills the list with all processes that `/proc` shows but ourselves.
    fn everybody(&mut self) -> usize {
        let mut found = 0;
        let me = self.me;
        let processes = &mut *self.processes;
        each_number(&ProcPath::new(), self.text, |pid| {
            if pid != me && found < processes.len() {
                processes[found] = pid;
                found += 1;
            }
        });
        found
    }

    /// Fills the list with our children, their children, and so on. Orphans are our children.
    fn descendants(&mut self) -> usize {
        let mut tasks = [0usize; 512];
        let mut found = 0;
        let mut parent = self.me;
        let mut next = 0;
        loop {
            let mut count = 0;
            let of = ProcPath::of(parent as i32).text(b"/task");
            each_number(&of, self.text, |task| {
                if count < tasks.len() {
                    tasks[count] = task;
                    count += 1;
                }
            });
            for task in &tasks[..count] {
                let children = of.text(b"/").number(*task as i32).text(b"/children");
                let processes = &mut *self.processes;
                each_word(&children, self.text, |child| {
                    if found < processes.len() {
                        processes[found] = child;
                        found += 1;
                    }
                });
            }
            if next == found {
                return found;
            }
            parent = self.processes[next];
            next += 1;
        }
    }

    /// Bytes and threads of the first so many of the list. Who is gone by now counts nothing.
    fn sum(&mut self, found: usize, count: Count) -> (u64, u64) {
        let (mut private, mut shared, mut threads) = (0u64, 0u64, 0u64);
        for pid in &self.processes[..found] {
            let of = ProcPath::of(*pid as i32);
            let mut own = [0u64; 4];
            let names: [&[u8]; 4] = [b"RssAnon:", b"RssShmem:", b"VmSwap:", b"Threads:"];
            fields(&of.text(b"/status"), self.text, &names, &mut own);
            let mut own_private = own[0].saturating_add(own[2]);
            let mut own_shared = own[1];
            if count == Count::Exact {
                let mut shares = [0u64; 3];
                let names: [&[u8]; 3] = [b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"];
                // Refused for processes that want to be unreadable: they count in full.
                if fields(&of.text(b"/smaps_rollup"), self.text, &names, &mut shares) {
                    own_private = own_private.min(shares[0].saturating_add(shares[2]));
                    own_shared = own_shared.min(shares[1]);
                }
            }
            private = private.saturating_add(own_private.saturating_mul(1024));
            shared = shared.saturating_add(own_shared.saturating_mul(1024));
            threads = threads.saturating_add(own[3]);
        }
        // A file that is mapped counts on both sides, and once.
        let bytes = private.saturating_add(shared.max(self.files()));
        (bytes, threads)
    }
}

impl LimitMonitor {
    /// Bytes in the private file systems.
    fn files(&self) -> u64 {
        if !self.alone {
            return 0;
        }
        let used = |path: &&[u8]| {
            let path = sys::CStr::new(path)?;
            sys::memory_used(path).ok().flatten()
        };
        IN_MEMORY
            .iter()
            .filter_map(used)
            .fold(0, u64::saturating_add)
    }
}

/// The name of a process that has not ended (proc_pid_stat(5)), filled up with NUL.
fn running_name(pid: i32) -> Option<[u8; NAME_BYTES]> {
    let stat = ProcPath::of(pid).text(b"/stat").open(0).ok()?;
    let mut text = [0u8; 128];
    let bytes = sys::read(stat, &mut text);
    sys::close(stat);
    let text = &text[..bytes.ok()?];
    let start = text.iter().position(|byte| *byte == b'(')? + 1;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let is_running = !matches!(text.get(end + 2)?, b'Z' | b'X');
    let mut name = [0; NAME_BYTES];
    for (to, from) in name.iter_mut().zip(text.get(start..end)?) {
        *to = *from;
    }
    is_running.then_some(name)
}

/// Every name of a directory that is a number.
fn each_number(directory: &ProcPath, buffer: &mut [u8], see: impl FnMut(usize)) {
    let Ok(open) = directory.open(sys::O_DIRECTORY) else {
        return;
    };
    // Whoever is gone by now is no longer looked for.
    let _ = listing::each_number(open, buffer, see);
    sys::close(open);
}

/// Every number of a list with blanks between.
fn each_word(list: &ProcPath, buffer: &mut [u8], mut see: impl FnMut(usize)) {
    let Ok(open) = list.open(0) else {
        return;
    };
    let (mut value, mut inside) = (0usize, false);
    while let Ok(bytes) = sys::read(open, buffer)
        && bytes > 0
    {
        for byte in &buffer[..bytes] {
            if byte.is_ascii_digit() {
                value = value
                    .saturating_mul(10)
                    .saturating_add(usize::from(byte - b'0'));
                inside = true;
            } else if inside {
                see(value);
                (value, inside) = (0, false);
            }
        }
    }
    sys::close(open);
}

/// The numbers behind these names, each at the start of a line. Whether any was there.
fn fields(file: &ProcPath, buffer: &mut [u8], names: &[&[u8]], out: &mut [u64]) -> bool {
    let Ok(open) = file.open(0) else {
        return false;
    };
    let mut have = 0;
    while have < buffer.len()
        && let Ok(bytes) = sys::read(open, &mut buffer[have..])
        && bytes > 0
    {
        have += bytes;
    }
    sys::close(open);
    let mut any = false;
    for line in buffer[..have].split(|byte| *byte == b'\n') {
        for (name, slot) in names.iter().zip(out.iter_mut()) {
            if let Some(rest) = line.strip_prefix(*name) {
                let mut words = rest.split(|byte| !byte.is_ascii_digit());
                if let Some(found) = words.find_map(listing::number) {
                    *slot = found as u64;
                    any = true;
                }
            }
        }
    }
    any
}
