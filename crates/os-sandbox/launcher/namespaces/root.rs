//! Builds the root directory of a command from the broker's steps: a file system in memory, with
//! mounts of the host's files in it. Files of the host are found by path, as the broker found them
//! (`pins.rs` compares those that could change meanwhile). Places inside are found without links, and
//! the mounts are attached by descriptor. The old root is out of reach when the steps are done.
//! The steps of the first message do not depend on the command's own mounts, which the broker looks
//! through meanwhile.

use crate::sys::{self, CStr, Errno, mounts};
use crate::wire;
use crate::{BrokerMessage, CONTROL, Failure, at, tell};
use core::cell::Cell;
use core::ffi;

/// Largest file that is copied. The broker copies small ones.
const MAX_COPIED_BYTES: usize = 1 << 20;
const MAX_NAME_BYTES: usize = 255;

/// Devices that every program may use. One that the host lacks is missing inside too.
const DEVICES: [(&[u8], &[u8]); 6] = [
    (b"null\0", b"/dev/null\0"),
    (b"zero\0", b"/dev/zero\0"),
    (b"full\0", b"/dev/full\0"),
    (b"random\0", b"/dev/random\0"),
    (b"urandom\0", b"/dev/urandom\0"),
    (b"tty\0", b"/dev/tty\0"),
];

const DEVICE_LINKS: [(&[u8], &[u8]); 5] = [
    (b"fd\0", b"/proc/self/fd\0"),
    (b"stdin\0", b"/proc/self/fd/0\0"),
    (b"stdout\0", b"/proc/self/fd/1\0"),
    (b"stderr\0", b"/proc/self/fd/2\0"),
    (b"ptmx\0", b"pts/ptmx\0"),
];

/// Takes the steps of two messages, and enters the root.
pub fn build() -> Result<(), Failure> {
    let failed = at(wire::STAGE_NAMESPACES);
    let mask = mounts::set_mask(0);
    let root = attach_empty_root().map_err(&failed)?;
    let root = RootDirectory::new(root);
    let mut count = 0;
    for _ in 0..wire::ROOT_MESSAGES {
        let message = BrokerMessage::receive(CONTROL).map_err(at(wire::STAGE_PROTOCOL))?;
        if message.kind != wire::KIND_ROOT {
            return Err((wire::STAGE_PROTOCOL, sys::EPROTO));
        }
        count = root.take(message.body, count)?;
    }
    root.forget();
    mounts::change_root(root.root).map_err(&failed)?;
    sys::close(root.root);
    mounts::set_mask(mask);
    Ok(())
}

/// Mounts a new file system over the root. Paths do not lead to it yet: a path begins at the root
/// of the process, which is below that mount.
fn attach_empty_root() -> sys::Result<i32> {
    let old = sys::open(c_str(b"/\0")?, sys::O_PATH | sys::O_CLOEXEC, 0)?;
    mounts::make_private(old)?;
    let root = empty(0o755)?;
    mounts::attach(root, old)?;
    sys::close(old);
    Ok(root)
}

/// One step, as `wire.rs` describes it.
struct ReceivedStep<'a> {
    what: u8,
    flags: u8,
    mode: u32,
    at: CStr<'a>,
    from: CStr<'a>,
    content: &'a [u8],
}

impl<'a> ReceivedStep<'a> {
    fn take(rest: &mut &'a [u8]) -> Option<ReceivedStep<'a>> {
        let (head, body) = rest.split_at_checked(wire::ROOT_STEP_BYTES)?;
        let length = u32::from_ne_bytes(head.get(4..8)?.try_into().ok()?);
        let mut body = body;
        let at = crate::job::one(&mut body)?;
        let from = crate::job::one(&mut body)?;
        let (content, body) = body.split_at_checked(length as usize)?;
        *rest = body;
        Some(ReceivedStep {
            what: head[0],
            flags: head[1],
            mode: u16::from_ne_bytes([head[2], head[3]]).into(),
            at,
            from,
            content,
        })
    }
}

/// The new root, by its mount.
struct RootDirectory<'a> {
    root: i32,
    /// The directory of the last new file, and its path below the root.
    last: Cell<(i32, &'a [u8])>,
}

impl<'a> RootDirectory<'a> {
    fn new(root: i32) -> RootDirectory<'a> {
        let last = Cell::new((root, &b""[..]));
        RootDirectory { root, last }
    }

    /// Closes the directory of the last new file.
    fn forget(&self) {
        let (directory, _) = self.last.replace((self.root, b""));
        self.close(directory);
    }

    /// Closes a directory, unless it is the root.
    fn close(&self, directory: i32) {
        if directory != self.root {
            sys::close(directory);
        }
    }

