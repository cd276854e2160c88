//! Real coding agents under their presets: their servers are a script on the loopback of a network
//! namespace, where nothing else can be reached. `FORGE_TEST_AGENTS` is the directory with their
//! programs: `npm install --prefix DIR @anthropic-ai/claude-code @openai/codex @google/gemini-cli
//! opencode-ai`, and then `DIR/node_modules/.bin`.

mod screen;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Ran, World, forge_program, ran};

const PROVIDER: &str = include_str!("provider.py");
const PORT: &str = "8181";
const HELLO: &str = "hello from the test";
const DONE: &str = "the work is done";
const SECRET: &str = "the text of a key of the person";

/// An agent, and how it is asked one thing.
struct Agent {
    preset: &'static str,
    key: &'static str,
    /// A key that the server accepts; with `dead` for `live`, it does not.
    value: &'static str,
    base_url: (&'static str, &'static str),
    ask: &'static [&'static str],
    /// Goes on with the last conversation.
    resume: &'static [&'static str],
    refusal: &'static str,
    /// `true` if the key stays outside.
    outside: bool,
    /// A file of the home directory that the person's use of it has left.
    state: (&'static str, &'static str),
}

const AGENTS: [Agent; 4] = [
    Agent {
        preset: "claude",
        key: "ANTHROPIC_API_KEY",
        value: "sk-ant-live",
        base_url: ("ANTHROPIC_BASE_URL", ""),
        ask: &["-p", "--allowedTools", "Bash", "--"],
        resume: &["-c", "-p", "--"],
        refusal: "Invalid API key",
        outside: true,
        state: (".claude.json", "{\"hasCompletedOnboarding\":true}"),
    },
    Agent {
        preset: "codex",
        key: "CODEX_API_KEY",
        value: "sk-proj-live",
        base_url: ("OPENAI_BASE_URL", "/v1"),
        ask: &["exec", "-m", "gpt-5.1-codex"],
        resume: &["exec", "-m", "gpt-5.1-codex", "resume", "--last"],
        refusal: "Incorrect API key provided",
        outside: true,
        state: (".codex/history.jsonl", ""),
    },
    Agent {
        preset: "gemini",
        key: "GEMINI_API_KEY",
        value: "AIza-live",
        base_url: ("GOOGLE_GEMINI_BASE_URL", ""),
        ask: &["--skip-trust", "--yolo", "-p"],
        resume: &["--skip-trust", "--resume", "latest", "-p"],
        refusal: "API key not valid",
        outside: false,
        state: (
            ".gemini/settings.json",
            "{\"security\":{\"auth\":{\"selectedType\":\"gemini-api-key\"}}}",
        ),
    },
    Agent {
        preset: "opencode",
        key: "ANTHROPIC_API_KEY",
        value: "sk-ant-live",
        base_url: ("ANTHROPIC_BASE_URL", "/v1"),
        ask: &["run", "-m", "anthropic/claude-sonnet-4-5"],
        resume: &["run", "-m", "anthropic/claude-sonnet-4-5", "-c"],
        refusal: "invalid x-api-key",
        outside: true,
        state: (".local/share/opencode/x", ""),
    },
];

/// The directory with the agents' programs. `None`: they are not here, which is said.
#[expect(clippy::print_stderr, reason = "a skip is said")]
fn programs() -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let found = std::env::var_os("FORGE_TEST_AGENTS").map(PathBuf::from);
    if found.is_none() || !is_root {
        eprintln!("skipped: FORGE_TEST_AGENTS names no agents, or this user is not root");
    }
    found.filter(|_| is_root)
}

/// A repository of a person who has used the agent, with a made-up key.
struct AgentWorld {
    world: World,
    path: OsString,
}

