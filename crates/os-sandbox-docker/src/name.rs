//! Names of images. They come from configuration files and become part of the address of a request
//! to the engine, so the parser refuses every invalid name: `--privileged`, `../containers`, a
//! newline.

use os_sandbox::Error;
use std::fmt;

/// Bound on a name; engines take less.
const MAX_BYTES: usize = 512;
/// Bound on a repository; engines have the same one.
const MAX_REPOSITORY_BYTES: usize = 255;
const MAX_TAG_BYTES: usize = 128;
/// Prefix of a digest, which identifies an image by its content.
const DIGEST: &str = "sha256:";
const DIGEST_DIGITS: usize = 64;
/// Tag that the engine assumes if a name has none.
const LATEST: &str = "latest";
/// Bound on the part of an invalid name that an error shows.
const SHOWN_CHARS: usize = 80;

/// The name of an image: `forge-sandbox:1`, `localhost:5000/tools/base`, `sha256:…`, or a name
/// followed by a digest.
///
/// ```
/// use os_sandbox_docker::ImageName;
///
/// assert!(ImageName::parse("localhost:5000/tools/base:1.2").is_ok());
/// for bad in ["", "--privileged", "a/../b", "Debian:12", "debian:12\n"] {
///     assert!(ImageName::parse(bad).is_err(), "{bad:?}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageName {
    text: String,
    tag: Tag,
}

/// Part of a name after the repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Tag {
    /// A tag, which begins at this byte.
    Named(usize),
    /// Neither a tag nor a digest.
    Absent,
    /// A digest, which identifies the image.
    Digest,
}

impl ImageName {
    /// Parses a name as it is written for `docker run`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](os_sandbox::ErrorKind::Invalid) if the name is invalid; the error
    /// shows it.
    pub fn parse(text: &str) -> Result<ImageName, Error> {
        let refuse = |why: &str| {
            let shown: String = text.escape_debug().take(SHOWN_CHARS).collect();
            let error = format!("invalid image name `{shown}`: {why}");
            Error::invalid(error).with_hint("write NAME:TAG, NAME@sha256:… or sha256:…")
        };
        if text.len() > MAX_BYTES {
            return Err(refuse("it is too long"));
        }
        let named = |tag| ImageName {
            text: text.to_owned(),
            tag,
        };
        if text.starts_with(DIGEST) {
            is_digest(text).map_err(refuse)?;
            return Ok(named(Tag::Digest));
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        // A colon before the last slash belongs to a port.
        let below = name.rfind('/').map_or(0, |slash| slash + 1);
        let (repository, tag) = match name[below..].find(':') {
            Some(colon) => (&name[..below + colon], Some(below + colon + 1)),
            None => (name, None),
        };
        is_repository(repository).map_err(refuse)?;
        if let Some(at) = tag {
            is_tag(&name[at..]).map_err(refuse)?;
        }
        if let Some(digest) = digest {
            is_digest(digest).map_err(refuse)?;
            return Ok(named(Tag::Digest));
        }
        Ok(named(tag.map_or(Tag::Absent, Tag::Named)))
    }

    /// Returns the name as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name with its tag (`latest` if none was written); `None` for a name with a
    /// digest. A digest identifies one image, so another image cannot get that name.
    ///
    /// ```
    /// use os_sandbox_docker::ImageName;
    ///
    /// let tagged = |text: &str| ImageName::parse(text).unwrap().tagged();
    /// assert_eq!(tagged("forge-sandbox").as_deref(), Some("forge-sandbox:latest"));
    /// assert_eq!(tagged("forge-sandbox:1").as_deref(), Some("forge-sandbox:1"));
    /// ```
    #[must_use]
    pub fn tagged(&self) -> Option<String> {
        match self.tag {
            Tag::Named(_) => Some(self.text.clone()),
            Tag::Absent => Some(format!("{}:{LATEST}", self.text)),
            Tag::Digest => None,
        }
    }

    /// Returns the tag; `None` if the name was written without one.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        match self.tag {
            Tag::Named(at) => self.text.get(at..),
            Tag::Absent | Tag::Digest => None,
        }
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_digest(text: &str) -> Result<(), &'static str> {
    let digits = text.strip_prefix(DIGEST).unwrap_or_default();
    let is_hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    if digits.len() == DIGEST_DIGITS && digits.bytes().all(is_hex) {
        Ok(())
    } else {
        Err("a digest is `sha256:` and 64 digits 0-9 a-f")
    }
}

