//! Collector of the lines of a plan.

use crate::promise::{Enforcer, Entry, Promise, PromiseState};

/// The lines of a plan, under construction.
#[derive(Default)]
pub(crate) struct CoverageEntries(Vec<Entry>);

/// A mechanism that keeps a promise, or the reason why none does.
pub(crate) type Coverage = Result<Enforcer, String>;

impl CoverageEntries {
    /// Returns the collected lines.
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.0
    }

    /// Adds a promise that is kept.
    pub(crate) fn kept(&mut self, promise: Promise, by: &[Enforcer]) {
        self.push(promise, PromiseState::Enforced, by, "");
    }

    /// Adds a promise that no mechanism keeps.
    pub(crate) fn absent(&mut self, promise: Promise, reason: &str) {
        self.push(promise, PromiseState::Absent, &[], reason);
    }

    /// Adds a promise that is kept, or `otherwise` the reason why it is not.
    pub(crate) fn kept_if(
        &mut self,
        kept: bool,
        promise: Promise,
        by: &[Enforcer],
        otherwise: &str,
    ) {
        match kept {
            true => self.kept(promise, by),
            false => self.absent(promise, otherwise),
        }
    }

    /// Adds a promise that any of the mechanisms enforces. All that work are listed.
    pub(crate) fn any(&mut self, promise: Promise, kept: &[&Coverage]) {
        let by: Vec<Enforcer> = kept
            .iter()
            .filter_map(|one| one.as_ref().ok().copied())
            .collect();
        if by.is_empty() {
            let reason = kept.iter().rev().find_map(|one| one.as_ref().err());
            self.absent(promise, reason.map_or("", String::as_str));
        } else {
            self.kept(promise, &by);
        }
    }

    /// Adds a promise that only all mechanisms together enforce.
    pub(crate) fn all(&mut self, promise: Promise, kept: &[&Coverage]) {
        match kept.iter().find_map(|one| one.as_ref().err()) {
            Some(reason) => self.absent(promise, reason),
            None => self.any(promise, kept),
        }
    }

    /// Adds a remark to the last entry, without a change of its state.
    pub(crate) fn remark(&mut self, text: &str) {
        if let Some(entry) = self.0.last_mut() {
            entry.reason = Some(text.to_owned());
        }
    }

    /// Adds a remark to the last entry, which may have a reason already.
    pub(crate) fn remark_too(&mut self, text: &str) {
        let old = self.0.last().and_then(|entry| entry.reason.clone());
        let old = old.map(|old| format!("{old}; ")).unwrap_or_default();
        self.remark(&format!("{old}{text}"));
    }

    /// Adds a promise about names, which a mount layer enforces up to a limit.
    pub(crate) fn names(
        &mut self,
        promise: Promise,
        layer: Result<&[Enforcer], &String>,
        state: PromiseState,
        limit: &str,
    ) {
        match layer {
            Ok(by) => self.push(promise, state, by, limit),
            Err(reason) => self.absent(promise, reason),
        }
    }

    /// Adds a line.
    pub(crate) fn push(
        &mut self,
        promise: Promise,
        state: PromiseState,
        by: &[Enforcer],
        reason: &str,
    ) {
        self.0.push(Entry {
            promise,
            state,
            by: by.to_vec(),
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
        });
    }
}
