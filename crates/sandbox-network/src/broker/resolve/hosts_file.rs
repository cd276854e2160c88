//! The machine's hosts file (hosts(5)), which the system reads only for names without a final dot.

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;

use crate::host::HostName;

/// Most bytes of the file that are read. Lists of blocked hosts have a few megabytes.
const MAX_FILE: u64 = 32 * 1024 * 1024;

/// Returns the addresses that the file gives a name. A machine without the file has none.
pub(super) fn addresses_of(name: &HostName) -> io::Result<Vec<IpAddr>> {
    let path = if cfg!(unix) {
        "/etc/hosts"
    } else {
        return Ok(Vec::new());
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(find(&bytes, name))
}

fn find(file: &[u8], name: &HostName) -> Vec<IpAddr> {
    let lines = file.split(|byte| *byte == b'\n');
    lines.filter_map(|line| parse_line(line, name)).collect()
}

/// Returns the address of a line if one of its names is this one.
fn parse_line(line: &[u8], name: &HostName) -> Option<IpAddr> {
    let line = line.split(|byte| *byte == b'#').next()?;
    let mut fields = line
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty());
    let address = std::str::from_utf8(fields.next()?).ok()?;
    let is_named = fields.any(|field| field.eq_ignore_ascii_case(name.as_str().as_bytes()));
    // An address with a zone is of a link, and never connected.
    address.parse().ok().filter(|_| is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_addresses_of_its_lines() {
        let file = b"127.0.0.1\tlocalhost\n\
            # 1.1.1.1 a.org\n\
            1.2.3.4  other.org\ta.org # b.org\r\n\
            2001:db8::1 A.Org\n\
            fe80::1%eth0 a.org\n\
            \xff\xff a.org\n\
            a.org\n\n\
            5.6.7.8 a.org.example x.a.org";
        for (name, addresses) in [
            ("a.org", &["1.2.3.4", "2001:db8::1"][..]),
            ("other.org", &["1.2.3.4"]),
            ("b.org", &[]),
            ("org", &[]),
            ("x.a.org", &["5.6.7.8"]),
        ] {
            let found = find(file, &HostName::parse(name).unwrap());
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, addresses, "{name}");
        }
    }
}
