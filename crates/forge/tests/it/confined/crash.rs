//! A run that is killed (SIGKILL) at a random moment, and gone on with, again and again until it is
//! through. Whatever the moment: no half file, no process that lives on, no call twice, an audit log
//! that holds as far as it goes, a transcript that can be read, and an answer in the end.
//!
//! `cargo xtask crash` does it more often.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use forge_runtime::transcript::{Transcript, TranscriptProblem, read};
use serde_json::Value;

use crate::support::{Ran, World, forge_program, ran};

const KILLS: u32 = 12;
const BIG: usize = 300_000;

const CONFIG: &str = "\
sandbox:
  mode: direct
  zones: { workspace: { path: ./workspace, approval: { write: preApproved } } }
model: scripted:playbook.yaml
shell: { rules: [{ pattern: 'sleep *', approval: preApproved }] }
";

/// Two workers of one name at once, big files that are replaced, short commands, and one that only
/// a kill ends.
fn playbook(marker: &str) -> String {
    let (a, b) = ("A".repeat(BIG), "B".repeat(BIG));
    let note = |tag: &str| {
        format!(
            "        - {{ tool: append_file, args: {{ path: /workspace/notes, content: \"{tag},\" }} }}\n"
        )
    };
    let write = |text: &str| {
        format!(
            "        - {{ tool: write_file, args: {{ path: /workspace/big, content: {text} }} }}\n"
        )
    };
    let sleep = |seconds: &str| {
        format!(
            "        - {{ tool: shell, args: {{ command: 'sleep {seconds}', timeout_s: 300 }} }}\n"
        )
    };
    let turns = [
        format!("{}{}", note("one"), write(&a)),
        "        - { tool: child, args: { input: two } }\n        - { tool: child, args: { input: three } }\n".to_owned(),
        format!("{}{}{}", write(&b), note("four"), sleep("0.02")),
        "        - { tool: read_file, args: { path: /workspace/notes } }\n        - { tool: list_files, args: { path: /workspace } }\n".to_owned(),
        format!("{}{}", note("five"), sleep(marker)),
        note("six"),
    ];
    let turns: String = turns
        .iter()
        .map(|calls| format!("    - calls:\n{calls}"))
        .collect();
    let child = "        - { tool: append_file, args: { path: /workspace/notes, content: \"{{ input }},\" } }\n";
    format!(
        "version: 1\nworkers:\n  main:\n{turns}    - say: through\n  child:\n    - calls:\n{child}{}    - say: noted\n",
        sleep("0.02")
    )
}

const NOTES: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

/// What came of all kills.
#[derive(Default)]
struct Tally {
    kills: u32,
    runs: u32,
    went_on: u32,
    before_it_began: u32,
    answered: u32,
    torn_transcripts: u32,
    torn_logs: u32,
    interrupted: usize,
    /// By the last line of the transcript.
    moments: BTreeMap<String, u32>,
}

struct Victim {
    world: World,
    marker: String,
}

impl Victim {
    fn new(number: u32) -> Victim {
        // No other process of this machine sleeps that long.
        let marker = format!("600.{:08}{number:04}", std::process::id());
        let main = "---\nname: main\nworkers: [child]\n---\nGo.\n";
        let child = "---\nname: child\ndescription: notes\nsandbox: { zones: [{ name: workspace, mode: rw }] }\nshell: {}\n---\nGo.\n";
        let world = World::new(&[
            ("golem-forge.config.yaml", CONFIG),
            ("playbook.yaml", &playbook(&marker)),
            ("workers/main.worker", main),
            ("workers/child.worker", child),
        ]);
        Victim { world, marker }
    }