    /// Takes the steps of one message, and returns the number of steps up to now.
    fn take(&self, mut steps: &'a [u8], mut count: u32) -> Result<u32, Failure> {
        while !steps.is_empty() {
            let step = ReceivedStep::take(&mut steps).ok_or((wire::STAGE_PROTOCOL, sys::EPROTO))?;
            if let Err(errno) = self.make(&step) {
                tell(wire::RECORD_FAILED, wire::STAGE_ROOT, errno, count);
                sys::exit(125);
            }
            count += 1;
        }
        Ok(count)
    }

    fn make(&self, step: &ReceivedStep<'a>) -> sys::Result<()> {
        match step.what {
            wire::ROOT_BIND => self.bind(step),
            wire::ROOT_COPY => {
                let from = sys::open(step.from, sys::O_RDONLY | sys::O_CLOEXEC, 0)?;
                let to = self.create(step.at)?;
                copy(from, to)?;
                sys::close(from);
                sys::close(to);
                Ok(())
            }
            wire::ROOT_WRITE => self.write(step.at, step.content),
            wire::ROOT_COVER => self.cover(step.at, step.content),
            wire::ROOT_PROCESSES => {
                let processes = mounts::new_file_system(c"proc", &[], mounts::SAFE)?;
                self.attach(processes, step.at)
            }
            wire::ROOT_DEVICES => self.devices(step.at),
            wire::ROOT_EMPTY => self.attach(empty(step.mode)?, step.at),
            wire::ROOT_DIRECTORY => self.directory(step.at, step.mode),
            wire::ROOT_LINK => {
                let (directory, name) = self.new_file(step.at)?;
                mounts::link_in(step.from, directory, name)
            }
            wire::ROOT_SEAL if step.at.without_root().bytes().is_empty() => mounts::seal(self.root),
            wire::ROOT_SEAL => {
                let place = mounts::open_beneath(self.root, step.at)?;
                mounts::seal(place)?;
                sys::close(place);
                Ok(())
            }
            wire::ROOT_OVERLAY => self.overlay(step),
            _ => Err(sys::EPROTO),
        }
    }

    /// Mounts an overlay of directories that are those which the broker saw.
    fn overlay(&self, step: &ReceivedStep<'a>) -> sys::Result<()> {
        let (identities, mut paths) = step
            .content
            .split_at_checked(wire::OVERLAY_IDENTITY_BYTES)
            .ok_or(sys::EPROTO)?;
        let upper = crate::job::one(&mut paths).ok_or(sys::EPROTO)?;
        let work = crate::job::one(&mut paths).ok_or(sys::EPROTO)?;
        let mut directories = [-1; 3];
        let identities = identities.chunks_exact(16);
        for ((path, identity), directory) in [step.from, upper, work]
            .into_iter()
            .zip(identities)
            .zip(&mut directories)
        {
            let number = sys::open(path, sys::O_PATH | sys::O_NOFOLLOW | sys::O_CLOEXEC, 0)?;
            let (device, inode, _) = sys::identity(number)?;
            let seen = [device.to_ne_bytes(), inode.to_ne_bytes()];
            if seen.as_flattened() != identity {
                return Err(sys::ESTALE);
            }
            *directory = number;
        }
        let [lower, upper, work] = directories;
        let overlay = mounts::overlay(lower, upper, work)?;
        directories.into_iter().for_each(sys::close);
        self.attach(overlay, step.at)
    }

    fn bind(&self, step: &ReceivedStep<'a>) -> sys::Result<()> {
        let copied = match mounts::copy_tree_at(step.from) {
            Err(sys::ENOENT) if step.flags & wire::ROOT_FLAG_OPTIONAL != 0 => return Ok(()),
            other => other?,
        };
        let read_only = match step.flags & wire::ROOT_FLAG_WRITABLE {
            0 => mounts::READ_ONLY,
            _ => 0,
        };
        mounts::restrict(copied, mounts::NOSUID | mounts::NODEV | read_only)?;
        self.attach(copied, step.at)
    }

    /// Attaches a mount, and makes its place if it is missing.
    fn attach(&self, mount: i32, path: CStr<'a>) -> sys::Result<()> {
        let place = match mounts::open_beneath(self.root, path) {
            Err(sys::ENOENT) => {
                let (directory, name) = self.new_file(path)?;
                match sys::about(mount)?.is_directory {
                    true => mounts::make_directory_in(directory, name, 0o755)?,
                    false => sys::close(mounts::create_in(directory, name, NEW, 0o444)?),
                }
                mounts::open_in(directory, name)?
            }
            other => other?,
        };
        mounts::attach(mount, place)?;
        // The mount may cover it.
        self.forget();
        sys::close(place);
        sys::close(mount);
        Ok(())
    }

    fn create(&self, path: CStr<'a>) -> sys::Result<i32> {
        let (directory, name) = self.new_file(path)?;
        mounts::create_in(directory, name, NEW, 0o444)
    }

