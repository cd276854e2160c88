//! The broker's side of one connection: which calls are under way, what came for each of them, and
//! that all of them fail when the node is gone.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use os_sandbox::Stream;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::call::CallFailure;
use crate::node::error::{NodeError, ended};
use crate::node::frame::{CONNECTION, Decoder, Frame, FrameError, Kind, frames};
use crate::node::message::{WindowMore, WireFailure};
use crate::node::window::{WINDOW_BYTES, Window, cost};
use crate::starter::MAX_SAID_BYTES;

/// Most calls at once over one connection.
pub(crate) const MAX_CALLS: usize = 128;

/// Most bytes of one body, in however many frames it comes.
pub(crate) const MAX_WHOLE_BYTES: usize = 64 * 1024 * 1024;

/// Most bytes of what is read at once.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// How much of what is no frame is told of.
const TOLD_BYTES: usize = 200;

/// Something that came for a call.
#[derive(Debug)]
pub(crate) enum Event {
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
struct Entry {
    /// None: nobody waits for it any more.
    events: Option<mpsc::UnboundedSender<Event>>,
    /// What of its data nobody has taken yet.
    unread: u32,
    said: usize,
    parts: Vec<u8>,
    /// Room for what goes to the node.
    window: Arc<Window>,
    started: bool,
    _slot: OwnedSemaphorePermit,
}

/// What both the one who calls and the one who reads know.
#[derive(Default)]
struct Under {
    calls: HashMap<u32, Entry>,
    last: u32,
    dead: Option<NodeError>,
}

/// All calls of one connection.
#[derive(Default)]
pub(crate) struct Calls(Mutex<Under>);

/// Where frames go out.
pub(crate) type Out = mpsc::UnboundedSender<Frame>;

/// One connection, as those who call see it.
pub(crate) struct Connection {
    pub(crate) out: Out,
    pub(crate) calls: Arc<Calls>,
    slots: Arc<Semaphore>,
    /// A body of many frames goes out in one piece.
    sending: Mutex<()>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Under> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node is gone, for the first reason that is given.
    pub(crate) fn die(&self, why: NodeError) {
        let mut under = self.lock();
        under.dead.get_or_insert(why);
        for (_, entry) in under.calls.drain() {
            entry.window.close();
            if let Some(events) = entry.events {
                // Whoever waits may have just stopped.
                let _stopped = events.send(Event::Lost);
            }
        }
    }

    /// Why there is no node any more.
    pub(crate) fn dead(&self) -> Option<NodeError> {
        self.lock().dead.clone()
    }

    /// Takes what came; in words what is wrong with it.
    fn take(&self, frame: Frame) -> Result<(), String> {
        let mut under = self.lock();
        let Some(entry) = under.calls.get_mut(&frame.id) else {
            return match frame.kind {
                // More room for a call that has just ended.
                Kind::Window => Ok(()),
                kind => Err(format!("{kind:?} for a call that there is not")),
            };
        };
        let data = matches!(frame.kind, Kind::Stdout | Kind::Stderr | Kind::Data);
        if data && entry.events.is_some() {
            entry.unread = entry.unread.saturating_add(cost(frame.body.len()));
            if entry.unread > WINDOW_BYTES {
                return Err("more data than there is room for".to_owned());
            }
        }
        let broken = |error: serde_json::Error| format!("{:?}: {error}", frame.kind);
        let event = match frame.kind {
            Kind::Started if std::mem::replace(&mut entry.started, true) => {
                return Err("a second start of one call".to_owned());
            }
            Kind::Started => Event::Started,
            Kind::Stdout => Event::Printed(Stream::Stdout, frame.body),
            Kind::Stderr => Event::Printed(Stream::Stderr, frame.body),
            Kind::Data => Event::Data(frame.body),
            Kind::Said => {
                entry.said += frame.body.len();
                if entry.said > MAX_SAID_BYTES {
                    return Err("more words about an end than are taken".to_owned());
                }
                Event::Said(frame.body)
            }
            Kind::Window => {
                let more: WindowMore = serde_json::from_slice(&frame.body).map_err(broken)?;
                return match entry.window.add(more.bytes) {
                    true => Ok(()),
                    false => Err("more room than there can be".to_owned()),
                };
            }
            Kind::Part => {
                if entry.parts.len() + frame.body.len() > MAX_WHOLE_BYTES {
                    return Err("an answer that is too long".to_owned());
                }
                if entry.events.is_some() {
                    entry.parts.extend_from_slice(&frame.body);
                }
                return Ok(());
            }
            Kind::Done => {
                let mut body = std::mem::take(&mut entry.parts);
                match body.is_empty() {
                    true => body = frame.body,
                    false => body.extend_from_slice(&frame.body),
                }
                Event::Done(body)
            }
            Kind::Failed => {
                let mut body = std::mem::take(&mut entry.parts);
                body.extend_from_slice(&frame.body);
                Event::Failed(Box::new(serde_json::from_slice(&body).map_err(broken)?))
            }
            Kind::Hello
            | Kind::Setup
            | Kind::Ready
            | Kind::Refused
            | Kind::Bye
            | Kind::Tool
            | Kind::Run
            | Kind::Get
            | Kind::Put
            | Kind::Stats
            | Kind::Input
            | Kind::InputEnd
            | Kind::Signal
            | Kind::Cancel => return Err(format!("{:?}, which no node says here", frame.kind)),
        };
        let over = matches!(event, Event::Done(_) | Event::Failed(_));
        if let Some(events) = &entry.events {
            let _stopped = events.send(event);
        }
        if over && let Some(entry) = under.calls.remove(&frame.id) {
            // What would still be sent has nobody to read it.
            entry.window.close();
        }
        Ok(())
    }
}

impl Connection {
    pub(crate) fn new(out: Out) -> Connection {
        Connection {
            out,
            calls: Arc::default(),
            slots: Arc::new(Semaphore::new(MAX_CALLS)),
            sending: Mutex::new(()),
        }
    }

