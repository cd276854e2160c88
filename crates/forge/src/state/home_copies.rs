//! Copies of a person's files in a kept home directory. While no command shares them they are outside
//! of it, and the files of commands are back in their places. So a command that shares nothing finds no
//! copy of an earlier one. Other files, into which a command has written a content of a copy, stay.
//!
//! A list has the places of copies. A copy that is stored outside counts more than the list: a kill
//! between two steps leaves each file in one place or the other, and the next command goes on from there.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind, Result, Write as _};
use std::path::{Path, PathBuf};

use file_sandbox::cap_std::ambient_authority;
use file_sandbox::cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use crate::bounded::read_bytes;
use crate::state::kept_home::make_parents;

/// Bound on the size of a file that is copied, in bytes.
const MAX_COPY: u64 = 16 << 20;

/// Directory of copies that are not shared at the moment.
const OF_PERSON: &str = "of-person";
/// Directory of files of commands, while a copy is in their place.
const OF_COMMANDS: &str = "of-commands";

/// The list of places.
const LIST: &str = "places.json";
/// Bound on the size of the list, in bytes.
const MAX_LIST: u64 = 1 << 20;

/// The copies of one home directory, and the files that they replace.
#[derive(Debug)]
pub(crate) struct HomeCopies {
    store: Dir,
    of_person: Dir,
    of_commands: Dir,
    listed: BTreeSet<PathBuf>,
}

impl HomeCopies {
    /// Opens the directory for files outside of the home directory. Commands never see it.
    pub(crate) fn open(path: &Path) -> Result<HomeCopies> {
        let store = Dir::open_ambient_dir(path, ambient_authority())?;
        let open = |name: &str| match store.create_dir(name) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => store.open_dir(name),
        };
        let listed = match store.symlink_metadata(LIST) {
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeSet::new(),
            _ => serde_json::from_slice(&read_bytes(&path.join(LIST), MAX_LIST)?)?,
        };
        Ok(HomeCopies {
            of_person: open(OF_PERSON)?,
            of_commands: open(OF_COMMANDS)?,
            store,
            listed,
        })
    }

    /// `true` if the copy is in the home directory, or a command removed it there.
    fn is_in_home(&self, place: &Path) -> bool {
        self.listed.contains(place) && self.of_person.symlink_metadata(place).is_err()
    }

    /// Returns the places of copies that no wanted file is for.
    fn unwanted(&self, wanted: &[(&Path, PathBuf)]) -> Vec<PathBuf> {
        let is_unwanted = |place: &&PathBuf| wanted.iter().all(|(other, _)| other != place);
        self.listed.iter().filter(is_unwanted).cloned().collect()
    }

    /// `true` if other files have to be in the home directory for these copies.
    pub(crate) fn has_changes(&self, wanted: &[(&Path, PathBuf)]) -> bool {
        let mut places = wanted.iter().map(|(place, _)| place);
        places.any(|place| !self.is_in_home(place)) || !self.unwanted(wanted).is_empty()
    }

    /// Puts these copies into the home directory, and takes all others out.
    pub(crate) fn change(&mut self, home: &Dir, wanted: &[(&Path, PathBuf)]) -> Result<()> {
        for place in self.unwanted(wanted) {
            if self.is_in_home(&place) {
                move_file(home, &self.of_person, &place)?;
            }
            move_file(&self.of_commands, home, &place)?;
            self.listed.remove(&place);
            self.save()?;
        }
        for (place, own) in wanted {
            if self.is_in_home(place) && home.symlink_metadata(place).is_ok() {
                continue;
            }
            if self.of_person.symlink_metadata(place).is_err() {
                write(&self.of_person, place, &read_bytes(own, MAX_COPY)?)?;
            }
            if self.listed.insert((*place).to_owned()) {
                self.save()?;
            }
            move_file(home, &self.of_commands, place)?;
            move_file(&self.of_person, home, place)?;
        }
        Ok(())
    }

    fn save(&self) -> Result<()> {
        write(
            &self.store,
            Path::new(LIST),
            &serde_json::to_vec(&self.listed)?,
        )
    }
}

