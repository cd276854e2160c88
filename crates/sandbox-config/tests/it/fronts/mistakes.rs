//! What no front-end may say, and what rows may not say of each other.

use sandbox_config::load;

use super::scratch;
use crate::support::codes;

#[test]
fn mistakes_of_host_paths_and_names() {
    for (config, expected) in [
        // A project has one front-end.
        (
            "sandbox: { paths: {}, zones: {} }",
            &["config.front_end"][..],
        ),
        ("sandbox: { root: ., paths: {} }", &["config.front_end"]),
        (
            "sandbox: { mode: direct, mounts: [] }",
            &["config.front_end"],
        ),
        (
            "sandbox: { zones: {}, readonly: true }",
            &["config.front_end"],
        ),
        (
            "sandbox: { mounts: [], write_paths: [], paths: {} }",
            &["config.front_end", "config.front_end"],
        ),
        ("sandbox: { readonly: true }", &["config.front_end"]),
        // A root is there, below the project, and not through a link.
        ("sandbox: { root: missing }", &["config.host_path"]),
        ("sandbox: { root: .. }", &["config.host_path"]),
        (
            "sandbox: { root: data/../../outside }",
            &["config.host_path"],
        ),
        ("sandbox: { root: /etc }", &["config.host_path"]),
        ("sandbox: { root: link }", &["config.host_path"]),
        ("sandbox: { root: link/deep }", &["config.host_path"]),
        ("sandbox: { root: way-out }", &["config.host_path"]),
        ("sandbox: { root: file.txt }", &["config.host_path"]),
        ("sandbox: { root: '' }", &["config.host_path"]),
        // A link is no root of anything, and the way through one needs a yes.
        (
            "sandbox: { paths: { a: { root: link } } }",
            &["config.host_path"],
        ),
        (
            "sandbox: { mounts: [{ source: way-out, target: / }] }",
            &["config.host_path"],
        ),
        ("sandbox: { read_paths: [link] }", &["config.host_path"]),
        (
            "sandbox: { paths: { a: { root: link/deep } } }",
            &["config.untrusted"],
        ),
        (
            "sandbox: { mounts: [{ source: link/deep, target: / }] }",
            &["config.untrusted"],
        ),
        (
            "sandbox: { write_paths: [link/deep] }",
            &["config.untrusted"],
        ),
        (
            "sandbox: { read_paths: [../outside] }",
            &["config.untrusted"],
        ),
        (
            "sandbox: { mode: direct, zones: { a: { path: / } } }",
            &["config.host_path"],
        ),
        (
            "sandbox: { paths: { a: { root: / } } }",
            &["config.host_path"],
        ),
        (
            "sandbox: { mounts: [{ source: /, target: / }] }",
            &["config.host_path"],
        ),
        ("sandbox: { read_paths: [/] }", &["config.host_path"]),
        // One directory, one set of rights; also by `..` and, agreed to, through a link.
        (
            "sandbox: { mode: direct, zones: { a: { path: data, mode: ro }, b: { path: src/../data, mode: ro } } }",
            &["config.overlap"],
        ),
        (
            "sandbox: { paths: { a: { root: data }, b: { root: ./data/deep } } }",
            &["config.overlap"],
        ),
        (
            "sandbox: { paths: { a: { root: data/deep }, b: { root: link/deep } } }",
            &["config.untrusted", "config.overlap"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /a }, { source: data/deep, target: /b }] }",
            &["config.overlap"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /a }, { source: data, target: /a }] }",
            &["config.overlap"],
        ),
        (
            "sandbox: { read_paths: [data], write_paths: [data] }",
            &["config.overlap"],
        ),
        (
            "sandbox: { read_paths: [data, data/deep] }",
            &["config.overlap"],
        ),
        (
            "sandbox: { write_paths: [data], read_paths: [data/deep] }",
            &["config.overlap"],
        ),
        // Two at one place; names that differ in case only.
        (
            "sandbox: { mounts: [{ source: data, target: /a }, { source: docs, target: /a/ }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { write_paths: [data, out/data] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { paths: { a: { root: data }, A: { root: docs } } }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /a }, { source: docs, target: /A }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { write_paths: [out/Docs], read_paths: [docs] }",
            &["config.mount_name"],
        ),
        // What the system needs, where mounts appear at `/`.
        (
            "sandbox: { paths: { etc: { root: data } } }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /usr }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /Work }] }",
            &["config.mount_name"],
        ),
        ("sandbox: { read_paths: [src/lib] }", &["config.mount_name"]),
        // Deeper places lie below another mount.
        (
            "sandbox: { mounts: [{ source: data, target: /a/b }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: ., target: / }, { source: ../outside, target: /o }] }",
            &["config.untrusted"],
        ),
        (
            "sandbox: { mounts: [{ source: ., target: / }, { source: data, target: /docs }] }",
            &["config.overlap"],
        ),
        (
            "sandbox: { mounts: [{ source: ., target: '/*' }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: missing, target: / }] }",
            &["config.host_path"],
        ),
        ("sandbox: { read_paths: [missing] }", &["config.host_path"]),
    ] {
        let (_scratch, sources) = scratch(config);
        let mut found = match load(&sources) {
            Ok(_) => panic!("{config} was accepted"),
            Err(mistakes) => codes(&mistakes),
        };
        found.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{config}");
    }
}

