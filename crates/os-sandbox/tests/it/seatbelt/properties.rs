//! Generated policies, paths and patterns: the profile means what the policy means, and its text
//! knows no path.

use super::{Judge, access_of, profile};
use os_sandbox::{Access, Error, Policy, SeatbeltProfile, SeatbeltRun, System};
use proptest::prelude::*;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Names that patterns and mounts meet in.
const NAMES: [&str; 8] = ["a", "b", ".git", "hooks", ".env", ".env.x", "k.pem", "c"];
/// Where mounts are, as the kernel and as people name it.
const ROOTS: [(&str, &str); 4] = [
    ("/p", "/p"),
    ("/Users/me", "/Users/me"),
    ("/private/tmp/t", "/tmp/t"),
    ("/private/var/v", "/var/v"),
];
const PATTERNS: [&str; 8] = [
    ".git/hooks",
    "*.pem",
    ".env*",
    "a/*/b",
    "c",
    "*/c",
    "/a",
    "/c/*",
];

#[derive(Clone, Debug)]
struct Case {
    /// Root, names below, access, whether it is named by the logical path, whether it is shown
    /// under a name of its own.
    mounts: Vec<(usize, Vec<usize>, u8, bool, bool)>,
    protect: Vec<usize>,
    hide: Vec<usize>,
    ask: Vec<(usize, Vec<usize>)>,
}

fn case() -> impl Strategy<Value = Case> {
    let names = || prop::collection::vec(0..NAMES.len(), 0..4);
    let mount = (
        0..ROOTS.len(),
        names(),
        0u8..8,
        any::<bool>(),
        any::<bool>(),
    );
    (
        prop::collection::vec(mount, 1..6),
        prop::collection::vec(0..PATTERNS.len(), 0..3),
        prop::collection::vec(0..PATTERNS.len(), 0..2),
        prop::collection::vec(
            (0..ROOTS.len(), prop::collection::vec(0..NAMES.len(), 0..6)),
            12,
        ),
    )
        .prop_map(|(mounts, protect, hide, ask)| Case {
            mounts,
            protect,
            hide,
            ask,
        })
}

fn join(root: &str, names: &[usize]) -> PathBuf {
    names
        .iter()
        .fold(PathBuf::from(root), |path, name| path.join(NAMES[*name]))
}

fn bits(access: u8) -> Access {
    [Access::READ, Access::WRITE, Access::EXECUTE]
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| access & 1 << bit != 0)
        .fold(Access::NONE, |all, (_, one)| all | one)
}

