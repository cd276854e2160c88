//! A parent proxy as environments write it: `HTTPS_PROXY` and the like, and `NO_PROXY`. No error
//! repeats a URL, because a password can be in it.

use percent_encoding::percent_decode_str;

use super::ParentProxy;
use crate::host::HostError;
use crate::pattern::HostPattern;

/// Bound on the hosts of `NO_PROXY`.
const MAX_DIRECT: usize = 256;

const FORM: &str = "write `http://host:port` or `http://user:password@host:port`";

impl ParentProxy {
    /// Returns the parent of a URL with its credentials, without `http://` as well, and a list of
    /// hosts that are connected directly (`host`, `.host`, `host:port`, separated by commas). A host
    /// in the list stands for the names below it too.
    ///
    /// # Errors
    /// The URL is not that of an HTTP proxy, a host in the list is not valid, or there are too many.
    pub fn from_variables(url: &str, no_proxy: &str) -> Result<ParentProxy, HostError> {
        let rest = match url.split_once("://") {
            None => url,
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => return Err(HostError::new("it is not an `http` URL", FORM)),
        };
        let (userinfo, authority) = match rest.rsplit_once('@') {
            Some((userinfo, authority)) => (Some(userinfo), authority),
            None => (None, rest),
        };
        let invalid = |_| HostError::new("it does not name a valid host", FORM);
        let parent = ParentProxy::parse(&format!("http://{authority}")).map_err(invalid)?;
        let parent = match userinfo {
            None => parent,
            Some(userinfo) => {
                let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
                let wrong = || HostError::new("its credentials are not percent-encoded", FORM);
                let user = decode(user).ok_or_else(wrong)?;
                parent.with_credentials(&user, &decode(password).ok_or_else(wrong)?)
            }
        };
        Ok(parent.with_direct(direct_hosts(no_proxy)?))
    }
}

/// Returns the patterns of a list of exceptions. Addresses are left out, because only names are
/// reached through a parent.
fn direct_hosts(no_proxy: &str) -> Result<Vec<HostPattern>, HostError> {
    let mut patterns = Vec::new();
    let entries = no_proxy.split([',', ' ']).map(str::trim);
    for entry in entries.filter(|entry| !entry.is_empty() && !is_about_addresses(entry)) {
        let name = entry.strip_prefix("*.").or(entry.strip_prefix('.'));
        let name = name.unwrap_or(entry);
        for text in [name.to_owned(), format!("*.{name}")] {
            let pattern = HostPattern::parse(&text).map_err(|error| {
                let help = "write `example.com` or `.example.com`";
                HostError::new(
                    format!("invalid host `{}`: {error}", entry.escape_debug()),
                    help,
                )
            })?;
            patterns.push(pattern);
        }
        if patterns.len() > 2 * MAX_DIRECT {
            let help = "name the domains above them";
            return Err(HostError::new(
                format!("it has more than {MAX_DIRECT} hosts"),
                help,
            ));
        }
    }
    Ok(patterns)
}

/// `true` for addresses, networks and the loopback, which are never reached through a parent.
fn is_about_addresses(entry: &str) -> bool {
    let host = entry.rsplit_once(':').map_or(entry, |(host, port)| {
        match port.bytes().all(|byte| byte.is_ascii_digit()) && !host.contains(':') {
            true => host,
            false => entry,
        }
    });
    let digits = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    host.eq_ignore_ascii_case("localhost") || host.contains([':', '/', '[']) || digits(host)
}

/// Decodes `%41` and the like. `None` if it is not valid.
fn decode(text: &str) -> Option<String> {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().first_chunk::<2>();
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    // A line end would begin another header of the request to the parent.
    (!decoded.contains(char::is_control)).then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    #[test]
    fn urls_are_read_as_environments_write_them() {
        for (url, address, credentials) in [
            ("http://p.example:3128", "p.example:3128", None),
            ("HTTP://p.example", "p.example:80", None),
            ("p.example:8080/", "p.example:8080", None),
            ("http://[::1]:5", "[::1]:5", None),
            ("http://u:p@p.example:1/", "p.example:1", Some(("u", "p"))),
            (
                "u%40x:a%3ab@p.example:1",
                "p.example:1",
                Some(("u@x", "a:b")),
            ),
            ("http://u@p.example:1", "p.example:1", Some(("u", ""))),
            (
                "http://u:p@q@p.example:1",
                "p.example:1",
                Some(("u", "p@q")),
            ),
        ] {
            let parent = ParentProxy::from_variables(url, "").unwrap();
            assert_eq!(parent.address(), address, "{url}");
            let plain = ParentProxy::parse(&format!("http://{address}")).unwrap();
            let expected = match credentials {
                Some((user, password)) => plain.with_credentials(user, password),
                None => plain,
            };
            assert_eq!(parent, expected, "{url}");
        }
    }

    #[test]
    fn errors_and_debug_show_no_credentials() {
        for url in [
            "https://me:s3cret@p.example:1",
            "socks5://me:s3cret@p.example:1",
            "http://me:s3cret%zz@p.example:1",
            "http://me:s3cret%0a@p.example:1",
            "http://me:s3cret@p.example:x",
            "http://me:s3cret@p.example/s3cret",
            "http://me:s3cret@",
            "me:s3cret",
            "",
        ] {
            let error = ParentProxy::from_variables(url, "").unwrap_err();
            let text = format!("{error} {} {error:?}", error.help());
            assert!(!text.contains("s3cret"), "{text}");
        }
        let parent = ParentProxy::from_variables("http://me:s3cret@p.example:1", "").unwrap();
        let shown = format!("{parent:?} {}", parent.address());
        assert!(
            !shown.contains("s3cret") && !shown.contains("bWU6"),
            "{shown}"
        );
    }

    #[test]
    fn exceptions_are_connected_directly() {
        let list = "localhost, 127.0.0.0/8,::1,10.1.2.3,[::1]:5 .a.example,*.b.example,C.example:8443,local";
        let parent = ParentProxy::from_variables("p.example:1", list).unwrap();
        for (host, port, carried) in [
            ("a.example", 443, false),
            ("x.a.example", 443, false),
            ("xa.example", 443, true),
            ("x.b.example", 443, false),
            ("c.example", 8443, false),
            ("c.example", 443, true),
            ("printer.local", 80, false),
            ("localhost", 80, false),
            ("10.1.2.4", 80, false),
            ("d.example", 443, true),
        ] {
            let host = Host::parse(host).unwrap();
            assert_eq!(parent.carries(&host, port), carried, "{host}:{port}");
        }
        let error = ParentProxy::from_variables("p.example:1", "a.example,b..example");
        assert!(error.unwrap_err().to_string().contains("`b..example`"));
        let many = "a.example,".repeat(MAX_DIRECT + 1);
        ParentProxy::from_variables("p.example:1", &many).unwrap_err();
    }
}
