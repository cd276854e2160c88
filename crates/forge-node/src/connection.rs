//! The broker's side of one connection: the calls under way and the events for each of them. When
//! the node is gone, all of them fail.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_tools::{CallFailure, ExitReport, FailureCode};
use os_sandbox::Stream;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::error::{NodeError, ended};
use crate::frame::{
    BodyParts, CONNECTION, Decoder, FrameError, FrameKind, MAX_WHOLE_BYTES, NodeFrame, frames,
};
use crate::message::{WindowMore, WireFailure};
use crate::window::{SendWindow, WINDOW_BYTES, cost};

/// Most calls at once over one connection.
pub(crate) const MAX_CALLS: usize = 128;

/// Most bytes of one read.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Most bytes of a malformed frame in an error.
const TOLD_BYTES: usize = 200;

/// Something that came for a call.
#[derive(Debug)]
pub(crate) enum CallEvent {
    Started,
    Printed(Stream, Vec<u8>),
    Said(Vec<u8>),
    Data(Vec<u8>),
    Done(Vec<u8>),
    Failed(Box<WireFailure>),
    /// The node is gone.
    Lost,
}

/// A call under way.
struct CallEntry {
    /// `None` once its caller is gone.
    events: Option<mpsc::UnboundedSender<CallEvent>>,
    /// Bytes of its data that the caller has not taken yet.
    unread: u32,
    said: usize,
    parts: BodyParts,
    /// The window for data to the node.
    window: Arc<SendWindow>,
    started: bool,
    _slot: OwnedSemaphorePermit,
}

/// The state that callers and the reader share.
#[derive(Default)]
struct CallTableState {
    calls: HashMap<u32, CallEntry>,
    last: u32,
    dead: Option<NodeError>,
}

/// All calls of one connection.
#[derive(Default)]
pub(crate) struct CallTable(Mutex<CallTableState>);

/// Where frames go out.
pub(crate) type FrameSender = mpsc::UnboundedSender<NodeFrame>;

/// One connection, as its callers see it.
pub(crate) struct NodeConnection {
    pub(crate) out: FrameSender,
    pub(crate) calls: Arc<CallTable>,
    slots: Arc<Semaphore>,
    /// A body of many frames goes out in one piece.
    sending: Mutex<()>,
}

impl CallTable {
    fn lock(&self) -> MutexGuard<'_, CallTableState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node is gone, for the first reason that is given.
    pub(crate) fn die(&self, why: NodeError) {
        let mut under = self.lock();
        under.dead.get_or_insert(why);
        for (_, entry) in under.calls.drain() {
            entry.window.close();
            if let Some(events) = entry.events {
                // The caller may have just stopped.
                let _stopped = events.send(CallEvent::Lost);
            }
        }
    }

    /// Returns the reason why the node is gone.
    pub(crate) fn dead(&self) -> Option<NodeError> {
        self.lock().dead.clone()
    }

    /// Takes a frame; returns the mistake in words.
    fn take(&self, frame: NodeFrame) -> Result<(), String> {
        let mut under = self.lock();
        let Some(entry) = under.calls.get_mut(&frame.id) else {
            return match frame.kind {
                // More room for a call that has just ended.
                FrameKind::Window => Ok(()),
                kind => Err(format!("{kind:?} for a call that there is not")),
            };
        };
        let id = frame.id;
        let Some(event) = entry.event(frame)? else {
            return Ok(());
        };
        let over = matches!(event, CallEvent::Done(_) | CallEvent::Failed(_));
        if let Some(events) = &entry.events {
            let _stopped = events.send(event);
        }
        if over && let Some(entry) = under.calls.remove(&id) {
            // Data that is still unsent has lost its reader.
            entry.window.close();
        }
        Ok(())
    }
}

impl CallEntry {
    /// Turns a frame into the event that it completes, if any; returns the mistake in words.
    fn event(&mut self, frame: NodeFrame) -> Result<Option<CallEvent>, String> {
        let event = match frame.kind {
            FrameKind::Started if std::mem::replace(&mut self.started, true) => {
                return Err("a second start of one call".to_owned());
            }
            FrameKind::Started => CallEvent::Started,
            FrameKind::Stdout => CallEvent::Printed(Stream::Stdout, self.data(frame)?),
            FrameKind::Stderr => CallEvent::Printed(Stream::Stderr, self.data(frame)?),
            FrameKind::Data => CallEvent::Data(self.data(frame)?),
            FrameKind::Said => {
                self.said += frame.body.len();
                if self.said > ExitReport::MAX_SAID_BYTES {
                    return Err("more words about an end than are taken".to_owned());
                }
                CallEvent::Said(frame.body)
            }
            FrameKind::Window => {
                self.window.widen(&frame)?;
                return Ok(None);
            }
            FrameKind::Part => {
                if self.events.is_some() && !self.parts.add(&frame.body) {
                    return Err("an answer that is too long".to_owned());
                }
                return Ok(None);
            }
            FrameKind::Done => CallEvent::Done(self.parts.complete(frame.body)),
            FrameKind::Failed => {
                let body = self.parts.complete(frame.body);
                let failure = NodeFrame::new(frame.kind, frame.id, body).parse()?;
                CallEvent::Failed(Box::new(failure))
            }
            _ => {
                return Err(format!("{:?}, which no node says here", frame.kind));
            }
        };
        Ok(Some(event))
    }