/// Writes a file as a whole: beside its place, and renamed.
fn write(directory: &Dir, place: &Path, content: &[u8]) -> Result<()> {
    make_parents(directory, place)?;
    let mut new = place.as_os_str().to_owned();
    new.push(".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = directory.open_with(&new, &options)?;
    file.write_all(content)?;
    file.sync_all()?;
    directory.rename(&new, directory, place)
}

/// Moves a file, or nothing if it is absent. It replaces no other file.
fn move_file(from: &Dir, to: &Dir, place: &Path) -> Result<()> {
    if from.symlink_metadata(place).is_err() {
        return Ok(());
    }
    if to.symlink_metadata(place).is_ok() {
        let why = format!("{} is there twice: remove one of them", place.display());
        return Err(Error::new(ErrorKind::AlreadyExists, why));
    }
    make_parents(to, place)?;
    from.rename(place, to, place)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is at a place, after each of these commands: `true` shares.
    fn after(shares: &[bool], content: &str) -> Vec<String> {
        let state = tempfile::tempdir().unwrap();
        let own = state.path().join("own");
        fs::write(&own, "person").unwrap();
        let path = |name: &str| {
            let path = state.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (home, store) = (path("home"), path("store"));
        let place = Path::new(".config/tool.json");
        let mut seen = Vec::new();
        for shares in shares {
            let mut copies = HomeCopies::open(&store).unwrap();
            let directory = Dir::open_ambient_dir(&home, ambient_authority()).unwrap();
            let wanted = Vec::from_iter(shares.then(|| (place, own.clone())));
            copies.change(&directory, &wanted).unwrap();
            assert!(!copies.has_changes(&wanted));
            let there = fs::read_to_string(home.join(place)).unwrap_or_default();
            seen.push(there.clone());
            fs::create_dir_all(home.join(".config")).unwrap();
            fs::write(home.join(place), format!("{there}{content}")).unwrap();
        }
        seen
    }

    #[test]
    fn what_was_shared_is_not_there_for_those_that_share_nothing() {
        let seen = after(&[false, true, true, false, false, true], "+");
        assert_eq!(seen, ["", "person", "person+", "+", "++", "person++"]);
    }

    /// The states that a kill between two steps leaves: with the place in the list or not, the copy
    /// outside, and the file of commands in the home directory or outside.
    #[test]
    fn a_command_after_a_kill_finds_its_own_file_or_the_copy() {
        let place = Path::new("tool.json");
        for (is_listed, is_outside) in [(false, false), (true, false), (true, true)] {
            for all_shares in [[true, false], [false, true]] {
                let state = tempfile::tempdir().unwrap();
                let (home, store) = (state.path().join("home"), state.path().join("store"));
                for directory in [&home, &store.join(OF_PERSON), &store.join(OF_COMMANDS)] {
                    fs::create_dir_all(directory).unwrap();
                }
                let own = state.path().join("own");
                fs::write(&own, "another time").unwrap();
                fs::write(store.join(OF_PERSON).join(place), "person").unwrap();
                // Half of it, from a kill while it was written.
                fs::write(store.join(OF_PERSON).join("tool.json.new"), "per").unwrap();
                let of_commands = match is_outside {
                    true => store.join(OF_COMMANDS),
                    false => home.clone(),
                };
                fs::write(of_commands.join(place), "command").unwrap();
                if is_listed {
                    fs::write(store.join(LIST), r#"["tool.json"]"#).unwrap();
                }
                for shares in all_shares {
                    let mut copies = HomeCopies::open(&store).unwrap();
                    let directory = Dir::open_ambient_dir(&home, ambient_authority()).unwrap();
                    let wanted = Vec::from_iter(shares.then(|| (place, own.clone())));
                    copies.change(&directory, &wanted).unwrap();
                    let there = fs::read_to_string(home.join(place)).unwrap();
                    let expected = if shares { "person" } else { "command" };
                    assert_eq!(there, expected, "{is_listed} {is_outside} {all_shares:?}");
                }
            }
        }
    }
}
