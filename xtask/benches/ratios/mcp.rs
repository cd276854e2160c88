//! `forge mcp`, as it is installed and with its log, beside the two public servers of files and
//! beside a bare echo. All of them are started once and answer in turns.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::compare::{Measure, Outcome, median};

mod client;
pub(crate) mod echo;
mod tree;

use client::{Client, Request};

/// The public servers: how they are called here, and the variables in which `cargo xtask bench`
/// says where they are, or why they are not here.
const PEERS: [Peer; 2] = [
    Peer {
        name: "npm",
        shown: "npm server-filesystem",
        place: "FORGE_BENCH_NPM",
        not_here: "FORGE_BENCH_NPM_NOT_HERE",
    },
    Peer {
        name: "cargo",
        shown: "rust-mcp-filesystem",
        place: "FORGE_BENCH_CARGO",
        not_here: "FORGE_BENCH_CARGO_NOT_HERE",
    },
];

struct Peer {
    name: &'static str,
    shown: &'static str,
    place: &'static str,
    not_here: &'static str,
}

const STARTS: usize = 30;
/// Start to first answer, in milliseconds.
const START_MS: f64 = 5.0;
const READ_TO_ECHO: f64 = 1.3;
const MEMORY: f64 = 1.5;

/// A server in the measure, and how it is started.
struct Server {
    name: &'static str,
    shown: &'static str,
    command: Result<Command, String>,
}