fn is_repository(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_REPOSITORY_BYTES {
        return Err("it is too long");
    }
    // The first part is a host if it has a dot or a port, or is `localhost`.
    let below = match text.split_once('/') {
        Some((first, rest)) if is_host(first) => rest,
        Some(_) | None => text,
    };
    if below.split('/').all(is_component) {
        Ok(())
    } else {
        Err("each part is made of a-z and 0-9, with `.`, `_`, `__` or `-` between them")
    }
}

fn is_host(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "0"));
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        !label.is_empty()
            && bytes.iter().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (text.contains(['.', ':']) || text == "localhost")
        && host.split('.').all(is_label)
        && (1..=5).contains(&port.len())
        && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns `true` for runs of letters and digits, separated by `.`, `_`, `__` or any number of `-`.
fn is_component(text: &str) -> bool {
    let is_word = |byte: char| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends_well = text.starts_with(is_word) && text.ends_with(is_word);
    let separators = text.split(is_word).all(|between| {
        matches!(between, "" | "." | "_" | "__") || between.bytes().all(|b| b == b'-')
    });
    ends_well && separators
}

fn is_tag(text: &str) -> Result<(), &'static str> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = text.bytes().next().is_some_and(word);
    let rest = text
        .bytes()
        .all(|byte| word(byte) || matches!(byte, b'.' | b'-'));
    if first && rest && text.len() <= MAX_TAG_BYTES {
        Ok(())
    } else {
        Err("a tag is made of letters, digits, `_`, `.` and `-`, at most 128")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl ImageName {
        /// Returns the image name of an engine that is only described.
        pub(crate) fn assumed() -> ImageName {
            ImageName {
                text: "assumed".to_owned(),
                tag: Tag::Absent,
            }
        }
    }

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn names_and_what_they_are_tagged() {
        for (text, tagged) in [
            ("debian", Some("debian:latest")),
            ("forge-sandbox:1", Some("forge-sandbox:1")),
            ("a/b/c", Some("a/b/c:latest")),
            ("a__b.c--d:_X", Some("a__b.c--d:_X")),
            (
                "localhost:5000/tools/base:1.2",
                Some("localhost:5000/tools/base:1.2"),
            ),
            (
                "Registry.example.com/a",
                Some("Registry.example.com/a:latest"),
            ),
            (&format!("sha256:{HEX}"), None),
            (&format!("debian@sha256:{HEX}"), None),
            (&format!("debian:12@sha256:{HEX}"), None),
        ] {
            let name = ImageName::parse(text).unwrap();
            assert_eq!(name.as_str(), text);
            assert_eq!(name.tagged().as_deref(), tagged, "{text}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_and_named() {
        for text in [
            "",
            "--privileged",
            "-",
            "a/../b",
            "../containers",
            "/a",
            "a/",
            "a//b",
            "Debian",
            "debian:12\n",
            "debian 12",
            "debian:",
            "debian:-1",
            "debian:1:2",
            "debian:é",
            "a.-b",
            "a___b",
            "a?b",
            "a#b",
            "a%2e",
            "sha256:12",
            &format!("sha256:{}", HEX.to_uppercase()),
            "debian@sha256:12",
            &format!("@sha256:{HEX}"),
            "host:port/a",
            &"a".repeat(300),
            &"a/".repeat(400),
            &format!("a:{}", "1".repeat(129)),
        ] {
            let error = ImageName::parse(text).unwrap_err();
            assert_eq!(error.kind(), os_sandbox::ErrorKind::Invalid, "{text:?}");
            let shown: String = text.escape_debug().take(20).collect();
            assert!(error.to_string().contains(&shown), "{error}");
        }
    }

    proptest! {
        /// The characters of a name have no meaning in an address, and a name is not an option.
        #[test]
        fn a_name_is_no_address_of_its_own(text in "[ -~]{0,40}") {
            if let Ok(name) = ImageName::parse(&text) {
                prop_assert!(!name.as_str().starts_with(['-', '/', '.']));
                prop_assert!(!name.as_str().contains("//") && !name.as_str().contains(".."));
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:@".contains(&byte);
                prop_assert!(name.as_str().bytes().all(plain));
            }
        }
    }
}
