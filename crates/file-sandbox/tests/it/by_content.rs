//! `*.pem` is a secret if the file holds a private key, whichever operation asks, on the host and
//! in memory.

use file_sandbox::{
    DEFAULT_HIDDEN, DEFAULT_PROTECTED, DeleteOptions, EditOptions, ErrorKind, FileSandbox,
    ListOptions, Mode, Mount, MoveOptions, Replacement, SearchOptions,
};

use crate::scene::{mount, path};

const CERT: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\n";

/// A tree with certificates, keys and links to both.
const FILES: [(&str, &str); 7] = [
    ("cert.pem", CERT),
    ("key.pem", KEY),
    (
        "both.PEM",
        "-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n",
    ),
    ("plain.txt", KEY),
    ("certs/ca.pem", CERT),
    ("keys/own.pem", KEY),
    ("dir.pem/inner.txt", CERT),
];
const LINKS: [(&str, &str); 5] = [
    ("to_cert.pem", "cert.pem"),
    ("to_key.pem", "plain.txt"),
    ("to_key", "key.pem"),
    ("gone.pem", "nothing"),
    ("to_cert", "cert.pem"),
];

/// Runs a test on the host and in memory.
fn each(test: impl Fn(&FileSandbox)) {
    let guarded = |mount: Mount| {
        let mount = mount.protect(DEFAULT_PROTECTED).unwrap();
        FileSandbox::new(vec![mount.hide(DEFAULT_HIDDEN).unwrap()]).unwrap()
    };
    let top = tempfile::tempdir().unwrap();
    for (at, text) in FILES {
        let at = top.path().join(at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, text).unwrap();
    }
    for (at, text) in LINKS {
        std::os::unix::fs::symlink(text, top.path().join(at)).unwrap();
    }
    test(&guarded(mount("/data", top.path(), Mode::ReadWrite)));
    let memory = Mount::memory(path("/data"), Mode::ReadWrite);
    let files = FILES.iter().try_fold(memory, |mount, (at, text)| {
        mount.with_file(&path(&format!("/{at}")), text.as_bytes())
    });
    let all = LINKS.iter().try_fold(files.unwrap(), |mount, (at, text)| {
        mount.with_link(&path(at), text)
    });
    test(&guarded(all.unwrap()));
}

fn at(name: &str) -> file_sandbox::SandboxPath {
    path(&format!("/data/{name}"))
}

/// A name, and whether it is shown.
const SHOWN: [(&str, bool); 12] = [
    ("cert.pem", true),
    ("to_cert.pem", true),
    ("to_cert", true),
    ("certs/ca.pem", true),
    ("key.pem", false),
    ("both.PEM", false),
    ("to_key.pem", false),
    ("to_key", false),
    ("gone.pem", false),
    ("keys/own.pem", false),
    ("dir.pem", false),
    ("dir.pem/inner.txt", false),
];

#[test]
fn a_certificate_is_read_and_a_key_is_absent() {
    each(|files| {
        for (name, shown) in SHOWN {
            let path = at(name);
            assert_eq!(
                files.read(&path, Default::default()).is_ok(),
                shown,
                "{name}"
            );
            assert_eq!(files.hash(&path).is_ok(), shown, "{name}");
            assert_eq!(files.open(&path).is_ok(), shown, "{name}");
            assert_eq!(files.exists(&path).unwrap(), shown, "{name}");
            assert_eq!(
                files.stat(&path).is_ok(),
                shown || name == "to_key",
                "{name}"
            );
            assert_eq!(files.can_read(&path), shown || name == "gone.pem", "{name}");
            let found = files.search(&path, "MIIB", SearchOptions::new());
            assert_eq!(
                found.is_ok_and(|found| !found.hits.is_empty()),
                shown,
                "{name}"
            );
            let copied = files.copy(&path, &at("copy.txt"), MoveOptions::new().overwrite(true));
            assert_eq!(copied.is_ok(), shown, "{name}");
        }
        let found = files
            .search(&path("/"), "MIIB", SearchOptions::new())
            .unwrap();
        let mut hits: Vec<_> = found.hits.iter().map(|hit| hit.path.as_str()).collect();
        hits.dedup();
        assert_eq!(
            hits,
            [
                "/data/cert.pem",
                "/data/certs/ca.pem",
                "/data/copy.txt",
                "/data/plain.txt"
            ]
        );
        let list = |dir: &str, options: ListOptions| -> Vec<String> {
            let list = files.list(&path(dir), options).unwrap();
            list.entries.iter().map(|one| one.name.clone()).collect()
        };
        assert_eq!(
            list("/data", ListOptions::new()),
            [
                "cert.pem",
                "certs",
                "copy.txt",
                "keys",
                "plain.txt",
                "to_cert",
                "to_cert.pem",
                "to_key"
            ]
        );
        assert!(list("/data/keys", ListOptions::new()).is_empty());
        let globbed = files
            .glob(&path("/data"), "**/*.pem", Default::default())
            .unwrap();
        let globbed: Vec<_> = globbed
            .entries
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(globbed, ["cert.pem", "certs/ca.pem", "to_cert.pem"]);
    });
}

