//! Whatever tree of workers is made and whatever it calls: nothing is read, written, deleted or
//! run that a worker's own declaration, or that of anybody above it, does not give. What holds
//! is reckoned here from what was generated, not asked of the code that decides; and what
//! happened is seen by what files hold and results show, not by what the tools say they did.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use file_sandbox::{FileSandbox, Mode, Mount, ReadOptions, SandboxPath};
use forge_runtime::{
    Message, Model, ModelEvent, ModelRequest, Observer, OsSandbox, RunEvent, Session,
    SessionBuilder, StopReason, ToolCall,
};
use forge_tools::AutoApprove;
use proptest::prelude::*;
use sandbox_config::{Sources, TrustedSettings, load};
use serde_json::json;
use tokio::sync::mpsc;

const ZONES: [&str; 3] = ["a", "b", "c"];
const WORKERS: [&str; 4] = ["main", "one", "two", "three"];

/// What may be done in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    Nothing,
    Read,
    Write,
}

/// What a worker declares about one directory.
#[derive(Debug, Clone, Copy)]
struct Part {
    hold: Hold,
    uses: bool,
}

#[derive(Debug, Clone)]
struct Tree {
    project: [Hold; 3],
    /// None: it says nothing of directories.
    workers: [Option<[Part; 3]>; 4],
}

#[derive(Debug, Clone)]
enum Op {
    Read(String),
    Write(String),
    Delete(String),
    Copy(String, String),
    Move(String, String),
    Cat(String),
    Remove(String),
    Call(&'static str),
    /// The turn, or the worker, is over.
    Enough,
}

impl Tree {
    fn config(&self) -> String {
        let mut text = String::from("sandbox:\n  mode: direct\n  zones:\n");
        for (zone, hold) in ZONES.iter().zip(self.project) {
            let mode = if hold == Hold::Write { "rw" } else { "ro" };
            writeln!(text, "    {zone}: {{ path: ./{zone}, mode: {mode} }}").unwrap();
        }
        text.push_str(
            "shell:\n  rules:\n    - { pattern: 'cat *', approval: preApproved }\n    \
             - { pattern: 'rm *', approval: blocked }\n  default: ask\n\
             limits: { max_turns: 200, repeat_calls: null }\n",
        );
        text
    }

    fn worker(&self, index: usize) -> String {
        let mut text = format!(
            "---\nname: {}\ndescription: d\nworkers: ['*']\n",
            WORKERS[index]
        );
        if let Some(parts) = &self.workers[index] {
            let declared: Vec<String> = ZONES
                .iter()
                .zip(parts)
                .filter(|(_, part)| part.hold != Hold::Nothing)
                .map(|(zone, part)| {
                    let mode = if part.hold == Hold::Write { "rw" } else { "ro" };
                    format!("{{ name: {zone}, mode: {mode}, use: {} }}", part.uses)
                })
                .collect();
            if !declared.is_empty() {
                writeln!(text, "sandbox: {{ zones: [{}] }}", declared.join(", ")).unwrap();
            }
        }
        text + "---\nGo.\n"
    }

