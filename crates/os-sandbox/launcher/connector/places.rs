//! Calls that are made for a target under Landlock alone, which does not control them: changes of modes
//! and owners by uid 0, which owns more than it may change, and watches (inotify_add_watch(2)), which tell the
//! names in directories that the target may not list. The target's filter turns each such call into a
//! question to the supervisor, or to the connector if there is one. That process opens the file itself,
//! finds exactly that file below a place where the target has the right, and makes the call by the
//! handle that it found there. Names are only a hint: a file counts by its identity, opened below the
//! place without any link.
//!
//! Entry point: [`Places::call`].

use crate::proc_path::ProcPath;
use crate::sys::notify::{self, MAX_PATH_BYTES, OwnedDescriptor, Request};
use crate::sys::{
    self, AT_FDCWD, CStr, EACCES, EBADF, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, EPERM, Errno, nr,
};
use crate::wire;

const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_EMPTY_PATH: u64 = 0x1000;
const IN_DONT_FOLLOW: u64 = 0x0200_0000;
const SET_ID: u32 = 0o6000;
/// The owner, or the group, that does not change (chown(2)).
const UNCHANGED: u32 = u32::MAX;
/// Calls that change an owner.
const OWNERS: [usize; 4] = [nr::CHOWN, nr::FCHOWN, nr::LCHOWN, nr::FCHOWNAT];

const NO_LINKS: u64 = notify::RESOLVE_NO_SYMLINKS | notify::RESOLVE_NO_MAGICLINKS;

/// The places below which calls are made, with the rights of the target there.
pub struct Places {
    places: [(u8, i32); wire::MAX_PLACES],
    count: usize,
}

/// The file that a call names, as the kernel reads it.
struct FileArgument {
    /// A descriptor of the target, or its working directory.
    at: i32,
    /// Address of the path in the target's memory; `None` if the descriptor is the file.
    path: Option<u64>,
    nofollow: bool,
    /// An empty path is the descriptor.
    takes_empty: bool,
    /// The error of a file that the call may not be made for.
    refusal: Errno,
}

impl Places {
    pub fn open(places: crate::job::Strings<'_>) -> sys::Result<Places> {
        let mut opened = Places {
            places: [(0, -1); wire::MAX_PLACES],
            count: 0,
        };
        for place in places {
            let slot = opened.places.get_mut(opened.count).ok_or(EINVAL)?;
            let (rights, path) = place.split_first().ok_or(EINVAL)?;
            let place = notify::place(path)?;
            *slot = (rights.wrapping_sub(wire::PLACE), place.0);
            core::mem::forget(place);
            opened.count += 1;
        }
        Ok(opened)
    }

    pub fn close(&self) {
        for (_, place) in &self.places[..self.count] {
            sys::close(*place);
        }
    }

    /// Returns `true` if a call is made for the target.
    pub fn decides(number: u32) -> bool {
        [
            nr::CHMOD,
            nr::FCHMOD,
            nr::FCHMODAT,
            nr::FCHMODAT2,
            nr::INOTIFY_ADD_WATCH,
        ]
        .iter()
        .chain(&OWNERS)
        .any(|decided| *decided == number as usize)
    }

    /// Makes the call for the target, and returns its result.
    pub fn call(&self, listener: i32, request: &Request) -> Result<u32, Errno> {
        match request.number as usize {
            nr::INOTIFY_ADD_WATCH => self.watch(listener, request),
            number if OWNERS.contains(&number) => self.keep_owner(listener, request).map(|()| 0),
            _ => self.change_mode(listener, request).map(|()| 0),
        }
    }