/// What one server is asked for; in turns, where a call changes what the next one finds.
type Calls = fn(&Names) -> Vec<(&'static str, Value)>;

/// What files are called by one server.
struct Names {
    root: String,
    own: &'static str,
}

impl Names {
    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    fn own(&self, name: &str) -> String {
        format!("{}/{}/{name}", self.root, self.own)
    }
}

struct Row {
    name: &'static str,
    rounds: usize,
    batch: u32,
    /// What the answer holds, and how often.
    holds: (&'static str, usize),
    ours: Calls,
    npm: Option<Calls>,
    cargo: Option<Calls>,
}

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    tree::plant(&data, &["forge", "npm", "cargo"])?;
    // A repository, so that writing in place needs nobody's yes.
    std::fs::create_dir(dir.path().join(".git"))?;
    let servers = || servers(dir.path(), &data);
    let mut measures = starts(servers())?;
    let mut running = Vec::new();
    for server in servers() {
        let client = match server.command {
            Ok(mut command) => {
                let mut client = Client::start(&mut command)?;
                client.open()?;
                Ok(client)
            }
            Err(why) => Err(why),
        };
        running.push(Running {
            name: server.name,
            shown: server.shown,
            client,
        });
    }
    measures.extend(memory(
        "resident memory, after tools/list",
        "VmRSS",
        &running,
    ));
    measures.push(echo(&mut running, &data)?);
    for row in &ROWS {
        measures.extend(row.measure(&mut running, &data)?);
    }
    measures.extend(memory("peak memory, after all of this", "VmHWM", &running));
    Ok(measures)
}

struct Running {
    name: &'static str,
    shown: &'static str,
    client: Result<Client, String>,
}

/// Ours first.
fn servers(dir: &Path, data: &Path) -> Vec<Server> {
    let forge = match beside("forge") {
        Some(program) => {
            let project = dir.join("golem-forge.config.yaml");
            let config = "sandbox:\n  mounts:\n    - { source: ./data, target: /data }\n";
            let mut command = Command::new(program);
            command
                // What the others are given is not asked about either.
                .args(["--trust", "mcp"])
                .current_dir(dir)
                .env("HOME", dir)
                .env("FORGE_STATE_DIR", dir.join("state"));
            std::fs::write(project, config)
                .map(|()| command)
                .map_err(|error| error.to_string())
        }
        None => Err("there is no packaged build of forge".to_owned()),
    };
    let mut echo = Command::new(std::env::current_exe().unwrap_or_default());
    echo.arg(echo::FLAG);
    let mut servers = vec![Server {
        name: "forge",
        shown: "forge mcp",
        command: forge,
    }];
    servers.extend(PEERS.iter().map(|peer| Server {
        name: peer.name,
        shown: peer.shown,
        command: peer.command(data),
    }));
    servers.push(Server {
        name: "echo",
        shown: "bare rmcp echo",
        command: Ok(echo),
    });
    servers
}

impl Peer {
    fn command(&self, data: &Path) -> Result<Command, String> {
        let Some(place) = std::env::var_os(self.place).map(PathBuf::from) else {
            return Err(std::env::var(self.not_here)
                .unwrap_or_else(|_| "`cargo xtask bench mcp` brings it".to_owned()));
        };
        let mut command;
        if place.extension().is_some_and(|end| end == "js") {
            command = Command::new("node");
            command.arg(place);
        } else {
            command = Command::new(place);
            command.arg("--allow-write");
        }
        command.arg(data);
        Ok(command)
    }
}

/// Beside this program, which stands one directory deeper.
fn beside(name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let found = program.parent()?.parent()?.join(name);
    found.is_file().then_some(found)
}

/// From the start of the process to its answer to `initialize`.
fn starts(servers: Vec<Server>) -> Result<Vec<Measure>, Box<dyn Error>> {
    const NAME: &str = "start to first answer";
    let mut times: Vec<Vec<Duration>> = servers.iter().map(|_| Vec::new()).collect();
    let mut servers = servers;
    for round in 0..=STARTS {
        for turn in 0..servers.len() {
            let at = (round + turn) % servers.len();
            let Ok(command) = &mut servers[at].command else {
                continue;
            };
            let start = Instant::now();
            let client = Client::start(command)?;
            if round > 0 {
                times[at].push(start.elapsed());
            }
            drop(client);
        }
    }
    let least = times[0].iter().min().copied().unwrap_or_default();
    let mut measures = vec![Measure {
        name: NAME,
        outcome: Outcome::Amount {
            got: least.as_secs_f64() * 1e3,
            unit: "ms",
            of: "the least of 30",
            target: START_MS,
        },
    }];
    let ours = median(times[0].clone());
    for (server, times) in servers.into_iter().zip(times).skip(1) {
        measures.push(Measure {
            name: NAME,
            outcome: match server.command {
                Err(why) => Outcome::NotHere(format!("{}: {why}", server.shown)),
                Ok(_) => Outcome::Ratio {
                    ours,
                    other: median(times),
                    other_name: server.shown,
                    target: (server.name != "echo").then_some(1.0),
                },
            },
        });
    }
    Ok(measures)
}

fn memory(name: &'static str, of: &str, running: &[Running]) -> Vec<Measure> {
    let used = |server: &Running| server.client.as_ref().ok()?.memory(of);
    let leaner = running[1..]
        .iter()
        .filter(|server| server.name != "echo")
        .filter_map(|server| Some((used(server)?, server.shown)))
        .min_by(|one, other| one.0.total_cmp(&other.0));
    let outcome = match (used(&running[0]), leaner) {
        (Some(ours), Some((other, other_name))) => Outcome::Sizes {
            ours,
            other,
            unit: "MiB",
            other_name,
            target: MEMORY,
        },
        _ => Outcome::NotHere("nothing to compare, or no /proc/PID/status".to_owned()),
    };
    vec![Measure { name, outcome }]
}

/// Reading 1 KiB, beside a tool that says 1 KiB.
fn echo(running: &mut [Running], data: &Path) -> Result<Measure, Box<dyn Error>> {
    const NAME: &str = "read 1 KiB";
    let text = std::fs::read_to_string(data.join("small.txt"))?;
    let said = Request::call("echo", &json!({ "text": text }));
    let read = Request::call("read_file", &json!({ "path": "/data/small.txt" }));
    let mut contenders = Vec::new();
    for server in running {
        let request = match server.name {
            "forge" => &read,
            "echo" => &said,
            _ => continue,
        };
        match &mut server.client {
            Ok(client) => contenders.push((server.shown, client, vec![request])),
            Err(why) => {
                let outcome = Outcome::NotHere(why.clone());
                return Ok(Measure {
                    name: NAME,
                    outcome,
                });
            }
        }
    }
    for (_, client, requests) in &mut contenders {
        client.call(requests[0])?;
        if client.text()? != text {
            return Err("not the text that was written".into());
        }
    }
    let times = take_turns(100, 20, &mut contenders)?;
    Ok(Measure {
        name: NAME,
        outcome: Outcome::Ratio {
            ours: times[0],
            other: times[1],
            other_name: contenders[1].0,
            target: Some(READ_TO_ECHO),
        },
    })
}

impl Row {
    fn measure(
        &self,
        running: &mut [Running],
        data: &Path,
    ) -> Result<Vec<Measure>, Box<dyn Error>> {
        let requests = |calls: Calls, root: String, own: &'static str| -> Vec<Request> {
            calls(&Names { root, own })
                .iter()
                .map(|(tool, arguments)| Request::call(tool, arguments))
                .collect()
        };
        let host = data.to_string_lossy().into_owned();
        let ours = requests(self.ours, "/data".to_owned(), "forge");
        let npm = self.npm.map(|calls| requests(calls, host.clone(), "npm"));
        let cargo = self.cargo.map(|calls| requests(calls, host, "cargo"));
        let mut contenders = Vec::new();
        let mut measures = Vec::new();
        for server in running {
            let requests = match server.name {
                "forge" => Some(&ours),
                "npm" => npm.as_ref(),
                "cargo" => cargo.as_ref(),
                _ => continue,
            };
            let why = match (requests, &mut server.client) {
                (Some(requests), Ok(client)) => {
                    contenders.push((server.shown, client, requests.iter().collect::<Vec<_>>()));
                    continue;
                }
                (None, _) => "it has no such tool".to_owned(),
                (Some(_), Err(why)) => why.clone(),
            };
            measures.push(Measure {
                name: self.name,
                outcome: Outcome::NotHere(format!("{}: {why}", server.shown)),
            });
        }
        for (shown, client, requests) in &mut contenders {
            for request in requests.iter() {
                client.call(request)?;
            }
            let (what, times) = self.holds;
            let found = client.text()?.matches(what).count();
            if found != times {
                let text: String = client.text()?.chars().take(300).collect();
                let name = self.name;
                return Err(format!(
                    "{name}: {shown} says `{what}` {found} times of {times}: {text}"
                )
                .into());
            }
        }
        if contenders.len() < 2 {
            return Ok(measures);
        }
        let times = take_turns(self.rounds, self.batch, &mut contenders)?;
        let others = contenders.iter().zip(&times).skip(1);
        measures.extend(others.map(|((shown, ..), other)| Measure {
            name: self.name,
            outcome: Outcome::Ratio {
                ours: times[0],
                other: *other,
                other_name: shown,
                target: Some(1.0),
            },
        }));
        Ok(measures)
    }
}