#[test]
fn a_certificate_is_changed_and_a_key_is_not() {
    each(|files| {
        let kind = |done: Result<(), file_sandbox::Error>| done.map_err(|error| error.kind());
        let write = |name: &str, text: &str| {
            kind(files.write(&at(name), text, Default::default()).map(drop))
        };
        let edit = |name: &str| {
            let change = Replacement::new("MIIB", "MIIC");
            kind(
                files
                    .edit(&at(name), &[change], EditOptions::new())
                    .map(drop),
            )
        };
        for name in [
            "key.pem",
            "both.PEM",
            "keys/own.pem",
            "to_key.pem",
            "to_key",
        ] {
            let protected = Err(ErrorKind::ReadOnly);
            let absent = Err(ErrorKind::NotFound);
            assert_eq!(write(name, CERT), protected, "{name}");
            assert_eq!(
                kind(files.append(&at(name), b"x").map(drop)),
                protected,
                "{name}"
            );
            assert_eq!(edit(name), absent, "{name}");
            if name == "to_key" {
                // The link itself has an ordinary name.
                continue;
            }
            assert_eq!(kind(files.delete(&at(name))), absent, "{name}");
            let to = |to: &str| {
                files
                    .rename(&at(name), &at(to), MoveOptions::new())
                    .map(drop)
            };
            assert_eq!(kind(to("x.txt")), absent, "{name}");
            let over = MoveOptions::new().overwrite(true);
            let onto = files.rename(&at("cert.pem"), &at(name), over).map(drop);
            assert_eq!(kind(onto), protected, "{name}");
        }
        // With all that is in it.
        let all = DeleteOptions::new().recursive(true);
        assert_eq!(
            kind(files.delete_with(&at("keys"), all.clone())),
            Err(ErrorKind::ReadOnly)
        );
        let away = files.rename(&at("keys"), &at("vendor"), MoveOptions::new());
        assert_eq!(kind(away.map(drop)), Err(ErrorKind::ReadOnly));
        let away = files.rename(&at("certs"), &at("moved"), MoveOptions::new());
        assert_eq!(kind(away.map(drop)), Ok(()));
        assert_eq!(kind(files.delete_with(&at("moved"), all)), Ok(()));

        for name in [
            "cert.pem",
            "to_cert.pem",
            "to_cert",
            "new.pem",
            "deep/new.pem",
        ] {
            assert_eq!(write(name, CERT), Ok(()), "{name}");
            assert_eq!(edit(name), Ok(()), "{name}");
            assert_eq!(
                kind(files.append(&at(name), b"x").map(drop)),
                Ok(()),
                "{name}"
            );
        }
        let to = files.rename(&at("cert.pem"), &at("other.pem"), MoveOptions::new());
        assert_eq!(kind(to.map(drop)), Ok(()));
        assert_eq!(kind(files.delete(&at("other.pem"))), Ok(()));
        // What a worker makes is its own, until a call finds a key there.
        assert_eq!(write("made.pem", KEY), Ok(()));
        assert_eq!(write("made.pem", CERT), Err(ErrorKind::ReadOnly));
        // Only a file can be judged.
        assert_eq!(
            kind(files.create_dir(&at("new_dir.pem")).map(drop)),
            Err(ErrorKind::ReadOnly)
        );
        let onto = files.rename(&at("deep"), &at("deep.pem"), MoveOptions::new());
        assert_eq!(kind(onto.map(drop)), Err(ErrorKind::ReadOnly));
    });
}

#[test]
fn a_name_that_is_written_for_itself_holds_whatever_the_content() {
    let top = tempfile::tempdir().unwrap();
    std::fs::write(top.path().join("cert.pem"), CERT).unwrap();
    let data = mount("/data", top.path(), Mode::ReadWrite);
    let data = data.hide(["*.pem", "cert.pem"]).unwrap();
    let files = FileSandbox::new(vec![data]).unwrap();
    assert!(!files.exists(&at("cert.pem")).unwrap());
}

#[test]
fn what_cannot_be_judged_is_hidden() {
    let top = tempfile::tempdir().unwrap();
    let bound = usize::try_from(sandbox_names::secret::MAX_JUDGED_BYTES).unwrap();
    std::fs::write(top.path().join("large.pem"), vec![b'x'; bound + 1]).unwrap();
    std::fs::write(top.path().join("fits.pem"), vec![b'x'; bound]).unwrap();
    std::fs::write(top.path().join("binary.pem"), [0x30, 0x82, 0, 1]).unwrap();
    let data = mount("/data", top.path(), Mode::ReadWrite);
    let data = data.hide(DEFAULT_HIDDEN).unwrap();
    let files = FileSandbox::new(vec![data]).unwrap();
    for (name, shown) in [
        ("large.pem", false),
        ("fits.pem", true),
        ("binary.pem", false),
    ] {
        assert_eq!(files.exists(&at(name)).unwrap(), shown, "{name}");
    }
}
