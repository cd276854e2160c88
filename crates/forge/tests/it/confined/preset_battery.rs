//! No preset opens what its receipt does not list: the same attempts under each built-in preset, as an
//! ordinary user whose home directory has what an attacker looks for, in a network namespace with
//! services of the host and of another host.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::users::UserWorld;
use crate::support::{World, ran};

/// Files with secrets that no preset shares.
const SECRETS: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".gnupg/private-keys",
    ".netrc",
    ".docker/config.json",
    ".kube/config",
    ".config/gh/hosts.yml",
    ".git-credentials",
    ".bash_history",
    ".local/share/keyrings/login.keyring",
    // Beside programs that presets show.
    ".local/bin/beside",
];

/// Files that programs of the person execute or obey.
const OBEYED: &[&str] = &[
    "home/.bashrc",
    "home/.profile",
    "home/.zshrc",
    "home/.gitconfig",
    "home/.ssh/authorized_keys",
    "home/.config/autostart/x.desktop",
    "home/.config/forge/presets/x.yaml",
    "home/.local/bin/claude",
    "home/.local/bin/new",
    "project/.git/hooks/pre-commit",
    "project/.git/hooks/post-checkout",
    "project/.bashrc",
    "project/.envrc",
    "project/.vscode/tasks.json",
    "project/.mcp.json",
    "project/forge.yaml",
    "project/.claude/settings.json",
    "project/.claude/hooks/x",
];

/// Attempts everything in `probes.json`, and prints the results as JSON.
const PROBE: &str = r#"
import json, os, socket, sys
probes = json.load(open("probes.json"))
read, written = [], []
home = os.environ["HOME"]
for name in probes["read"]:
    for path in (os.path.join(probes["home"], name), os.path.join(home, name), name):
        try:
            read.append(open(path).read())
        except OSError:
            pass
for path in probes["write"]:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError:
        pass
    for how in ("w", "x"):
        try:
            with open(path, how) as file:
                file.write("planted")
            written.append(path)
            break
        except OSError:
            pass
    try:
        with open(path + ".tmp", "w") as file:
            file.write("planted")
        os.replace(path + ".tmp", path)
    except OSError:
        pass
reached = []
def greet(stream, name):
    stream.settimeout(5)
    try:
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        if b"of the host" in stream.recv(100):
            reached.append(name)
    except OSError:
        pass
def attempt(family, address, name, lead=b""):
    try:
        stream = socket.socket(family, socket.SOCK_STREAM)
        stream.settimeout(5)
        stream.connect(address)
        if lead:
            stream.sendall(lead)
            stream.recv(200)
    except OSError:
        return
    greet(stream, name)