    fn start(&self) -> Child {
        let args: &[&str] = match self.run() {
            Some(_) => &["--trust", "run", "--resume", "last"],
            None => &["--trust", "run"],
        };
        let mut command = self.world.command(forge_program(), args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn run(&self) -> Option<PathBuf> {
        let runs = std::fs::read_dir(self.world.outside().join("state/runs")).ok()?;
        let mut runs: Vec<PathBuf> = runs.map(|run| run.unwrap().path()).collect();
        runs.sort();
        assert!(runs.len() < 2, "{runs:?}");
        runs.pop()
    }

    /// Whether a command of it is at work.
    fn sleeps(&self) -> bool {
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return false;
        };
        processes.filter_map(Result::ok).any(|process| {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.contains(&self.marker.as_bytes())
        })
    }

    /// What must hold however it ended.
    fn check(&self, tally: &mut Tally, when: &str) {
        // A watchdog: the command itself would go on for ten minutes.
        let since = Instant::now();
        while self.sleeps() {
            assert!(
                since.elapsed() < Duration::from_secs(600),
                "{when}: a command lives on"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let workspace = self.world.project().join("workspace");
        if let Ok(big) = std::fs::read(workspace.join("big")) {
            let whole = big.len() == BIG && (big[0] == b'A' || big[0] == b'B');
            assert!(
                whole && big.iter().all(|byte| *byte == big[0]),
                "{when}: half a file"
            );
        }
        let notes = self.notes();
        for note in NOTES {
            assert!(
                notes.iter().filter(|line| *line == note).count() < 2,
                "{when}: twice {note}: {notes:?}"
            );
        }
        assert!(
            notes.iter().all(|line| NOTES.contains(&line.as_str())),
            "{when}: {notes:?}"
        );
        let names = std::fs::read_dir(&workspace).into_iter().flatten();
        let left = names
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().starts_with(".forge-tmp-")
            })
            .count();
        assert!(left < 2, "{when}: {left} temporary files");
        let Some(run) = self.run() else {
            *tally.moments.entry("nothing kept yet".into()).or_default() += 1;
            return;
        };
        tally.torn_transcripts += u32::from(self.transcript(&run, tally, when));
        let verified = self.world.forge(&["log", "verify", "--json"]);
        let verified: Value = serde_json::from_str(&verified.stdout).unwrap();
        let word = verified["runs"][0]["integrity"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            ["unsealed", "torn", "whole"].contains(&word.as_str()),
            "{when}: {verified}"
        );
        tally.torn_logs += u32::from(word == "torn");
    }

    /// Whether its last line is torn.
    fn transcript(&self, run: &Path, tally: &mut Tally, when: &str) -> bool {
        let bytes = std::fs::read(run.join("transcript.jsonl")).unwrap_or_default();
        let moment = match read(&bytes[..]) {
            Ok(Transcript { torn_bytes, .. }) => {
                let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                let whole = lines.iter().rfind(|line| line.ends_with(b"\n")).unwrap();
                let line: Value = serde_json::from_slice(whole).unwrap();
                let kind = line["kind"].as_str().unwrap().to_owned();
                *tally.moments.entry(format!("behind `{kind}`")).or_default() += 1;
                return torn_bytes > 0;
            }
            Err(damage) if matches!(damage.problem, TranscriptProblem::Empty) => {
                "in its first line"
            }
            Err(damage) => panic!("{when}: {damage}"),
        };
        *tally.moments.entry(moment.into()).or_default() += 1;
        false
    }

    fn notes(&self) -> Vec<String> {
        let notes = std::fs::read_to_string(self.world.project().join("workspace/notes"));
        notes
            .unwrap_or_default()
            .split_terminator(',')
            .map(str::to_owned)
            .collect()
    }

    /// The run is through, however often it was killed before.
    fn check_the_end(&self, ran: &Ran, interrupted: usize, when: &str) {
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (0, "through\n"),
            "{when}: {}",
            ran.stderr
        );
        self.world.forge(&["log", "verify"]).code(0);
        let notes = self.notes();
        let missing = NOTES
            .iter()
            .filter(|note| !notes.iter().any(|line| line == *note))
            .count();
        assert!(
            missing <= interrupted,
            "{when}: {missing} missing, {interrupted} interrupted"
        );
        // What a kill left is swept by later writes.
        self.world
            .forge(&["run", "--resume", "last"])
            .code(0)
            .says(&["ended with this answer before"]);
    }
}

/// Numbers that look random; the same in every run of the test.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// How long a run takes until only a kill ends it.
fn time_to_the_long_command() -> Duration {
    let victim = Victim::new(0);
    let since = Instant::now();
    let mut child = victim.start();
    while !victim.sleeps() {
        let over = child.try_wait().unwrap();
        assert!(
            over.is_none(),
            "it ended by itself: {:?}",
            ran(child.wait_with_output().unwrap()).stderr
        );
        assert!(
            since.elapsed() < Duration::from_secs(600),
            "the command never started"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let took = since.elapsed();
    child.kill().unwrap();
    child.wait().unwrap();
    victim.check(&mut Tally::default(), "the first one");
    took
}

#[test]
fn a_run_that_is_killed_goes_on() {
    let kills = std::env::var("FORGE_TEST_KILLS");
    let kills = kills.map_or(KILLS, |kills| kills.parse().unwrap());
    let took = u64::try_from(time_to_the_long_command().as_micros()).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut tally = Tally::default();
    while tally.kills < kills {
        tally.runs += 1;
        let victim = Victim::new(tally.runs);
        let mut interrupted = 0;
        for life in 1.. {
            let began = victim.run().is_some();
            let mut child = victim.start();
            // Also a little later than the long command begins.
            let until = Duration::from_micros(random.below(took + took / 4));
            let when = format!("run {}, life {life}, after {until:?}", tally.runs);
            std::thread::sleep(until);
            let killed = child.try_wait().unwrap().is_none();
            child.kill().unwrap();
            let life_was = ran(child.wait_with_output().unwrap());
            interrupted += life_was.stderr.matches("\ninterrupted: ").count();
            interrupted += usize::from(life_was.stderr.starts_with("interrupted: "));
            if killed && life_was.code == -1 {
                tally.kills += 1;
                victim.check(&mut tally, &when);
                continue;
            }
            let nothing_kept = ["it was stopped before it began", "has no transcript"];
            if nothing_kept
                .iter()
                .any(|text| life_was.stderr.contains(text))
            {
                // It says why, and a new run begins.
                assert!(began && life_was.code != 0, "{when}");
                tally.before_it_began += 1;
                std::fs::remove_dir_all(victim.run().unwrap()).unwrap();
                continue;
            }
            if life_was.stderr.contains("ended with an answer") {
                // Killed between its answer and its end.
                assert!(began, "{when}");
                life_was.code(2);
                tally.answered += 1;
                break;
            }
            victim.check_the_end(&life_was, interrupted, &when);
            tally.went_on += u32::from(life > 1);
            break;
        }
        tally.interrupted += interrupted;
    }
    // `cargo xtask crash` makes a table of these.
    println!("crash\tkills\t{}", tally.kills);
    println!(
        "crash\truns, each killed until it was through\t{}",
        tally.runs
    );
    println!("crash\truns with an answer after kills\t{}", tally.went_on);
    println!(
        "crash\tkills before there was anything to go on from\t{}",
        tally.before_it_began
    );
    println!(
        "crash\tkills between the answer and the end\t{}",
        tally.answered
    );
    println!(
        "crash\tcalls interrupted, and told to the model\t{}",
        tally.interrupted
    );
    println!(
        "crash\ttorn last lines of transcripts\t{}",
        tally.torn_transcripts
    );
    println!("crash\ttorn last lines of audit logs\t{}", tally.torn_logs);
    for (moment, count) in &tally.moments {
        println!("crash\tkilled {moment}\t{count}");
    }
}