impl AgentWorld {
    fn new(agent: &Agent, programs: &Path) -> AgentWorld {
        let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
        let home = world.outside().join("home");
        let (name, text) = agent.state;
        for (name, text) in [
            (name, text),
            (".ssh/id", SECRET),
            (
                ".gitconfig",
                "[user]\n\tname = n\n\temail = n@example.com\n",
            ),
        ] {
            let file = home.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::write(world.outside().join("provider.py"), PROVIDER).unwrap();
        // opencode knows a repository by its first commit.
        let first = ["commit", "-q", "--allow-empty", "-m", "first"];
        for args in [&["init", "-q"][..], &first] {
            let git = world.command(Path::new("git"), args).status();
            assert!(git.unwrap().success());
        }
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", programs.display()).into();
        AgentWorld { world, path }
    }

    fn log(&self) -> PathBuf {
        self.world.outside().join("requests.jsonl")
    }

    /// Returns the requests since the last call.
    fn requests(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let _ = fs::remove_file(self.log());
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Returns a command that runs the agent beside its server, in a network of their own. `dead`:
    /// with a key that the server refuses.
    fn command(&self, agent: &Agent, dead: bool, args: &[&str]) -> Command {
        let script = format!(
            "ip link set lo up && serves=$(python3 \"$0\" {PORT} \"$1\") && shift && \"$@\"; \
             code=$?; kill $serves; exit $code"
        );
        let (outside, log) = (self.world.outside(), self.log());
        let provider = outside.join("provider.py");
        let host = format!("127.0.0.1:{PORT}");
        let first = ["--net", "--", "sh", "-c", &script];
        let mut command = self.world.command(Path::new("unshare"), &first);
        let exec = ["exec", "--mechanism", "namespaces", "--share", "--preset"];
        command
            .arg(provider)
            .arg(log)
            .arg(forge_program())
            .args(exec);
        command.args([agent.preset, "--host", &host, "--", agent.preset]);
        let key = match dead {
            true => agent.value.replace("live", "dead"),
            false => agent.value.to_owned(),
        };
        let (name, below) = agent.base_url;
        command
            .args(args)
            .env("PATH", &self.path)
            .env("TERM", "xterm-256color")
            .env(agent.key, key)
            .env(name, format!("http://{host}{below}"));
        command
    }

    fn asks(&self, agent: &Agent, dead: bool, words: &[&str], prompt: &str) -> Ran {
        let args = [words, &[prompt]].concat();
        ran(self.command(agent, dead, &args).output().unwrap())
    }
}

/// Checks one session, from the first question to one that goes on with it.
fn session(agent: &Agent, programs: &Path) {
    let name = agent.preset;
    let world = AgentWorld::new(agent, programs);
    let version = ran(world
        .command(agent, false, &["--version"])
        .output()
        .unwrap());
    assert_eq!(version.code, 0, "{name}: {}", version.stderr);
    let hello = world.asks(agent, false, agent.ask, "hi");
    assert!(
        hello.stdout.contains(HELLO),
        "{name}: {} {}",
        hello.stdout,
        hello.stderr
    );
    let requests = world.requests();
    let with_key = requests
        .iter()
        .filter(|one| one["headers"].to_string().contains(agent.value));
    assert!(with_key.count() > 0, "{name}: {requests:?}");
    let dead = world.asks(agent, true, agent.ask, "hi");
    let told = format!("{}{}", dead.stdout, dead.stderr);
    assert!(
        dead.code != 0 && told.contains(agent.refusal),
        "{name}: {told}"
    );
    world.requests();
    // Its shell is inside: it commits, and finds neither the person's keys nor another host.
    let home = world.world.outside().join("home");
    let probe = format!(
        "cat {0}/.ssh/id; echo evil >> {0}/.gitconfig; echo key=${1}\n\
         getent hosts example.org || echo alone\n",
        home.display(),
        agent.key
    );
    fs::write(world.world.project().join("probe.sh"), probe).unwrap();
    let work = "WORK{echo x > made.txt && git add made.txt && git commit -qm made; sh probe.sh}";
    let done = world.asks(agent, false, agent.ask, work);
    assert!(
        done.stdout.contains(DONE),
        "{name}: {} {}",
        done.stdout,
        done.stderr
    );
    let log = world
        .world
        .command(Path::new("git"), &["log", "--format=%s"])
        .output();
    assert_eq!(
        String::from_utf8_lossy(&log.unwrap().stdout),
        "made\nfirst\n",
        "{name}"
    );
    let bodies: String = world
        .requests()
        .iter()
        .map(|one| one["body"].to_string())
        .collect();
    assert!(bodies.contains("alone"), "{name}: {bodies}");
    assert!(!bodies.contains(SECRET), "{name}");
    assert_eq!(
        bodies.contains(&format!("key={}", agent.value)),
        !agent.outside,
        "{name}"
    );
    let own = fs::read_to_string(home.join(".gitconfig")).unwrap();
    assert!(!own.contains("evil"), "{name}");
    // It finds its sessions again at the project's own path.
    let again = world.asks(agent, false, agent.resume, "and now?");
    assert!(
        again.stdout.contains(HELLO),
        "{name}: {} {}",
        again.stdout,
        again.stderr
    );
    let bodies: String = world
        .requests()
        .iter()
        .map(|one| one["body"].to_string())
        .collect();
    assert!(
        bodies.contains("WORK{"),
        "{name}: the session is new: {bodies}"
    );
    let kept = world.world.forge(&["quarantine", "list", "--json"]);
    assert!(
        kept.stdout.contains("\"entries\":[]"),
        "{name}: {}",
        kept.stdout
    );
}

#[test]
fn a_session_of_each_agent_works_and_stays_inside() {
    let Some(programs) = programs() else { return };
    for agent in &AGENTS {
        session(agent, &programs);
    }
}
