//! Changes modes of files for a target that owns more than it may change: uid 0 under Landlock
//! alone, which does not control modes. The target's filter turns each such call into a question to
//! the supervisor, or to the connector if there is one. That process opens the file itself, finds
//! exactly that file below a directory that the target may write, and changes it by the handle that
//! it found there. Names are only a hint: a
//! file counts by its identity, opened below the place without any link.
//!
//! Entry point: [`Modes::change`].

use crate::proc_path::ProcPath;
use crate::sys::notify::{self, MAX_PATH_BYTES, OwnedDescriptor, Request};
use crate::sys::{
    self, AT_FDCWD, CStr, EBADF, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, EPERM, Errno, nr,
};
use crate::wire;

const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_EMPTY_PATH: u64 = 0x1000;
const SET_ID: u32 = 0o6000;

const NO_LINKS: u64 = notify::RESOLVE_NO_SYMLINKS | notify::RESOLVE_NO_MAGICLINKS;

/// The places below which modes may be changed.
pub struct Modes {
    places: [i32; wire::MAX_PLACES],
    count: usize,
}

/// One call, as the kernel reads it.
struct ModeCall {
    /// A descriptor of the target, or its working directory.
    at: i32,
    /// Address of the path in the target's memory; `None` for `fchmod`.
    path: Option<u64>,
    mode: u32,
    flags: u64,
}

impl Modes {
    pub fn open(places: crate::job::Strings<'_>) -> sys::Result<Modes> {
        let mut modes = Modes {
            places: [-1; wire::MAX_PLACES],
            count: 0,
        };
        for path in places {
            let slot = modes.places.get_mut(modes.count).ok_or(EINVAL)?;
            let place = notify::place(path)?;
            *slot = place.0;
            core::mem::forget(place);
            modes.count += 1;
        }
        Ok(modes)
    }

    pub fn close(&self) {
        for place in &self.places[..self.count] {
            sys::close(*place);
        }
    }

    /// Returns `true` if a call changes a mode.
    pub fn decides(number: u32) -> bool {
        [nr::CHMOD, nr::FCHMOD, nr::FCHMODAT, nr::FCHMODAT2].contains(&(number as usize))
    }

    /// Makes the call for the target, or returns why not.
    pub fn change(&self, listener: i32, request: &Request) -> Result<(), Errno> {
        let call = ModeCall::parse(request)?;
        let refused = |errno: Errno| match errno {
            EBADF | EFAULT | ENAMETOOLONG => errno,
            _ => EPERM,
        };
        let thread = notify::thread(request.thread).map_err(refused)?;
        if !notify::waits(listener, request.id) {
            return Err(EPERM);
        }
        let take = |number: i32| notify::take_descriptor(&thread, number).map_err(refused);
        let mut text = [0u8; MAX_PATH_BYTES];
        let path = match call.path {
            Some(address) => {
                Some(notify::read_path(request.thread, address, &mut text).map_err(refused)?)
            }
            None => None,
        };
        let empty = path.is_some_and(|path| path.bytes().is_empty());
        let object = match path {
            None => {
                let file = take(call.at)?;
                if notify::is_path_only(file.0)? {
                    return Err(EBADF);
                }
                file
            }
            Some(_) if empty && call.flags & AT_EMPTY_PATH == 0 => return Err(ENOENT),
            Some(path) => {
                let start = match call.at {
                    AT_FDCWD => working_directory(request.thread).map_err(refused)?,
                    // An absolute path asks for no descriptor.
                    _ if path.bytes().first() == Some(&b'/') => {
                        working_directory(request.thread).map_err(refused)?
                    }
                    number => take(number)?,
                };
                match empty {
                    true => start,
                    false => {
                        let nofollow = call.flags & AT_SYMLINK_NOFOLLOW != 0;
                        // Why: links of /proc lead this process to other files than the target.
                        let resolve = notify::RESOLVE_NO_MAGICLINKS;
                        notify::open_place(start.0, path, nofollow, resolve)?
                    }
                }
            }
        };
        if !notify::waits(listener, request.id) {
            return Err(EPERM);
        }
        let mut name = [0u8; MAX_PATH_BYTES];
        let name = notify::name_of(object.0, &mut name)?;
        // Why: no other program can open a file without a name. Some file systems count no names.
        let is_deleted = name.ends_with(b" (deleted)\0") && sys::links(object.0)? == 0;
        if call.path.is_none() && is_deleted {
            return set(object.0, call.mode);
        }
        self.set_below(&object, name, call.mode)
    }

    /// By a handle that was found below a place; `EPERM` if it is below none.
    fn set_below(&self, object: &OwnedDescriptor, name: &[u8], mode: u32) -> Result<(), Errno> {
        let mut root = [0u8; MAX_PATH_BYTES];
        let identity = sys::identity(object.0)?;
        let is_it = |number: i32| {
            sys::identity(number).is_ok_and(|found| (found.0, found.1) == (identity.0, identity.1))
        };
        for place in &self.places[..self.count] {
            // Now, because a place may have been moved.
            let Ok(root) = notify::name_of(*place, &mut root) else {
                continue;
            };
            let Some(rest) = below(name, root) else {
                continue;
            };
            if rest.len() == 1 {
                if is_it(*place) {
                    return set(*place, mode);
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
                return set(found.0, mode);
            }
        }
        Err(EPERM)
    }
}

impl ModeCall {
    /// Descriptors and modes are as wide as the kernel takes them.
    fn parse(request: &Request) -> Result<ModeCall, Errno> {
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
        Ok(ModeCall {
            at,
            path,
            mode,
            flags,
        })
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
fn set(number: i32, mode: u32) -> Result<(), Errno> {
    sys::attempts::chmod(ProcPath::descriptor(number).c_str()?, mode)
}
