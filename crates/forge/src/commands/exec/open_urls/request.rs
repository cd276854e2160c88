//! A request to open a URL, as a command wrote it: nothing about it is trusted.

use url::{Host, Url};

/// Bound on a URL's bytes.
const MAX_URL: usize = 2048;
/// Ports below it belong to the system.
const FIRST_PORT: u16 = 1024;

/// A URL that may be opened.
pub(super) struct UrlRequest {
    pub(super) url: String,
    pub(super) origin: String,
    /// The port of the command's loopback at which the login answers.
    pub(super) callback: Option<u16>,
}

/// A URL that is not opened.
pub(super) struct RefusedUrl {
    /// `None` if it is not known.
    pub(super) origin: Option<String>,
    pub(super) why: String,
}

impl UrlRequest {
    /// Reads a line. Its origin must be one of `origins`.
    pub(super) fn read(line: &[u8], origins: &[String]) -> Result<UrlRequest, RefusedUrl> {
        let refused = |why: &str| RefusedUrl {
            origin: None,
            why: why.to_owned(),
        };
        if line.len() > MAX_URL {
            return Err(refused(&format!("it is longer than {MAX_URL} bytes")));
        }
        // Browsers drop some of the others, and read a backslash as a slash.
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'\\';
        let text = str::from_utf8(line)
            .ok()
            .filter(|_| line.iter().all(is_plain));
        let text = text.ok_or_else(|| refused("it has characters that a URL does not have"))?;
        let rest = text.strip_prefix("https://");
        let rest = rest.ok_or_else(|| refused("it does not begin with https://"))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(refused("it has a user name"));
        }
        let url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
        let origin = url.origin().ascii_serialization();
        let of_origin = |why: String| RefusedUrl {
            origin: Some(origin.clone()),
            why,
        };
        if !origins.contains(&origin) {
            return Err(of_origin(format!(
                "`open_urls` of the presets does not name {origin}; to allow it: --open-url {origin}"
            )));
        }
        let callback = callback(&url).map_err(of_origin)?;
        Ok(UrlRequest {
            url: url.into(),
            origin,
            callback,
        })
    }
}

/// Returns the port of the loopback to which the login sends the browser at its end.
fn callback(url: &Url) -> Result<Option<u16>, String> {
    let mut targets = url.query_pairs().filter(|(name, _)| name == "redirect_uri");
    let Some((_, target)) = targets.next() else {
        return Ok(None);
    };
    if targets.next().is_some() {
        return Err("it has two values of redirect_uri".to_owned());
    }
    let Ok(target) = Url::parse(&target) else {
        return Ok(None);
    };
    let is_loopback = match target.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    match target.port_or_known_default() {
        _ if !is_loopback => Ok(None),
        Some(port) if port >= FIRST_PORT => Ok(Some(port)),
        _ => Err(format!(
            "its redirect_uri names a port of this machine below {FIRST_PORT}"
        )),
    }
}

/// Lines from bytes. Of a line that is too long only so much is kept that it is seen to be.
#[derive(Default)]
pub(super) struct Lines(Vec<u8>);

impl Lines {
    /// Returns the lines that these bytes end.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut ended = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' => ended.push(std::mem::take(&mut self.0)),
                _ if self.0.len() <= MAX_URL => self.0.push(*byte),
                _ => {}
            }
        }
        ended
    }
}