    /// What the last of a chain of workers may do in a directory.
    fn may(&self, chain: &[String], zone: usize) -> Hold {
        let mut may = self.project[zone];
        for (depth, name) in chain.iter().enumerate() {
            let index = WORKERS.iter().position(|worker| worker == name).unwrap();
            let declared = self.workers[index]
                .filter(|parts| parts.iter().any(|part| part.hold != Hold::Nothing));
            let part = match declared {
                Some(parts) => parts[zone],
                // The entry worker has what the project gives; others have nothing.
                None if depth == 0 => Part {
                    hold: Hold::Write,
                    uses: true,
                },
                None => Part {
                    hold: Hold::Nothing,
                    uses: true,
                },
            };
            may = may.min(part.hold);
            if depth + 1 == chain.len() && !part.uses {
                may = Hold::Nothing;
            }
        }
        may
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let hold = prop_oneof![1 => Just(Hold::Nothing), 2 => Just(Hold::Read), 3 => Just(Hold::Write)];
    let part = (hold, proptest::bool::weighted(0.85)).prop_map(|(hold, uses)| Part { hold, uses });
    let given = prop_oneof![1 => Just(Hold::Read), 3 => Just(Hold::Write)];
    let zones = [part.clone(), part.clone(), part];
    // An entry worker that asks for too much is not started at all.
    let entry = proptest::option::weighted(0.3, zones.clone());
    let parts = proptest::option::weighted(0.85, zones);
    (
        [given.clone(), given.clone(), given],
        (entry, parts.clone(), parts.clone(), parts),
    )
        .prop_map(|(project, (main, one, two, three))| Tree {
            project,
            workers: [main, one, two, three],
        })
}

fn path() -> impl Strategy<Value = String> {
    let zone = proptest::sample::select(ZONES.to_vec());
    let other = proptest::sample::select(ZONES.to_vec());
    prop_oneof![
        6 => zone.clone().prop_map(|zone| format!("/{zone}/f")),
        3 => (zone.clone(), other.clone()).prop_map(|(zone, other)| format!("/{zone}/../{other}/f")),
        2 => (zone.clone(), other).prop_map(|(zone, other)| format!("/{zone}/to-{other}/f")),
        1 => zone.clone().prop_map(|zone| format!("/{zone}/out/secret")),
        1 => zone.clone().prop_map(|zone| format!("/{zone}/../../secret")),
        1 => zone.prop_map(|zone| format!("/{zone}/new")),
        1 => Just("/secret".to_owned()),
        1 => Just("secret".to_owned()),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => path().prop_map(Op::Read),
        4 => path().prop_map(Op::Write),
        2 => path().prop_map(Op::Delete),
        2 => (path(), path()).prop_map(|(from, to)| Op::Copy(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Op::Move(from, to)),
        1 => path().prop_map(Op::Cat),
        1 => path().prop_map(Op::Remove),
        6 => proptest::sample::select(WORKERS.to_vec()).prop_map(Op::Call),
        2 => Just(Op::Enough),
    ]
}

/// Makes the calls of a list, whoever asks; a worker is told its chain as its input.
struct Makes(Mutex<Vec<Op>>);

impl Model for Makes {
    fn name(&self) -> String {
        "makes:test".into()
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        let (events, turn) = mpsc::channel(3);
        let Some(Message::Input { text: chain }) = request.messages.first() else {
            panic!("no input");
        };
        let op = self.0.lock().unwrap().pop().unwrap_or(Op::Enough);
        let made = match op {
            Op::Enough => None,
            Op::Read(path) => Some(("read_file", json!({"path": path}))),
            Op::Write(path) => Some((
                "write_file",
                json!({"path": path, "content": format!("written by {chain}")}),
            )),
            Op::Delete(path) => Some(("delete_file", json!({"path": path}))),
            Op::Copy(from, to) => Some(("copy_file", json!({"from": from, "to": to}))),
            Op::Move(from, to) => Some(("move_file", json!({"from": from, "to": to}))),
            Op::Cat(path) => Some(("shell", json!({"command": format!("cat {path}")}))),
            Op::Remove(path) => Some(("shell", json!({"command": format!("rm {path}")}))),
            Op::Call(worker) => Some((
                "call_worker",
                json!({"worker": worker, "input": format!("{chain}>{worker}")}),
            )),
        };
        if let Some((tool, arguments)) = made {
            let _ = events.try_send(ModelEvent::Call(ToolCall {
                id: String::new(),
                tool: tool.into(),
                arguments,
            }));
        }
        let _ = events.try_send(ModelEvent::End(StopReason::Done));
        turn
    }
}

/// What was seen, and of it what must not be.
struct Seen {
    tree: Tree,
    wrong: Mutex<Vec<String>>,
    calls: Mutex<BTreeMap<String, (String, serde_json::Value)>>,
    done: Mutex<u64>,
    /// Of each zone, whose contents may lie there: a worker may copy what it may read to where it
    /// may write.
    lies: Mutex<[[bool; 3]; 3]>,
}

/// In each zone only its own content.
const AT_FIRST: [[bool; 3]; 3] = [
    [true, false, false],
    [false, true, false],
    [false, false, true],
];

impl Seen {
    fn wrong(&self, text: String) {
        self.wrong.lock().unwrap().push(text);
    }

    /// The zone that a path is in, by its words alone; none: in none.
    fn zone(path: &str) -> Option<usize> {
        let mut parts: Vec<&str> = Vec::new();
        for part in path
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
        {
            match part {
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        // Where a link leads is seen by what is read or written.
        let linked = parts.get(1).is_some_and(|part| part.starts_with("to-"));
        let zone = parts.first().filter(|_| !linked)?;
        ZONES.iter().position(|name| name == zone)
    }
}

impl Observer for Seen {
    fn observe(&self, event: RunEvent<'_>) {
        match event {
            RunEvent::Started { caller, .. } => {
                let chain = caller.chain();
                let Some((_, above)) = chain.split_last() else {
                    return;
                };
                if above.is_empty() {
                    return;
                }
                // Nobody is started who asks for more than the caller holds, used or not.
                for zone in 0..ZONES.len() {
                    let held = |chain: &[String]| {
                        let mut tree = self.tree.clone();
                        for parts in tree.workers.iter_mut().flatten() {
                            parts.iter_mut().for_each(|part| part.uses = true);
                        }
                        tree.may(chain, zone)
                    };
                    let index = WORKERS.iter().position(|name| *name == caller.worker());
                    let asks = self.tree.workers[index.unwrap()].map(|parts| parts[zone].hold);
                    if asks.is_some_and(|asks| asks > held(above)) {
                        self.wrong(format!("{caller} was started, and asks for {asks:?}"));
                    }
                }
            }
            RunEvent::CallStarted { caller, call } => {
                let key = format!("{:?} {}", caller.runs(), call.id);
                let made = (call.tool.clone(), call.arguments.clone());
                self.calls.lock().unwrap().insert(key, made);
            }
            RunEvent::CallEnded { caller, result } => {
                let key = format!("{:?} {}", caller.runs(), result.id);
                let (tool, arguments) = self.calls.lock().unwrap()[&key].clone();
                let may = |zone: usize| self.tree.may(caller.chain(), zone);
                // Of a worker, only what it says at the end; that is empty here.
                for (zone, name) in ZONES.iter().enumerate() {
                    let lies = self.lies.lock().unwrap();
                    let is_readable = |at: usize| lies[at][zone] && may(at) >= Hold::Read;
                    if result.content.contains(&format!("content of {name}"))
                        && !(0..ZONES.len()).any(is_readable)
                    {
                        self.wrong(format!("{caller} saw {name}: {tool} {arguments}"));
                    }
                }
                if result.content.contains("the secret") {
                    self.wrong(format!("{caller} saw the secret: {tool} {arguments}"));
                }
                if result.is_error || tool == "call_worker" {
                    return;
                }
                *self.done.lock().unwrap() += 1;
                if tool == "shell" && arguments["command"].as_str().unwrap().starts_with("rm") {
                    self.wrong(format!("{caller} ran what is blocked: {arguments}"));
                }
                let needs: &[(&str, Hold)] = match tool.as_str() {
                    "read_file" => &[("path", Hold::Read)],
                    "write_file" | "delete_file" => &[("path", Hold::Write)],
                    "copy_file" => &[("from", Hold::Read), ("to", Hold::Write)],
                    "move_file" => &[("from", Hold::Write), ("to", Hold::Write)],
                    _ => &[],
                };
                for (name, needs) in needs {
                    let path = arguments[name].as_str().unwrap();
                    if let Some(zone) = Seen::zone(path)
                        && may(zone) < *needs
                    {
                        self.wrong(format!("{caller} did {tool} {arguments}"));
                    }
                }
                let zone_of = |name: &str| arguments[name].as_str().and_then(Seen::zone);
                if let (Some(from), Some(to)) = (zone_of("from"), zone_of("to")) {
                    let mut lies = self.lies.lock().unwrap();
                    let carried = lies[from];
                    for (there, carried) in lies[to].iter_mut().zip(carried) {
                        *there |= carried;
                    }
                }
            }
            RunEvent::TurnStarted { .. }
            | RunEvent::Prepared { .. }
            | RunEvent::Streamed { .. }
            | RunEvent::Used { .. }
            | RunEvent::Said { .. }
            | RunEvent::ContextTrimmed { .. }
            | RunEvent::Ended { .. }
            | RunEvent::Warning { .. } => {}
        }
    }
}

/// What lies in a zone when all is over: name and text.
type Left = Vec<(String, String)>;

/// Where the zones are: what a run is given, and what is left of it.
trait World {
    fn zones(&self, session: SessionBuilder) -> SessionBuilder;
    fn left(&self, zone: usize) -> Left;
}

/// In directories of the host.
struct Host<'a> {
    dir: &'a Path,
    support: Arc<os_sandbox::Support>,
}

impl<'a> Host<'a> {
    fn new(dir: &'a Path, support: &Arc<os_sandbox::Support>) -> Self {
        for zone in ZONES {
            let at = dir.join(zone);
            std::fs::write(at.join("f"), format!("content of {zone}")).unwrap();
            for (name, text) in links() {
                std::os::unix::fs::symlink(text, at.join(name)).unwrap();
            }
        }
        Host {
            dir,
            support: Arc::clone(support),
        }
    }
}

/// The links in each zone.
fn links() -> impl Iterator<Item = (String, String)> {
    let others = ZONES.map(|other| (format!("to-{other}"), format!("../{other}")));
    others
        .into_iter()
        .chain([("out".to_owned(), "..".to_owned())])
}

impl World for Host<'_> {
    fn zones(&self, session: SessionBuilder) -> SessionBuilder {
        session.os_sandbox(OsSandbox::Detected(Arc::clone(&self.support)))
    }

    fn left(&self, zone: usize) -> Left {
        let entries = std::fs::read_dir(self.dir.join(ZONES[zone])).unwrap();
        entries
            .flatten()
            .filter(|entry| entry.file_type().unwrap().is_file())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read_to_string(entry.path()).unwrap())
            })
            .collect()
    }
}

