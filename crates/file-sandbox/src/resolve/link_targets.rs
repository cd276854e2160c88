//! Files that protected links lead to: programs that obey `.git/hooks/pre-commit` obey its target
//! as well, so the target, and each link on the way to it, is protected where a change could reach it.
//!
//! Every change looks again, as the user may have made a link meanwhile: at the protected names in
//! the directories on the way to the path and at the top of every mount, and at all links below
//! them. Nothing else of the tree is read.

use std::ffi::{OsStr, OsString};

use sandbox_names::git::GitPathClass;

use crate::backend::{AnyDir, BackendDir as _, BackendError, BackendNames as _, FileKind};
use crate::error::{Error, ErrorReason, Verb};
use crate::mount::name_rules::{REPOSITORY, fold, git_class};
use crate::mount::{Mount, path_in};
use crate::path::SandboxPath;
use crate::resolve::location::MountLocation;
use crate::sandbox::FileSandbox;
use crate::text::glob::Glob;

/// The most names that one change reads in directories. With more of them it is refused.
const MAX_NAMES: usize = 1_000_000;
/// The most protected links of one change. With more of them it is refused.
const MAX_LINKS: usize = 10_000;

impl FileSandbox {
    /// Refuses to change a file or directory that a protected link leads to.
    pub(crate) async fn check_link_target(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        verb: Verb,
    ) -> Result<(), Error> {
        let refuse = |name| {
            let reason = ErrorReason::LinkTarget { verb, name };
            Err(path.error(reason))
        };
        for (index, mount) in self.table.mounts.iter().enumerate() {
            let way = match index == location.index {
                true => location.real.as_slice(),
                false => &[],
            };
            let Some(links) = links_of(mount, way).await else {
                return refuse(None);
            };
            for (link, is_for_keys) in links {
                let start = (index, link);
                let mut led = self.led_to(start.clone()).await;
                // The protected link itself has a rule of its own.
                led.links.retain(|link| *link != start);
                let hit = led.is_changed_at(location, verb);
                if hit && (!is_for_keys || led.is_key().await) {
                    return refuse(Some(self.table.show(&path_in(mount, &start.1))));
                }
            }
        }
        Ok(())
    }
}

/// The names that count in a directory.
enum Search<'m> {
    /// Everything below a protected name.
    All,
    /// The names that git obeys.
    Git,
    /// The names of the rules, each with the rest of its pattern.
    Rules(Vec<&'m [Glob]>),
}

/// A directory to read: its names below the mount.
type PendingSearch<'m> = (AnyDir, Vec<OsString>, Search<'m>);

/// The names of a protected link, and `true` if it is one only where it leads to a private key.
type ProtectedLink = (Vec<OsString>, bool);

/// Returns the protected links in the directories on `way`, and below protected names there; `None`
/// if they are too many.
async fn links_of(mount: &Mount, way: &[OsString]) -> Option<Vec<ProtectedLink>> {
    if mount.protected.is_empty() {
        return Some(Vec::new());
    }
    let mut links = ProtectedLinks {
        mount,
        left: MAX_NAMES,
        found: Vec::new(),
        pending: Vec::new(),
    };
    let mut dir: Option<AnyDir> = None;
    for depth in 0..way.len().max(1) {
        let names = &way[..depth];
        let search = match links.class(names) {
            None => Search::Rules(mount.protected.parts().collect()),
            Some(_) => Search::Git,
        };
        links
            .read(dir.as_ref().unwrap_or(&mount.dir), names, &search)
            .await?;
        let Some(name) = way.get(depth) else { break };
        match dir.as_ref().unwrap_or(&mount.dir).open_dir(name).await {
            Ok(next) => dir = Some(next),
            Err(_) => break,
        }
    }
    while let Some((dir, names, search)) = links.pending.pop() {
        links.read(&dir, &names, &search).await?;
    }
    Some(links.found)
}

struct ProtectedLinks<'m> {
    mount: &'m Mount,
    /// Names that may still be read.
    left: usize,
    found: Vec<ProtectedLink>,
    pending: Vec<PendingSearch<'m>>,
}

impl<'m> ProtectedLinks<'m> {
    fn class(&self, names: &[OsString]) -> Option<GitPathClass> {
        let repositories = self.mount.protects_repositories();
        let mut bases = self.mount.rule_bases().filter(|_| repositories);
        bases.find_map(|base| git_class(&base, names))
    }

    /// Reads a directory. `None` if there is too much, or it cannot be read.
    async fn read(&mut self, dir: &AnyDir, names: &[OsString], search: &Search<'m>) -> Option<()> {
        let mut entries = match dir.names().await {
            Ok(entries) => entries,
            Err(BackendError::Missing) => return Some(()),
            // A command's walk fails there as well.
            Err(_) => return None,
        };
        while let Some((name, kind)) = entries.next().await.ok()? {
            self.left = self.left.checked_sub(1)?;
            let kind = match kind {
                Some(kind) => kind,
                None => match dir.meta(&name).await {
                    Ok(meta) => meta.kind,
                    Err(_) => continue,
                },
            };
            // A link with the name of a repository leads to another one, which has its own names.
            let is_link = kind == FileKind::Link && fold(&name.to_string_lossy()) != REPOSITORY;
            if is_link || kind == FileKind::Directory {
                self.entry((dir, names), &name, is_link, search).await?;
            }
        }
        Some(())
    }

    async fn entry(
        &mut self,
        (dir, above): (&AnyDir, &[OsString]),
        name: &OsStr,
        is_link: bool,
        search: &Search<'m>,
    ) -> Option<()> {
        let text = fold(&name.to_string_lossy());
        let tails: Vec<&'m [Glob]> = match search {
            Search::Rules(rules) => rules
                .iter()
                .filter_map(|rule| rule.split_first())
                .filter(|(first, _)| first.accepts_child(&first.start(), &text))
                .map(|(_, rest)| rest)
                .collect(),
            Search::All | Search::Git => Vec::new(),
        };
        let is_repository = text == REPOSITORY && self.mount.protects_repositories();
        if matches!(search, Search::Rules(_)) && tails.is_empty() && !is_repository {
            return Some(());
        }
        let names = [above, &[name.to_owned()]].concat();
        let rule = self.mount.protected_by(&names);
        let is_for_keys = rule.is_some_and(|rule| rule.is_for_keys());
        let is_protected = rule.is_some() || matches!(search, Search::All);
        let next = match (is_protected, self.class(&names)) {
            (true, _) if is_link => {
                self.found.push((names, is_for_keys));
                return (self.found.len() <= MAX_LINKS).then_some(());
            }
            _ if is_link => return Some(()),
            (true, _) => Search::All,
            (false, Some(GitPathClass::Container)) => Search::Git,
            (false, Some(_)) => return Some(()),
            (false, None) => Search::Rules(tails),
        };
        if let Ok(inner) = dir.open_dir(name).await {
            self.pending.push((inner, names, next));
        }
        Some(())
    }
}
