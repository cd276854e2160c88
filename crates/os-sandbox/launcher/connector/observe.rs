//! Observer: reports calls that the policy probably refuses, and lets them continue. The target's
//! filter turns calls that change something into questions for the connector (`connector/`), which
//! asks the observer. A report is a record in a file of the broker, which compares it with the
//! policy after the end (`denials.rs` there).
//!
//! The observer decides nothing: another thread of the target can exchange the arguments after
//! they were read, so a report can be wrong about a program that wants it to be, and the kernel
//! decides about the call itself. Two kinds of calls do not continue: sockets that the filter would
//! have refused return its error; and the broker answers when git replaces the configuration of a
//! repository, which the kernel would refuse because the file is a mount. The broker takes nothing
//! from that call but the number of one of its own files. The observer never waits for the broker.
//! It can wait for a file system, so it has no part in the supervisor, which ends the tree.
//!
//! A full report has reads, executions and the objects that the target opened too. A lookup that
//! fails because no mount shows the path is reported without a look at the host: the broker looks
//! after the end, so that neither an answer nor its time can tell the target anything.
//!
//! Entry point: [`CallObserver::observe`].

use crate::connector::internet_address::{AF_INET, AF_INET6, InternetAddress};
use crate::connector::lookups::{Addition, Lookups, Spelling};
use crate::job::{CallPaths, Observed, ObservedCall, is_below};
use crate::proc_path::ProcPath;
use crate::sys::notify::{
    self, MAX_ADDRESS_BYTES, MAX_PATH_BYTES, OwnedDescriptor, Request, TextBuffer,
};
use crate::sys::{
    self, AT_FDCWD, CStr, EACCES, EAFNOSUPPORT, ENETUNREACH, ENOENT, ENOTDIR, ETIMEDOUT, Errno,
};
use crate::wire;
use core::cell::{Cell, OnceCell};

/// Links that the kernel follows in one path.
const MAX_LINKS: usize = 40;
/// Bound on the opens for one call.
const MAX_OPENS: u32 = 32;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_EMPTY_PATH: u64 = 0x1000;
const O_ACCMODE: i32 = 3;
const O_TRUNC: i32 = 0o1000;

const AF_UNIX: u16 = 1;

/// Reports calls of one run.
pub struct CallObserver<'a> {
    observed: Observed<'a>,
    listener: i32,
    /// Hashes of what was reported.
    reported: [u64; wire::MAX_REPORTS],
    count: usize,
    /// Only with full reports.
    lookups: Option<Lookups>,
    /// The root directory of every thread of the target, which none of them can change.
    root: OnceCell<TargetRoot>,
    /// Opens that are left for the present call: a path can have thousands of parts, each behind
    /// forty links.
    opens: Cell<u32>,
}

/// The answer to an observed call.
pub enum CallAnswer {
    /// The kernel goes on with the call.
    Continue,
    /// The call returns this error, as the filter alone would have it.
    Refuse(Errno),
    /// The broker answers: the call replaces the configuration with this index.
    AskBroker(u64),
}

/// How a call uses a path.
#[derive(Clone, Copy)]
struct PathUse {
    operation: u32,
    /// A link at the end is the object itself.
    nofollow: bool,
    /// The call makes the object if it does not exist.
    creates: bool,
    /// The call fails if the object exists.
    is_new: bool,
}

/// The object of a call, found as the kernel finds it.
struct CallPlace<'b> {
    /// Without a link, and without NUL.
    path: &'b [u8],
    state: u32,
}

