//! `attachment_policy`: attachments that a worker accepts beside its input. The policy belongs to
//! the receiving worker; the sender's grant decides if the sender may read an attachment.

/// Limits on attachments to a worker's input.
///
/// ```
/// use sandbox_config::AttachmentPolicy;
/// let policy = AttachmentPolicy::default();
/// assert!(policy.check([("a.pdf", 1_000), ("b.pdf", 1_000)]).is_ok());
/// let refused = policy.check([("big.pdf", 10_000_001)]).unwrap_err();
/// assert_eq!(refused, "10000001 bytes are attached; at most 10000000 may be");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentPolicy {
    pub(crate) max_attachments: u64,
    pub(crate) max_total_bytes: u64,
    /// Lower case, with the dot; empty: any.
    pub(crate) allowed_suffixes: Vec<String>,
    pub(crate) denied_suffixes: Vec<String>,
}

impl Default for AttachmentPolicy {
    fn default() -> AttachmentPolicy {
        AttachmentPolicy {
            max_attachments: 4,
            max_total_bytes: 10_000_000,
            allowed_suffixes: Vec::new(),
            denied_suffixes: Vec::new(),
        }
    }
}

impl AttachmentPolicy {
    /// How many files.
    #[must_use]
    pub fn max_attachments(&self) -> u64 {
        self.max_attachments
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn max_total_bytes(&self) -> u64 {
        self.max_total_bytes
    }

    /// Whether these files, names and sizes in bytes, may be attached together.
    ///
    /// # Errors
    /// Why not, for the model that wants to attach them.
    pub fn check<'f>(&self, files: impl IntoIterator<Item = (&'f str, u64)>) -> Result<(), String> {
        let (mut count, mut total) = (0u64, 0u64);
        for (name, bytes) in files {
            (count, total) = (count + 1, total.saturating_add(bytes));
            let lower = name.to_lowercase();
            let ends = |suffixes: &[String]| suffixes.iter().any(|end| lower.ends_with(end));
            let allowed = self.allowed_suffixes.is_empty() || ends(&self.allowed_suffixes);
            if !allowed || ends(&self.denied_suffixes) {
                return Err(format!(
                    "'{name}' may not be attached: its suffix is not allowed"
                ));
            }
        }
        if count > self.max_attachments {
            return Err(format!(
                "{count} files are attached; at most {} may be",
                self.max_attachments
            ));
        }
        if total > self.max_total_bytes {
            return Err(format!(
                "{total} bytes are attached; at most {} may be",
                self.max_total_bytes
            ));
        }
        Ok(())
    }
}