    fn write(&self, path: CStr<'a>, content: &[u8]) -> sys::Result<()> {
        let file = self.create(path)?;
        write_all(file, content)?;
        sys::close(file);
        Ok(())
    }

    /// Mounts a file of its own file system, so that nothing in the root has the content.
    fn cover(&self, path: CStr<'a>, content: &[u8]) -> sys::Result<()> {
        let own = RootDirectory::new(empty(0o755)?);
        let name = c_str(b"/content\0")?;
        own.write(name, content)?;
        let file = mounts::open_beneath(own.root, name)?;
        let mount = mounts::copy_tree(file)?;
        sys::close(file);
        sys::close(own.root);
        mounts::make_read_only(mount)?;
        self.attach(mount, path)
    }

    fn directory(&self, path: CStr<'a>, mode: u32) -> sys::Result<()> {
        let (directory, name) = self.new_file(path)?;
        match mounts::make_directory_in(directory, name, mode) {
            Err(sys::EEXIST) => Ok(()),
            other => other,
        }
    }

    fn devices(&self, path: CStr<'a>) -> sys::Result<()> {
        let own = mounts::new_file_system(c"tmpfs", &[(c"mode", c"755")], mounts::SAFE)?;
        let devices = RootDirectory::new(sys::dup_above(own, 3)?);
        self.attach(own, path)?;
        for (name, from) in DEVICES {
            let device = match mounts::copy_tree_at(c_str(from)?) {
                Err(sys::ENOENT) => continue,
                other => other?,
            };
            mounts::restrict(device, mounts::NOSUID | mounts::NOEXEC)?;
            devices.attach(device, c_str(name)?)?;
        }
        for (name, to) in DEVICE_LINKS {
            mounts::link_in(c_str(to)?, devices.root, c_str(name)?)?;
        }
        let options = [(c"ptmxmode", c"0666"), (c"mode", c"620")];
        let how = mounts::NOSUID | mounts::NOEXEC;
        let terminals = mounts::new_file_system(c"devpts", &options, how)?;
        devices.attach(terminals, c_str(b"pts\0")?)?;
        sys::close(devices.root);
        Ok(())
    }

    /// Opens the directory of a path and makes it, with those above it, if it is missing. Returns it
    /// with the last name; [`RootDirectory::forget`] closes it.
    fn new_file(&self, path: CStr<'a>) -> sys::Result<(i32, CStr<'a>)> {
        let (parent, name) = path.without_root().split_name();
        let (last, known) = self.last.get();
        if parent == known {
            return Ok((last, name));
        }
        self.forget();
        let mut directory = self.root;
        let parts = parent.split(|byte| *byte == b'/');
        for part in parts.filter(|part| !part.is_empty()) {
            let mut buffer = [0; MAX_NAME_BYTES + 1];
            let room = buffer[..MAX_NAME_BYTES].get_mut(..part.len());
            room.ok_or(sys::ENAMETOOLONG)?.copy_from_slice(part);
            let part = c_str(&buffer[..=part.len()])?;
            let next = match mounts::open_in(directory, part) {
                Err(sys::ENOENT) => {
                    mounts::make_directory_in(directory, part, 0o755)?;
                    mounts::open_in(directory, part)?
                }
                other => other?,
            };
            self.close(directory);
            directory = next;
        }
        self.last.set((directory, parent));
        Ok((directory, name))
    }
}

const NEW: i32 = sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL;

/// A new empty directory, attached nowhere.
fn empty(mode: u32) -> sys::Result<i32> {
    let mut octal = *b"0000\0";
    for (place, digit) in octal[..4].iter_mut().rev().enumerate() {
        *digit += (mode >> (3 * place) & 7) as u8;
    }
    let octal = ffi::CStr::from_bytes_with_nul(&octal).map_err(|_| sys::EINVAL)?;
    let how = mounts::NOSUID | mounts::NODEV;
    mounts::new_file_system(c"tmpfs", &[(c"mode", octal)], how)
}

fn copy(from: i32, to: i32) -> sys::Result<()> {
    // Why: the loader's cache and lists of types have tens of kilobytes.
    let mut buffer = [0u8; 32 << 10];
    let mut copied = 0;
    loop {
        let bytes = sys::read(from, &mut buffer)?;
        copied += bytes;
        match bytes {
            0 => return Ok(()),
            _ if copied > MAX_COPIED_BYTES => return Err(sys::EFBIG),
            _ => write_all(to, &buffer[..bytes])?,
        }
    }
}

fn write_all(file: i32, content: &[u8]) -> sys::Result<()> {
    let mut rest = content;
    while !rest.is_empty() {
        let written = sys::write(file, rest)?;
        rest = rest.get(written..).ok_or(sys::EPROTO)?;
    }
    Ok(())
}

fn c_str(bytes: &[u8]) -> Result<CStr<'_>, Errno> {
    CStr::new(bytes).ok_or(sys::EINVAL)
}