    /// Descriptors and modes are as wide as the kernel takes them.
    fn change_mode(&self, listener: i32, request: &Request) -> Result<(), Errno> {
        let args = request.args;
        let (at, path, mode, flags) = match request.number as usize {
            nr::CHMOD => (AT_FDCWD, Some(args[0]), args[1], 0),
            nr::FCHMOD => (args[0] as i32, None, args[1], 0),
            nr::FCHMODAT => (args[0] as i32, Some(args[1]), args[2], 0),
            nr::FCHMODAT2 => (args[0] as i32, Some(args[1]), args[2], args[3]),
            _ => return Err(sys::ENOSYS),
        };
        let flags = u64::from(flags as u32);
        if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(EINVAL);
        }
        let mode = mode as u32 & 0o7777;
        // The filter has refused them already.
        if mode & SET_ID != 0 {
            return Err(EPERM);
        }
        let argument = FileArgument {
            at,
            path,
            nofollow: flags & AT_SYMLINK_NOFOLLOW != 0,
            takes_empty: flags & AT_EMPTY_PATH != 0,
            refusal: EPERM,
        };
        self.change(listener, request, &argument, |found| set_mode(found, mode))
    }

    /// Answers a call that leaves the owner as it is, which programs make after a copy. No other owner
    /// is set.
    fn keep_owner(&self, listener: i32, request: &Request) -> Result<(), Errno> {
        let args = request.args;
        let (at, path, owner, flags) = match request.number as usize {
            nr::FCHOWN => (args[0] as i32, None, [args[1], args[2]], 0),
            nr::FCHOWNAT => (args[0] as i32, Some(args[1]), [args[2], args[3]], args[4]),
            nr::LCHOWN => (
                AT_FDCWD,
                Some(args[0]),
                [args[1], args[2]],
                AT_SYMLINK_NOFOLLOW,
            ),
            _ => (AT_FDCWD, Some(args[0]), [args[1], args[2]], 0),
        };
        let flags = u64::from(flags as u32);
        if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(EINVAL);
        }
        let argument = FileArgument {
            at,
            path,
            nofollow: flags & AT_SYMLINK_NOFOLLOW != 0,
            takes_empty: flags & AT_EMPTY_PATH != 0,
            refusal: EPERM,
        };
        let [wanted_user, wanted_group] = owner.map(|id| id as u32);
        self.change(listener, request, &argument, |found| {
            let (user, group) = sys::owner(found)?;
            let stays = |wanted: u32, now: u32| wanted == UNCHANGED || wanted == now;
            match stays(wanted_user, user) && stays(wanted_group, group) {
                true => Ok(()),
                false => Err(EPERM),
            }
        })
    }

    /// Makes a call by a handle of the file, which has to be one that the target may write.
    fn change(
        &self,
        listener: i32,
        request: &Request,
        argument: &FileArgument,
        call: impl FnOnce(i32) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let object = argument.open(listener, request)?;
        if argument.path.is_none() && notify::is_path_only(object.0)? {
            return Err(EBADF);
        }
        let mut name = [0u8; MAX_PATH_BYTES];
        let name = notify::name_of(object.0, &mut name)?;
        // Why: no other program can open a file without a name. Some file systems count no names.
        let is_deleted = name.ends_with(b" (deleted)\0") && sys::links(object.0)? == 0;
        if argument.path.is_none() && is_deleted {
            return call(object.0);
        }
        self.below(wire::PLACE_WRITE, &object, name, EPERM, call)
    }

    /// Adds a watch to the target's own inotify instance.
    fn watch(&self, listener: i32, request: &Request) -> Result<u32, Errno> {
        let [instance, path, mask, ..] = request.args;
        let argument = FileArgument {
            at: AT_FDCWD,
            path: Some(path),
            nofollow: mask & IN_DONT_FOLLOW != 0,
            takes_empty: false,
            refusal: EACCES,
        };
        let object = argument.open(listener, request)?;
        let thread = notify::thread(request.thread).map_err(|_| EACCES)?;
        let instance = notify::take_descriptor(&thread, instance as i32);
        let instance = instance.map_err(|errno| argument.refused(errno))?;
        if !notify::waits(listener, request.id) {
            return Err(EACCES);
        }
        let mut name = [0u8; MAX_PATH_BYTES];
        let name = notify::name_of(object.0, &mut name)?;
        // The link in /proc leads to the object itself, also to a link.
        let mask = (mask & !IN_DONT_FOLLOW) as u32;
        self.below(wire::PLACE_READ, &object, name, EACCES, |found| {
            sys::add_watch(instance.0, ProcPath::descriptor(found).c_str()?, mask)
        })
    }

    /// Makes a call by a handle of the object that was found below a place with this right. `refusal`:
    /// the error if it is below none.
    fn below<T>(
        &self,
        right: u8,
        object: &OwnedDescriptor,
        name: &[u8],
        refusal: Errno,
        call: impl FnOnce(i32) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut root = [0u8; MAX_PATH_BYTES];
        let identity = sys::identity(object.0)?;
        let is_it = |number: i32| {
            sys::identity(number).is_ok_and(|found| (found.0, found.1) == (identity.0, identity.1))
        };
        for (rights, place) in &self.places[..self.count] {
            if rights & right == 0 {
                continue;
            }
            // Now, because a place may have been moved.
            let Ok(root) = notify::name_of(*place, &mut root) else {
                continue;
            };
            let Some(rest) = below(name, root) else {
                continue;
            };
            if rest.len() == 1 {
                if is_it(*place) {
                    return call(*place);
                }
                continue;
            }
            let Some(rest) = CStr::new(rest) else {
                continue;
            };
            let resolve = NO_LINKS | notify::RESOLVE_BENEATH;
            if let Ok(found) = notify::open_place(*place, rest, true, resolve)
                && is_it(found.0)
            {
                return call(found.0);
            }
        }
        Err(refusal)
    }
}