impl<'a> CallObserver<'a> {
    pub fn new(observed: Observed<'a>) -> CallObserver<'a> {
        CallObserver {
            observed,
            listener: -1,
            reported: [0; wire::MAX_REPORTS],
            count: 0,
            lookups: observed.is_full.then(Lookups::new).flatten(),
            root: OnceCell::new(),
            opens: Cell::new(0),
        }
    }

    /// Reports the call if it is to be, and says how to answer it. `None` if it is not one of the
    /// observed calls.
    pub fn observe(&mut self, listener: i32, request: &Request) -> Option<CallAnswer> {
        let call = self.observed.call(request.number)?;
        self.listener = listener;
        self.opens.set(MAX_OPENS);
        if call.operation == wire::CALL_MOVE
            && let Some(index) = self.replaced_config(request, call)
        {
            return Some(CallAnswer::AskBroker(index));
        }
        self.report_call(request, call)
    }

    fn report_call(&mut self, request: &Request, call: ObservedCall) -> Option<CallAnswer> {
        let is_full = self.count == wire::MAX_REPORTS && self.lookups.is_none();
        match call.operation {
            wire::CALL_SOCKET => return Some(CallAnswer::Refuse(self.socket(request))),
            _ if is_full => {}
            wire::CALL_BIND | wire::CALL_CONNECT => self.address(request, call.operation),
            _ => {
                for (index, paths) in call.paths().enumerate() {
                    let how = path_use(request, call, index)
                        .filter(|how| self.lookups.is_some() || !how.finds());
                    let Some(how) = how else { break };
                    // Without a source nothing is moved.
                    if self.path(request, paths, how).is_none() {
                        break;
                    }
                }
            }
        }
        Some(CallAnswer::Continue)
    }

    /// Reports a connect that the connector refused.
    pub fn refused_connect(&mut self, listener: i32, request: &Request) {
        self.listener = listener;
        self.address(request, wire::CALL_CONNECT_LOCAL);
        self.address(request, wire::CALL_CONNECT);
    }

    /// Reports a local socket to which the connector connects the target.
    pub fn allowed_connect(&mut self, listener: i32, request: &Request) {
        self.listener = listener;
        if self.lookups.is_some() {
            self.address(request, wire::TOUCHED_CONNECT);
        }
    }

    /// Returns the index of the configuration that the call replaces by its lock file, as git does.
    fn replaced_config(&self, request: &Request, call: ObservedCall) -> Option<u64> {
        let mut paths = call.paths();
        let (from, to) = (paths.next()?, paths.next()?);
        let has_flags = call.flags.is_some_and(|at| request.args[at] as u32 != 0);
        if has_flags || self.observed.channel.is_none() {
            return None;
        }
        let mut name = [0u8; MAX_PATH_BYTES];
        let config = self.moved(request, to, &mut name)?;
        let mut configs = self.observed.configs;
        let index = configs.position(|path| path.bytes() == config.path)?;
        let mut name = [0u8; MAX_PATH_BYTES];
        let lock = self.moved(request, from, &mut name)?;
        let is_its_lock = lock.path.strip_suffix(b".lock") == Some(config.path);
        is_its_lock.then_some(index as u64)
    }

    /// Finds a file with the name of a configuration or its lock that a call moves.
    fn moved<'b>(
        &self,
        request: &Request,
        paths: CallPaths,
        name: &'b mut [u8],
    ) -> Option<CallPlace<'b>> {
        let mut text = [0u8; MAX_PATH_BYTES];
        let (at, path) = read_path(request, paths, &mut text)?;
        let last = path.rsplit(|byte| *byte == b'/').next()?;
        let last = last.strip_suffix(b".lock").unwrap_or(last);
        if !matches!(last, b"config" | b".gitmodules") {
            return None;
        }
        let how = PathUse {
            operation: wire::CALL_MOVE,
            nofollow: true,
            creates: false,
            is_new: false,
        };
        let mut absolute = [0u8; MAX_PATH_BYTES];
        let absolute = self.absolute(request.thread, at, path, &mut absolute)?;
        self.place(request.thread, absolute, how, name)
    }

    /// Reports the result of a call that the broker answers.
    pub fn answered(&mut self, listener: i32, request: &Request, index: u64, errno: Errno) {
        self.listener = listener;
        let mut configs = self.observed.configs;
        let Some(config) = configs.nth(index as usize) else {
            return;
        };
        match errno {
            0 | wire::REPLACED_BY_KERNEL => {
                self.touch(request, wire::TOUCHED_WRITE, config.bytes())
            }
            _ => {
                let state = wire::STATE_EXISTS | wire::STATE_MOUNT;
                self.report(request, wire::CALL_MOVE, state, config.bytes());
            }
        }
    }

    /// The filter asks only about families that it refuses.
    fn socket(&mut self, request: &Request) -> Errno {
        let family = request.args[0] as u32;
        self.report(request, wire::CALL_SOCKET, 0, &family.to_ne_bytes());
        match family as u16 {
            AF_UNIX => EACCES,
            AF_INET | AF_INET6 => ENETUNREACH,
            _ => EAFNOSUPPORT,
        }
    }

    fn address(&mut self, request: &Request, operation: u32) {
        let mut address = [0u8; MAX_ADDRESS_BYTES];
        let Some(bytes) = usize::try_from(request.args[2] as i32)
            .ok()
            .and_then(|bytes| address.get_mut(..bytes))
        else {
            return;
        };
        if notify::read_memory(request.thread, request.args[1], bytes).is_err() {
            return;
        }
        let Some((family, rest)) = bytes.split_first_chunk::<2>() else {
            return;
        };
        match (operation, u16::from_ne_bytes(*family)) {
            (wire::CALL_BIND, AF_UNIX) => {
                let end = rest.iter().position(|byte| *byte == 0);
                let path = &rest[..end.unwrap_or(rest.len())];
                let how = PathUse {
                    operation: wire::CALL_BIND,
                    nofollow: true,
                    creates: true,
                    is_new: true,
                };
                if !path.is_empty() {
                    let _ = self.located(request, AT_FDCWD, path, how);
                }
            }
            (wire::CALL_CONNECT_LOCAL | wire::TOUCHED_CONNECT, AF_UNIX) => {
                let mut name = [0u8; MAX_ADDRESS_BYTES];
                let mut name = TextBuffer::new(&mut name);
                // Abstract names begin with NUL (unix(7)).
                let path = match rest.strip_prefix(b"\0") {
                    Some(path) => {
                        name.push(b"@");
                        path
                    }
                    None => rest,
                };
                let end = path.iter().position(|byte| *byte == 0);
                name.push(&path[..end.unwrap_or(path.len())]);
                match operation {
                    wire::TOUCHED_CONNECT => self.touch(request, operation, name.as_bytes()),
                    _ => self.report(request, operation, 0, name.as_bytes()),
                }
            }
            (wire::CALL_CONNECT | wire::TOUCHED_CONNECT, AF_INET | AF_INET6) => {
                self.connect(request, bytes);
            }
            // The target's own local sockets: nothing decides about them.
            (wire::CALL_CONNECT, AF_UNIX) if self.lookups.is_some() => {
                self.address(request, wire::TOUCHED_CONNECT);
            }
            _ => {}
        }
    }

    /// Reports an address that the target may not connect.
    fn connect(&mut self, request: &Request, bytes: &[u8]) {
        let Some(address) = InternetAddress::parse(bytes) else {
            return;
        };
        let InternetAddress {
            is_v6, ip, port, ..
        } = address;
        if port == 0 {
            return;
        }
        match self.observed.allows(is_v6, &ip, port) {
            true => self.touch(request, wire::TOUCHED_CONNECT, &address.row()),
            false => self.report(request, wire::CALL_CONNECT, 0, &address.row()),
        }
    }

    fn path(&mut self, request: &Request, paths: CallPaths, how: PathUse) -> Option<()> {
        let mut text = [0u8; MAX_PATH_BYTES];
        let (at, path) = read_path(request, paths, &mut text)?;
        self.located(request, at, path, how)
    }

    /// Reports the object if it is to be. `None` if the call fails without any policy.
    fn located(&mut self, request: &Request, at: i32, path: &[u8], how: PathUse) -> Option<()> {
        let mut absolute = [0u8; MAX_PATH_BYTES];
        let absolute = self.absolute(request.thread, at, path, &mut absolute)?;
        if how.finds() {
            self.lookup(request, absolute, how);
            return Some(());
        }
        let mut name = [0u8; MAX_PATH_BYTES];
        let place = self.place(request.thread, absolute, how, &mut name)?;
        let changed = match wire::changes_name(how.operation) {
            true => directory(place.path),
            false => place.path,
        };
        let fixed = wire::STATE_READ_ONLY | wire::STATE_MOUNT;
        let is_writable = self.observed.is_writable(changed, directory(place.path));
        if !is_writable || place.state & fixed != 0 {
            self.report(request, how.operation, place.state, place.path);
        } else if place.state & wire::STATE_ABSENT == 0 {
            self.touch(request, wire::TOUCHED_WRITE, place.path);
        }
        Some(())
    }

    /// Reports a read or an execution: a touched object, or a failed lookup.
    fn lookup(&mut self, request: &Request, path: CStr<'_>, how: PathUse) {
        let spelling = spelling(how.operation, path.bytes());
        let Some(lookups) = &self.lookups else { return };
        if lookups.is_known(spelling.text) {
            self.found_elsewhere(request, spelling.last);
            return;
        }
        let mut name = [0u8; MAX_PATH_BYTES];
        let Some(place) = self.place(request.thread, path, how, &mut name) else {
            return;
        };
        let exists = place.state & wire::STATE_EXISTS != 0;
        let (touched, right) = match how.operation {
            wire::CALL_EXECUTE => (wire::TOUCHED_EXECUTE, wire::PLACE_EXECUTE),
            _ => (wire::TOUCHED_READ, wire::PLACE_READ),
        };
        let is_refused = match exists {
            true => {
                place.state & wire::STATE_MOUNT != 0
                    || self.observed.rights(place.path) & right == 0
            }
            false => {
                let directory = directory(place.path);
                let exists = place.state & wire::STATE_ABSENT == 0;
                let directory = exists.then_some(directory);
                self.observed.can_exist_outside(place.path, directory)
            }
        };
        if is_refused {
            self.fail(request, how.operation, &place, spelling.last);
            return;
        }
        if exists {
            self.found_elsewhere(request, spelling.last);
            self.touch(request, touched, place.path);
        }
        if let Some(lookups) = &mut self.lookups {
            match (exists, place.state & wire::STATE_ABSENT) {
                (true, _) => lookups.remember(spelling.text),
                (false, 0) => lookups.remember_directory(spelling.directory),
                (false, _) => {}
            }
        }
    }

    /// Reports a lookup that failed because of the policy, or perhaps because of it.
    fn fail(&mut self, request: &Request, operation: u32, place: &CallPlace<'_>, last: u64) {
        let Some(lookups) = &mut self.lookups else {
            return;
        };
        let (added, slot) = lookups.fail(request.thread, hash(operation, place.path), last);
        match added {
            Addition::New => {
                let state = place.state | (slot as u32) << wire::STATE_SLOT_SHIFT;
                self.write(request, operation, state, place.path);
            }
            Addition::Omitted => self.write(request, wire::LOOKUPS_OMITTED, 0, b""),
            Addition::Known => {}
        }
    }

    /// Takes back the failed lookups that were a part of a search by this thread.
    fn found_elsewhere(&mut self, request: &Request, last: u64) {
        while let Some(slot) = self
            .lookups
            .as_mut()
            .and_then(|lookups| lookups.find(request.thread, last))
        {
            let state = (slot as u32) << wire::STATE_SLOT_SHIFT;
            self.write(request, wire::CALL_FOUND, state, b"");
        }
    }

    /// Reports a touched object, once for each operation.
    fn touch(&mut self, request: &Request, operation: u32, object: &[u8]) {
        let Some(lookups) = &mut self.lookups else {
            return;
        };
        match lookups.touch(hash(operation, object)) {
            Addition::New => self.write(request, operation, 0, object),
            Addition::Omitted => self.write(request, wire::TOUCHED_OMITTED, 0, b""),
            Addition::Known => {}
        }
    }

    /// Joins a path with the directory that it starts from. Returned with its NUL.
    fn absolute<'b>(
        &self,
        thread: i32,
        at: i32,
        path: &[u8],
        buffer: &'b mut [u8],
    ) -> Option<CStr<'b>> {
        let mut text = TextBuffer::new(buffer);
        if path.first() != Some(&b'/') {
            let link = link_of(thread, at)?;
            let mut start = [0u8; MAX_PATH_BYTES];
            let start = notify::read_link(link.c_str().ok()?, &mut start).ok()?;
            // A pipe or a socket.
            start.first().filter(|first| **first == b'/')?;
            text.push(start);
            text.push(b"/");
        }
        text.push(path);
        text.push(b"\0");
        text.into_c_str()
    }

    /// Finds the object of a call. `None` if the call fails without any policy, or if the object
    /// cannot be known.
    fn place<'b>(
        &self,
        thread: i32,
        path: CStr<'_>,
        how: PathUse,
        name: &'b mut [u8],
    ) -> Option<CallPlace<'b>> {
        if path.bytes().starts_with(b"/proc/") && !path.bytes().starts_with(b"/proc/sys/") {
            // Why: links there lead this process to other files than the target.
            let links: [&[u8]; 4] = [b"fd", b"cwd", b"root", b"exe"];
            if path
                .bytes()
                .split(|byte| *byte == b'/')
                .any(|part| links.contains(&part))
            {
                return None;
            }
            return match self.observed.proc_is_closed && !how.finds() {
                true => copied(path.bytes(), name),
                false => None,
            };
        }
        let root = self.root(thread)?;
        let place = self.found(root, path, how, name)?;
        // Reached by another spelling: links there lead this process elsewhere.
        let is_proc = is_below(place.path, b"/proc") && !is_below(place.path, b"/proc/sys");
        // Without a mount layer it is absent for everyone.
        let is_missing = place.state & wire::STATE_ABSENT != 0 && !self.observed.is_foreign;
        (!is_proc && !is_missing).then_some(place)
    }

    fn found<'b>(
        &self,
        root: &TargetRoot,
        path: CStr<'_>,
        how: PathUse,
        name: &'b mut [u8],
    ) -> Option<CallPlace<'b>> {
        match self.open(root, path, how.nofollow) {
            // The kernel's answer is EEXIST.
            Ok(_) if how.is_new => None,
            Ok(object) if how.finds() => self.found_object(&object, how, name),
            Ok(object) => {
                let mut place = self.named(&object, b"", wire::STATE_EXISTS, name)?;
                let moves = matches!(how.operation, wire::CALL_REMOVE | wire::CALL_MOVE);
                let is_writable = self.observed.is_writable(place.path, directory(place.path));
                if moves || place.state & wire::STATE_READ_ONLY != 0 || !is_writable {
                    let about = sys::about(object.0).ok()?;
                    if moves && about.is_mount_root {
                        place.state |= wire::STATE_MOUNT;
                    }
                    // The kernel's answer is EISDIR.
                    if about.is_directory && how.operation == wire::CALL_OPEN {
                        return None;
                    }
                    // The content of a device is not in the mount. Only hidden files have one mounted
                    // over them.
                    if about.is_special && how.operation == wire::CALL_OPEN {
                        place.state &= !wire::STATE_READ_ONLY;
                        if about.is_mount_root && !is_below(place.path, b"/dev") {
                            place.state |= wire::STATE_MOUNT;
                        }
                    }
                }
                Some(place)
            }
            Err(errno @ (ENOENT | ENOTDIR | EACCES)) => {
                if how.finds() && self.is_plain_miss(root, path, errno) {
                    return None;
                }
                self.unreached(root, path, how, name)
            }
            Err(_) => None,
        }
    }

    /// Names an object that a call reads or executes. `None` if the call fails without any policy.
    fn found_object<'b>(
        &self,
        object: &OwnedDescriptor,
        how: PathUse,
        name: &'b mut [u8],
    ) -> Option<CallPlace<'b>> {
        let bytes = notify::name_of(object.0, name).ok()?.len() - 1;
        let mut state = wire::STATE_EXISTS;
        if self.observed.is_foreign || how.operation == wire::CALL_EXECUTE {
            let about = sys::about(object.0).ok()?;
            if about.is_directory && how.operation == wire::CALL_EXECUTE {
                return None;
            }
            // A hidden name has a mount over it that cannot be used.
            let is_device = about.is_special && !is_below(&name[..bytes], b"/dev");
            if about.is_mount_root && (about.is_closed || is_device) {
                state |= wire::STATE_MOUNT;
            }
        }
        Some(CallPlace {
            path: &name[..bytes],
            state,
        })
    }

    /// Returns `true` if a path is missing whatever the policy is, as far as that is cheap to know.
    fn is_plain_miss(&self, root: &TargetRoot, path: CStr<'_>, errno: Errno) -> bool {
        if !self.observed.is_foreign {
            return true;
        }
        let directory = hash(0, directory(path.bytes()));
        errno == ENOENT
            && self
                .lookups
                .as_ref()
                .is_some_and(|lookups| lookups.is_shown_directory(directory))
            // A link at the end can lead out of the directory.
            && self.open(root, path, true).is_err()
    }

    /// Finds the place of a path that leads nowhere, through links whose target does not exist: a
    /// new name, a path through a directory that does not exist, or one through a closed directory.
    fn unreached<'b>(
        &self,
        root: &TargetRoot,
        path: CStr<'_>,
        how: PathUse,
        name: &'b mut [u8],
    ) -> Option<CallPlace<'b>> {
        let mut current = [0u8; MAX_PATH_BYTES];
        let mut length = path.bytes().len();
        current.get_mut(..length)?.copy_from_slice(path.bytes());
        for _ in 0..MAX_LINKS {
            let end = current[..length].iter().rposition(|byte| *byte != b'/')?;
            let text = &current[..=end];
            let (start, reached, error) = self.longest(root, text)?;
            let rest = text.get(reached..)?;
            let rest = rest.strip_prefix(b"/").unwrap_or(rest);
            let (first, more) = match rest.iter().position(|byte| *byte == b'/') {
                Some(slash) => (&rest[..slash], &rest[slash..]),
                None => (rest, &[][..]),
            };
            // Only without `..` the rest has one meaning everywhere.
            if first.is_empty() || rest.split(|byte| *byte == b'/').any(|part| part == b"..") {
                return None;
            }
            if !sys::about(start.0).ok()?.is_directory {
                return None;
            }
            let mut link = [0u8; MAX_PATH_BYTES];
            let target = self.link(root, &text[..text.len() - more.len()], &mut link);
            let is_hidden = target
                .is_some_and(|target| wire::HIDDEN_LINK_TARGET.strip_suffix(b"\0") == Some(target));
            // A link to a closed directory is not closed itself.
            if is_hidden || (error == EACCES && target.is_none()) {
                return self.named(&start, rest, wire::STATE_EXISTS | wire::STATE_MOUNT, name);
            }
            let Some(target) = target else {
                return match (more.is_empty(), how.creates) {
                    (true, true) => self.named(&start, first, 0, name),
                    // The kernel's answer is ENOENT, and most programs that remove or move expect
                    // that.
                    (true, false) if wire::changes_name(how.operation) => None,
                    (..) => self.named(&start, rest, wire::STATE_ABSENT, name),
                };
            };
            let mut next = [0u8; MAX_PATH_BYTES];
            length = follow_link(&start, target, more, &mut next)?;
            current = next;
        }
        None
    }

    /// Opens the longest beginning of a path that exists. Returns it with its length, and the error
    /// of the next longer one.
    fn longest(&self, root: &TargetRoot, text: &[u8]) -> Option<(OwnedDescriptor, usize, Errno)> {
        let mut end = text.len();
        let mut error = ENOENT;
        loop {
            let mut bytes = [0u8; MAX_PATH_BYTES];
            let mut prefix = TextBuffer::new(&mut bytes);
            prefix.push(if end == 0 { b"/" } else { &text[..end] });
            prefix.push(b"\0");
            match self.open(root, prefix.c_str()?, false) {
                Ok(start) => return Some((start, end, error)),
                Err(ETIMEDOUT) => return None,
                Err(_) if end == 0 => return None,
                Err(errno) => error = errno,
            }
            end = text[..end].iter().rposition(|byte| *byte == b'/')?;
        }
    }

    /// Reads the text of a link, which is not followed. `None` if the path is something else.
    fn link<'b>(&self, root: &TargetRoot, text: &[u8], buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let mut bytes = [0u8; MAX_PATH_BYTES];
        let mut path = TextBuffer::new(&mut bytes);
        path.push(text);
        path.push(b"\0");
        let link = self.open(root, path.c_str()?, true).ok()?;
        notify::read_open_link(link.0, buffer).ok()
    }

    /// Returns the root directory of the target.
    fn root(&self, thread: i32) -> Option<&TargetRoot> {
        if let Some(root) = self.root.get() {
            return Some(root);
        }
        let root = self.open_root(thread)?;
        Some(self.root.get_or_init(|| root))
    }

    /// Opens the root directory of the target, if it is not this process's own.
    fn open_root(&self, thread: i32) -> Option<TargetRoot> {
        if !self.observed.is_foreign {
            return Some(TargetRoot(None));
        }
        let link = ProcPath::of(thread).text(b"/root");
        let root = link.open(sys::O_PATH).ok()?;
        Some(TargetRoot(Some(OwnedDescriptor(root))))
    }

    fn open(
        &self,
        root: &TargetRoot,
        path: CStr<'_>,
        nofollow: bool,
    ) -> sys::Result<OwnedDescriptor> {
        let left = self.opens.get().checked_sub(1).ok_or(ETIMEDOUT)?;
        self.opens.set(left);
        match &root.0 {
            None => notify::open_place(AT_FDCWD, path, nofollow, notify::RESOLVE_NO_MAGICLINKS),
            Some(root) => {
                let resolve = notify::RESOLVE_NO_MAGICLINKS | notify::RESOLVE_IN_ROOT;
                notify::open_place(root.0, path, nofollow, resolve)
            }
        }
    }

    /// Names an open file, or a name in an open directory, by its path.
    fn named<'b>(
        &self,
        object: &OwnedDescriptor,
        last: &[u8],
        state: u32,
        name: &'b mut [u8],
    ) -> Option<CallPlace<'b>> {
        let mut state = state;
        if sys::is_read_only(object.0).ok()? {
            state |= wire::STATE_READ_ONLY;
        }
        let bytes = {
            let found = notify::name_of(object.0, name).ok()?;
            found.len() - 1
        };
        let mut text = TextBuffer::after(name, bytes);
        if !last.is_empty() {
            if bytes > 1 {
                text.push(b"/");
            }
            text.push(last);
        }
        let end = text.as_bytes().len();
        (end < MAX_PATH_BYTES).then(|| CallPlace {
            path: &name[..end],
            state,
        })
    }

    /// Adds a record, once for each object. The last record that fits says that more were omitted.
    fn report(&mut self, request: &Request, operation: u32, state: u32, object: &[u8]) {
        let hash = hash(operation, object);
        if self.reported[..self.count].contains(&hash) {
            return;
        }
        let Some(slot) = self.reported.get_mut(self.count) else {
            return;
        };
        *slot = hash;
        self.count += 1;
        let operation = match self.count == wire::MAX_REPORTS {
            true => wire::CALLS_OMITTED,
            false => operation,
        };
        self.write(request, operation, state, object);
    }

    /// Writes a record.
    fn write(&self, request: &Request, operation: u32, state: u32, object: &[u8]) {
        // What was read belongs to the call only if the thread still waits in it.
        if !notify::waits(self.listener, request.id) {
            return;
        }
        let mut record = [0u8; wire::REPORT_HEAD_BYTES + MAX_PATH_BYTES];
        record[0..4].copy_from_slice(&operation.to_ne_bytes());
        record[4..8].copy_from_slice(&state.to_ne_bytes());
        record[8..12].copy_from_slice(&(object.len() as u32).to_ne_bytes());
        if operation < wire::CALL_FOUND {
            program(request.thread, &mut record[12..wire::REPORT_HEAD_BYTES]);
        }
        let end = wire::REPORT_HEAD_BYTES + object.len();
        if let Some(room) = record.get_mut(wire::REPORT_HEAD_BYTES..end) {
            room.copy_from_slice(object);
            // A file in memory takes all of it, or the broker sees a short last record.
            let _ = sys::write(self.observed.file, &record[..end]);
        }
    }
}