    /// Counts data against the window of the caller, which takes it later.
    fn data(&mut self, frame: NodeFrame) -> Result<Vec<u8>, String> {
        if self.events.is_some() {
            self.unread = self.unread.saturating_add(cost(frame.body.len()));
            if self.unread > WINDOW_BYTES {
                return Err("more data than there is room for".to_owned());
            }
        }
        Ok(frame.body)
    }
}

impl NodeConnection {
    pub(crate) fn new(out: FrameSender) -> NodeConnection {
        NodeConnection {
            out,
            calls: Arc::default(),
            slots: Arc::new(Semaphore::new(MAX_CALLS)),
            sending: Mutex::new(()),
        }
    }

    /// Begins a call, once a slot is free.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        kind: FrameKind,
        body: &impl serde::Serialize,
    ) -> Result<NodeCall, CallFailure> {
        let body = serde_json::to_vec(body).map_err(|_| unsendable())?;
        if body.len() > MAX_WHOLE_BYTES {
            return Err(unsendable());
        }
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let slot = slot.map_err(|_| ended())?;
        let (events, inbox) = mpsc::unbounded_channel();
        let window = SendWindow::new(0);
        let id = {
            let mut under = self.calls.lock();
            if let Some(why) = &under.dead {
                return Err(why.clone().into());
            }
            let mut id = under.last.wrapping_add(1).max(1);
            while under.calls.contains_key(&id) {
                id = id.wrapping_add(1).max(1);
            }
            under.last = id;
            let entry = CallEntry {
                events: Some(events),
                unread: 0,
                said: 0,
                parts: BodyParts::default(),
                window: Arc::clone(&window),
                started: false,
                _slot: slot,
            };
            under.calls.insert(id, entry);
            id
        };
        let calling = NodeCall {
            connection: Arc::clone(self),
            id,
            events: inbox,
            taken: 0,
            window,
            over: false,
        };
        self.send_whole(frames(kind, id, body));
        Ok(calling)
    }

    fn send_whole(&self, frames: Vec<NodeFrame>) {
        let _alone = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        frames.into_iter().for_each(|frame| self.send(frame));
    }

    /// Sends a frame. If the node is gone, the reader tells the waiting callers.
    pub(crate) fn send(&self, frame: NodeFrame) {
        let _gone = self.out.send(frame);
    }

    /// Ends a call.
    pub(crate) fn cancel(&self, id: u32) {
        if self.calls.lock().calls.contains_key(&id) {
            self.send(NodeFrame::new(FrameKind::Cancel, id, Vec::new()));
        }
    }
}

/// A call under way, as its caller sees it. Dropping it cancels the call.
pub(crate) struct NodeCall {
    pub(crate) connection: Arc<NodeConnection>,
    pub(crate) id: u32,
    events: mpsc::UnboundedReceiver<CallEvent>,
    /// Data that was taken and not yet told of.
    taken: u32,
    pub(crate) window: Arc<SendWindow>,
    over: bool,
}

impl NodeCall {
    /// Returns the next event; always one, and at last the end.
    pub(crate) async fn next(&mut self) -> CallEvent {
        let event = self.events.recv().await.unwrap_or(CallEvent::Lost);
        match &event {
            CallEvent::Done(_) | CallEvent::Failed(_) | CallEvent::Lost => self.over = true,
            CallEvent::Printed(_, data) | CallEvent::Data(data) => self.took(cost(data.len())),
            CallEvent::Started | CallEvent::Said(_) => {}
        }
        event
    }

    /// Returns the body of the result.
    ///
    /// # Errors
    ///
    /// The failure of the call; `None` if the node is gone.
    pub(crate) async fn result(&mut self) -> Result<Vec<u8>, Option<Box<WireFailure>>> {
        loop {
            match self.next().await {
                CallEvent::Done(body) => return Ok(body),
                CallEvent::Failed(failure) => return Err(Some(failure)),
                CallEvent::Lost => return Err(None),
                // The callers expect none of these.
                CallEvent::Started
                | CallEvent::Printed(..)
                | CallEvent::Said(_)
                | CallEvent::Data(_) => {}
            }
        }
    }

