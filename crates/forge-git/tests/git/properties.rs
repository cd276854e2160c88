//! What holds whatever the files are.

use forge_git::{BranchName, OnDivergence, PullOutcome};
use proptest::prelude::*;

use crate::world::{wait, with_repositories};

/// A text of lines that others write as well, and of one's own.
fn text(own: &'static str) -> impl Strategy<Value = String> {
    let line = prop_oneof![4 => "[abc]", 1 => own];
    let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n")];
    (prop::collection::vec(line, 0..10), end, any::<bool>()).prop_map(|(lines, end, ends)| {
        let mut text = lines.join(end);
        if ends && !text.is_empty() {
            text.push_str(end);
        }
        text
    })
}

fn own(text: &str, own: char) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().filter(|line| line.starts_with(own)).collect();
    lines.sort_unstable();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever others did meanwhile, and however often it is pulled.
    #[test]
    fn no_local_edit_is_lost(
        base in text("[abc]"),
        ours in text("m[0-9]{4}"),
        theirs in text("t[0-9]{4}"),
        then in text("u[0-9]{4}"),
    ) {
        let (world, repositories) = with_repositories();
        let main = BranchName::default();
        let commit = |text: &str| repositories.commit(&world.repo, &main, [("a.md", Some(text))]);
        commit(&base);
        world.pull(&["a.md"], "/workspace").unwrap();
        world.write("/workspace/a.md", &ours);
        for text in [&theirs, &then] {
            let before = world.text("/workspace/a.md");
            commit(text);
            let pulled = world.pull(&["a.md"], "/workspace").unwrap();
            let after = world.text("/workspace/a.md");
            let outcome = pulled.files[0].outcome;
            // Only what is as it was pulled is replaced.
            if before != base || outcome != PullOutcome::Updated {
                let kept = own(&after, 'm');
                for line in own(&ours, 'm') {
                    prop_assert!(kept.contains(&line), "{line} is not in {after:?} ({outcome:?})");
                }
            }
            if outcome == PullOutcome::Kept {
                prop_assert_eq!(&before, &after);
            }
        }
    }

    /// Whatever becomes of the file, and of the others.
    #[test]
    fn what_is_pushed_is_what_was_staged(
        before in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        staged in prop::collection::vec(any::<u8>(), 0..200),
        later in prop::collection::vec(any::<u8>(), 0..200),
        // Names that Windows can check out: no space at the end, and none of its devices, which
        // never end in `q`.
        name in "[a-z]{1,7}q(/[A-Z][A-Z \u{e9}\u{65e5}]{0,6}Q){0,2}",
        // Others may have made one that it cannot.
        quote in any::<bool>(),
        moved in any::<bool>(),
    ) {
        let (world, repositories) = with_repositories();
        let main = BranchName::default();
        let name = if quote { format!("{name}\"") } else { name };
        repositories.commit(&world.repo, &main, [("0", Some("0"))]);
        if quote {
            repositories.commit(&world.repo, &main, [(name.as_str(), Some("theirs"))]);
        }
        let at = world.files.path(&format!("/workspace/{name}")).unwrap();
        if let Some(before) = before.as_ref().filter(|before| !quote || *before != b"theirs") {
            world.files.write_bytes(&at, before, Default::default()).unwrap();
            let first = world.stage(&[at.as_str()]).unwrap();
            wait(world.git.push(world.approve(&first), OnDivergence::Refuse)).unwrap();
        }
        world.files.write_bytes(&at, &staged, Default::default()).unwrap();
        let commit = world.stage(&[at.as_str()]);
        let was = before.as_deref().or(quote.then_some(&b"theirs"[..]));
        if was == Some(&staged[..]) {
            prop_assert!(commit.is_err());
            return Ok(());
        }
        let commit = commit.unwrap();
        world.files.write_bytes(&at, &later, Default::default()).unwrap();
        if moved {
            repositories.commit(&world.repo, &main, [("1", Some("1"))]);
        }
        wait(world.git.push(world.approve(&commit), OnDivergence::Rebase)).unwrap();
        prop_assert_eq!(repositories.read(&world.repo, &main, &name), Some(staged));
        let others = repositories.read(&world.repo, &main, "1");
        prop_assert_eq!(others.is_some(), moved);
    }
}