for host, port in probes["connect"]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    attempt(family, (host, port), host)
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    if proxy:
        at = proxy.rsplit("@", 1)[-1].split("//")[-1].strip("/")
        to, _, at_port = at.rpartition(":")
        target = "[%s]:%d" % (host, port) if ":" in host else "%s:%d" % (host, port)
        lead = ("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target)).encode()
        attempt(socket.AF_INET, (to, int(at_port)), "proxy to " + host, lead)
for path in probes["sockets"]:
    attempt(socket.AF_UNIX, path.replace("@", "\0", 1) if path[0] == "@" else path, path)
print(json.dumps({"read": read, "written": written, "reached": reached}))
"#;

/// Services of the host and of another host, which note each connection.
const SERVICES: &str = r#"
import os, socket, sys, threading
log, ready = open(sys.argv[1], "a", buffering=1), sys.argv[2]
listeners = []
for host in ("127.0.0.1", "203.0.113.7", "::1"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    one = socket.socket(family)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((host, 8099))
    listeners.append((host, one))
for path in sys.argv[3:]:
    one = socket.socket(socket.AF_UNIX)
    one.bind(path.replace("@", "\0", 1) if path[0] == "@" else path)
    if path[0] != "@":
        os.chmod(path, 0o777)
    listeners.append((path, one))
def serve(name, listener):
    while True:
        stream, _ = listener.accept()
        log.write("accepted %s\n" % name)
        try:
            stream.recv(100)
            stream.sendall(b"of the host")
        except OSError:
            pass
        stream.close()
for name, one in listeners:
    one.listen(8)
    threading.Thread(target=serve, args=(name, one), daemon=True).start()
open(ready, "w").close()
threading.Event().wait()
"#;

/// Prints the targets that a command has changed, and gives them back what they had.
const JUDGE: &str = r#"
import json, os
def content(path):
    try:
        return open(path).read()
    except OSError:
        return None
changed = []
for path, before in json.load(open("targets.json")):
    if content(path) == before:
        continue
    changed.append(path)
    if before is None:
        os.remove(path)
    else:
        open(path, "w").write(before)
print(json.dumps(changed))
"#;

/// Runs in the namespace: services, one connection to each as a control, and a command for each case.
const OUTER: &str = r#"
cd "$1" || exit 99
ip link set lo up && ip addr add 203.0.113.7/32 dev lo || exit 99
python3 services.py "$1/accepted" "$1/ready" "$1/home/daemon.sock" "$1/project/daemon.sock" @forge-battery &
services=$!
trap 'kill $services' EXIT
tries=0
until [ -e ready ]; do
    tries=$((tries + 1)); [ $tries -lt 600 ] || exit 99
    sleep 0.05
done
python3 - <<'CONTROL' || exit 99
import socket
for host in ("127.0.0.1", "203.0.113.7"):
    one = socket.create_connection((host, 8099), 10)
    one.sendall(b"x")
    assert one.recv(100) == b"of the host"
CONTROL
while read -r user case preset share mechanism; do
    export FORGE_STATE_DIR="$1/states/$case" HOME="$1/home" PATH="$1/home/.local/bin:/usr/bin:/bin"
    set -- "$1" "$1/forge" exec -q --preset "$preset" "--$share" --mechanism "$mechanism" \
        --receipt "$1/results/$case.receipt" -- python3 probe.py
    base=$1; shift
    [ "$user" = 0 ] || set -- setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
    (cd "$base/project" && exec "$@" </dev/null >"$base/results/$case.out" 2>"$base/results/$case.err")
    echo $? >"$base/results/$case.code"
    python3 judge.py >"$base/results/$case.changed" || exit 1
    set -- "$base"
done <cases
"#;

/// A state of a preset in the home directory.
struct State {
    path: String,
    is_file: bool,
    protect: Vec<String>,
}

fn json_of(world: &World, args: &[&str]) -> Value {
    let ran = world.forge(&[args, &["--json"]].concat());
    ran.code(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Returns the built-in presets and the state of all of them.
fn presets(world: &World) -> (Vec<String>, Vec<State>) {
    let list = json_of(world, &["preset", "list"]);
    let list = list.as_array().unwrap().iter();
    let names: Vec<String> = list
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    let mut states: Vec<State> = Vec::new();
    for name in &names {
        let shown = json_of(world, &["preset", "show", name, "--expanded"]);
        for state in shown["state"].as_array().unwrap() {
            let path = state["path"]
                .as_str()
                .unwrap()
                .trim_start_matches("~/")
                .to_owned();
            if states.iter().any(|known| known.path == path) {
                continue;
            }
            let is_file = Path::new(&path).extension().is_some();
            let protect = texts(&state["protect"]);
            states.push(State {
                path,
                is_file,
                protect,
            });
        }
    }
    (names, states)
}

fn secret(name: &str) -> String {
    format!("the secret of {name}")
}

/// Writes the files of the person.
fn fill(world: &World, states: &[State]) {
    let home = world.outside().join("home");
    for name in &secret_names(states) {
        let file = home.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, secret(name)).unwrap();
    }
    for name in [
        "claude", "codex", "gemini", "opencode", "copilot", "aider", "goose",
    ] {
        let program = home.join(".local/bin").join(name);
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in [".bashrc", ".profile", ".gitconfig"] {
        fs::write(home.join(name), "# mine\n").unwrap();
    }
    for dir in ["states", "results"] {
        fs::create_dir(world.outside().join(dir)).unwrap();
    }
    let git = Command::new("git")
        .args(["init", "-q"])
        .arg(world.project())
        .status();
    assert!(git.unwrap().success());
}

/// Returns the content of a file that exists, or of nothing.
fn content(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[test]
fn no_preset_opens_what_its_receipt_does_not_list() {
    let library = World::new(&[]);
    let (names, states) = presets(&library);
    assert!(names.len() >= 15 && states.len() >= 10, "{names:?}");
    let user = UserWorld::ordinary(|world| {
        world.write("forge.yaml", "sandbox: { root: . }\n");
        fill(world, &states);
    });
    let around = user.world.outside().canonicalize().unwrap();
    let secrets = secret_names(&states);
    let obeyed = OBEYED.iter().map(|name| around.join(name));
    let in_state = states.iter().flat_map(|state| {
        let plain = state.protect.iter().filter(|name| !name.contains('*'));
        plain.map(|name| {
            around
                .join("home")
                .join(&state.path)
                .join(name.trim_start_matches('/'))
        })
    });
    let targets: Vec<PathBuf> = obeyed.chain(in_state).collect();
    let before = targets.iter().map(|path| json!([path, content(path)]));
    let before = Value::Array(before.collect());
    let sockets = [
        around.join("home/daemon.sock").display().to_string(),
        around.join("project/daemon.sock").display().to_string(),
        "@forge-battery".to_owned(),
    ];
    let outside = ["/etc/shadow", "/root/.bashrc"].map(str::to_owned);
    let probes = json!({
        "home": around.join("home"),
        "read": secrets.iter().chain(&outside).collect::<Vec<_>>(),
        "write": targets,
        "connect": [["127.0.0.1", 8099], ["203.0.113.7", 8099], ["::1", 8099]],
        "sockets": sockets,
    });
    for (name, text) in [
        ("project/probes.json", probes.to_string()),
        ("project/probe.py", PROBE.to_owned()),
        ("services.py", SERVICES.to_owned()),
        ("judge.py", JUDGE.to_owned()),
        ("targets.json", before.to_string()),
    ] {
        fs::write(around.join(name), text).unwrap();
    }
    let mut all = Vec::new();
    for preset in &names {
        for share in ["share", "no-share"] {
            for mechanism in ["namespaces", "bubblewrap", "landlock"] {
                let case = format!("{preset}.{share}.{mechanism}");
                all.push((case, preset.as_str(), share, mechanism));
            }
        }
    }
    // Each preset in two of its six rows, and each kind of row with a third of the presets.
    let all = test_sample::cases("battery under presets", all, |at, _| {
        (at / 6 + at % 6) % 3 == 0
    });
    let mut cases = String::new();
    for (case, preset, share, mechanism) in &all {
        let id = user.id();
        writeln!(cases, "{id} {case} {preset} {share} {mechanism}").unwrap();
    }
    fs::write(around.join("cases"), cases).unwrap();
    user.own_everything();
    let mut outer = user.world.command(Path::new("unshare"), &[]);
    outer.args(match rustix::process::geteuid().is_root() {
        true => &["--net"][..],
        false => &["--user", "--map-root-user", "--net"],
    });
    let outer = outer.args(["sh", "-c", OUTER, "sh"]).arg(&around);
    let outer = ran(outer.output().unwrap());
    if outer.code == 99 || outer.stderr.contains("unshare") {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: no network namespace: {}",
            outer.stderr
        );
        return;
    }
    outer.code(0);

    // The controls, and no other connection under any preset.
    let accepted = content(&around.join("accepted")).unwrap();
    assert_eq!(accepted, "accepted 127.0.0.1\naccepted 203.0.113.7\n");
    let mut shown = BTreeSet::new();
    let mut tried = BTreeSet::new();
    for (case, preset, share, mechanism) in all {
        let result = |kind: &str| content(&around.join("results").join(format!("{case}.{kind}")));
        let error = result("err").unwrap();
        if result("code").unwrap() != "0\n" {
            // Stated before anything runs; see the module `presets` for it.
            let is_landlock = error.contains("cannot be shared under Landlock alone");
            let is_missing = error.contains(mechanism) && error.contains("not available");
            assert!(is_landlock || is_missing, "{case}: {error}");
            continue;
        }
        tried.insert(mechanism);
        let parsed =
            |kind: &str| -> Value { serde_json::from_str(&result(kind).unwrap()).unwrap() };
        let (found, receipt) = (parsed("out"), parsed("receipt"));
        let promises = receipt["promises"].as_array().unwrap();
        let names = promises
            .iter()
            .find(|one| one["promise"] == "protected names");
        let names = names.unwrap();
        for path in texts(&parsed("changed")) {
            // Landlock alone finds a change of an existing name after the end, and the receipt says so.
            let told = names["reason"].as_str().unwrap_or_default();
            let mut above = Path::new(&path).ancestors();
            let is_told =
                above.any(|path| told.contains(&format!("{} was changed", path.display())));
            let is_gap = mechanism == "landlock" && names["state"] == "degraded";
            assert!(is_gap && is_told, "{case}: {path} changed: {names}");
        }
        assert_eq!(found["reached"], json!([]), "{case}");
        let of_presets = &receipt["presets"];
        let state = of_presets["state"].as_array().unwrap().iter();
        let state = state.map(|one| one["path"].as_str().unwrap().to_owned());
        let listed: Vec<String> = state.chain(texts(&of_presets["programs"])).collect();
        for text in texts(&found["read"]) {
            let Some(name) = text.strip_prefix("the secret of ") else {
                panic!("{case}: read another file: {text}");
            };
            let file = around.join("home").join(name);
            let is_listed = listed.iter().any(|path| file.starts_with(path));
            assert!(
                is_listed,
                "{case}: reads {name}, which is not in {listed:?}"
            );
            if share == "share" {
                shown.insert((preset, name.to_owned()));
            }
        }
        if share == "no-share" {
            let needs_no_yes = |path: &String| path.ends_with(".cargo/config.toml");
            let state = of_presets["state"].as_array().unwrap().iter();
            let state = state.map(|one| one["path"].as_str().unwrap().to_owned());
            assert!(
                state.into_iter().all(|path| needs_no_yes(&path)),
                "{case}: {listed:?}"
            );
        }
        assert_eq!(of_presets["keys"], json!([]), "{case}");
    }
    // The attempts can succeed: what a receipt lists was read.
    assert!(!tried.is_empty(), "this host confines nothing");
    if tried.contains("namespaces") {
        for (preset, name) in [
            ("claude", ".claude/login"),
            ("claude", ".claude.json"),
            ("codex", ".codex/login"),
            ("claude", ".local/bin/beside"),
            ("jvm", ".m2/settings.xml"),
        ] {
            assert!(
                shown.contains(&(preset, name.to_owned())),
                "{preset} {name}: {shown:?}"
            );
        }
    }
}

/// Returns the names of the files with secrets.
fn secret_names(states: &[State]) -> Vec<String> {
    let of_state = states.iter().map(|state| match state.is_file {
        true => state.path.clone(),
        false => format!("{}/login", state.path),
    });
    SECRETS
        .iter()
        .map(|name| (*name).to_owned())
        .chain(of_state)
        .collect()
}