/// In memory: the directories of the host stay empty.
struct Memory<'a> {
    dir: &'a Path,
    mounts: [Mount; 3],
}

impl<'a> Memory<'a> {
    fn new(dir: &'a Path) -> Self {
        let at = |name: &str| SandboxPath::parse(name).unwrap();
        let mounts = ZONES.map(|zone| {
            let mount = Mount::memory(SandboxPath::root(), Mode::ReadWrite);
            let content = format!("content of {zone}");
            let mount = mount.with_file(&at("f"), content.as_bytes()).unwrap();
            links().fold(mount, |mount, (name, text)| {
                mount.with_link(&at(&name), text).unwrap()
            })
        });
        Memory { dir, mounts }
    }
}

impl World for Memory<'_> {
    fn zones(&self, session: SessionBuilder) -> SessionBuilder {
        let dir = self.dir.canonicalize().unwrap();
        let zones = ZONES.map(|zone| dir.join(zone));
        let mounts = self.mounts.clone();
        session.directories(Arc::new(move |host: &Path| {
            let zone = zones.iter().position(|zone| zone == host).unwrap();
            Ok(mounts[zone].clone())
        }))
    }

    fn left(&self, zone: usize) -> Left {
        let untouched = std::fs::read_dir(self.dir.join(ZONES[zone])).unwrap();
        assert_eq!(untouched.count(), 0, "the host's {} is used", ZONES[zone]);
        let files = FileSandbox::new(vec![self.mounts[zone].clone()]).unwrap();
        ["f", "new"]
            .into_iter()
            .map(|name| (name, files.path(&format!("/{name}")).unwrap()))
            .filter(|(_, path)| files.exists(path).unwrap())
            .map(|(name, path)| {
                let text = files.read(&path, ReadOptions::default()).unwrap();
                (name.to_owned(), text.content)
            })
            .collect()
    }
}

