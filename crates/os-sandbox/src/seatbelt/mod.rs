//! The input of macOS: a profile for `/usr/bin/sandbox-exec`, generated from a policy. This module
//! and the start (`start`) are pure, so that they are compiled and tested on every system. The
//! module `macos` only executes the start.
//!
//! Two rules keep hostile paths and unclear semantics out:
//!
//! - A host path is a parameter (`-D`), never text. The text depends on how many components a
//!   path has and on which path contains which, on nothing else.
//! - Where rules meet, they are written so that both known readings of the language agree (the
//!   last matching rule decides; the rules for the operation itself come before those above it):
//!   rules for one group of operations stand together, outer directories first, and denials for
//!   single operations come last. `seatbelt-eval` refuses to answer where the readings differ.

mod files;
mod fixed;
mod layout;
mod network;
mod pattern;
mod promises;
#[cfg_attr(
    not(any(target_os = "macos", test)),
    expect(dead_code, reason = "used by the backend of macOS; tested everywhere")
)]
pub(crate) mod start;
mod system;
mod text;

pub(crate) use promises::evaluate;

use crate::error::{Error, ErrorKind};
use crate::policy::Policy;
use layout::SeatbeltLayout;
use std::ffi::OsString;
use std::path::PathBuf;
use text::ProfileText;

/// The one program that applies profiles. It is never looked up along PATH.
pub(crate) const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// Bound on the text and the parameters: they are arguments, of which macOS takes 1 MiB together
/// with the variables (`ARG_MAX`).
const MAX_BYTES: usize = 640 << 10;

/// A Seatbelt profile, the input of `sandbox-exec`.
///
/// ```
/// use os_sandbox::{Access, Policy, SeatbeltProfile, SeatbeltRun};
///
/// let policy = Policy::builder().mount("/Users/me/a\"b", "/", Access::ALL).build()?;
/// let profile = SeatbeltProfile::new(&policy, &SeatbeltRun::default())?;
/// assert!(profile.text().starts_with("(version 1)\n(deny default"));
/// assert!(!profile.text().contains("Users/me"));
/// assert!(profile.parameters().iter().any(|(_, value)| value == "/Users/me/a\"b"));
/// assert_eq!(profile.argv("make", ["all"])[0], "/usr/bin/sandbox-exec");
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatbeltProfile {
    text: String,
    parameters: Vec<(String, OsString)>,
}

/// The properties of a run that a profile needs in addition to the policy. The default is a run
/// without directories of its own.
///
/// ```
/// use os_sandbox::SeatbeltRun;
///
/// let run = SeatbeltRun { tag: "run-7".to_owned(), ..SeatbeltRun::default() };
/// assert!(run.proxy_port.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeatbeltRun {
    /// The tag beside each denial in the kernel's log: letters, digits, `.`, `-`, `_`.
    pub tag: String,
    /// The directories of the mounts with links followed, in the policy's order. Empty if the
    /// policy does not name links.
    pub real: Vec<PathBuf>,
    /// Directories of this run alone, with full access: HOME and TMPDIR.
    pub private: Vec<PathBuf>,
    /// Directories of this run with read access: the one with links to the mounts.
    pub shown: Vec<PathBuf>,
    /// The loopback port of the broker's proxy, if the policy limits hosts.
    pub proxy_port: Option<u16>,
}

impl SeatbeltProfile {
    /// Writes the profile of a policy.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a path with a NUL byte or a line end, a mount whose real
    /// directory is not where the policy puts it, or a strange tag; [`ErrorKind::Limit`] if the
    /// profile is larger than a command line.
    pub fn new(policy: &Policy, run: &SeatbeltRun) -> Result<SeatbeltProfile, Error> {
        check_tag(&run.tag)?;
        let layout = SeatbeltLayout::new(policy, run)?;
        let mut text = ProfileText::new(&run.tag);
        fixed::write(&mut text);
        files::write(&mut text, policy, &layout);
        network::write(&mut text, policy, &layout, run.proxy_port);
        // Denials for single operations. No rule may follow them.
        files::write_last(&mut text, policy, &layout);
        let profile = SeatbeltProfile {
            text: text.finish(),
            parameters: layout.parameters(),
        };
        let bytes = profile.text.len()
            + profile
                .parameters
                .iter()
                .map(|(name, value)| name.len() + value.len() + 12)
                .sum::<usize>();
        if bytes > MAX_BYTES {
            return Err(ErrorKind::Limit
                .error(format!(
                    "a Seatbelt profile of {bytes} bytes, at most {MAX_BYTES}"
                ))
                .with_hint("use fewer mounts, or fewer protected and hidden patterns"));
        }
        Ok(profile)
    }

    sandbox_names::getters! {
        /// Returns the text. It is the same for all paths of one shape.
        pub text: &str = &text;
        /// Returns the parameters: every host path of the policy, and nothing else.
        pub parameters: &[(String, OsString)] = &parameters;
    }

    /// Returns the command line that runs a program under the profile.
    #[must_use]
    pub fn argv<I, S>(&self, program: impl Into<OsString>, args: I) -> Vec<OsString>
    where
        I: IntoIterator<Item = S>,
        S: Into<OsString>,
    {
        let mut argv: Vec<OsString> = vec![SANDBOX_EXEC.into(), "-p".into(), (&self.text).into()];
        for (name, value) in &self.parameters {
            let mut define = OsString::from(format!("-D{name}="));
            define.push(value);
            argv.push(define);
        }
        argv.push("--".into());
        argv.push(program.into());
        argv.extend(args.into_iter().map(Into::into));
        argv
    }
}

fn check_tag(tag: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if tag.len() > 64 || !tag.bytes().all(plain) {
        return Err(Error::invalid(format!("not a tag for a profile: {tag:?}")));
    }
    Ok(())
}
