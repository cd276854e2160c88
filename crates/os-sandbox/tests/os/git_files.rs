//! Every file that git's documentation names, tried by commands below every kind of git directory;
//! then a person's everyday git, with a tripwire in whatever it would execute.

use crate::fixture::{Mechanism, World, open_at};
use crate::outcome::{ensure, say};
use crate::report::Report;
use os_sandbox::{Access, Command, Git, Output, Policy};
use std::path::{Path, PathBuf};

const LAYOUT: &str = include_str!("../../../../fixtures/git/layout.txt");

/// Below the project.
const PLACES: [&str; 7] = [
    ".git",
    "nested/.git",
    ".git/modules/third_party/foo",
    ".git/modules/third_party/foo/modules/deep/er",
    ".git/worktrees/side",
    "new/.git",
    "bare.git",
];

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    if !mechanism.has_mount_layer() {
        report.not_posed("git files", "no mount layer to keep what is not content");
        return;
    }
    let git = std::process::Command::new("git").arg("--version").output();
    if git.is_err() {
        report.skip("git files", "needs git");
        return;
    }
    let scene = match Scene::new() {
        Ok(scene) => scene,
        Err(why) => {
            report.case("git files: the scene", Err(why));
            return;
        }
    };
    for git in [Git::Unaware, Git::Commit, Git::ReadOnly] {
        let mut cases = vec![
            ("what is not content", layout(&scene, mechanism, git)),
            (
                "where configuration and links lead",
                leads(&scene, mechanism, git),
            ),
            (
                "where they lead in another mount",
                leads_away(&scene, mechanism, git),
            ),
        ];
        if git != Git::ReadOnly {
            cases.push(("what git itself writes", written(&scene, mechanism, git)));
            cases.push(("a rebase that is not done", rebase(&scene, mechanism, git)));
        }
        for (name, outcome) in cases {
            report.case(&format!("git files: {name}, {git:?}"), outcome);
        }
    }
}

fn host(dir: &Path, script: &str) -> Result<String, String> {
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .map_err(say)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{script}: {said}")),
    }
}

fn run(world: &World, project: &Path, git: Git, script: &str) -> Result<Output, String> {
    let policy = [".git/hooks", ".git/config", ".gitmodules", ".vscode"]
        .iter()
        .fold(
            Policy::builder()
                .mount(project, "/", Access::ALL)
                .mount(
                    crate::fixture::probe_program(),
                    "/probe",
                    Access::READ | Access::EXECUTE,
                )
                .git(git),
            |policy, name| policy.protect(*name),
        );
    let plan = world.mechanism.plan(&policy.build().map_err(say)?);
    Command::new(&open_at(&plan, world.host("state")), "sh")
        .args(["-c", script])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_EDITOR", "true")
        .output()
        .map_err(say)
}

/// A project with a nested repository, a module with a slash in its name and one in it, a worktree,
/// and a bare repository. Made once, by a hundred git processes, and copied for each case.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(say)?;
        host(
            dir.path(),
        "set -e; git init -q -b main lib; cd lib; git config user.name n; git config user.email n@x
        echo x > x; git add x; git commit -qm x; cd ..
        git clone -q lib mid; cd mid; git config user.name n; git config user.email n@x
        git -c protocol.file.allow=always submodule --quiet add ../lib deep/er; git commit -qm m; cd ..
        git init -q -b main project; cd project; git config user.name n; git config user.email n@x
        for i in 1 2 3; do echo $i > file$i; git add file$i; git commit -qm $i; done
        git -c protocol.file.allow=always submodule --quiet add ../mid third_party/foo
        git -c protocol.file.allow=always submodule --quiet update --init --recursive; git commit -qm m
        for i in 4 5; do echo $i > file$i; git add file$i; git commit -qm $i; done
        git branch other HEAD~2; git worktree add -q side -b side; git init -q nested; mkdir new
        git clone -q --bare . bare.git; git clone -q --bare . ../remote.git
        git remote add origin ../remote.git; git fetch -q origin",
        )?;
        Ok(Scene(dir))
    }

    /// The project of a copy in `world`.
    fn copy(&self, world: &World) -> Result<PathBuf, String> {
        let dir = world.host("git");
        std::fs::create_dir(&dir).map_err(say)?;
        let dir = dir.canonicalize().map_err(say)?;
        let from = self.0.path().display();
        // The worktree and its directory name each other by absolute paths. `git worktree repair`
        // would repair the original, which exists.
        host(
            &dir,
            &format!(
                "set -e; cp -a {from}/. .; cd project
                echo gitdir: $PWD/.git/worktrees/side > side/.git
                echo $PWD/side/.git > .git/worktrees/side/gitdir"
            ),
        )?;
        Ok(dir.join("project"))
    }
}