impl FileArgument {
    /// Opens the file, for nothing. The caller of `request` waits until this returns, or it fails.
    fn open(&self, listener: i32, request: &Request) -> Result<OwnedDescriptor, Errno> {
        let thread = notify::thread(request.thread).map_err(|errno| self.refused(errno))?;
        if !notify::waits(listener, request.id) {
            return Err(self.refusal);
        }
        let take = |number: i32| {
            notify::take_descriptor(&thread, number).map_err(|errno| self.refused(errno))
        };
        let mut text = [0u8; MAX_PATH_BYTES];
        let path = match self.path {
            Some(address) => Some(
                notify::read_path(request.thread, address, &mut text)
                    .map_err(|errno| self.refused(errno))?,
            ),
            None => None,
        };
        let object = match path {
            None => take(self.at)?,
            Some(path) if path.bytes().is_empty() && !self.takes_empty => return Err(ENOENT),
            Some(path) => {
                let start = match self.at {
                    // An absolute path asks for no descriptor.
                    number if number != AT_FDCWD && path.bytes().first() != Some(&b'/') => {
                        take(number)?
                    }
                    _ => working_directory(request.thread).map_err(|errno| self.refused(errno))?,
                };
                match path.bytes().is_empty() {
                    true => start,
                    // Why: links of /proc lead this process to other files than the target.
                    false => notify::open_place(
                        start.0,
                        path,
                        self.nofollow,
                        notify::RESOLVE_NO_MAGICLINKS,
                    )?,
                }
            }
        };
        match notify::waits(listener, request.id) {
            true => Ok(object),
            false => Err(self.refusal),
        }
    }

    fn refused(&self, errno: Errno) -> Errno {
        match errno {
            EBADF | EFAULT | ENAMETOOLONG => errno,
            _ => self.refusal,
        }
    }
}

/// The part of a name below another one, with its NUL; both begin with `/` and end with a NUL.
fn below<'a>(name: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let root = root.strip_suffix(b"\0")?;
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let rest = name.strip_prefix(root)?;
    match rest {
        [0] => Some(rest),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

fn working_directory(thread: i32) -> Result<OwnedDescriptor, Errno> {
    let path = ProcPath::of(thread).text(b"/cwd");
    path.open(sys::O_PATH).map(OwnedDescriptor)
}

/// Sets the mode of an open file through its link in `/proc`.
fn set_mode(number: i32, mode: u32) -> Result<(), Errno> {
    sys::attempts::chmod(ProcPath::descriptor(number).c_str()?, mode)
}
