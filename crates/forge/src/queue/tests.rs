//! The queue against approvers that behave, and such that do not.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use forge_tools::Caller;
use serde_json::json;
use tempfile::TempDir;

use super::client::OpenQuestion;
use super::protocol::{ApprovalDecision, QueueRequest, QueueResponse};
use super::*;

fn request(path: &str) -> ApprovalRequest {
    ApprovalRequest {
        caller: Caller::new("main"),
        tool: "write_file".into(),
        arguments: json!({"path": path}),
        intents: vec![format!("write {path}")],
        changes: Vec::new(),
        runner: "local",
        network: false,
        reasons: Vec::new(),
        confined: true,
        only_a_person: false,
        rules_to_allow: Vec::new(),
        host: None,
    }
}

struct World {
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        World {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn place(&self) -> QueueDirs {
        QueueDirs::of(self.dir.path(), None, Some(self.dir.path()))
    }

    fn queue(&self, absent: WhenUnattended) -> Arc<Queue> {
        self.patient(absent, Duration::from_secs(600))
    }

    fn patient(&self, absent: WhenUnattended, approval_timeout: Duration) -> Arc<Queue> {
        Arc::new(Queue::new(self.place(), approval_timeout, absent, true))
    }

    /// Waits until `count` requests are open.
    async fn open(&self, count: usize) -> Vec<OpenQuestion> {
        loop {
            let (found, _) = client::list(&self.place()).await;
            if found.len() == count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn socket(&self) -> PathBuf {
        dirs::files(self.place().make().unwrap(), "sock").remove(0)
    }

    /// Says something to the socket, as raw bytes, and hears what comes back.
    async fn raw(&self, bytes: Vec<u8>) -> String {
        let socket = self.socket();
        tokio::task::spawn_blocking(move || {
            let mut stream = UnixStream::connect(socket).unwrap();
            // Whoever is not listened to any more cannot write on.
            let _cut_off = stream.write_all(&bytes);
            let _cut_off = stream.shutdown(std::net::Shutdown::Write);
            let mut heard = String::new();
            let _cut_off = stream.read_to_string(&mut heard);
            heard
        })
        .await
        .unwrap()
    }
}

fn saying(found: &OpenQuestion, said: ApprovalDecision) -> QueueRequest {
    QueueRequest::Answer {
        id: found.request.id.clone(),
        said,
        reason: (said == ApprovalDecision::Deny).then(|| "not today".to_owned()),
        tty: Some("/dev/pts/7\u{1b}[2J".to_owned()),
    }
}

fn spawn(queue: &Arc<Queue>, path: &str) -> tokio::task::JoinHandle<ApprovalAnswer> {
    let (queue, request) = (Arc::clone(queue), request(path));
    tokio::spawn(async move { queue.ask(&request).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_gets_the_first_answer_and_the_second_approver_is_told() {
    let world = World::new();
    let queue = world.queue(WhenUnattended::Wait);
    let uid = rustix::process::geteuid().as_raw();
    for said in [
        ApprovalDecision::AllowOnce,
        ApprovalDecision::AllowRun,
        ApprovalDecision::Deny,
    ] {
        let call = spawn(&queue, "/a");
        let found = world.open(1).await.remove(0);
        assert!(is_id(&found.request.id) && found.request.waiting);
        let text = client::show(&found).await.unwrap().unwrap();
        assert!(text.contains("path = /a"), "{text}");
        let told = client::answer(&found, &saying(&found, said)).await.unwrap();
        assert!(matches!(told, QueueResponse::Taken), "{told:?}");
        let by = match call.await.unwrap() {
            ApprovalAnswer::AllowOnce { by } if said == ApprovalDecision::AllowOnce => by,
            ApprovalAnswer::AllowForRun { by } if said == ApprovalDecision::AllowRun => by,
            ApprovalAnswer::Deny { by, reason } if said == ApprovalDecision::Deny => {
                assert_eq!(reason.as_deref(), Some("not today"));
                by
            }
            other => panic!("{other:?}"),
        };
        // The kernel says who; what they say themselves cannot repaint anything.
        let me = format!(
            "a person at forge approve (uid {uid}, pid {}, ",
            std::process::id()
        );
        assert!(
            by.starts_with(&me) && by.ends_with("/dev/pts/7\\x1b[2J)"),
            "{by}"
        );
        // A replay, or another approver a moment later.
        let told = client::answer(&found, &saying(&found, ApprovalDecision::AllowOnce)).await;
        match told.unwrap() {
            QueueResponse::Already { how } => assert!(how.starts_with(said.as_str()), "{how}"),
            other => panic!("{other:?}"),
        }
        assert!(world.open(0).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_answer_at_once_one_is_heard() {
    let world = World::new();
    let queue = world.queue(WhenUnattended::Wait);
    let call = spawn(&queue, "/a");
    let found = world.open(1).await.remove(0);
    let mut answers = tokio::task::JoinSet::new();
    for n in 0..20 {
        let found = found.clone();
        let said = if n % 2 == 0 {
            ApprovalDecision::Deny
        } else {
            ApprovalDecision::AllowOnce
        };
        answers.spawn(async move { (said, client::answer(&found, &saying(&found, said)).await) });
    }
    let mut taken = Vec::new();
    while let Some(answer) = answers.join_next().await {
        match answer.unwrap() {
            (said, Ok(QueueResponse::Taken)) => taken.push(said),
            (_, Ok(QueueResponse::Already { .. })) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(taken.len(), 1);
    assert_eq!(
        call.await.unwrap().allows(),
        taken[0] == ApprovalDecision::AllowOnce
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_requests_are_a_hundred_answers() {
    let world = World::new();
    let queue = world.queue(WhenUnattended::Wait);
    let calls: Vec<_> = (0..100).map(|n| spawn(&queue, &format!("/{n}"))).collect();
    for (n, found) in world.open(100).await.iter().enumerate() {
        let said = if n % 3 == 0 {
            ApprovalDecision::Deny
        } else {
            ApprovalDecision::AllowOnce
        };
        client::answer(found, &saying(found, said)).await.unwrap();
    }
    let mut allowed = 0;
    for call in calls {
        allowed += usize::from(call.await.unwrap().allows());
    }
    assert_eq!(allowed, 66);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_watcher_it_depends() {
    let world = World::new();
    let refuse = || WhenUnattended::Refuse("there is no terminal".to_owned());
    let answer = world.queue(refuse()).ask(&request("/a")).await;
    assert!(
        matches!(answer, ApprovalAnswer::Unanswered { .. }),
        "{answer:?}"
    );
    assert!(dirs::files(world.place().make().unwrap(), "sock").is_empty());

    let watching = world.place().watch().unwrap();
    let queue = world.queue(refuse());
    let call = spawn(&queue, "/a");
    let found = world.open(1).await.remove(0);
    client::answer(&found, &saying(&found, ApprovalDecision::AllowOnce))
        .await
        .unwrap();
    assert!(call.await.unwrap().allows());
    drop(watching);
    assert!(!queue.ask(&request("/a")).await.allows());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_answer_holds_once_and_for_exactly_that_call() {
    let world = World::new();
    let queue = world.queue(WhenUnattended::Keep);
    let later = |answer: ApprovalAnswer| match answer {
        ApprovalAnswer::Pending { reason, hint } => (reason, hint),
        other => panic!("{other:?}"),
    };
    let (reason, hint) = later(queue.ask(&request("/a")).await);
    let found = world.open(1).await.remove(0);
    assert!(!found.request.waiting);
    assert!(reason.ends_with(&found.request.id) && hint.contains(&found.request.id));
    // The same call again is the same request.
    assert_eq!(later(queue.ask(&request("/a")).await).0, reason);
    client::answer(&found, &saying(&found, ApprovalDecision::AllowOnce))
        .await
        .unwrap();
    assert!(world.open(0).await.is_empty());

    assert!(!queue.ask(&request("/b")).await.allows());
    let mut other = request("/a");
    other.caller = Caller::new("helper");
    assert!(!queue.ask(&other).await.allows());
    let mut other = request("/a");
    other.changes = vec![forge_tools::FileChange::new("/a", None, "something else")];
    assert!(!queue.ask(&other).await.allows());

    assert!(queue.ask(&request("/a")).await.allows());
    assert!(!queue.ask(&request("/a")).await.allows());
}

/// Of calls that read alike, and of calls that are the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_yes_is_for_one_call_whatever_its_text_looks_like() {
    let command = |command: &str| {
        let mut request = request("/a");
        request.arguments = json!({"command": command});
        request.intents = vec![format!("run {command}")];
        request
    };
    let typed = |value| {
        let mut request = request("/a");
        request.arguments = json!({"count": value, "path": "/a"});
        request
    };
    let mut reordered = typed(json!(5));
    reordered.arguments = json!({"path": "/a", "count": 5});
    let rows = [
        (
            command("sh -c 'echo a #\\nrm b'"),
            command("sh -c 'echo a #\nrm b'"),
            false,
        ),
        (command("echo a\\u{ad}"), command("echo a\u{ad}"), false),
        (typed(json!(5)), typed(json!("5")), false),
        (typed(json!(5)), typed(json!(5)), true),
    ];
    for (agreed, other, same) in rows {
        let world = World::new();
        let queue = world.queue(WhenUnattended::Keep);
        assert!(!queue.ask(&agreed).await.allows());
        let found = world.open(1).await.remove(0);
        client::answer(&found, &saying(&found, ApprovalDecision::AllowOnce))
            .await
            .unwrap();
        assert_eq!(
            queue.ask(&other).await.allows(),
            same,
            "{:?}",
            other.arguments
        );
    }
    assert_eq!(
        call_digest(&reordered, "text"),
        call_digest(&typed(json!(5)), "text")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_too_late_is_told_so() {
    let world = World::new();
    for (absent, kept) in [(WhenUnattended::Wait, false), (WhenUnattended::Keep, true)] {
        let _watching = world.place().watch().unwrap();
        let queue = world.patient(absent, Duration::from_millis(300));
        let call = spawn(&queue, "/a");
        let found = world.open(1).await.remove(0);
        assert!(!call.await.unwrap().allows());
        let told = client::answer(&found, &saying(&found, ApprovalDecision::AllowOnce)).await;
        assert_eq!(matches!(told.unwrap(), QueueResponse::Taken), kept);
        assert_eq!(queue.ask(&request("/a")).await.allows(), kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_leaves_nothing_to_answer() {
    let world = World::new();
    let queue = world.queue(WhenUnattended::Wait);
    let call = spawn(&queue, "/a");
    let found = world.open(1).await.remove(0);
    call.abort();
    assert!(world.open(0).await.is_empty());
    let told = client::answer(&found, &saying(&found, ApprovalDecision::AllowOnce)).await;
    assert!(matches!(told.unwrap(), QueueResponse::Unknown));
    let _cancelled = call.await;
    drop(queue);
    assert!(dirs::files(world.place().make().unwrap(), "sock").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_answered_and_harms_nobody() {
    let world = World::new();
    let queue = world.queue(WhenUnattended::Wait);
    let call = spawn(&queue, "/a");
    let found = world.open(1).await.remove(0);
    for (bytes, why) in [
        (b"garbage\n".to_vec(), "not a message"),
        (b"{\"do\":\"list\"}".to_vec(), "no end"),
        (b"\xff\xfe\n".to_vec(), "not a message"),
        (b"{\"do\":\"list\",\"x\":1}\n{}\n".to_vec(), ""),
        (vec![b'x'; 10 * 1024 * 1024], "longer than"),
        (b"\n".to_vec(), "not a message"),
        (Vec::new(), "no end"),
    ] {
        let heard = world.raw(bytes).await;
        // A line that is cut off is not always heard: the other end is closed while it comes.
        assert!(heard.contains(why) || why == "longer than", "{heard:?}");
    }
    let long = QueueRequest::Answer {
        id: found.request.id.clone(),
        said: ApprovalDecision::Deny,
        reason: Some("x".repeat(3000)),
        tty: None,
    };
    let told = client::answer(&found, &long).await.unwrap();
    assert!(matches!(told, QueueResponse::Unreadable { .. }), "{told:?}");

    // Slow ones, as many as there are places but one, hold up nobody.
    let socket = world.socket();
    let slow: Vec<UnixStream> = (0..30)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    let told = client::answer(&found, &saying(&found, ApprovalDecision::AllowOnce)).await;
    assert!(matches!(told.unwrap(), QueueResponse::Taken));
    assert!(call.await.unwrap().allows());
    drop(slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_killed_processes_go_and_strangers_stay() {
    let world = World::new();
    let dir = world.place().make().unwrap().to_owned();
    // A listener that is dropped leaves its socket, as a kill does.
    drop(std::os::unix::net::UnixListener::bind(dir.join("dead.sock")).unwrap());
    std::fs::write(dir.join("file.sock"), "no socket").unwrap();
    let (found, not_used) = client::list(&world.place()).await;
    assert!(found.is_empty());
    assert_eq!(not_used.len(), 1, "{not_used:?}");
    assert!(!dir.join("dead.sock").exists());

    drop(std::os::unix::net::UnixListener::bind(dir.join("dead.sock")).unwrap());
    let queue = world.queue(WhenUnattended::Wait);
    let call = spawn(&queue, "/a");
    world.open(1).await;
    assert!(!dir.join("dead.sock").exists());
    assert!(dir.join("file.sock").exists());
    call.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_not_the_ids_is_not_shown() {
    let world = World::new();
    let dir = world.place().make().unwrap().to_owned();
    let listener = tokio::net::UnixListener::bind(dir.join("liar.sock")).unwrap();
    let id = format!("{:011x}-{:016x}-{:016x}", 1, 2, 3);
    let summary = protocol::QuestionSummary {
        id: id.clone(),
        at_ms: 1,
        worker: "w".into(),
        tool: "t".into(),
        what: "w".into(),
        waiting: true,
        left_s: 9,
        rules_to_allow: Vec::new(),
        host: None,
    };
    let (listed, shown) = (
        json!({"is": "open", "requests": [summary, {"id": "../x", "at_ms": 1, "worker": "",
            "tool": "", "what": "", "waiting": true, "left_s": 1}]}),
        json!({"is": "request", "request": summary, "text": "harmless"}),
    );
    tokio::spawn(async move {
        for told in [listed, shown] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _: serde_json::Value = protocol::read(&mut stream, 1000).await.unwrap();
            protocol::write(&mut stream, &told).await.unwrap();
        }
    });
    let (found, _) = client::list(&world.place()).await;
    assert_eq!(found.len(), 1);
    let error = client::show(&found[0]).await.unwrap_err();
    assert!(error.to_string().contains("not the one"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_shown_whole_is_not_asked() {
    let world = World::new();
    let queue = world.queue(WhenUnattended::Keep);
    let mut huge = request("/a");
    huge.arguments = json!({"content": "x".repeat(prompt::MAX_SHOWN_BYTES)});
    match queue.ask(&huge).await {
        ApprovalAnswer::Unanswered { reason } => assert!(reason.contains("whole"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(world.open(0).await.is_empty());
    for n in 0..table::MAX_REQUESTS {
        let answer = queue.ask(&request(&format!("/{n}"))).await;
        assert!(matches!(answer, ApprovalAnswer::Pending { .. }), "{n}");
    }
    let answer = queue.ask(&request("/more")).await;
    assert!(matches!(answer, ApprovalAnswer::Unanswered { .. }));
}

/// The command of a question about a host does not wait for an answer of another time, so none is
/// kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_a_host_is_asked_while_somebody_watches() {
    let about_host = || ApprovalRequest {
        host: Some("a.org:443".to_owned()),
        ..request("/a")
    };
    let world = World::new();
    let waits = world.queue(WhenUnattended::Wait);
    let keeps = world.patient(WhenUnattended::Keep, Duration::from_millis(50));
    assert!(waits.is_attended() && !keeps.is_attended());
    let answer = keeps.ask(&about_host()).await;
    assert!(
        matches!(answer, ApprovalAnswer::Unanswered { .. }),
        "{answer:?}"
    );
    assert_eq!(client::list(&world.place()).await.0.len(), 0);
    let _watching = world.place().watch().unwrap();
    assert!(keeps.is_attended());
    let answer = keeps.ask(&about_host()).await;
    assert!(
        matches!(answer, ApprovalAnswer::Unanswered { .. }),
        "{answer:?}"
    );
    assert_eq!(client::list(&world.place()).await.0.len(), 0);
    // A call that is not about a host stays open.
    let answer = keeps.ask(&request("/a")).await;
    assert!(
        matches!(answer, ApprovalAnswer::Pending { .. }),
        "{answer:?}"
    );
    let open = world.open(1).await.remove(0);
    assert_eq!(open.request.host, None);
    let asked = Arc::clone(&waits);
    let call = tokio::spawn(async move { asked.ask(&about_host()).await });
    let mut found = world.open(2).await;
    found.retain(|one| one.request.host.as_deref() == Some("a.org:443"));
    call.abort();
    let _aborted = call.await;
    assert_eq!(found.len(), 1);
    world.open(1).await;
}
