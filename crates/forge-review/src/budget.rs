//! Limits of a review. A limit that is met is an error: a list that ends early would hide changes.

use crate::error::ReviewError;
use crate::path::TreePath;

/// The most that one operation on a review handles.
///
/// ```
/// # #[cfg(target_os = "linux")]
/// assert!(forge_review::ReviewLimits::default().entries >= 1_000_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReviewLimits {
    /// Objects that are examined, in both layers.
    pub entries: u64,
    /// Nested directories.
    pub depth: u64,
    /// Bytes that are hashed; holes do not count.
    pub hashed_bytes: u64,
}

impl Default for ReviewLimits {
    fn default() -> Self {
        ReviewLimits {
            entries: 2_000_000,
            depth: 200,
            hashed_bytes: 256 << 30,
        }
    }
}

/// The most that the upper layers or copies of a run hold together.
///
/// ```
/// # #[cfg(target_os = "linux")]
/// assert!(forge_review::LayerLimits::default().entries >= 100_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerLimits {
    /// Objects of all kinds.
    pub entries: u64,
    /// Bytes of files; holes do not count.
    pub bytes: u64,
}

impl Default for LayerLimits {
    fn default() -> Self {
        LayerLimits {
            entries: 200_000,
            bytes: 8 << 30,
        }
    }
}

/// The unit of the limit on depth.
pub(crate) const DEPTH: &str = "nested directories";

/// The rest of the limits of an operation.
pub(crate) struct Budget {
    limits: ReviewLimits,
    entries: u64,
    hashed_bytes: u64,
    /// The kind of bytes, for errors.
    of_bytes: &'static str,
}

impl Budget {
    pub(crate) fn new(limits: &ReviewLimits) -> Budget {
        Budget {
            limits: *limits,
            entries: 0,
            hashed_bytes: 0,
            of_bytes: "bytes to compare",
        }
    }

    /// The limits of layers and copies: their bytes are copied or counted, not hashed.
    pub(crate) fn of_layers(limits: &LayerLimits) -> Budget {
        Budget {
            of_bytes: "bytes",
            ..Budget::new(&ReviewLimits {
                entries: limits.entries,
                hashed_bytes: limits.bytes,
                ..ReviewLimits::default()
            })
        }
    }

    pub(crate) fn entry(&mut self, path: &TreePath) -> Result<(), ReviewError> {
        self.entries += 1;
        check(self.entries, self.limits.entries, "files", path)
    }

    pub(crate) fn bytes(&mut self, bytes: u64, path: &TreePath) -> Result<(), ReviewError> {
        self.hashed_bytes = self.hashed_bytes.saturating_add(bytes);
        let limit = self.limits.hashed_bytes;
        check(self.hashed_bytes, limit, self.of_bytes, path)
    }

    /// Returns the rest of the limits of layers.
    pub(crate) fn left(&self) -> LayerLimits {
        LayerLimits {
            entries: self.limits.entries.saturating_sub(self.entries),
            bytes: self.limits.hashed_bytes.saturating_sub(self.hashed_bytes),
        }
    }

    pub(crate) fn depth(&self, path: &TreePath) -> Result<(), ReviewError> {
        let depth = u64::try_from(path.names().len()).unwrap_or(u64::MAX);
        check(depth, self.limits.depth, DEPTH, path)
    }
}

pub(crate) fn check(
    used: u64,
    limit: u64,
    unit: &'static str,
    path: &TreePath,
) -> Result<(), ReviewError> {
    if used <= limit {
        return Ok(());
    }
    Err(ReviewError::Limit {
        limit,
        unit,
        path: path.to_string(),
    })
}