/// A root directory; `None` for this process's own.
struct TargetRoot(Option<OwnedDescriptor>);

impl PathUse {
    /// Returns `true` for a call that neither makes nor changes its object.
    fn finds(&self) -> bool {
        wire::finds_object(self.operation)
    }
}

/// Reads a path of a call, and the descriptor of the directory that it starts from.
fn read_path<'b>(
    request: &Request,
    paths: CallPaths,
    text: &'b mut [u8; MAX_PATH_BYTES],
) -> Option<(i32, &'b [u8])> {
    let at = match paths.at {
        Some(index) => request.args[index] as i32,
        None => AT_FDCWD,
    };
    let path = notify::read_path(request.thread, request.args[paths.path], text).ok()?;
    Some((at, path.bytes()))
}

/// Returns how a call uses its path of this index. `None` if it does not touch the object.
fn path_use(request: &Request, call: ObservedCall, index: usize) -> Option<PathUse> {
    let flags = call.flags.map_or(0, |index| request.args[index]);
    let changes = |nofollow, creates, is_new| PathUse {
        operation: call.operation,
        nofollow,
        creates,
        is_new,
    };
    Some(match call.operation {
        wire::CALL_OPEN => {
            let flags = flags as i32;
            let path_only = flags & sys::O_PATH != 0;
            if path_only {
                return None;
            }
            if flags & (O_ACCMODE | sys::O_CREAT | O_TRUNC) == 0 {
                return Some(PathUse {
                    operation: wire::CALL_READ,
                    ..changes(flags & sys::O_NOFOLLOW != 0, true, false)
                });
            }
            let creates = flags & sys::O_CREAT != 0;
            let is_new = creates && flags & sys::O_EXCL != 0;
            let reads = flags & (O_ACCMODE | O_TRUNC) == 0;
            let nofollow = is_new || flags & sys::O_NOFOLLOW != 0;
            PathUse {
                // Without an access mode it only creates.
                is_new: is_new || reads,
                // A file without a name changes the directory that the path names.
                operation: match flags & sys::O_TMPFILE == sys::O_TMPFILE {
                    true => wire::CALL_WRITE,
                    false => wire::CALL_OPEN,
                },
                nofollow,
                creates,
            }
        }
        wire::CALL_CREAT => PathUse {
            operation: wire::CALL_OPEN,
            ..changes(false, true, false)
        },
        // Without a path it executes an open file.
        wire::CALL_EXECUTE if flags & AT_EMPTY_PATH != 0 => return None,
        wire::CALL_EXECUTE => changes(flags & AT_SYMLINK_NOFOLLOW != 0, true, false),
        wire::CALL_CREATE => changes(true, true, true),
        wire::CALL_WRITE => changes(false, false, false),
        wire::CALL_MODE => changes(flags & AT_SYMLINK_NOFOLLOW != 0, false, false),
        wire::CALL_REMOVE => changes(true, false, false),
        // The destination need not exist.
        wire::CALL_MOVE => changes(true, index > 0, false),
        _ => return None,
    })
}