    /// Begins a call, once there is room for one more.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        kind: Kind,
        body: &impl serde::Serialize,
    ) -> Result<Calling, CallFailure> {
        let body = serde_json::to_vec(body).map_err(|_| unsendable())?;
        if body.len() > MAX_WHOLE_BYTES {
            return Err(unsendable());
        }
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let slot = slot.map_err(|_| ended())?;
        let (events, inbox) = mpsc::unbounded_channel();
        let window = Window::new(0);
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
            let entry = Entry {
                events: Some(events),
                unread: 0,
                said: 0,
                parts: Vec::new(),
                window: Arc::clone(&window),
                started: false,
                _slot: slot,
            };
            under.calls.insert(id, entry);
            id
        };
        let calling = Calling {
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

    fn send_whole(&self, frames: Vec<Frame>) {
        let _alone = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        frames.into_iter().for_each(|frame| self.send(frame));
    }

    /// Puts a frame on its way. Where the node is gone, who reads tells those who wait.
    pub(crate) fn send(&self, frame: Frame) {
        let _gone = self.out.send(frame);
    }

    /// Ends a call.
    pub(crate) fn cancel(&self, id: u32) {
        if self.calls.lock().calls.contains_key(&id) {
            self.send(Frame::new(Kind::Cancel, id, Vec::new()));
        }
    }
}

/// A call under way, for who waits for it. Dropping it cancels the call.
pub(crate) struct Calling {
    pub(crate) connection: Arc<Connection>,
    pub(crate) id: u32,
    events: mpsc::UnboundedReceiver<Event>,
    /// Data that was taken and not yet told of.
    taken: u32,
    pub(crate) window: Arc<Window>,
    over: bool,
}

impl Calling {
    /// What came next; always something, and at last the end.
    pub(crate) async fn next(&mut self) -> Event {
        let event = self.events.recv().await.unwrap_or(Event::Lost);
        match &event {
            Event::Done(_) | Event::Failed(_) | Event::Lost => self.over = true,
            Event::Printed(_, data) | Event::Data(data) => self.took(cost(data.len())),
            Event::Started | Event::Said(_) => {}
        }
        event
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
            .send(Frame::new(Kind::Window, self.id, body));
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut under = self.connection.calls.lock();
        if let Some(entry) = under.calls.get_mut(&self.id) {
            // Its place is free once the node says that it has ended.
            entry.events = None;
            entry.parts = Vec::new();
            drop(under);
            self.connection
                .send(Frame::new(Kind::Cancel, self.id, Vec::new()));
        }
    }
}

/// Reads what a node says, to its end.
pub(crate) async fn read(
    mut reader: impl AsyncRead + Unpin,
    mut decoder: Decoder,
    calls: Arc<Calls>,
) {
    let why = loop {
        match decoder.next() {
            Ok(Some(frame)) if frame.kind == Kind::Bye => {
                break NodeError::Ended("it said so".to_owned());
            }
            Ok(Some(frame)) => {
                if let Err(why) = calls.take(frame) {
                    break NodeError::Garbage {
                        why,
                        said: String::new(),
                    };
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
        said: crate::escape_controls(&said),
    }
}

/// Frames on their way out.
pub(crate) enum Frames {
    /// From a broker, whose calls are counted.
    Free(mpsc::UnboundedReceiver<Frame>),
    /// From a node, whose calls wait for room.
    Few(mpsc::Receiver<Frame>),
}

impl Frames {
    async fn next(&mut self) -> Option<Frame> {
        match self {
            Frames::Free(frames) => frames.recv().await,
            Frames::Few(frames) => frames.recv().await,
        }
    }

    fn ready(&mut self) -> Option<Frame> {
        match self {
            Frames::Free(frames) => frames.try_recv().ok(),
            Frames::Few(frames) => frames.try_recv().ok(),
        }
    }
}

/// Writes frames as they come, to their end; then says so. As much as lies ready goes in one piece.
///
/// # Errors
///
/// Nobody reads them.
pub(crate) async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut frames: Frames,
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
    Frame::new(Kind::Bye, CONNECTION, Vec::new()).write(&mut bytes);
    writer.write_all(&bytes).await?;
    writer.shutdown().await
}

fn unsendable() -> CallFailure {
    CallFailure::new(
        crate::call::FailureCode::Limit,
        "The call is too long for the place that it would run in.",
    )
}
