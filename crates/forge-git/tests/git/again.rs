//! Pushes that ended before it was known what became of them, and changes that are there already.

use std::sync::Arc;

use forge_git::{
    BranchName, GitError, GitRepositories, GitService, NewCommit, NewHead, ObjectId, OnDivergence,
    Repo, StagedStore, TreeEntry,
};

use crate::memory::MemoryRepositories;

use crate::world::{World, in_memory, wait, worlds};

/// Repositories whose pushes never come back: those that are taken, and those that are not.
struct NeverBack(MemoryRepositories, bool);

impl GitRepositories for NeverBack {
    async fn head(&self, repo: &Repo, branch: &BranchName) -> Result<Option<ObjectId>, GitError> {
        self.0.head(repo, branch).await
    }

    async fn tree(&self, repo: &Repo, commit: &ObjectId) -> Result<Vec<TreeEntry>, GitError> {
        self.0.tree(repo, commit).await
    }

    async fn contents(
        &self,
        repo: &Repo,
        ids: &[ObjectId],
        max_bytes: u64,
    ) -> Result<Vec<Vec<u8>>, GitError> {
        self.0.contents(repo, ids, max_bytes).await
    }

    async fn prepare(&self, repo: &Repo, commit: NewCommit) -> Result<ObjectId, GitError> {
        self.0.prepare(repo, commit).await
    }

    async fn push(&self, repo: &Repo, head: NewHead) -> Result<(), GitError> {
        if self.1 {
            self.0.push(repo, head).await?;
        }
        std::future::pending().await
    }
}

/// What others do before it is pushed again.
type Meanwhile = &'static [(&'static str, Option<&'static str>)];

#[test]
fn a_push_that_never_came_back_is_found_again() {
    let main = BranchName::default();
    let later: Meanwhile = &[("later.md", Some("later\n"))];
    let over: Meanwhile = &[("README.md", Some("theirs\n"))];
    for (taken, meanwhile, already_there) in [
        (true, &[][..], Some(true)),
        (true, later, Some(true)),
        // It may have been there: nothing is put over what others made of it.
        (true, over, None),
        (false, &[], Some(false)),
        (false, over, None),
    ] {
        let World { files, repo, .. } = in_memory();
        let repositories = MemoryRepositories::new();
        let hello = [("README.md", Some("hello\n"))];
        repositories.commit(&repo, &main, hello);
        let store = StagedStore::in_memory().unwrap();
        let world = |git| World {
            git,
            files: files.clone(),
            repo: repo.clone(),
            ..in_memory()
        };
        let killed = world(Arc::new(GitService::new(
            NeverBack(repositories.clone(), taken),
            store.clone(),
        )));
        killed.write("/workspace/README.md", "mine\n");
        let commit = killed.stage(&["/workspace/README.md"]).unwrap();
        assert_eq!(commit.being_pushed_as(), None);
        let approval = killed.approve(&commit);
        let push = killed.git.push(approval, OnDivergence::Refuse);
        let limit = std::time::Duration::from_millis(200);
        wait(async { tokio::time::timeout(limit, push).await }).unwrap_err();

        let again = world(Arc::new(GitService::new(repositories.clone(), store)));
        let staged = wait(again.git.list_staged()).unwrap().commits;
        let made = staged[0].being_pushed_as().unwrap().clone();
        if !meanwhile.is_empty() {
            repositories.commit(&repo, &main, meanwhile.iter().copied());
        }
        // What was agreed to is still what it was.
        let pushed = wait(again.git.push(again.approve(&commit), OnDivergence::Refuse));
        let left = wait(again.git.list_staged()).unwrap().commits.len();
        let there = repositories.read(&repo, &main, "README.md").unwrap();
        match already_there {
            Some(already_there) => {
                let pushed = pushed.unwrap();
                assert_eq!(pushed.already_there, already_there, "{meanwhile:?}");
                assert_eq!(pushed.commit, made);
                assert_eq!((left, there.as_slice()), (0, b"mine\n".as_slice()));
            }
            None => {
                let text = pushed.unwrap_err().to_string();
                assert!(
                    text.contains(&format!("whether {made} was taken")),
                    "{text}"
                );
                assert_eq!((left, there.as_slice()), (1, b"theirs\n".as_slice()));
            }
        }
    }
}

#[test]
fn what_others_have_done_already_is_not_done_twice() {
    for world in worlds() {
        let main = BranchName::default();
        world.write("/workspace/README.md", "the same\n");
        let paths = ["/workspace/README.md", "/workspace/analyses/other.md"];
        let commit = world.stage(&paths).unwrap();
        let theirs = [
            ("README.md", Some("the same\n")),
            ("analyses/other.md", None),
            ("more.md", Some("more\n")),
        ];
        world.others.commit(&main, &theirs);
        let pushed = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
        assert!(pushed.already_there, "{}", world.name);
        assert!(wait(world.git.list_staged()).unwrap().commits.is_empty());
    }
}
