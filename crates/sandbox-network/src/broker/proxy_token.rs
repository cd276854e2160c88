//! The secret of a proxy that other programs can reach too, as where there are no network
//! namespaces. Inside a namespace of the program's own, the namespace is the proof.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::host::HostError;

const MIN_LENGTH: usize = 16;
/// RFC 1929: a password of SOCKS.
const MAX_LENGTH: usize = 255;

/// A secret that clients of a proxy give as the password, with any user name.
///
/// ```
/// use sandbox_network::ProxyToken;
/// let token = ProxyToken::new("u3hUqf0yXmW2vK8d").unwrap();
/// let variable = format!("http://me:{}@127.0.0.1:3128", token.as_str());
/// assert!(!format!("{token:?}").contains("u3hU"));
/// assert!(ProxyToken::new("short").is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyToken(String);

impl ProxyToken {
    /// Returns the token of this text, which must not be guessable.
    ///
    /// # Errors
    /// It has less than 16 or more than 255 characters, or others than letters, digits, `-` and `_`,
    /// which programs do not take in a URL.
    pub fn new(text: &str) -> Result<ProxyToken, HostError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (MIN_LENGTH..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(plain) {
            return Ok(ProxyToken(text.to_owned()));
        }
        Err(HostError::new(
            "invalid token",
            "use 16 to 255 random letters, digits, `-` and `_`",
        ))
    }

    /// Returns the text, for the variables of the program.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `true` if the password is the token. Takes as long for each password of one length.
    pub(super) fn is_password(&self, password: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differing = own
            .iter()
            .zip(password)
            .fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == password.len() && differing == 0
    }

    /// `true` if a `Proxy-Authorization` header has the token as its password (RFC 7617).
    pub(super) fn is_authorization(&self, header: &[u8]) -> bool {
        let Some((scheme, encoded)) = header.split_at_checked(6) else {
            return false;
        };
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return false;
        }
        let Ok(decoded) = STANDARD.decode(encoded.trim_ascii()) else {
            return false;
        };
        let colon = decoded.iter().position(|byte| *byte == b':');
        colon.is_some_and(|colon| self.is_password(&decoded[colon + 1..]))
    }
}

impl fmt::Debug for ProxyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_password() {
        let token = ProxyToken::new("0123456789abcdef").unwrap();
        let encode = |text: &str| STANDARD.encode(text);
        for (header, is_valid) in [
            (format!("Basic {}", encode("me:0123456789abcdef")), true),
            (format!("basic  {} ", encode(":0123456789abcdef")), true),
            (format!("Basic {}", encode("me:0123456789abcdeF")), false),
            (format!("Basic {}", encode("me:0123456789abcde")), false),
            (format!("Basic {}", encode("me:0123456789abcdef0")), false),
            (format!("Basic {}", encode("me:")), false),
            (format!("Basic {}", encode("0123456789abcdef")), false),
            ("Basic 0123456789abcdef".to_owned(), false),
            ("Bearer 0123456789abcdef".to_owned(), false),
            ("Basic".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(
                token.is_authorization(header.as_bytes()),
                is_valid,
                "{header:?}"
            );
        }
    }

    #[test]
    fn tokens_fit_into_a_url() {
        for text in [
            "",
            "short",
            "0123456789abcde",
            "0123456789abcdef:",
            "0123456789abcdé",
        ] {
            assert!(ProxyToken::new(text).is_err(), "{text:?}");
        }
        assert!(ProxyToken::new(&"a".repeat(256)).is_err());
        assert!(ProxyToken::new(&"a_-9".repeat(4)).is_ok());
    }
}
