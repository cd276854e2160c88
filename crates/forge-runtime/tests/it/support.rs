//! A project in a temporary directory, and a run of it.

use std::sync::{Arc, Mutex};

use forge_runtime::{
    Attachment, Message, Model, Observer, OsSandbox, Playbook, RunEvent, RunReport, ScriptedModel,
    Session,
};
use forge_tools::{Approver, MemoryRecorder, NoApprover};
use sandbox_config::{Sources, TrustedSettings, load};
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) records: Arc<MemoryRecorder>,
    pub(crate) log: Arc<Log>,
}

/// Which workers were started, and every tool result, as a line with who called.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) started: Mutex<Vec<String>>,
    pub(crate) drawn_from: Mutex<Vec<sandbox_config::MountSource>>,
    pub(crate) results: Mutex<Vec<(String, String)>>,
}

impl Observer for Log {
    fn observe(&self, event: RunEvent<'_>) {
        match event {
            RunEvent::Started { caller, drawn_from } => {
                self.started.lock().unwrap().push(caller.to_string());
                self.drawn_from.lock().unwrap().push(drawn_from);
            }
            RunEvent::Said {
                caller,
                message: Message::ToolResult(result),
            } => {
                let mark = if result.is_error { "✗" } else { "✓" };
                let line = format!("{mark} {}: {}", result.tool, result.content);
                let mut results = self.results.lock().unwrap();
                results.push((caller.to_string(), line));
            }
            RunEvent::Prepared { .. }
            | RunEvent::TurnStarted { .. }
            | RunEvent::Streamed { .. }
            | RunEvent::Used { .. }
            | RunEvent::CallStarted { .. }
            | RunEvent::CallEnded { .. }
            | RunEvent::Said { .. }
            | RunEvent::ContextTrimmed { .. }
            | RunEvent::Ended { .. }
            | RunEvent::Warning { .. } => {}
        }
    }
}

impl World {
    /// `workers`: name, front matter (without the name).
    pub(crate) fn new(config: &str, workers: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("workers")).unwrap();
        std::fs::write(dir.path().join("golem-forge.config.yaml"), config).unwrap();
        for (name, front) in workers {
            let text = format!("---\nname: {name}\ndescription: does {name}\n{front}---\nGo.\n");
            std::fs::write(dir.path().join(format!("workers/{name}.worker")), text).unwrap();
        }
        World {
            dir,
            approver: Arc::new(NoApprover::because("this is a test")),
            records: Arc::new(MemoryRecorder::default()),
            log: Arc::new(Log::default()),
        }
    }

    pub(crate) fn run(&self, playbook: &str) -> RunReport {
        self.run_with(ScriptedModel::new(
            "test",
            Playbook::parse(playbook).unwrap(),
        ))
    }

    pub(crate) fn run_with(&self, model: impl Model) -> RunReport {
        self.run_session(model, |_| ())
    }

    /// The same, with a look at the session before it runs.
    pub(crate) fn run_session(&self, model: impl Model, look: impl FnOnce(&Session)) -> RunReport {
        self.run_all(model, &[], look)
    }

    pub(crate) fn run_attaching(&self, model: impl Model, attached: &[Attachment]) -> RunReport {
        self.run_all(model, attached, |_| ())
    }

    fn run_all(
        &self,
        model: impl Model,
        attached: &[Attachment],
        look: impl FnOnce(&Session),
    ) -> RunReport {
        let mut sources = Sources::new(self.dir.path());
        sources.trust = TrustedSettings::Given;
        // Below the project, so that a test can write one; absent otherwise.
        sources.user_file = Some(self.dir.path().join("user.yaml"));
        let project = load(&sources).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let worker = project.worker("main").unwrap();
        let session = Session::builder(model)
            .workers(project.workers().unwrap())
            .max_depth(project.max_depth())
            .max_children(project.max_children())
            .os_sandbox(OsSandbox::Detected(Arc::new(os_sandbox::Support::detect())))
            .approver(self.approver.clone())
            .recorder(self.records.clone())
            .observer(self.log.clone())
            .build();
        look(&session);
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
            .block_on(session.run_with(
                &worker,
                project.entry_grant(&worker).unwrap(),
                "go",
                attached,
            ))
    }

    /// In the order they were said. Where workers are at work side by side, only that of each one
    /// is certain: [`results_of`](Self::results_of).
    pub(crate) fn results(&self) -> String {
        self.lines_of(|_| true)
    }

    pub(crate) fn results_of(&self, caller: &str) -> String {
        self.lines_of(|found| found == caller)
    }

    fn lines_of(&self, is_meant: impl Fn(&str) -> bool) -> String {
        let results = self.log.results.lock().unwrap();
        let meant = results.iter().filter(|(caller, _)| is_meant(caller));
        let lines: Vec<&str> = meant.map(|(_, line)| line.as_str()).collect();
        lines.join("\n")
    }

    pub(crate) fn started(&self) -> Vec<String> {
        self.log.started.lock().unwrap().clone()
    }
}

/// Two zones; writing to `workspace` is pre-approved, deleting is blocked.
pub(crate) const CONFIG: &str = "\
sandbox:
  mode: direct
  zones:
    data: { path: ./data, mode: ro }
    workspace: { path: ./workspace, approval: { write: preApproved, delete: blocked } }
shell:
  rules:
    - { pattern: 'echo *', approval: preApproved }
    - { pattern: 'cat *', approval: preApproved }
    - { pattern: 'rm *', approval: blocked }
  default: ask
";
