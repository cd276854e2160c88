//! The home directory of a project's commands: links to state that is shared, and copies of files.

use std::path::{Path, PathBuf};

use sandbox_config::{ExtraDirs, PresetSet, SharedState, StateMode};

use sandbox_names::pattern::covering;

use super::refused;
use crate::ambient::Ambient;
use crate::exit::CliError;
use crate::state::kept_home::KeptHome;
use crate::state::kept_homes::{HomeLease, HomeOwner, KeptHomes};

/// The contents that a home directory needs.
pub(super) struct HomePlan<'a> {
    /// Places of links, each with the real path of the person's if it is shared.
    links: Vec<(&'a Path, Option<PathBuf>)>,
    copies: Vec<(&'a Path, PathBuf)>,
    state: Vec<SharedState>,
    presets: Vec<&'a str>,
    shares: bool,
}

/// A home directory that stays as it is until the command has ended.
#[derive(Debug)]
pub(super) struct LeasedHome {
    pub(super) dirs: ExtraDirs,
    /// Files of the person's of which it has copies.
    pub(super) copies: Vec<PathBuf>,
    _lease: HomeLease,
}

impl<'a> HomePlan<'a> {
    pub(super) fn new(
        set: &'a PresetSet,
        home: &Path,
        shares: bool,
        read_only: bool,
        named: &[PathBuf],
    ) -> HomePlan<'a> {
        let mut plan = HomePlan {
            links: Vec::new(),
            copies: Vec::new(),
            state: Vec::new(),
            presets: set.personal().collect(),
            shares,
        };
        for one in set.state() {
            let is_given = shares || !one.needs_yes();
            let own = home.join(&one.path).canonicalize();
            let own = own.ok().filter(|_| is_given);
            let place = Path::new(&one.path);
            if one.mode == StateMode::Copy {
                plan.copies.extend(own.map(|own| (place, own)));
                continue;
            }
            plan.state.extend(own.iter().map(|real| {
                SharedState {
                    host: real.clone(),
                    writable: one.mode == StateMode::Share && !read_only,
                    executable: false,
                    protect: (one.protect.iter().cloned())
                        .chain(named.iter().filter_map(|path| {
                            let below = path.strip_prefix(real).ok()?.to_str()?;
                            (!below.is_empty()).then(|| format!("/{}", covering(below)))
                        }))
                        .collect(),
                }
            }));
            plan.links.push((place, own));
        }
        plan
    }

    fn has_changes(&self, kept: &KeptHome) -> std::io::Result<bool> {
        for (place, own) in &self.links {
            let is_as_planned = match own {
                Some(own) => kept.is_attached(place, own)?,
                None => kept.is_detached(place),
            };
            if !is_as_planned {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn apply(&self, kept: &KeptHome) -> std::io::Result<()> {
        for (place, own) in &self.links {
            match own {
                Some(own) => kept.attach(place, own)?,
                None => kept.detach(place)?,
            }
        }
        for (place, own) in &self.copies {
            kept.copy(place, own)?;
        }
        Ok(())
    }

    /// Prepares the home directory that is kept for a project.
    pub(super) fn lease(self, project: &Path, ambient: &Ambient) -> Result<LeasedHome, CliError> {
        let state = ambient.state.as_deref();
        let state = state.ok_or_else(|| refused("missing state directory".to_owned()))?;
        let owner = HomeOwner {
            project,
            presets: self.presets.clone(),
            shares: self.shares,
        };
        let leased = KeptHomes::in_state(state).lease(
            &owner,
            |kept| self.has_changes(kept),
            |kept| self.apply(kept),
        );
        let (home, lease) = leased.map_err(|error| {
            refused(format!(
                "the home directory for commands of this project: {error}"
            ))
        })?;
        Ok(LeasedHome {
            dirs: ExtraDirs {
                home: Some(home),
                state: self.state,
            },
            copies: self.copies.into_iter().map(|(_, own)| own).collect(),
            _lease: lease,
        })
    }
}
