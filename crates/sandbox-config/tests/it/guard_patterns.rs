//! What `protect` and `hide` may say, and what it means in each mount.

use sandbox_config::{Sources, load};

use crate::support::{CONFIG, Scratch};

const ZONES: &str = "zones: { data: { path: data, mode: ro }, ws: { path: ws } }";

fn said(sandbox: &str, key: &str, pattern: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let quoted = serde_json::to_string(pattern).unwrap();
    let scratch = Scratch::with_config(&format!("sandbox: {{ {sandbox}, {key}: [{quoted}] }}\n"));
    let project = load(&scratch.sources()).map_err(|mistakes| mistakes.to_string())?;
    let mounts = project.ceiling().mounts();
    Ok(mounts
        .map(|mount| {
            let paths = match key {
                "protect" => mount.protected_paths(),
                _ => mount.hidden_paths(),
            };
            (mount.target().to_owned(), paths.to_vec())
        })
        .collect())
}

#[test]
fn a_path_is_what_workers_and_commands_see() {
    let root = "root: .";
    for key in ["protect", "hide"] {
        for (sandbox, pattern, expected) in [
            (
                ZONES,
                "/data/p/private",
                &[("/data", &["/p/private"][..]), ("/ws", &[])][..],
            ),
            (ZONES, "/data/p*/", &[("/data", &["/p*"]), ("/ws", &[])]),
            (ZONES, "/work/ws/a", &[("/data", &[]), ("/ws", &["/a"])]),
            (ZONES, "a/b", &[("/data", &[]), ("/ws", &[])]),
            (root, "/src/x", &[("/", &["/src/x"])]),
            (root, "/work/src", &[("/", &["/work/src", "/src"])]),
        ] {
            let got = said(sandbox, key, pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
            let got: Vec<(&str, Vec<&str>)> = got
                .iter()
                .map(|(target, paths)| {
                    (target.as_str(), paths.iter().map(String::as_str).collect())
                })
                .collect();
            let expected: Vec<(&str, Vec<&str>)> = expected
                .iter()
                .map(|(target, paths)| (*target, paths.to_vec()))
                .collect();
            assert_eq!(got, expected, "{key}: {pattern}");
        }
    }
}

#[test]
fn what_cannot_be_held_is_refused_where_it_is_written() {
    for key in ["protect", "hide"] {
        for (pattern, why) in [
            ("key?.txt", "(character 4)"),
            ("[ab]", "commands cannot be held to this sign"),
            ("{a,b}", "commands cannot be held to this sign"),
            ("a/**/b", "a name at any depth already"),
            ("C:\\*", "commands cannot be held to this sign"),
            ("~/x*", "`~` is not expanded here"),
            ("a\0b", "a NUL is in no name"),
            ("../x", "are not followed"),
            ("a//b", "a name is missing"),
            ("", "a name is missing"),
            ("/nowhere/x", "`/nowhere/x` lies in no mount"),
            ("/data", "`/data` names a whole mount"),
        ] {
            let said = said(ZONES, key, pattern).expect_err(pattern);
            assert!(said.contains(why), "{pattern}: {said}");
            assert!(said.contains("golem-forge.config.yaml:1:"), "{said}");
            assert!(said.contains('^'), "{said}");
        }
    }
}

/// Mounts that could not be read are one mistake, whatever else is about them.
#[test]
fn a_path_in_unread_mounts_is_no_second_mistake() {
    let said = said("root: nosuch", "hide", "/abs").expect_err("no such directory");
    assert!(
        said.contains("nosuch") && !said.contains("lies in no mount"),
        "{said}"
    );
}

/// A file of the person's own speaks for every project, also for those without such a mount.
#[test]
fn the_persons_own_file_may_name_what_is_not_here() {
    let scratch = Scratch::new()
        .file(CONFIG, format!("sandbox: {{ {ZONES} }}\n"))
        .file("user.yaml", "sandbox: { hide: [/elsewhere/x, /data/x] }\n");
    let mut sources: Sources = scratch.sources();
    sources.user_file = Some(scratch.path().join("user.yaml"));
    let project = load(&sources).unwrap_or_else(|why| panic!("{why}"));
    let hidden: Vec<&[String]> = project
        .ceiling()
        .mounts()
        .map(sandbox_config::Mount::hidden_paths)
        .collect();
    assert_eq!(hidden, [&["/x".to_owned()][..], &[]]);
}
