//! A user and a password, as a web server is shown them.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::address::ServerOrigin;

/// Most bytes of a password: tokens of services that sign them are long.
const MAX_PASSWORD_BYTES: usize = 16 << 10;
const MAX_USER_BYTES: usize = 255;
/// A shorter one would be taken out of words that it happens to be in.
const MIN_HIDDEN_BYTES: usize = 4;

/// Has no `Debug`: it is in no text.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    user: String,
    password: String,
    /// In seconds since 1970.
    expires_at_s: Option<u64>,
}

/// The credential that the server is shown.
pub(super) enum CredentialUsed {
    /// It is a directory of this machine.
    NoServer,
    Login(ServerOrigin, Login),
    /// None, and perhaps the reason.
    None(ServerOrigin, Option<String>),
    Agent(ServerOrigin),
}

impl Login {
    pub(super) fn new(user: &str, password: &str) -> Result<Login, String> {
        let plain = |text: &str| !text.chars().any(char::is_control);
        if user.is_empty() || user.len() > MAX_USER_BYTES || user.contains(':') || !plain(user) {
            return Err("its user cannot be one".to_owned());
        }
        if password.is_empty() || password.len() > MAX_PASSWORD_BYTES || !plain(password) {
            return Err("what was given as a password or token cannot be one".to_owned());
        }
        Ok(Login {
            user: user.to_owned(),
            password: password.to_owned(),
            expires_at_s: None,
        })
    }

    pub(super) fn until(mut self, expires_at_s: u64) -> Login {
        self.expires_at_s = Some(expires_at_s);
        self
    }

    pub(super) fn has_expired(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        self.expires_at_s.is_some_and(|until| until <= now)
    }

    sandbox_names::getters! {
        pub(super) user: &str = &user;
        pub(super) password: &str = &password;
    }

    /// The line that shows it.
    pub(super) fn header(&self) -> String {
        format!("Authorization: Basic {}", self.encoded())
    }

    /// Replaces the password in a text that repeats it.
    pub(super) fn hidden(&self, said: &str) -> String {
        let mut said = said.replace(&self.encoded(), "…");
        if self.password.len() >= MIN_HIDDEN_BYTES {
            said = said.replace(&self.password, "…");
        }
        said
    }

    fn encoded(&self) -> String {
        base64(format!("{}:{}", self.user, self.password).as_bytes())
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let all = three
            .iter()
            .fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
        let all = all << (8 * (3 - three.len()));
        for place in 0..4 {
            let six = usize::try_from(all >> (18 - 6 * place) & 63).unwrap_or(0);
            let is_there = place <= three.len();
            text.push(if is_there {
                char::from(LETTERS[six])
            } else {
                '='
            });
        }
    }
    text
}
