//! The resources of a node and its calls under way.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use file_sandbox::{FileSandbox, Mount};
use forge_tools::{CallFailure, LocalCommandRunner, ProgramList, RemoteFileTools};
use tokio::sync::mpsc;

use crate::connection::MAX_CALLS;
use crate::error::internal;
use crate::frame::NodeFrame;
use crate::message::Stats;
use crate::setup::OpenedSetup;
use crate::task::NodeTask;

/// The state that all calls of a node share.
pub(crate) struct NodeState {
    pub(crate) out: mpsc::Sender<NodeFrame>,
    pub(crate) tools: Option<RemoteFileTools>,
    pub(crate) files: Option<FileSandbox>,
    pub(crate) memory: Vec<Mount>,
    pub(crate) commands: Option<LocalCommandRunner>,
    pub(crate) programs: Vec<ProgramList>,
    /// The programs are those of a container's image.
    pub(crate) own_container: bool,
    /// The control group that the memory of commands counts in.
    pub(crate) control_group: Option<PathBuf>,
    calls: Mutex<HashMap<u32, Arc<NodeTask>>>,
    pub(crate) counts: NodeCounters,
}

#[derive(Default)]
pub(crate) struct NodeCounters {
    pub(crate) calls: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: Arc<AtomicU64>,
}

impl NodeState {
    pub(crate) fn new(
        opened: OpenedSetup,
        out: mpsc::Sender<NodeFrame>,
        counts: NodeCounters,
        control_group: Option<PathBuf>,
    ) -> NodeState {
        let tools = |files| RemoteFileTools::new(files, opened.max_write_bytes);
        NodeState {
            out,
            tools: opened.files.clone().map(tools),
            files: opened.files,
            memory: opened.memory,
            commands: opened.plan.map(LocalCommandRunner::new),
            programs: opened.programs,
            own_container: opened.own_container,
            control_group,
            calls: Mutex::default(),
            counts,
        }
    }

    /// Sends a frame, from a blocking thread. The writer ends everything when its reader is gone.
    pub(crate) fn send(&self, frame: NodeFrame) {
        let _gone = self.out.blocking_send(frame);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<NodeTask>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call; `None` if its id is taken or the calls are too many.
    pub(crate) fn open(&self, id: u32) -> Option<Arc<NodeTask>> {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        let mut calls = self.lock();
        if calls.contains_key(&id) || calls.len() >= MAX_CALLS {
            return None;
        }
        Some(Arc::clone(calls.entry(id).or_default()))
    }

    /// A call is over.
    pub(crate) fn close(&self, id: u32) {
        self.lock().remove(&id);
    }

    pub(crate) fn stats(&self) -> Stats {
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Stats {
            calls: number(&self.counts.calls),
            in_flight: self.lock().len() as u64,
            bytes_in: number(&self.counts.bytes_in),
            bytes_out: number(&self.counts.bytes_out),
            ..Stats::default()
        }
    }
}

/// The node lacks something that the call needs.
pub(crate) fn absent(what: &str) -> CallFailure {
    internal(format!("This place has no {what}."))
}
