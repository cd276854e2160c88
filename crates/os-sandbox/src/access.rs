//! The access of a command to the files below a mount.

use std::fmt;
use std::ops::BitOr;

/// A set of the three operations on a file.
///
/// ```
/// use os_sandbox::Access;
///
/// let data = Access::READ | Access::WRITE;
/// assert!(data.contains(Access::READ));
/// assert!(!data.contains(Access::EXECUTE));
/// assert_eq!(data.to_string(), "read+write");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Access(u8);

impl Access {
    /// No access. A mount with it closes a part of a larger mount around it.
    pub const NONE: Access = Access(0);
    /// Read files and list directories.
    pub const READ: Access = Access(1);
    /// Create, change, rename, truncate and delete.
    pub const WRITE: Access = Access(2);
    /// Start programs.
    pub const EXECUTE: Access = Access(4);
    /// All three operations.
    pub const ALL: Access = Access(7);

    /// Returns `true` if everything in `other` is in this set too.
    #[must_use]
    pub const fn contains(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets, as `|`, but usable in constants.
    #[must_use]
    pub const fn union(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub const fn intersection(self, other: Access) -> Access {
        Access(self.0 & other.0)
    }

    /// Returns `true` if the set is empty.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        self.union(other)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (one, name) in [
            (Access::READ, "read"),
            (Access::WRITE, "write"),
            (Access::EXECUTE, "execute"),
        ] {
            if self.contains(one) {
                if !first {
                    f.write_str("+")?;
                }
                f.write_str(name)?;
                first = false;
            }
        }
        if first {
            f.write_str("nothing")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({self})")
    }
}

impl serde::Serialize for Access {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