/// Everyday work as the person whose project it is; whatever git says.
const EVERYDAY: &str = "export GIT_EDITOR=true PAGER=cat
    for d in . nested third_party/foo third_party/foo/deep/er side new bare.git; do
        (cd $d || exit; unset GIT_EDITOR
        git status; git log -1; git diff; git show; git branch; git tag t; git stash list
        git -c protocol.file.allow=always fetch; git remote -v; git gc --auto -q; git fsck
        git config --get user.name; git blame file1; git worktree list; git submodule status)
    done
    echo new > everyday; git add everyday; git commit -m everyday; git stash; git stash pop
    git checkout -b topic; git commit --allow-empty -m topic; git checkout -; git merge --no-ff -m m topic
    git rebase HEAD~1; git rebase --continue; git cherry-pick topic; git cherry-pick --abort
    git am --continue; git revert --no-edit HEAD; git push origin HEAD:refs/heads/pushed; git pull
    git submodule update; git reset --hard; git clean -n; git archive HEAD -o /dev/null; git st; true";

fn layout(scene: &Scene, mechanism: Mechanism, git: Git) -> Result<(), String> {
    let world = World::new(mechanism);
    let project = scene.copy(&world)?;
    let marker = world.host("marker");
    let mut script = "r() { /probe --probe rename $1 $2; }\n".to_owned();
    let mut tried = Vec::new();
    for line in LAYOUT.lines().filter(|line| !line.starts_with('#')) {
        let (name, class) = line.split_once(' ').ok_or("no class")?;
        if matches!(class, "data" | "kept") {
            continue;
        }
        for place in PLACES {
            // What is not known in a bare repository may be the person's own.
            let own = matches!(place, "bare.git" | "new/.git") && class == "unknown";
            // Git looks for these in the main directory.
            let elsewhere = place.starts_with(".git/worktrees") && class == "obeyed";
            if !own && !elsewhere {
                tried.push(format!("{place}/{name}"));
            }
        }
    }
    script.push_str("for n in ");
    script.push_str(&tried.join(" "));
    script.push_str(&format!(
        "; do mkdir -p $(dirname $n); printf '#!/bin/sh\\nexec touch {0}\\n' > $n.evil
        cp $n.evil $n || {{ r $(dirname $n) aside; mkdir -p $(dirname $n); cp $n.evil $n; }}
        r $n.evil $n; chmod +x $n; rm -f $n.evil; done 2>/dev/null
        for p in new bare.git/sub; do git init -q $p; done; true",
        marker.display()
    ));
    let output = run(&world, &project, git, &script)?;
    ensure(output.exit.success(), || output.stderr.text().to_string())?;
    let evil = host(
        &project,
        "grep -rl 'exec touch' . --exclude-dir=.os-sandbox-quarantine || true",
    )?;
    let left: Vec<&str> = evil
        .lines()
        .filter(|path| tried.iter().any(|one| path.strip_prefix("./") == Some(one)))
        .collect();
    ensure(left.is_empty(), || format!("{left:?}"))?;
    let _ = host(&project, EVERYDAY);
    ensure(!marker.exists(), || "a person's git obeyed".to_owned())?;
    // What was there goes on working.
    host(
        &project,
        "git status --short; git -C third_party/foo log -1; git -C side status",
    )
    .map(drop)
}

