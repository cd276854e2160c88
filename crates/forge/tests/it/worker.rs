//! `forge worker list|show|new`.

use serde_json::Value;

use crate::support::World;

const FILE: &str = "golem-forge.config.yaml";
const PROJECT: &str = "\
sandbox:
  zones:
    data: { path: data, mode: ro }
    ws: { path: ws }
";

fn world() -> World {
    World::new(&[
        (FILE, PROJECT),
        (
            "workers/main.worker",
            "---\nname: main\ndescription: leads\nworkers: [fmt]\n---\nGo.\n",
        ),
        (
            "workers/fmt.worker",
            "---\nname: fmt\ndescription: formats\nsandbox: { zones: [{ name: ws, mode: ro }] }\ntools: [read_file]\nlimits: { max_turns: 3 }\noutput_schema: { type: integer }\n---\nGo.\n",
        ),
        (
            "workers/greedy.worker",
            "---\nname: greedy\nsandbox: { zones: [{ name: data, mode: rw }] }\n---\nGo.\n",
        ),
    ])
}

fn json(world: &World, args: &[&str]) -> Value {
    let ran = world.forge(args);
    ran.code(0);
    assert_eq!(ran.stdout.lines().count(), 1);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn list_shows_what_each_holds() {
    let world = world();
    let ran = world.forge(&["worker", "list"]);
    ran.code(0);
    insta::assert_snapshot!(ran.stdout, @r#"
    fmt           ws ro                                                                      formats
    greedy        refused: The worker requests 'rw' on 'data' but the project only has 'ro'
    main (entry)  data ro, ws rw                                                             leads
    "#);
    let object = json(&world, &["worker", "list", "--json"]);
    assert_eq!(object["workers"][0]["grant"]["mounts"][0]["mode"], "ro");
    assert_eq!(object["workers"][1]["grant"], Value::Null);
    assert_eq!(object["workers"][2]["calls"][0], "fmt");
    World::new(&[]).forge(&["worker", "list"]).code(0);
}

#[test]
fn show_is_one_worker_with_everything() {
    let world = world();
    let object = json(&world, &["worker", "show", "fmt", "--json"]);
    assert_eq!(object["tools"], serde_json::json!(["read_file"]));
    assert_eq!(object["grant"]["limits"]["max_turns"], 3);
    assert_eq!(object["grant"]["mounts"][0]["origin"]["line"], 4);
    assert_eq!(object["output_schema"]["type"], "integer");
    assert_eq!(object["input_schema"], Value::Null);
    assert!(object.get("tree").is_none());
    let ran = world.forge(&["worker", "show", "fmt"]);
    for line in [
        "  input: any text\n",
        "  answer: JSON that fits its schema\n",
    ] {
        assert!(ran.stdout.contains(line), "{}", ran.stdout);
    }
    let object = json(&world, &["worker", "show", "main", "--tree", "--json"]);
    assert_eq!(object["tree"]["calls"][0]["worker"], "fmt");
    let ran = world.forge(&["worker", "show", "main", "--tree"]);
    ran.code(0);
    for text in [
        "main (entry)",
        "fmt",
        "narrower: no data, ws rw → ro",
        "calls: fmt",
    ] {
        assert!(ran.stdout.contains(text), "no {text}: {}", ran.stdout);
    }
    // The directories of the host are not made for it.
    assert!(!world.project().join(".sandbox").exists());
    world
        .forge(&["worker", "show", "fmy"])
        .code(2)
        .says(&["did you mean `fmt`?"]);
    world
        .forge(&["worker", "show", "greedy"])
        .code(2)
        .says(&["'rw' on 'data'"]);
}

#[test]
fn new_writes_a_worker_that_passes_check() {
    let world = World::new(&[(FILE, "name: x\n")]);
    let ran = world.forge(&["worker", "new", "main", "--description", "a: \"b\" # c\nd"]);
    ran.code(0);
    assert_eq!(ran.stdout, "workers/main.worker\n");
    let ran = world.forge(&["check"]);
    ran.code(0);
    assert_eq!(ran.stderr, "");
    let object = json(&world, &["worker", "show", "main", "--json"]);
    assert_eq!(object["description"], "a: \"b\" # c\nd");
    assert_eq!(object["grant"]["mounts"], serde_json::json!([]));
    let object = json(&world, &["worker", "new", "second", "--json"]);
    assert!(
        object["file"]
            .as_str()
            .unwrap()
            .ends_with("/workers/second.worker")
    );
}

#[test]
fn new_never_overwrites_and_never_leaves_the_project() {
    let world = World::new(&[
        (FILE, "name: x\n"),
        ("workers/taken.worker", "---\nname: taken\n---\nMine.\n"),
    ]);
    world
        .forge(&["worker", "new", "taken"])
        .code(1)
        .says(&["is there already"]);
    let text = std::fs::read_to_string(world.project().join("workers/taken.worker")).unwrap();
    assert!(text.contains("Mine."));
    // A name in another file is taken as well.
    world.write(".workers/other.worker", "---\nname: elsewhere\n---\nGo.\n");
    world
        .forge(&["worker", "new", "elsewhere", "-q"])
        .code(1)
        .says(&["other.worker"]);
    for bad in [
        "../x",
        "a/b",
        "A",
        "",
        "1a",
        "a.b",
        "a b",
        "-x",
        &"a".repeat(65),
    ] {
        world.forge(&["worker", "new", "--", bad]).code(2);
    }
    let left: Vec<_> = std::fs::read_dir(world.project().join("workers"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1);
    // A search path that is a link out of the project.
    let world = World::new(&[(FILE, "worker_paths: [linked]\n")]);
    std::fs::create_dir(world.outside().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", world.project().join("linked")).unwrap();
    world
        .forge(&["worker", "new", "main"])
        .code(2)
        .says(&["linked is a link"]);
    assert_eq!(
        std::fs::read_dir(world.outside().join("elsewhere"))
            .unwrap()
            .count(),
        0
    );
}
