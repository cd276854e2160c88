//! Any text as a name that git is given: what is taken is no option, not two lines, climbs nowhere, is
//! nothing of git's own, and is taken again as it is shown.
#![no_main]

use std::path::{Component, Path};

use forge_git::{Author, BranchName, GitError, ObjectId, Repo, RepoPath, ServerOrigin, StagedId};
use libfuzzer_sys::fuzz_target;

fn check_text(text: &str) {
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(!text.starts_with('-'), "{text:?}");
}

fn refused(error: &GitError) {
    check_text(&error.to_string().replace('\n', " "));
}

fuzz_target!(|text: &str| {
    match Repo::parse(text) {
        Ok(repo) => {
            let shown = repo.to_string();
            check_text(&shown);
            assert!(!shown.contains("::") || shown.starts_with("file://") || shown.contains('['));
            assert!(!shown.split('/').any(|name| name == ".."), "{shown}");
            assert_eq!(Repo::parse(&shown).expect("its own words"), repo);
        }
        Err(error) => refused(&error),
    }
    if let Ok(origin) = ServerOrigin::parse(text) {
        check_text(&origin.to_string());
    }
    match BranchName::parse(text) {
        Ok(branch) => {
            check_text(branch.as_str());
            assert!(
                !branch
                    .as_str()
                    .contains([' ', ':', '~', '^', '?', '*', '[', '\\'])
            );
            assert!(!branch.as_str().split('/').any(|part| part.starts_with('.')));
        }
        Err(error) => refused(&error),
    }
    match RepoPath::parse(text) {
        Ok(path) => {
            let path = path.as_str();
            assert!(!path.contains(char::is_control) && !path.contains('\\'));
            let parts = Path::new(path).components();
            assert!(parts.into_iter().all(|part| match part {
                Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
                _ => false,
            }));
        }
        Err(error) => refused(&error),
    }
    if let Ok(author) = Author::parse(text) {
        let shown = author.to_string();
        assert!(!shown.contains(char::is_control) && shown.matches(['<', '>']).count() == 2);
    }
    if let Some(id) = ObjectId::parse(text) {
        assert!(id.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    if let Ok(id) = StagedId::parse(text) {
        assert_eq!(id.as_str().len(), 32);
    }
});