fn check(tree: Tree, mut ops: Vec<Op>, support: Option<&Arc<os_sandbox::Support>>) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("workers")).unwrap();
    std::fs::write(at("secret"), "the secret").unwrap();
    for zone in ZONES {
        std::fs::create_dir(at(zone)).unwrap();
    }
    let world: Box<dyn World> = match support {
        Some(support) => Box::new(Host::new(dir.path(), support)),
        None => Box::new(Memory::new(dir.path())),
    };
    std::fs::write(at("golem-forge.config.yaml"), tree.config()).unwrap();
    for (index, name) in WORKERS.iter().enumerate() {
        std::fs::write(
            at("workers").join(format!("{name}.worker")),
            tree.worker(index),
        )
        .unwrap();
    }
    let mut sources = Sources::new(dir.path());
    sources.trust = TrustedSettings::Given;
    let project = load(&sources).unwrap();
    let worker = project.worker("main").unwrap();
    let Ok(grant) = project.entry_grant(&worker) else {
        // It asks for more than the project gives, and is not started.
        return Ok(0);
    };
    ops.reverse();
    let seen = Arc::new(Seen {
        tree,
        wrong: Mutex::default(),
        calls: Mutex::default(),
        done: Mutex::default(),
        lies: Mutex::new(AT_FIRST),
    });
    let session = Session::builder(Makes(Mutex::new(ops)))
        .workers(project.workers().unwrap())
        .approver(Arc::new(AutoApprove::confined()))
        .observer(Arc::clone(&seen) as Arc<dyn Observer>);
    let session = world.zones(session).build();
    let report = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(session.run(&worker, grant, "main"));
    prop_assert!(report.end.is_answer(), "{:?}", report.end);
    for (zone, name) in ZONES.iter().enumerate() {
        for (file, text) in world.left(zone) {
            // A copy may have another author; where nobody may write, there is none.
            let by_somebody = text.starts_with("written by ");
            if by_somebody && seen.tree.project[zone] < Hold::Write {
                seen.wrong(format!("{file} in {name} was written"));
            }
        }
    }
    prop_assert_eq!(std::fs::read_to_string(at("secret")).unwrap(), "the secret");
    let wrong = seen.wrong.lock().unwrap();
    prop_assert_eq!(&*wrong, &Vec::<String>::new());
    Ok(*seen.done.lock().unwrap())
}

