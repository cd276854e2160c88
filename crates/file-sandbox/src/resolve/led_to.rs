//! The file that a link or a configuration leads to, and every place that decides which file that is:
//! a replaced link on the way leads the program elsewhere.

use std::ffi::OsString;

use crate::error::Verb;
use crate::mount::name_rules::fold;
use crate::mount::path_in;
use crate::resolve::content_rules::is_key_at;
use crate::resolve::location::{MountLocation, MountPlace};
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::sandbox::FileSandbox;

/// The places that a path leads through, and its end.
pub(crate) struct LedTo<'s> {
    /// The links on the way.
    pub(crate) links: Vec<MountPlace>,
    /// `None` if it is in no mount, where no change reaches it.
    pub(crate) end: Option<MountLocation<'s>>,
}

impl FileSandbox {
    /// Follows a path from a place in a mount.
    pub(crate) async fn led_to(&self, start: MountPlace) -> LedTo<'_> {
        let path = path_in(&self.table.mounts[start.0], &start.1);
        let mut links = Vec::new();
        let (how, enters) = (
            (FinalLink::Follow, Verb::Access),
            |_, _: &[OsString]| Ok(()),
        );
        let walked = self.walk_noting(&path, start, how, enters, &mut links);
        let end = Box::pin(walked).await.ok();
        LedTo { links, end }
    }
}

impl LedTo<'_> {
    /// Returns `true` if a change at a location reaches the end, or a link on the way.
    pub(crate) fn is_changed_at(&self, location: &MountLocation<'_>, verb: Verb) -> bool {
        let changed = folded(&location.real);
        let takes_all = matches!(verb, Verb::Move | Verb::Delete);
        let end = self.end.iter().map(|end| (end.index, end.real.as_slice()));
        let links = self
            .links
            .iter()
            .map(|(mount, link)| (*mount, link.as_slice()));
        end.chain(links).any(|(mount, names)| {
            let names = folded(names);
            let hit = changed.starts_with(&names) || takes_all && names.starts_with(&changed);
            mount == location.index && !names.is_empty() && hit
        })
    }

    pub(crate) async fn is_key(&self) -> bool {
        let Some(end) = &self.end else {
            return false;
        };
        match (&end.found, end.real.last()) {
            (Lookup::Entry { parent, meta }, Some(name)) => {
                is_key_at(parent, name, meta.kind).await
            }
            _ => false,
        }
    }
}

fn folded(names: &[OsString]) -> Vec<String> {
    let names = names.iter();
    names.map(|name| fold(&name.to_string_lossy())).collect()
}