type Contender<'a> = (&'static str, &'a mut Client, Vec<&'a Request>);

/// The median time of one call of each: as [`crate::compare::medians`], for as many as are here.
fn take_turns(
    rounds: usize,
    batch: u32,
    contenders: &mut [Contender<'_>],
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut times: Vec<Vec<Duration>> = contenders.iter().map(|_| Vec::new()).collect();
    let count = contenders.len();
    for round in 0..=rounds {
        for turn in 0..count {
            let at = (round + turn) % count;
            let (_, client, requests) = &mut contenders[at];
            let start = Instant::now();
            for _ in 0..batch {
                for request in requests.iter() {
                    client.call(request)?;
                }
            }
            let calls = batch * u32::try_from(requests.len())?;
            if round > 0 {
                times[at].push(start.elapsed() / calls);
            }
        }
    }
    Ok(times.into_iter().map(median).collect())
}

static ROWS: [Row; 8] = [
    Row {
        name: "read 1 KiB",
        rounds: 60,
        batch: 20,
        holds: ("line 3 of", 1),
        ours: |names| vec![("read_file", json!({ "path": names.at("small.txt") }))],
        npm: Some(|names| vec![("read_text_file", json!({ "path": names.at("small.txt") }))]),
        cargo: Some(|names| vec![("read_text_file", json!({ "path": names.at("small.txt") }))]),
    },
    Row {
        name: "read 64 KiB",
        rounds: 60,
        batch: 5,
        holds: ("line 300 of", 1),
        ours: |names| vec![("read_file", json!({ "path": names.at("medium.txt") }))],
        npm: Some(|names| vec![("read_text_file", json!({ "path": names.at("medium.txt") }))]),
        cargo: Some(|names| vec![("read_text_file", json!({ "path": names.at("medium.txt") }))]),
    },
    Row {
        name: "last 20 lines of 10 MiB",
        rounds: 30,
        batch: 3,
        holds: ("of something that", 20),
        ours: |names| {
            vec![(
                "read_file",
                json!({ "path": names.at("large.log"), "tail": 20 }),
            )]
        },
        // For both, the nothing after the last line end is a line.
        npm: Some(|names| {
            vec![(
                "read_text_file",
                json!({ "path": names.at("large.log"), "tail": 21 }),
            )]
        }),
        cargo: Some(|names| {
            vec![(
                "tail_file",
                json!({ "path": names.at("large.log"), "lines": 21 }),
            )]
        }),
    },
    Row {
        name: "list 1 000 names",
        rounds: 30,
        batch: 3,
        holds: ("file-", 1_000),
        ours: |names| vec![("list_files", json!({ "path": names.at("wide") }))],
        npm: Some(|names| vec![("list_directory", json!({ "path": names.at("wide") }))]),
        cargo: Some(|names| vec![("list_directory", json!({ "path": names.at("wide") }))]),
    },
    Row {
        name: "glob 10 000 files",
        rounds: 6,
        batch: 1,
        holds: (".md", tree::PAGES),
        ours: |names| {
            vec![(
                "list_files",
                json!({ "path": names.at("tree"), "pattern": "**/*.md" }),
            )]
        },
        npm: Some(|names| {
            vec![(
                "search_files",
                json!({ "path": names.at("tree"), "pattern": "**/*.md" }),
            )]
        }),
        cargo: Some(|names| {
            vec![(
                "search_files",
                json!({ "path": names.at("tree"), "pattern": "**/*.md" }),
            )]
        }),
    },
    Row {
        name: "search 10 000 files",
        rounds: 4,
        batch: 1,
        holds: ("a needle", tree::NEEDLES),
        ours: |names| {
            let arguments = json!({ "path": names.at("tree"), "pattern": "a needle" });
            vec![("search_files", arguments)]
        },
        npm: None,
        cargo: Some(|names| {
            let arguments = json!({
                "path": names.at("tree"), "pattern": "**/*", "query": "a needle",
            });
            vec![("search_files_content", arguments)]
        }),
    },
    Row {
        name: "write 1 KiB",
        rounds: 60,
        batch: 10,
        holds: ("written.txt", 1),
        ours: |names| vec![("write_file", written(names))],
        npm: Some(|names| vec![("write_file", written(names))]),
        cargo: Some(|names| vec![("write_file", written(names))]),
    },
    Row {
        name: "edit 1 KiB",
        rounds: 60,
        batch: 5,
        holds: ("the old text", 1),
        ours: |names| {
            let path = names.own("edited.txt");
            let to =
                |old: &str, new: &str| json!({ "path": path, "old_text": old, "new_text": new });
            vec![
                ("edit_file", to("the old text", "a new text")),
                ("edit_file", to("a new text", "the old text")),
            ]
        },
        npm: Some(edited),
        cargo: Some(edited),
    },
];

fn written(names: &Names) -> Value {
    let content = "what is written to a file here\n".repeat(33);
    json!({ "path": names.own("written.txt"), "content": content })
}

fn edited(names: &Names) -> Vec<(&'static str, Value)> {
    let path = names.own("edited.txt");
    let to = |old: &str, new: &str| json!({ "path": path, "edits": [{ "oldText": old, "newText": new }] });
    vec![
        ("edit_file", to("the old text", "a new text")),
        ("edit_file", to("a new text", "the old text")),
    ]
}
