//! What the agent loop costs beside its provider and its tools: time for a turn, and memory for a
//! hundred workers that are all in the middle of one.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_runtime::{
    Model, ModelEvent, ModelRequest, Playbook, ScriptedModel, Session, StopReason, ToolCall,
};
use sandbox_config::{Project, Sources, TrustedSettings, load};
use serde_json::json;
use tokio::sync::{Barrier, mpsc};

use crate::compare::{Measure, Outcome, median};

pub(crate) const FLAG: &str = "--agents";

const RUNS: usize = 40;
const TURNS: usize = 100;
const TURN_US: f64 = 1_000.0;
const WORKERS: usize = 100;
const WORKERS_MB: f64 = 300.0;
/// What each of the hundred reads, turn by turn.
const FILE_BYTES: usize = 48 * 1024;

const CONFIG: &str = "\
sandbox:
  mode: direct
  zones:
    data: { path: ./data, mode: ro }
limits: { max_turns: 1000, repeat_calls: null }
";

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let project = plant(dir.path())?;
    let short = turn(&project, 64)?;
    let long = turn(&project, 32 * 1024)?;
    let memory = match resident(dir.path())? {
        Some(megabytes) => Outcome::Amount {
            got: megabytes,
            unit: "MB",
            of: "resident at most, the whole process",
            target: WORKERS_MB,
        },
        None => Outcome::NotHere("no VmHWM in /proc/self/status".to_owned()),
    };
    Ok(vec![
        amount("loop, a turn with one call of no tool", short),
        amount("loop, the same with 32 KiB said in each turn", long),
        Measure {
            name: "loop, 100 workers at once that have read 5 x 48 KiB",
            outcome: memory,
        },
    ])
}

fn amount(name: &'static str, time: Duration) -> Measure {
    Measure {
        name,
        outcome: Outcome::Amount {
            got: time.as_secs_f64() * 1e6,
            unit: "µs",
            of: "a turn, of a hundred in one conversation",
            target: TURN_US,
        },
    }
}

fn plant(dir: &Path) -> Result<Project, Box<dyn Error>> {
    std::fs::create_dir(dir.join("workers"))?;
    std::fs::create_dir(dir.join("data"))?;
    std::fs::write(dir.join("golem-forge.config.yaml"), CONFIG)?;
    std::fs::write(
        dir.join("workers/main.worker"),
        "---\nname: main\n---\nRead.\n",
    )?;
    for number in 0..5 {
        let line = format!("{number} hay hay hay hay hay hay\n");
        std::fs::write(
            dir.join(format!("data/{number}.txt")),
            line.repeat(FILE_BYTES / line.len()),
        )?;
    }
    project(dir)
}

fn project(dir: &Path) -> Result<Project, Box<dyn Error>> {
    let mut sources = Sources::new(dir);
    sources.trust = TrustedSettings::Given;
    Ok(load(&sources)?)
}

/// Calls a tool that there is not, again and again, each time with other arguments; says so many
/// bytes with it.
struct Replay {
    bytes: usize,
}

impl Model for Replay {
    fn name(&self) -> String {
        "replay:bench".to_owned()
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        let (events, turn) = mpsc::channel(3);
        let number = request.turns_so_far();
        // The channel holds them all.
        let _ = events.try_send(ModelEvent::Text("x".repeat(self.bytes)));
        if number + 1 < TURNS {
            let _ = events.try_send(ModelEvent::Call(ToolCall {
                id: number.to_string(),
                tool: "nothing".to_owned(),
                arguments: json!({ "number": number }),
            }));
        }
        let _ = events.try_send(ModelEvent::End(StopReason::Done));
        turn
    }
}

/// The median time of a turn.
fn turn(project: &Project, bytes: usize) -> Result<Duration, Box<dyn Error>> {
    let runtime = runtime()?;
    let worker = project.worker("main")?;
    let mut times = Vec::new();
    for _ in 0..=RUNS {
        let session = Session::builder(Replay { bytes }).build();
        let grant = project.entry_grant(&worker)?;
        let start = Instant::now();
        let report = runtime.block_on(session.run(&worker, grant, "go"));
        let turns = u32::try_from(report.turns)?;
        times.push(start.elapsed() / turns.max(1));
        if !report.end.is_answer() || turns as usize != TURNS {
            return Err(format!("{turns} turns, and then {}", report.end).into());
        }
    }
    Ok(median(times))
}

fn runtime() -> Result<tokio::runtime::Runtime, Box<dyn Error>> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}

fn resident(dir: &Path) -> Result<Option<f64>, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .arg(FLAG)
        .arg(dir)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.trim().parse().ok())
}

/// Waits before the last turn until all the others are there as well.
struct AtOnce {
    played: ScriptedModel,
    all: Arc<Barrier>,
}

impl Model for AtOnce {
    fn name(&self) -> String {
        self.played.name()
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        if request.turns_so_far() < 5 {
            return self.played.turn(request);
        }
        let mut rest = self.played.turn(request);
        let all = Arc::clone(&self.all);
        let (events, turn) = mpsc::channel(4);
        tokio::spawn(async move {
            all.wait().await;
            while let Some(event) = rest.recv().await {
                if events.send(event).await.is_err() {
                    return;
                }
            }
        });
        turn
    }
}

/// A hundred workers, in this process; prints the most memory it had, in MB.
pub(crate) fn operate(dir: &Path) -> Result<(), Box<dyn Error>> {
    let project = project(dir)?;
    let worker = project.worker("main")?;
    let reads: String = (0..5)
        .map(|number| {
            format!("    - calls: [{{ tool: read_file, args: {{ path: /data/{number}.txt }} }}]\n")
        })
        .collect();
    let playbook = format!("version: 1\nworkers:\n  main:\n{reads}    - say: done\n");
    let all = Arc::new(Barrier::new(WORKERS));
    runtime()?.block_on(async {
        let mut running = Vec::new();
        for _ in 0..WORKERS {
            let model = AtOnce {
                played: ScriptedModel::new("bench", Playbook::parse(&playbook)?),
                all: Arc::clone(&all),
            };
            let session = Session::builder(model).build();
            let (worker, grant) = (worker.clone(), project.entry_grant(&worker)?);
            running.push(tokio::spawn(async move {
                session.run(&worker, grant, "go").await
            }));
        }
        for run in running {
            let report = run.await?;
            if !report.end.is_answer() {
                return Err(report.end.to_string().into());
            }
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse::<f64>().ok());
    match peak {
        Some(kilobytes) => println!("{}", kilobytes / 1024.0),
        None => println!("unknown"),
    }
    Ok(())
}
