//! The approver's side: finds open requests and sends answers.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::protocol::{self, MAX_RESPONSE_BYTES, QuestionSummary, QueueRequest, QueueResponse};
use super::server::remove_if_dead;
use super::{QueueDirs, dirs, is_id, is_text_of};

/// Time limit for a process to send its response. A stopped process sends nothing.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// An open request, and where it is answered.
#[derive(Debug, Clone)]
pub(crate) struct OpenQuestion {
    pub(crate) socket: PathBuf,
    pub(crate) pid: Option<i32>,
    pub(crate) request: QuestionSummary,
}

/// Returns everything open in a project, oldest first, and the directories that could not be read.
pub(crate) async fn list(place: &QueueDirs) -> (Vec<OpenQuestion>, Vec<String>) {
    let (dirs, mut not_used) = place.existing();
    let mut conversations = JoinSet::new();
    for socket in dirs.iter().flat_map(|dir| dirs::files(dir, "sock")) {
        conversations.spawn(async move {
            let told = exchange(&socket, &QueueRequest::List).await;
            (socket, told)
        });
    }
    let mut found = Vec::new();
    while let Some(conversation) = conversations.join_next().await {
        let Ok((socket, told)) = conversation else {
            continue;
        };
        match told {
            Ok((QueueResponse::Open { requests }, pid)) => {
                let good = requests.into_iter().filter(|request| is_id(&request.id));
                found.extend(good.map(|request| OpenQuestion {
                    socket: socket.clone(),
                    pid,
                    request,
                }));
            }
            // A leftover, and gone now.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => remove_if_dead(&socket),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(_) => not_used.push(format!("{}: no answer that makes sense", socket.display())),
            Err(error) => not_used.push(format!("{}: {error}", socket.display())),
        }
    }
    found.sort_by(|a, b| a.request.id.cmp(&b.request.id));
    (found, not_used)
}

/// The whole text of a request; None if it is not open any more. A text that is not the one that
/// the ID names is an error, not something to be shown.
pub(crate) async fn show(found: &OpenQuestion) -> Result<Option<String>> {
    let id = found.request.id.clone();
    match exchange(&found.socket, &QueueRequest::Show { id: id.clone() }).await {
        Ok((QueueResponse::Request { text, .. }, _)) if is_text_of(&id, &text) => Ok(Some(text)),
        Ok((QueueResponse::Request { .. }, _)) => Err(Error::new(
            ErrorKind::InvalidData,
            "the text of the request is not the one that its ID names",
        )),
        Ok((QueueResponse::Unknown | QueueResponse::Already { .. }, _)) => Ok(None),
        Ok((
            QueueResponse::Open { .. } | QueueResponse::Taken | QueueResponse::Unreadable { .. },
            _,
        )) => Err(Error::new(
            ErrorKind::InvalidData,
            "no answer that makes sense",
        )),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends an answer, and returns the queue's response.
pub(crate) async fn answer(found: &OpenQuestion, ask: &QueueRequest) -> Result<QueueResponse> {
    match exchange(&found.socket, ask).await {
        Ok((told, _)) => Ok(told),
        Err(error) if is_gone(&error) => Ok(QueueResponse::Unknown),
        Err(error) => Err(error),
    }
}

/// Returns the answer to a request that is closed, if a process remembers it.
pub(crate) async fn how_closed(place: &QueueDirs, id: &str) -> Option<String> {
    for socket in place
        .existing()
        .0
        .iter()
        .flat_map(|dir| dirs::files(dir, "sock"))
    {
        let asked = exchange(&socket, &QueueRequest::Show { id: id.to_owned() }).await;
        if let Ok((QueueResponse::Already { how }, _)) = asked {
            return Some(how);
        }
    }
    None
}

fn is_gone(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused
    )
}

async fn exchange(socket: &Path, ask: &QueueRequest) -> Result<(QueueResponse, Option<i32>)> {
    let meta = std::fs::symlink_metadata(socket)?;
    if !meta.file_type().is_socket() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a socket"));
    }
    let conversation = async {
        let mut stream = UnixStream::connect(socket).await?;
        let peer = stream.peer_cred()?;
        if peer.uid() != rustix::process::geteuid().as_raw() {
            return Err(Error::new(
                ErrorKind::PermissionDenied,
                "another user is at the other end",
            ));
        }
        protocol::write(&mut stream, ask).await?;
        let told = protocol::read(&mut stream, MAX_RESPONSE_BYTES).await?;
        Ok((told, peer.pid()))
    };
    timeout(EXCHANGE_TIMEOUT, conversation)
        .await
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::TimedOut, "it does not answer")))
}
