//! The files that programs of macOS need to run, for each value of `System`. They are constants of
//! this crate, so they may be part of the text. Directories with secrets or other people's data
//! (`/Library/Keychains`, `/Library/Preferences`, `/private/var`, Homebrew's `var` and most of its
//! `etc`) are left out.

use super::layout;
use crate::policy::{BROAD, DEVICES, ETC, System};
use std::path::Path;

/// Programs and libraries: read, execute, map.
#[rustfmt::skip]
const PROGRAMS: [&str; 31] = [
    "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/lib", "/System/Library",
    "/System/iOSSupport", "/System/Cryptexes", "/System/Volumes/Preboot/Cryptexes",
    "/private/preboot/Cryptexes", "/private/var/db/dyld", "/Applications", "/Library/Apple",
    "/Library/Developer", "/Library/Frameworks", "/Library/Java", "/usr/local/bin",
    "/usr/local/sbin", "/usr/local/lib", "/usr/local/libexec", "/usr/local/opt",
    "/usr/local/Cellar", "/usr/local/Frameworks", "/opt/homebrew/bin", "/opt/homebrew/sbin",
    "/opt/homebrew/lib", "/opt/homebrew/opt", "/opt/homebrew/Cellar", "/opt/homebrew/Frameworks",
    "/nix/store",
];

/// Read only.
#[rustfmt::skip]
const DATA: [&str; 20] = [
    "/usr/share", "/usr/include", "/usr/local/share", "/usr/local/include",
    "/usr/local/etc/ca-certificates", "/usr/local/etc/openssl@3", "/opt/homebrew/share",
    "/opt/homebrew/include", "/opt/homebrew/etc/ca-certificates", "/opt/homebrew/etc/openssl@3",
    "/Library/Filesystems/NetFSPlugins", "/Library/Fonts", "/Library/Preferences/Logging",
    "/Library/Preferences/.GlobalPreferences.plist",
    "/private/var/db/eligibilityd/eligibility.plist", "/private/var/db/timezone",
    "/private/var/db/xcode_select_link", "/private/var/run/resolv.conf", "/private/var/select",
    "/private/etc/localtime",
];

/// Read only, in addition to the files that are known on every system.
#[rustfmt::skip]
const ETC_OF_MACOS: [&str; 12] = [
    "/etc/bashrc", "/etc/irbrc", "/etc/man.conf", "/etc/manpaths", "/etc/paths", "/etc/paths.d",
    "/etc/rpc", "/etc/shells", "/etc/ssl/cert.pem", "/etc/zprofile", "/etc/zshenv", "/etc/zshrc",
];

/// Directories on the way to the above, which programs look at one by one.
#[rustfmt::skip]
const ON_THE_WAY: [&str; 26] = [
    "/Library", "/Library/Filesystems", "/Library/Preferences", "/System", "/System/Volumes",
    "/System/Volumes/Data", "/System/Volumes/Data/Users", "/System/Volumes/Data/private",
    "/System/Volumes/Preboot", "/Users", "/dev", "/etc", "/etc/ssl", "/opt", "/opt/homebrew",
    "/opt/homebrew/etc", "/private", "/private/etc", "/private/etc/ssl", "/private/tmp",
    "/private/var", "/private/var/db", "/private/var/run", "/tmp", "/usr", "/var",
];

/// Devices whose properties can be read without harm. Not `/dev/tty`: one of its requests puts
/// input into the terminal.
pub(super) const ASKED: [&str; 5] = [
    "/dev/dtracehelper",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Devices that are read and written.
pub(super) const DEVICE_FILES: [&str; 6] = DEVICES;

pub(super) fn programs(system: System) -> Vec<String> {
    match system {
        System::None => Vec::new(),
        System::Minimal | System::BroadRead => both(&PROGRAMS),
    }
}

/// Returns all paths that commands may read, programs included.
pub(super) fn read(system: System) -> Vec<String> {
    let mut out = programs(system);
    match system {
        System::None => return out,
        System::Minimal => {}
        System::BroadRead => {
            out.extend(both(&BROAD));
            out.push("/usr/local".to_owned());
        }
    }
    out.extend(both(&DATA));
    out.extend(both(&ETC));
    out.extend(both(&ETC_OF_MACOS));
    out
}

pub(super) fn on_the_way(system: System) -> &'static [&'static str] {
    match system {
        System::None => &["/dev"],
        System::Minimal | System::BroadRead => &ON_THE_WAY,
    }
}

/// Returns the paths under both names, if they have two.
fn both(paths: &[&str]) -> Vec<String> {
    let mut out = Vec::with_capacity(paths.len());
    for path in paths {
        for path in [
            layout::canonical(Path::new(path)),
            layout::logical(Path::new(path)),
        ] {
            // Constants of ours, so this loses nothing.
            let path = path.to_string_lossy().into_owned();
            if !out.contains(&path) {
                out.push(path);
            }
        }
    }
    out
}
