//! Messages that name what is wrong where it is wrong.

use serde_json::json;

use crate::support::World;

const FILE: &str = "golem-forge.config.yaml";

fn worker(front: &str) -> String {
    format!("---\n{front}---\nGo.\n")
}

fn world(project: &str, front: &str) -> World {
    World::new(&[(FILE, project), ("workers/main.worker", &worker(front))])
}

#[test]
fn a_worker_that_wants_files_of_a_project_without_any_is_told_where_to_say_them() {
    for (front, place) in [
        ("sandbox: { readonly: true }\n", "workers/main.worker:2:12"),
        (
            "sandbox: { zones: [{ name: a }] }\n",
            "workers/main.worker:2:12",
        ),
    ] {
        let world = World::new(&[
            ("program.yaml", "name: x\n"),
            ("workers/main.worker", &worker(front)),
        ]);
        let checked = world.forge(&["check"]);
        let all = format!("{}{}", checked.stdout, checked.stderr);
        assert_ne!(checked.code, 0, "{all}");
        assert!(all.contains(place), "{all}");
        assert!(all.contains("`sandbox: none` here"), "{all}");
        assert!(!all.contains("has one root"), "{all}");
    }
}

#[test]
fn a_refusal_names_the_key_and_whose_it_is() {
    let zones = "sandbox: { mode: direct, zones: { data: { path: ./data } } }\n";
    let held = "sandbox: { zones: [{ name: data }] }\n";
    let world = world(zones, &format!("{held}approval: {{ mode: deny }}\n"));
    let write = json!({ "path": "/data/x", "content": "y" }).to_string();
    world
        .forge(&["tools", "call", "write_file", &write])
        .code(1)
        .says(&["a worker's own file asks for this by `approval.mode`"]);
    let dir = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&dir).unwrap();
    let own = "approval: { require_user_permission: { read_file: true } }\n";
    std::fs::write(dir.join("config.yaml"), own).unwrap();
    world.write("workers/main.worker", &worker(held));
    world.write("data/a", "a\n");
    world
        .forge(&["tools", "call", "read_file", r#"{"path":"/data/a"}"#])
        .code(3)
        .says(&["the person's own setting for tool `read_file`"]);
}

#[test]
fn a_subtree_that_became_the_root_is_named_as_the_project_sees_it() {
    let world = world(
        "sandbox: { root: . }\n",
        "sandbox: { restrict: /src, rebase: true }\n",
    );
    world.write("src/a", "a\n");
    let tree = world.forge(&["check"]).code(0).stdout.clone();
    assert!(tree.contains("narrower: / only below /src"), "{tree}");
}

#[test]
fn a_repository_has_one_name_and_a_file_that_cannot_be_staged_is_not_written() {
    let git = "git: { repositories: [./remote.git] }\n";
    let zones = "sandbox: { mode: direct, zones: { workspace: { path: ./workspace } } }\n";
    let world = world(
        &format!("{zones}{git}"),
        &format!("sandbox: {{ zones: [{{ name: workspace }}] }}\n{git}"),
    );
    world.write("workspace/.env", "x\n");
    world.write("workspace/a", "a\n");
    let made = std::process::Command::new("git")
        .args(["init", "-q", "--bare"])
        .arg(world.project().join("remote.git"))
        .status();
    if !made.is_ok_and(|made| made.success()) {
        return;
    }
    let stage = |repo: &str, file: &str| {
        let arguments = json!({ "repo": repo, "files": [file], "message": "x" }).to_string();
        world.forge(&["--trust", "tools", "call", "git_stage", &arguments])
    };
    for repo in ["./remote.git", "remote.git", "./remote.git/"] {
        stage(repo, "/workspace/a").code(0);
    }
    let host = world.project().join("remote.git");
    let host = host.to_str().unwrap();
    for repo in [host, &format!("file://{host}")] {
        stage(repo, "/workspace/a")
            .code(1)
            .says(&["is not one that you may use"]);
    }
    let refused = stage("./remote.git", "/workspace/.env");
    refused.code(1).says(&["Cannot stage '/workspace/.env'"]);
    assert!(
        !refused.stderr.contains("Cannot write"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_link_is_blamed_where_it_is_and_its_target_advised_only_where_it_helps() {
    let world = world("sandbox: { zones: { data: { path: ./l } } }\n", "");
    let link = |target: &std::path::Path, name: &str| {
        std::os::unix::fs::symlink(target, world.project().join(name)).unwrap();
    };
    std::fs::create_dir(world.project().join("real")).unwrap();
    link(&world.project().join("real"), ".sandbox");
    let refused = world.forge(&["check"]);
    refused
        .code(2)
        .says(&["`sandbox.root`, which `./l` is below, is a symbolic link"]);

    link(world.outside(), "out");
    world.write(FILE, "sandbox: { root: ./out }\n");
    let refused = world.forge(&["check"]);
    refused
        .code(2)
        .says(&["`./out` is a symbolic link; it leads elsewhere"]);
    link(&world.project().join("real"), "in");
    world.write(FILE, "sandbox: { root: ./in }\n");
    let refused = world.forge(&["check"]);
    refused
        .code(2)
        .says(&["`./in` is a symbolic link; name its target"]);
}

#[test]
fn a_file_that_is_toml_is_told_to_be_yaml() {
    let world = world("[sandbox]\nroot = \".\"\n", "");
    world.forge(&["check"]).code(2).says(&["the file is YAML"]);
}

#[test]
fn a_time_with_a_unit_is_told_that_it_is_in_seconds() {
    let ran = World::new(&[]).forge(&["exec", "--timeout", "2s", "--", "true"]);
    ran.code(125).says(&["not a whole number of seconds"]);
}