/// How many calls did anything.
type Outcome = Result<u64, TestCaseError>;

fn nobody_does_it(cases: u32, check: impl Fn(Tree, Vec<Op>) -> Outcome) {
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    };
    let done = Mutex::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let given = (tree(), proptest::collection::vec(op(), 0..60));
    let outcome = runner.run(&given, |(tree, ops)| {
        *done.lock().unwrap() += check(tree, ops)?;
        Ok(())
    });
    outcome.unwrap();
    // Had nothing worked at all, nothing would have been shown.
    let done = *done.lock().unwrap();
    assert!(done > 0, "no call did anything");
}

#[test]
fn nobody_does_what_somebody_above_denies() {
    let support = Arc::new(os_sandbox::Support::detect());
    nobody_does_it(
        test_sample::count("delegation: trees", 24, 64),
        |tree, ops| check(tree, ops, Some(&support)),
    );
}

#[test]
fn nobody_does_it_in_memory_either() {
    nobody_does_it(
        test_sample::count("delegation: trees in memory", 64, 256),
        |tree, ops| check(tree, ops, None),
    );
}

/// Found by chance: what one worker copied, another one reads where it lies now.
#[test]
fn what_is_copied_is_read_where_it_lies() {
    let nothing = Part {
        hold: Hold::Nothing,
        uses: true,
    };
    let reads = Part {
        hold: Hold::Read,
        uses: true,
    };
    let tree = Tree {
        project: [Hold::Read, Hold::Write, Hold::Read],
        workers: [None, None, None, Some([nothing, reads, nothing])],
    };
    let path = |text: &str| text.to_owned();
    let ops = || {
        vec![
            Op::Delete(path("/b/f")),
            Op::Copy(path("/a/f"), path("/b/f")),
            Op::Call("three"),
            Op::Read(path("/b/f")),
        ]
    };
    let support = Arc::new(os_sandbox::Support::detect());
    for support in [Some(&support), None] {
        assert_eq!(check(tree.clone(), ops(), support).unwrap(), 3);
    }
}
