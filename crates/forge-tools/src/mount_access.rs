//! The mounts that a call reaches on any path, and those of them that it may read.
//!
//! The rules of a mount about reading, writing and deleting apply to the files in it, not to a
//! path: a link leads from one mount into another, and a search descends into the mounts below. So
//! the reach of a call is found before it is judged, and mounts that it would read without saying
//! so are closed to it by the file sandbox.

use file_sandbox::{FileSandbox, Mount, SandboxPath};

use crate::gate::{Gate, Intent, MountVerdicts, Verdict};

/// The files of a worker, and the verdicts of each mount.
#[derive(Debug, Default)]
pub(crate) struct MountAccess {
    whole: Option<FileSandbox>,
    /// Without mounts that may not be read, or only after a question.
    unasked: Option<FileSandbox>,
    mounts: Vec<(SandboxPath, MountVerdicts)>,
    /// `true` if the verdicts differ between mounts.
    matters: bool,
}

impl MountAccess {
    pub(crate) fn new(gate: &dyn Gate, files: Option<FileSandbox>) -> Self {
        let mounts = files.as_ref().map(FileSandbox::mounts).unwrap_or_default();
        let said = |mount: &Mount| (mount.target().clone(), gate.mount(mount.target()));
        let mounts: Vec<_> = mounts.iter().map(said).collect();
        let matters = mounts.windows(2).any(|two| two[0].1 != two[1].1)
            || mounts.iter().any(|(_, said)| said.read != Verdict::Allow);
        let mut reach = MountAccess {
            whole: files,
            unasked: None,
            mounts,
            matters,
        };
        reach.unasked = reach.closed_but(&[]);
        reach
    }

    pub(crate) fn whole(&self) -> Option<&FileSandbox> {
        self.whole.as_ref()
    }

    /// Returns the intents of a call, followed by the places they lead to: the targets of links,
    /// and the mounts below that would be asked about.
    pub(crate) fn all(&self, mut intents: Vec<Intent>) -> Vec<Intent> {
        let Some(files) = self.whole.as_ref().filter(|_| self.matters) else {
            return intents;
        };
        let mut more = Vec::new();
        for intent in &intents {
            let as_intent: fn(SandboxPath) -> Intent = match intent {
                Intent::Read(_) => Intent::Read,
                Intent::ReadBelow(_) => Intent::ReadBelow,
                Intent::Write(_) => Intent::Write,
                Intent::Delete(_) => Intent::Delete,
                Intent::CreateDir(_) => Intent::CreateDir,
                // A command reads every mount that it is shown.
                Intent::Execute(_) => {
                    more.extend(self.asked_below(&SandboxPath::root()));
                    continue;
                }
                Intent::Delegate(_) => continue,
            };
            let Some(path) = intent.path() else { continue };
            let way = files.mounts_on_path(path, !matches!(intent, Intent::Delete(_)));
            // A changed file counts at its final place; a read file counts at each place on the
            // way.
            let looked = match intent.changes() {
                true => way.len().saturating_sub(1).max(1),
                false => 1,
            };
            let own = self.mount_of(path);
            let elsewhere = way.iter().skip(looked);
            let elsewhere = elsewhere.filter(|place| self.mount_of(place) != own);
            more.extend(elsewhere.cloned().map(as_intent));
            if let (Intent::ReadBelow(_), Some(end)) = (intent, way.last().or(Some(path))) {
                let below = self.asked_below(end);
                more.extend(below.filter(|read| read.path() != Some(end)));
            }
        }
        intents.append(&mut more);
        intents
    }

    /// The mounts below a directory that are asked about. Those that are blocked are left out.
    fn asked_below<'r>(&'r self, top: &'r SandboxPath) -> impl Iterator<Item = Intent> + 'r {
        let asked = move |(target, said): &&(SandboxPath, MountVerdicts)| {
            said.read == Verdict::Ask && target.starts_with(top)
        };
        let asked = self.mounts.iter().filter(asked);
        asked.map(|(target, _)| Intent::Read(target.clone()))
    }

    /// The files as a call may read them that was judged with these intents.
    pub(crate) fn open_for(&self, intents: &[Intent]) -> Option<FileSandbox> {
        if !self.matters {
            return self.whole.clone();
        }
        let reads = |intent: &&Intent| matches!(intent, Intent::Read(_) | Intent::ReadBelow(_));
        let read = intents.iter().filter(reads).filter_map(Intent::path);
        let read: Vec<usize> = read.filter_map(|path| self.mount_of(path)).collect();
        let shut = |(index, (_, said)): (usize, &(SandboxPath, MountVerdicts))| {
            said.read != Verdict::Allow && read.contains(&index)
        };
        match self.mounts.iter().enumerate().any(shut) {
            true => self.closed_but(&read),
            // Nothing that is closed to all is opened by it.
            false => self.unasked.clone(),
        }
    }

    fn closed_but(&self, open: &[usize]) -> Option<FileSandbox> {
        let files = self.whole.as_ref()?;
        let is_shut =
            |index: usize| self.mounts[index].1.read != Verdict::Allow && !open.contains(&index);
        if !(0..self.mounts.len()).any(is_shut) {
            return Some(files.clone());
        }
        Some(files.without_reading(|mount| {
            let at = |(target, _): &(SandboxPath, MountVerdicts)| target == mount.target();
            self.mounts.iter().position(at).is_none_or(is_shut)
        }))
    }

    fn mount_of(&self, path: &SandboxPath) -> Option<usize> {
        let covers =
            |(_, (target, _)): &(usize, &(SandboxPath, MountVerdicts))| path.starts_with(target);
        let mounts = self.mounts.iter().enumerate().filter(covers);
        mounts
            .max_by_key(|(_, (target, _))| target.as_str().len())
            .map(|(index, _)| index)
    }
}
