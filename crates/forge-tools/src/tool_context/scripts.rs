//! The files that a command runs, as a question shows them.

use std::path::PathBuf;

use file_sandbox::{EntryKind, FileSandbox, SandboxPath};

use super::ReadOnlyContext;
use crate::change::FileChange;
use crate::command_line::RunWord;

/// Most files of one command that are shown.
const MAX_SCRIPTS: usize = 64;

impl ReadOnlyContext<'_> {
    /// Returns the files that a command runs by name: the programs in a mount, and the arguments of
    /// programs that run their arguments. Blocks.
    pub(crate) fn scripts(&self, line: &crate::CommandLine) -> Vec<FileChange> {
        let Ok(files) = self.context.files() else {
            return Vec::new();
        };
        let mut run = line.run_files();
        let state = line.session().and_then(|state| state.directory());
        let directories = run.directories(state.unwrap_or("/work"));
        let mut runs_more = run.runs_more();
        let mut found: Vec<FileChange> = Vec::new();
        for word in &run.words {
            let paths = self.scripts_by(word, &directories, files);
            // The parent of a link is another directory to a program.
            let is_known = paths.iter().any(|path| !path.asked().contains("/.."));
            runs_more |= word.is_run && !is_known && !is_of_system(&word.name);
            for path in paths {
                if found.iter().any(|change| change.path() == path.as_str()) {
                    continue;
                }
                if found.len() == MAX_SCRIPTS {
                    // A person does not agree to a file that is not shown.
                    found.push(FileChange::unseen("the other files that it runs"));
                    return found;
                }
                found.push(self.script(&path));
            }
        }
        found.extend(runs_more.then(FileChange::unnamed));
        found
    }

    /// Returns the files that a word may name.
    fn scripts_by(
        &self,
        word: &RunWord<'_>,
        directories: &[PathBuf],
        files: &FileSandbox,
    ) -> Vec<SandboxPath> {
        let places = directories.iter().map(|from| from.join(&*word.name));
        let paths = places.filter_map(|asked| self.context.path(asked.to_str()?).ok());
        let is_file = |path: &SandboxPath| {
            let stat = files.stat(path);
            stat.is_ok_and(|stat| stat.kind == EntryKind::File)
        };
        paths.filter(is_file).collect()
    }

    fn script(&self, path: &SandboxPath) -> FileChange {
        match self.summary(path) {
            Some((row, seen)) => {
                FileChange::used(path.as_str(), "(run by the command)", &format!(" {row}\n"))
                    .based_on(path.as_str(), seen)
            }
            None => FileChange::unseen(path.as_str()),
        }
    }
}

/// `true` for a program that no worker can replace.
fn is_of_system(path: &str) -> bool {
    const ROOTS: [&str; 4] = ["/bin/", "/sbin/", "/usr/", "/lib"];
    ROOTS.iter().any(|root| path.starts_with(root)) && !path.contains("/..")
}