/// Both places, in the words of the front-end.
#[test]
fn a_mistake_between_two_names_both() {
    for (config, texts) in [
        (
            "sandbox:\n  root: .\n  paths: {}\n",
            [
                "`sandbox` has two front-ends: `root` and `paths`",
                "config.yaml:3:3",
                "config.yaml:2:3   `root` is here",
            ],
        ),
        (
            "sandbox:\n  paths:\n    a: { root: data }\n    b: { root: data/deep }\n",
            [
                "path `b` lies inside path `a`",
                "config.yaml:4:16",
                "config.yaml:3:16   path `a`",
            ],
        ),
        (
            "sandbox:\n  mounts:\n    - { source: ., target: / }\n    - { source: data, target: /x }\n",
            [
                "mount `/x` lies inside mount `/`",
                "config.yaml:4:17",
                "config.yaml:3:17   mount `/`",
            ],
        ),
        (
            "sandbox:\n  read_paths: [data]\n  write_paths: [out/data]\n",
            [
                "paths `data` and `out/data` are both at /data",
                "config.yaml:3:17",
                "config.yaml:2:16   the other one",
            ],
        ),
    ] {
        let (_scratch, sources) = scratch(config);
        let said = load(&sources).unwrap_err().to_string();
        for text in texts {
            assert!(said.contains(text), "no {text:?} in\n{said}");
        }
    }
}

/// Checks between rows sort first. Comparing each with each takes half a minute for ten thousand
/// rows and a quarter of an hour for the longer list, and the watchdog barks.
#[test]
fn very_many_rows() {
    fn lines(count: usize, row: fn(usize) -> String) -> String {
        (0..count).map(row).collect::<Vec<_>>().join("\n")
    }
    let zones = lines(10_000, |i| format!("    z{i}: {{ path: ./z{i} }}"));
    let mounts = lines(10_000, |i| {
        format!("    - {{ source: ./data/deep, target: /m{i} }}")
    });
    let listed = lines(60_000, |i| format!("    - o/{i}"));
    for (config, rows) in [
        (format!("sandbox:\n  zones:\n{zones}"), Some(10_000)),
        (format!("sandbox:\n  write_paths:\n{listed}"), Some(60_000)),
        // Every one is the same directory.
        (format!("sandbox:\n  mounts:\n{mounts}"), None),
    ] {
        let (_scratch, sources) = scratch(&config);
        let (done, watchdog) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(load(&sources).map(|p| p.ceiling().mounts().count())));
        let loaded = watchdog
            .recv_timeout(std::time::Duration::from_secs(600))
            .expect("rows are compared each with each");
        assert_eq!(loaded.ok(), rows);
    }
}