/// Files of the project that git obeys because the configuration, or a link, says so.
fn leads(scene: &Scene, mechanism: Mechanism, git: Git) -> Result<(), String> {
    let world = World::new(mechanism);
    let project = scene.copy(&world)?;
    let marker = world.host("marker");
    host(
        &project,
        "set -e; mkdir tools tools/hooks conf conf/vscode
        for t in clean smudge textconv driver fsmonitor alias editor pager ssh hooks/pre-commit external; do
            printf '#!/bin/sh\\nexit 0\\n' > tools/$t; chmod +x tools/$t; done
        printf '[alias]\\n\\tinc = !tools/alias\\n' > conf/inc; echo '*.x filter=x' > conf/attributes
        ln -s conf/vscode .vscode; echo '{}' > conf/vscode/tasks.json
        rm -rf nested/.git/hooks; mkdir nested/hooks; ln -s ../hooks nested/.git/hooks
        git config core.hooksPath tools/hooks; git config include.path ../conf/inc
        git config includeIf.gitdir:/.path $PWD/conf/absent
        git config filter.x.clean ./tools/clean; git config filter.x.smudge 'sh tools/smudge'
        git config diff.x.textconv ./tools/textconv; git config merge.x.driver 'tools/driver %A'
        git config core.fsmonitor ./tools/fsmonitor; git config core.attributesFile conf/attributes
        git config core.editor tools/editor; git config core.pager tools/pager
        git config core.sshCommand \"$PWD/tools/ssh\"; git config alias.st '!sh tools/alias'
        git config diff.external tools/external",
    )?;
    let evil = format!("printf '#!/bin/sh\\ntouch {}\\n'", marker.display());
    let script = format!(
        "r() {{ /probe --probe rename $1 $2; }}; git init -q another
        for n in tools/* tools/hooks/pre-commit tools/hooks/post-checkout tools/hooks/post-commit \
            conf/inc conf/absent conf/attributes conf/vscode/tasks.json conf/vscode/new nested/hooks/post-commit; do
            {evil} > $n; rm -rf $n; {evil} > e; chmod +x e; r e $n; ln -sf ../e $n; done 2>/dev/null
        printf '[core]\\n\\tfsmonitor = touch {0}\\n' > conf/absent
        r tools aside; r conf aside; r nested/hooks aside; mkdir -p tools/hooks
        for n in .gitattributes sub/.gitattributes; do mkdir -p sub; echo '* filter=x diff=x' > $n; done
        rm -f e; true",
        marker.display()
    );
    let output = run(&world, &project, git, &script)?;
    ensure(output.exit.success(), || format!("{output:?}"))?;
    let left = host(
        &project,
        "grep -rl 'touch' tools conf nested/hooks 2>/dev/null; ls conf/absent .gitattributes sub/.gitattributes 2>/dev/null; true",
    )?;
    ensure(left.is_empty(), || {
        format!("{left} {:?}", output.enforcement.quarantined)
    })?;
    let _ = host(&project, EVERYDAY);
    ensure(!marker.exists(), || "a person's git obeyed".to_owned())
}

/// A repository in one mount, which can be written or not, and what it obeys in another one.
fn leads_away(scene: &Scene, mechanism: Mechanism, git: Git) -> Result<(), String> {
    for access in [Access::ALL, Access::READ] {
        let world = World::new(mechanism);
        let project = scene.copy(&world)?;
        let tools = project.with_file_name("tools");
        let marker = world.host("marker");
        host(
            &project,
            "set -e; mkdir -p ../tools/hooks ../tools/conf
            for t in clean ssh hooks/pre-commit hooks/post-commit; do
                printf '#!/bin/sh\nexit 0\n' > ../tools/$t; chmod +x ../tools/$t; done
            git config core.hooksPath \"$(cd ..; pwd)/tools/hooks\"; git config include.path ../../tools/conf/absent
            git config filter.x.clean ../tools/clean; git config core.sshCommand \"$(cd ..; pwd)/tools/ssh\"
            rm -rf nested/.git/hooks; ln -s ../../../tools/hooks nested/.git/hooks",
        )?;
        let policy = Policy::builder()
            .mount(&project, "/", access)
            .mount(&tools, "/tools", Access::ALL)
            .protect(".git/hooks")
            .protect(".git/config")
            .git(git)
            .build()
            .map_err(say)?;
        let plan = world.mechanism.plan(&policy);
        let script = format!(
            "cd /tools; e() {{ printf '#!/bin/sh\ntouch {}\n' > $1; chmod +x $1; }}
            for n in clean ssh hooks/pre-commit hooks/post-checkout; do e $n; rm -rf $n; e x; mv x $n; done 2>/dev/null
            printf '[core]\n\tfsmonitor = touch {0}\n' > conf/absent; mv hooks aside; rm -f x; echo free > free; true",
            marker.display()
        );
        let output = Command::new(&open_at(&plan, world.host("state")), "sh")
            .args(["-c", &script])
            .output()
            .map_err(say)?;
        ensure(output.exit.success(), || format!("{output:?}"))?;
        let left = host(
            &tools,
            "grep -rl touch . --exclude-dir=.os-sandbox-quarantine || true; cat free",
        )?;
        ensure(left == "free\n", || format!("{access:?} {left}"))?;
        let _ = host(&project, EVERYDAY);
        ensure(!marker.exists(), || "a person's git obeyed".to_owned())?;
    }
    Ok(())
}

/// What git writes at everyday work stays, in modules and worktrees as well.
fn written(scene: &Scene, mechanism: Mechanism, git: Git) -> Result<(), String> {
    let world = World::new(mechanism);
    let project = scene.copy(&world)?;
    let output = run(
        &world,
        &project,
        git,
        "set -ex; export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@x GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@x
        git status; echo y > y; git add y; git commit -qm y; git checkout -q other; git switch -q main
        git branch b; git branch -d b; echo z >> file1; git stash; git stash pop; git commit -qam z
        git merge -q --no-ff -m m other; git checkout -q -b re other; git commit -q --allow-empty -m re
        git rebase -q main; git switch -q main; git fetch -q bare.git main; git tag t; git gc -q; git worktree add -q added -b added
        cd third_party/foo; git status; git checkout -q -b topic; echo q > q; git add q; git commit -qm q; cd ../..
        git add third_party/foo; git commit -qm bump; git notes add -m note; git bisect start; git bisect reset
        git cherry-pick --allow-empty re; git reset -q --hard",
    )?;
    ensure(output.exit.success(), || output.stderr.text().to_string())?;
    ensure(output.enforcement.quarantined.is_empty(), || {
        format!("{:?}", output.enforcement.quarantined)
    })?;
    host(
        &project,
        "git fsck; git -C third_party/foo log -1; git -C third_party/foo fsck",
    )
    .map(drop)
}

fn rebase(scene: &Scene, mechanism: Mechanism, git: Git) -> Result<(), String> {
    let start = "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@x GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@x
        git checkout -q other; echo other > file4; git add file4; git commit -qm other; git rebase main";
    for (more, stays) in [
        ("true", git == Git::Commit),
        (
            "echo 'exec touch evil' >> .git/rebase-merge/git-rebase-todo",
            false,
        ),
        (
            "echo 'x touch evil' > .git/rebase-merge/git-rebase-todo",
            false,
        ),
        ("echo evil > .git/rebase-merge/strategy", false),
        (
            "echo \"GIT_AUTHOR_NAME=''; touch evil\" > .git/rebase-merge/author-script",
            false,
        ),
    ] {
        let world = World::new(mechanism);
        let project = scene.copy(&world)?;
        let output = run(&world, &project, git, &format!("{start}; {more}; true"))?;
        let there = project.join(".git/rebase-merge").exists();
        ensure(there == stays, || {
            format!("{more}: {there} {:?}", output.enforcement.quarantined)
        })?;
        ensure(output.enforcement.quarantined.is_empty() == stays, || {
            format!("{more}: {:?}", output.enforcement.quarantined)
        })?;
        let _ = host(
            &project,
            "git checkout -f .; git rebase --continue; git rebase --abort",
        );
        ensure(!project.join("evil").exists(), || {
            format!("{more}: git obeyed")
        })?;
    }
    Ok(())
}
