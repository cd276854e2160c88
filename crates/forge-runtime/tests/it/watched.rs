//! What a run tells whoever watches it.

use std::sync::{Arc, Mutex};

use forge_runtime::{Observer, Playbook, RunEvent, ScriptedModel, Session};
use sandbox_config::{Grant, Sources, load};

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Observer for Heard {
    fn observe(&self, event: RunEvent<'_>) {
        let line = match event {
            RunEvent::Started { caller, .. } => format!("{:?} begins", caller.runs()),
            RunEvent::CallStarted { caller, call } => {
                format!("{:?} calls {}", caller.runs(), call.tool)
            }
            RunEvent::CallEnded { caller, result } => {
                format!("{:?} has {}: {}", caller.runs(), result.id, result.content)
            }
            RunEvent::Ended { caller, .. } => format!("{:?} ends", caller.runs()),
            RunEvent::Prepared { .. }
            | RunEvent::TurnStarted { .. }
            | RunEvent::Streamed { .. }
            | RunEvent::Used { .. }
            | RunEvent::Said { .. }
            | RunEvent::ContextTrimmed { .. }
            | RunEvent::Warning { .. } => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

#[test]
fn each_run_of_a_worker_has_its_number_and_each_call_an_end() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("workers")).unwrap();
    for (name, front) in [("main", "workers: [child]\n"), ("child", "")] {
        let text = format!("---\nname: {name}\ndescription: d\n{front}---\nGo.\n");
        std::fs::write(dir.path().join(format!("workers/{name}.worker")), text).unwrap();
    }
    let project = load(&Sources::new(dir.path())).unwrap();
    let playbook = Playbook::parse(
        "version: 1
workers:
  main:
    - calls:
        - { tool: child, args: { input: a } }
        - { tool: child, args: { input: b } }
    - say: done
  child:
    - say: '{{ input }} done'
",
    );
    let heard = Arc::new(Heard::default());
    let session = Session::builder(ScriptedModel::new("test", playbook.unwrap()))
        .workers(project.workers().unwrap())
        .observer(Arc::clone(&heard) as Arc<dyn Observer>)
        .build();
    let report = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(session.run(&project.worker("main").unwrap(), Grant::empty(), "go"));
    assert!(report.end.is_answer(), "{:?}", report.end);
    let mut heard = heard.0.lock().unwrap().clone();
    // The two may run side by side.
    heard.sort();
    for line in &mut heard {
        if let Some((start, id)) = line.split_once("has ") {
            let content = id.split_once(": ").unwrap().1;
            *line = format!("{start}has {content}");
        }
    }
    insta::assert_snapshot!(heard.join("\n"), @"
    [1, 2] begins
    [1, 2] ends
    [1, 3] begins
    [1, 3] ends
    [1] begins
    [1] calls child
    [1] calls child
    [1] ends
    [1] has a done
    [1] has b done
    ");
}
