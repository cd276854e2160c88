//! Files of a node, whole: taken from it and written to it, through its own sandbox.

use file_sandbox::{ContentHash, SandboxPath};
use forge_tools::CallFailure;

use crate::client::{NodeClient, wrong};
use crate::connection::CallEvent;
use crate::error::internal;
use crate::frame::{FrameKind, NodeFrame};
use crate::message::{FileDone, GetCall, PutCall};
use crate::window::CHUNK_BYTES;

impl NodeClient {
    /// The bytes of a file.
    ///
    /// # Errors
    ///
    /// The node's sandbox refused it, or it has more than `max_bytes`.
    pub async fn read_file(
        &self,
        path: &SandboxPath,
        max_bytes: u64,
    ) -> Result<Vec<u8>, CallFailure> {
        let body = GetCall {
            path: path.as_str().to_owned(),
            max_bytes,
        };
        let connection = &self.inner.connection;
        let mut calling = connection.begin(FrameKind::Get, &body).await?;
        let mut bytes = Vec::new();
        let result = loop {
            match calling.next().await {
                CallEvent::Data(more) => {
                    bytes.extend_from_slice(&more);
                    if bytes.len() as u64 > max_bytes {
                        return Err(wrong("a file"));
                    }
                }
                CallEvent::Done(body) => break Ok(body),
                CallEvent::Failed(failure) => break Err(Some(failure)),
                CallEvent::Lost => break Err(None),
                CallEvent::Started | CallEvent::Printed(..) | CallEvent::Said(_) => {}
            }
        };
        let done: FileDone = self.parsed(result, "a file")?;
        match done.sha256 == ContentHash::of(&bytes).to_string() {
            true => Ok(bytes),
            false => Err(wrong("a file")),
        }
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    ///
    /// The node's sandbox refused it.
    pub async fn put_file(&self, path: &SandboxPath, bytes: Vec<u8>) -> Result<(), CallFailure> {
        self.write_file(path, bytes, false).await
    }

    /// Writes a file; a preloaded one goes into a mount in memory, even if that is read-only.
    pub(crate) async fn write_file(
        &self,
        path: &SandboxPath,
        bytes: Vec<u8>,
        plant: bool,
    ) -> Result<(), CallFailure> {
        let body = PutCall {
            path: path.as_str().to_owned(),
            bytes: bytes.len() as u64,
            plant,
        };
        let connection = &self.inner.connection;
        let mut calling = connection.begin(FrameKind::Put, &body).await?;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            // Refused already: the answer says why.
            if calling.window.take(chunk.len()).await.is_none() {
                break;
            }
            connection.send(NodeFrame::new(FrameKind::Input, calling.id, chunk));
        }
        connection.send(NodeFrame::new(FrameKind::InputEnd, calling.id, Vec::new()));
        let done: FileDone = self.parsed(calling.result().await, "a file")?;
        match done.sha256 == ContentHash::of(&bytes).to_string() {
            true => Ok(()),
            false => Err(internal("What was written is not what was sent.")),
        }
    }
}