/// The policy of a case, by the paths that it names, or by those that the kernel knows.
fn policy_of(case: &Case, canonical: bool) -> Result<Policy, Error> {
    let mut policy = Policy::builder().system(System::None);
    // Names of mounts so far, to show one as a part of another.
    let mut shown: Vec<(PathBuf, String, bool)> = Vec::new();
    for (index, (root, names, access, logical, own_name)) in case.mounts.iter().enumerate() {
        let kernel = join(ROOTS[*root].0, names);
        let around = shown
            .iter()
            .filter(|(host, ..)| kernel.starts_with(host) && *host != kernel)
            .max_by_key(|(host, ..)| host.as_os_str().len());
        let name = match around {
            Some((host, name, _)) if !own_name => {
                let rest = kernel.strip_prefix(host).expect("below");
                format!("{}/{}", name.trim_end_matches('/'), rest.display())
            }
            _ if index == 0 => "/".to_owned(),
            _ => format!("/m{index}"),
        };
        // A part must be named in the same way as what it is a part of.
        let logical = around.map_or(*logical, |(.., logical)| *logical);
        let host = match canonical || !logical {
            true => kernel.clone(),
            false => join(ROOTS[*root].1, names),
        };
        shown.push((kernel, name.clone(), logical));
        policy = policy.mount(host, name, bits(*access));
    }
    for index in &case.protect {
        policy = policy.protect(PATTERNS[*index]);
    }
    for index in &case.hide {
        policy = policy.hide(PATTERNS[*index]);
    }
    policy.build()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: test_sample::count("Seatbelt: profiles", 128, 400), ..ProptestConfig::default() })]

    /// Reading, writing and executing: the profile means what the policy means, by both names.
    #[test]
    fn the_judge_agrees_with_the_policy(case in case()) {
        let (Ok(policy), Ok(reference)) = (policy_of(&case, false), policy_of(&case, true)) else {
            return Ok(());
        };
        let Ok(profile) = SeatbeltProfile::new(&policy, &SeatbeltRun::default()) else {
            // Parts named by one spelling, in a mount named by the other.
            return Ok(());
        };
        let judge = Judge::new(&profile);
        for (root, names) in &case.ask {
            let kernel = join(ROOTS[*root].0, names);
            let want = access_of(&reference, &kernel);
            prop_assert_eq!(judge.access(&kernel), want, "{:?}", kernel);
            // What can be read can be looked at.
            if want.contains(Access::READ) {
                prop_assert!(judge.path("file-read-metadata", &kernel));
                prop_assert!(judge.path("file-test-existence", &kernel));
            }
            for operation in ["file-write-create", "file-write-unlink", "file-link"] {
                if judge.path(operation, &kernel) {
                    prop_assert!(want.contains(Access::WRITE), "{} {:?}", operation, kernel);
                }
            }
            prop_assert!(!judge.path("file-write-setugid", &kernel));
        }
    }

    /// Whatever the bytes of the paths are: the text is that of the same shape with plain names.
    #[test]
    fn the_text_knows_no_path(
        hosts in prop::collection::vec(prop::collection::vec(any_name(), 1..5), 1..5),
        access in prop::collection::vec(0u8..8, 5),
    ) {
        let build = |rename: &mut dyn FnMut(&[u8]) -> Vec<u8>| {
            let mut policy = Policy::builder().protect(".git/hooks").hide(".env*");
            for (index, names) in hosts.iter().enumerate() {
                let mut host = b"/top".to_vec();
                for name in names {
                    host.push(b'/');
                    host.extend(rename(name));
                }
                let name = if index == 0 { "/".to_owned() } else { format!("/m{index}") };
                policy = policy.mount(OsString::from_vec(host), name, bits(access[index]));
            }
            policy.build()
        };
        let Ok(policy) = build(&mut |name| name.to_vec()) else { return Ok(()) };
        let mut names: HashMap<Vec<u8>, usize> = HashMap::new();
        let plain = build(&mut |name| {
            let next = names.len();
            format!("n{}", names.entry(name.to_vec()).or_insert(next)).into_bytes()
        });
        let (one, other) = (profile(&policy), profile(&plain.expect("the same shape")));
        prop_assert_eq!(one.text(), other.text());
        prop_assert!(one.text().bytes().all(|b| b.is_ascii_graphic() || b == b' ' || b == b'\n'));
        let judge = Judge::new(&one);
        for mount in policy.mounts() {
            prop_assert_eq!(judge.access(mount.host()), access_of(&policy, mount.host()));
        }
    }

    /// Whatever a pattern is: the profile parses, and what the policy protects, in this or another
    /// case, is protected.
    #[test]
    fn no_pattern_is_too_much(
        pattern in "[ -~éK]{1,6}(/[a-c*.\\[\\]^\"\\\\]{1,3})?",
        below in "([a-c.]{1,2}/){0,2}",
        filler in "[a-zA-Z.]{0,3}",
        upper in any::<bool>(),
    ) {
        let policy = Policy::builder().mount("/p", "/", Access::ALL).protect(pattern.as_str());
        let Ok(policy) = policy.build() else { return Ok(()) };
        let judge = Judge::of(&policy);
        let name = pattern.replace('*', &filler);
        let path: PathBuf = Path::new(&format!("/p/{below}{name}")).components().collect();
        if path.components().any(|part| part == std::path::Component::ParentDir)
            || policy.allows(&path, Access::WRITE)
        {
            return Ok(());
        }
        let asked = if upper {
            PathBuf::from(path.to_string_lossy().to_ascii_uppercase().replacen("/P/", "/p/", 1))
        } else {
            path
        };
        prop_assert!(!judge.path("file-write-data", &asked), "{:?} {:?}", pattern, asked);
        prop_assert!(!judge.path("file-write-create", &asked), "{:?} {:?}", pattern, asked);
        prop_assert!(!judge.path("file-write-unlink", &asked), "{:?} {:?}", pattern, asked);
        prop_assert!(judge.path("file-read-data", &asked), "{:?} {:?}", pattern, asked);
    }
}

/// A name of any bytes that a path can have and Seatbelt can be told.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..12),
        Just(b"\")(allow default)(x \"".to_vec()),
        Just(b"a".to_vec()),
        Just(b".git".to_vec()),
    ]
    .prop_map(|name| {
        name.into_iter()
            .map(|byte| {
                if matches!(byte, 0 | b'\n' | b'/') {
                    b'x'
                } else {
                    byte
                }
            })
            .collect::<Vec<u8>>()
    })
    .prop_filter("no name", |name| name != b"." && name != b"..")
}