/// Joins the target of a link in a directory with the rest of the path. Returns the length.
fn follow_link(
    start: &OwnedDescriptor,
    target: &[u8],
    more: &[u8],
    next: &mut [u8; MAX_PATH_BYTES],
) -> Option<usize> {
    let mut joined = TextBuffer::new(next);
    if target.first() != Some(&b'/') {
        let mut base = [0u8; MAX_PATH_BYTES];
        let base = notify::name_of(start.0, &mut base).ok()?;
        joined.push(&base[..base.len() - 1]);
        joined.push(b"/");
    }
    joined.push(target);
    joined.push(more);
    let length = joined.as_bytes().len();
    (length < MAX_PATH_BYTES).then_some(length)
}

/// Returns the link in `/proc` that leads to the start of a relative path.
fn link_of(thread: i32, at: i32) -> Option<ProcPath> {
    let thread = ProcPath::of(thread);
    match at {
        AT_FDCWD => Some(thread.text(b"/cwd")),
        number if number >= 0 => Some(thread.text(b"/fd/").number(number)),
        _ => None,
    }
}

/// Reads the name of a thread's program, of which the kernel has 15 bytes (proc_pid_comm(5)).
fn program(thread: i32, into: &mut [u8]) {
    let opened = ProcPath::of(thread).text(b"/comm").open(0);
    if let Ok(file) = opened.map(OwnedDescriptor) {
        // A program that has ended has no name any more.
        let _ = sys::read(file.0, into);
    }
}

/// Returns the path of the directory of a name.
fn directory(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) | None => b"/",
        Some(slash) => &path[..slash],
    }
}

fn copied<'b>(path: &[u8], name: &'b mut [u8]) -> Option<CallPlace<'b>> {
    let room = name.get_mut(..path.len())?;
    room.copy_from_slice(path);
    Some(CallPlace {
        path: &name[..path.len()],
        state: wire::STATE_EXISTS,
    })
}

/// Returns the hashes of an absolute path, as one operation uses it.
fn spelling(operation: u32, path: &[u8]) -> Spelling {
    let last = path.rsplit(|byte| *byte == b'/').next();
    Spelling {
        text: hash(operation, path),
        directory: hash(0, directory(path)),
        last: hash(0, last.unwrap_or(path)),
    }
}

/// FNV-1a, 64 bits.
fn hash(operation: u32, object: &[u8]) -> u64 {
    let operation = operation.to_ne_bytes();
    let bytes = operation.iter().chain(object);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