    /// Data was taken: the node may send as much more. It is told when it is worth a frame.
    fn took(&mut self, bytes: u32) {
        self.taken += bytes;
        if self.taken < WINDOW_BYTES / 2 {
            return;
        }
        let bytes = std::mem::take(&mut self.taken);
        if let Some(entry) = self.connection.calls.lock().calls.get_mut(&self.id) {
            entry.unread = entry.unread.saturating_sub(bytes);
        }
        let body = serde_json::to_vec(&WindowMore { bytes }).unwrap_or_default();
        self.connection
            .send(NodeFrame::new(FrameKind::Window, self.id, body));
    }
}

impl Drop for NodeCall {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut under = self.connection.calls.lock();
        if let Some(entry) = under.calls.get_mut(&self.id) {
            // Its place is free once the node says that it has ended.
            entry.events = None;
            entry.parts = BodyParts::default();
            drop(under);
            self.connection
                .send(NodeFrame::new(FrameKind::Cancel, self.id, Vec::new()));
        }
    }
}

/// Reads the frames of a node, to its end.
pub(crate) async fn read(
    mut reader: impl AsyncRead + Unpin,
    mut decoder: Decoder,
    calls: Arc<CallTable>,
) {
    let why = loop {
        match decoder.next() {
            Ok(Some(frame)) if frame.kind == FrameKind::Bye => {
                break NodeError::Ended("it said so".to_owned());
            }
            Ok(Some(frame)) => {
                if let Err(why) = calls.take(frame) {
                    break NodeError::garbage(why);
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => break garbage(&error, &decoder),
        }
        if let Err(why) = more(&mut reader, &mut decoder).await {
            break why;
        }
    };
    calls.die(why);
}

/// Takes in more.
pub(crate) async fn more(
    reader: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder,
) -> Result<(), NodeError> {
    let mut bytes = [0; READ_BYTES / 4];
    match reader.read(&mut bytes).await {
        Ok(0) => Err(match decoder.end() {
            Ok(()) => NodeError::Ended("its stream ended".to_owned()),
            Err(error) => garbage(&error, decoder),
        }),
        Ok(count) => {
            decoder.push(&bytes[..count]);
            Ok(())
        }
        Err(error) => Err(NodeError::Ended(error.to_string())),
    }
}

pub(crate) fn garbage(error: &FrameError, decoder: &Decoder) -> NodeError {
    let rest = decoder.rest();
    let said = String::from_utf8_lossy(&rest[..rest.len().min(TOLD_BYTES)]);
    NodeError::Garbage {
        why: error.to_string(),
        said: forge_tools::escape_controls(&said),
    }
}

/// Frames on their way out.
pub(crate) enum FrameQueue {
    /// From a broker: its calls are limited.
    Free(mpsc::UnboundedReceiver<NodeFrame>),
    /// From a node: its calls wait for a slot.
    Few(mpsc::Receiver<NodeFrame>),
}

impl FrameQueue {
    async fn next(&mut self) -> Option<NodeFrame> {
        match self {
            FrameQueue::Free(frames) => frames.recv().await,
            FrameQueue::Few(frames) => frames.recv().await,
        }
    }

    fn ready(&mut self) -> Option<NodeFrame> {
        match self {
            FrameQueue::Free(frames) => frames.try_recv().ok(),
            FrameQueue::Few(frames) => frames.try_recv().ok(),
        }
    }
}

/// Writes frames as they come, to their end; then reports it. All frames that are ready go out in
/// one piece.
///
/// # Errors
///
/// The reader is gone.
pub(crate) async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut frames: FrameQueue,
    mut written: impl FnMut(usize),
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(READ_BYTES);
    while let Some(frame) = frames.next().await {
        frame.write(&mut bytes);
        while bytes.len() < READ_BYTES
            && let Some(frame) = frames.ready()
        {
            frame.write(&mut bytes);
        }
        writer.write_all(&bytes).await?;
        writer.flush().await?;
        written(bytes.len());
        bytes.clear();
        bytes.shrink_to(4 * READ_BYTES);
    }
    NodeFrame::new(FrameKind::Bye, CONNECTION, Vec::new()).write(&mut bytes);
    writer.write_all(&bytes).await?;
    writer.shutdown().await
}

fn unsendable() -> CallFailure {
    FailureCode::Limit.failure("The call is too long for the place that it would run in.")
}
