//! The socket of one process. Connections of other users are dropped. A client sends one bounded
//! line within a few seconds, and gets one line back.

use std::io::{ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use forge_tools::{ApprovalAnswer, escape_controls};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::protocol::{self, ApprovalDecision, MAX_REQUEST_BYTES, QueueRequest, QueueResponse};
use super::table::{AnswerRejected, QuestionTable};
use super::{ANSWER_LIFETIME, after, dirs, lock, random};

/// Time limit for one side of a conversation.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Most conversations at once.
const MAX_CONVERSATIONS: usize = 32;

/// Most characters of a reason.
const MAX_REASON_CHARS: usize = 2000;

/// A socket that is being served; gone with this.
#[derive(Debug)]
pub(super) struct QueueServer {
    path: PathBuf,
    task: JoinHandle<()>,
}

/// The peer process, as the kernel reports it.
struct Peer {
    uid: u32,
    pid: Option<i32>,
}

impl QueueServer {
    /// Opens a socket in `dir`, and removes the leftovers of killed processes.
    pub(super) fn start(dir: &Path, table: Arc<Mutex<QuestionTable>>) -> Result<Self> {
        sweep(dir);
        let name = format!("{:016x}", random());
        let new = dir.join(format!(".new-{name}"));
        let listener = UnixListener::bind(&new)?;
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600))?;
        // It gets its name when it is listening: a socket that refuses connections is a leftover.
        let path = dir.join(format!("{name}.sock"));
        std::fs::rename(&new, &path)?;
        let task = tokio::spawn(accept(listener, table));
        Ok(QueueServer { path, task })
    }

    /// `true` if the socket is still in its directory.
    pub(super) fn exists_on_disk(&self) -> bool {
        self.path.exists()
    }
}

impl Drop for QueueServer {
    fn drop(&mut self) {
        self.task.abort();
        let _gone_already = std::fs::remove_file(&self.path);
    }
}

/// Removes sockets without a listener, and sockets that never got their name.
fn sweep(dir: &Path) {
    for path in dirs::files(dir, "sock") {
        remove_if_dead(&path);
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries.take(1024) {
        let unfinished = entry.file_name().to_string_lossy().starts_with(".new-");
        let old = entry.metadata().and_then(|meta| meta.modified());
        let old = old.is_ok_and(|at| {
            SystemTime::now()
                .duration_since(at)
                .is_ok_and(|age| age > Duration::from_secs(60))
        });
        if unfinished && old {
            let _gone_already = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes a socket without a listener.
pub(super) fn remove_if_dead(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if !is_socket {
        return;
    }
    // Does not block: a listener with a full backlog is alive.
    let refused = connect_now(path);
    if refused.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        let _gone_already = std::fs::remove_file(path);
    }
}

fn connect_now(path: &Path) -> Result<()> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    let address = SocketAddrUnix::new(path)?;
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(connect(&socket, &address)?)
}

async fn accept(listener: UnixListener, table: Arc<Mutex<QuestionTable>>) {
    let slots = Arc::new(Semaphore::new(MAX_CONVERSATIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // For example, all descriptors are in use. One may be closed soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // More than that are not people; they get a closed socket.
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            continue;
        };
        let table = Arc::clone(&table);
        tokio::spawn(async move {
            // A failed conversation concerns its client only.
            let _lost = converse(stream, &table).await;
            drop(slot);
        });
    }
}

async fn converse(mut stream: UnixStream, table: &Mutex<QuestionTable>) -> Result<()> {
    let credentials = stream.peer_cred()?;
    let peer = Peer {
        uid: credentials.uid(),
        pid: credentials.pid(),
    };
    if peer.uid != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let told = match timeout(
        EXCHANGE_TIMEOUT,
        protocol::read::<QueueRequest>(&mut stream, MAX_REQUEST_BYTES),
    )
    .await?
    {
        Ok(ask) => respond(table, ask, &peer),
        Err(error) => QueueResponse::Unreadable {
            why: error.to_string(),
        },
    };
    timeout(EXCHANGE_TIMEOUT, protocol::write(&mut stream, &told)).await?
}

fn respond(table: &Mutex<QuestionTable>, ask: QueueRequest, peer: &Peer) -> QueueResponse {
    let now = Instant::now();
    let mut table = lock(table);
    table.expire(now);
    match ask {
        QueueRequest::List => QueueResponse::Open {
            requests: table.list(now),
        },
        QueueRequest::Show { id } => match table.show(&id, now) {
            Some((request, text)) => QueueResponse::Request { request, text },
            None => match table.how_closed(&id) {
                Some(how) => QueueResponse::Already { how },
                None => QueueResponse::Unknown,
            },
        },
        QueueRequest::Answer {
            id,
            said,
            reason,
            tty,
        } => {
            if let Some(reason) = &reason
                && reason.chars().count() > MAX_REASON_CHARS
            {
                return QueueResponse::Unreadable {
                    why: format!("a reason has at most {MAX_REASON_CHARS} characters"),
                };
            }
            let by = by(peer, tty.as_deref());
            let how = format!("{} by {by}", said.as_str());
            let answer = match said {
                ApprovalDecision::AllowOnce => ApprovalAnswer::AllowOnce { by },
                ApprovalDecision::AllowRun => ApprovalAnswer::AllowForRun { by },
                ApprovalDecision::Deny => ApprovalAnswer::Deny { by, reason },
            };
            match table.answer(&id, answer, how, after(now, ANSWER_LIFETIME)) {
                Ok(()) => QueueResponse::Taken,
                Err(AnswerRejected::Unknown) => QueueResponse::Unknown,
                Err(AnswerRejected::Already(how)) => QueueResponse::Already { how },
            }
        }
    }
}

/// Describes the approver for the record. User and process come from the kernel, the terminal from
/// the client.
fn by(peer: &Peer, tty: Option<&str>) -> String {
    let mut by = format!("a person at forge approve (uid {}", peer.uid);
    if let Some(pid) = peer.pid {
        by.push_str(&format!(", pid {pid}"));
    }
    if let Some(tty) = tty {
        let short: String = tty.chars().take(64).collect();
        by.push_str(&format!(", {}", escape_controls(&short)));
    }
    by.push(')');
    by
}
