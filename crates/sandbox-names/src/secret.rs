//! Recognises private keys by content: the name `*.pem` is common to keys and certificates.

/// The largest file that is read to be judged. A larger one counts as a private key, and so does
/// one that cannot be read.
pub const MAX_JUDGED_BYTES: u64 = 1 << 20;

/// Returns `true` if the content of a file holds a private key: a line with the label of a PEM
/// block (`-----BEGIN RSA PRIVATE KEY-----`, `---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----`), its
/// first line or its last. Content that is too large or not text counts as a key, because a key in
/// binary form has no label.
///
/// ```
/// use sandbox_names::secret::holds_private_key;
/// assert!(holds_private_key(b"-----BEGIN OPENSSH PRIVATE KEY-----\n"));
/// assert!(holds_private_key(b"\x30\x82\x00\x01"));
/// assert!(!holds_private_key(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"));
/// assert!(!holds_private_key(b""));
/// ```
#[must_use]
pub fn holds_private_key(content: &[u8]) -> bool {
    let is_judged = u64::try_from(content.len()).is_ok_and(|bytes| bytes <= MAX_JUDGED_BYTES);
    !is_judged
        || content.contains(&0)
        || content
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .any(has_label)
}

fn has_label(line: &[u8]) -> bool {
    const LABEL: &[u8] = b"PRIVATE KEY";
    let has = |text: &[u8]| {
        let mut windows = line.windows(text.len());
        windows.any(|window| window.eq_ignore_ascii_case(text))
    };
    has(b"--") && has(LABEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        for label in [
            "PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
            "RSA PRIVATE KEY",
            "EC PRIVATE KEY",
            "DSA PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
            "PGP PRIVATE KEY BLOCK",
            "private key",
        ] {
            for text in [
                format!("-----BEGIN {label}-----\nMIIB\n-----END {label}-----\n"),
                format!(
                    "-----BEGIN CERTIFICATE-----\r\nMIIB\r\n-----END CERTIFICATE-----\r\n-----BEGIN {label}-----\r\n"
                ),
                format!("{{\"key\": \"-----BEGIN {label}-----\\nMIIB\"}}"),
                // The first line is cut off.
                format!("MIIB\n-----END {label}-----\n"),
                format!("---- BEGIN SSH2 {label} ----\n"),
            ] {
                assert!(holds_private_key(text.as_bytes()), "{text}");
            }
        }
        for label in [
            "CERTIFICATE",
            "TRUSTED CERTIFICATE",
            "CERTIFICATE REQUEST",
            "PUBLIC KEY",
            "RSA PUBLIC KEY",
            "X509 CRL",
            "DH PARAMETERS",
            "EC PARAMETERS",
            "PGP PUBLIC KEY BLOCK",
        ] {
            let text = format!("# F\u{151}: no private key\n-----BEGIN {label}-----\nMIIB\n");
            assert!(!holds_private_key(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_judged_counts_as_a_key() {
        let large = usize::try_from(MAX_JUDGED_BYTES).unwrap();
        assert!(!holds_private_key(&vec![b'x'; large]));
        assert!(holds_private_key(&vec![b'x'; large + 1]));
        let wide: Vec<u8> = "-----BEGIN PRIVATE KEY-----"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert!(holds_private_key(&wide));
    }
}
