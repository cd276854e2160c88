//! Limits on the copies to an engine and back.

/// Bounds on the copy of one mount, in both directions.
///
/// ```
/// use os_sandbox_docker::CopyLimits;
///
/// let limits = CopyLimits::default().bytes(64 << 20).entries(10_000);
/// assert_ne!(limits, CopyLimits::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    pub(super) bytes: u64,
    pub(super) entries: usize,
}

impl CopyLimits {
    /// Sets the limit on bytes in files; the default is 1 GiB.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> CopyLimits {
        self.bytes = bytes;
        self
    }

    /// Sets the limit on files, directories and links; the default is 200 000.
    #[must_use]
    pub fn entries(mut self, entries: usize) -> CopyLimits {
        self.entries = entries;
        self
    }

    pub(super) fn bytes_said(&self) -> String {
        let megabytes = self.bytes.div_ceil(1 << 20);
        format!("its files have more than {megabytes} MiB")
    }

    pub(super) fn entries_said(&self) -> String {
        let entries = self.entries;
        format!("it has more than {entries} files and directories")
    }
}

impl Default for CopyLimits {
    fn default() -> Self {
        CopyLimits {
            bytes: 1 << 30,
            entries: 200_000,
        }
    }
}
