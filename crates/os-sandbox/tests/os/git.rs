//! Git under its modes: what must work, in an ordinary checkout and in a linked worktree, and what
//! a command must not be able to leave for a person's git to execute or obey.

use crate::fixture::{Mechanism, World, open_at};
use crate::outcome::{ensure, say};
use crate::report::Report;
use os_sandbox::{Access, Command, Git, Output, Policy, Sandbox};
use std::path::{Path, PathBuf};

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    if std::process::Command::new("git")
        .arg("--version")
        .output()
        .is_err()
    {
        report.skip("git", "git is not installed");
        return;
    }
    let mut cases: Vec<(&str, Result<(), String>)> = Vec::new();
    if mechanism.has_mount_layer() {
        cases.push(("commit in a checkout", work(mechanism, "main")));
        cases.push(("commit in a linked worktree", work(mechanism, "linked")));
        cases.push(("worktrees elsewhere", elsewhere_kept(mechanism)));
        cases.push(("what git obeys, in a checkout", obeyed(mechanism, "main")));
        cases.push(("what git obeys, in a worktree", obeyed(mechanism, "linked")));
        cases.push(("a repository of others", foreign(mechanism)));
        cases.push(("read-only", read_only(mechanism)));
        cases.push(("a repository that is made", made(mechanism)));
        cases.push(("a repository that bites", harmful(mechanism)));
        cases.push(("links in a repository", linked_away(mechanism, "main")));
        cases.push(("links in a worktree's", linked_away(mechanism, "linked")));
        cases.push(("a repository of any name", nameless(mechanism)));
        cases.push(("a bare repository", bare(mechanism)));
        cases.push(("a person's git meanwhile", meanwhile(mechanism)));
        cases.push(("everyday work beside placeholders", everyday(mechanism)));
        cases.push(("configuration from elsewhere", elsewhere(mechanism)));
    }
    cases.push(("everyday work under usual names", usual(mechanism)));
    cases.push(("a worktree that lies", lies(mechanism)));
    for (name, outcome) in cases {
        report.case(&format!("git: {name}"), outcome);
    }
}

/// A repository `main` with two commits, and a worktree `linked` of it, both outside of each other.
fn scene(world: &World) -> Result<PathBuf, String> {
    let script = "set -e; git init -q -b main main; cd main
        git config user.name n; git config user.email n@example.org
        git config gc.auto 0
        for i in 1 2 3; do echo $i > file$i; git add file$i; git commit -qm $i; done
        git branch side HEAD~1; git pack-refs --all
        git worktree add -q ../linked -b topic
        git worktree add -q ../other -b other";
    let dir = world.host("git");
    std::fs::create_dir(&dir).map_err(say)?;
    host(&dir, script)?;
    dir.canonicalize().map_err(say)
}

/// A person's shell, without whatever configuration this machine has.
fn host(dir: &Path, script: &str) -> Result<String, String> {
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .map_err(say)?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!("{script}: {said}"))
    }
}

fn plan(world: &World, root: &Path, git: Git) -> Result<Sandbox, String> {
    let policy = Policy::builder()
        .mount(root, "/", Access::ALL)
        .mount(
            crate::fixture::probe_program(),
            "/probe",
            Access::READ | Access::EXECUTE,
        )
        .git(git);
    Ok(world.mechanism.plan(&policy.build().map_err(say)?))
}

fn run(world: &World, plan: &Sandbox, script: &str) -> Result<Output, String> {
    Command::new(&open_at(plan, world.host("state")), "sh")
        .args(["-c", script])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_EDITOR", "true")
        .output()
        .map_err(say)
}

fn work(mechanism: Mechanism, place: &str) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    let plan = plan(&world, &dir.join(place), Git::Commit)?;
    let output = run(
        &world,
        &plan,
        "set -ex; git status; echo new > new; git add -A; git commit -qm new
         echo more >> new; git stash; git stash pop; git commit -qam more
         git checkout -q -b feature; echo f > f; git add f; git commit -qm f
         git checkout -q -; git merge -q --no-ff -m merged feature; git branch -d feature
         git rebase side; git branch -D side; git tag t; git log --oneline; git diff HEAD~1
         git reset -q --hard HEAD~1; git gc -q; git fsck; git worktree prune; git status",
    )?;
    ensure(output.exit.success(), || {
        format!("{}: {}", output.exit, output.stderr.text())
    })?;
    ensure(output.enforcement.quarantined.is_empty(), || {
        format!("{:?}", output.enforcement.quarantined)
    })?;
    // A person finds it in order, in all worktrees, and nothing of ours.
    for place in ["main", "linked", "other"] {
        let said = host(
            &dir.join(place),
            "git fsck 2>&1 | grep -v ^dangling; git status --short",
        )?;
        ensure(said.is_empty(), || format!("{place}: {said}"))?;
    }
    let log = host(&dir.join(place), "git log --oneline")?;
    ensure(log.contains("new"), || log)?;
    let list = host(&dir, "git -C main worktree list")?;
    ensure(list.lines().count() == 3, || list)?;
    let left = host(
        &dir,
        "find . -name commondir -path '*/.git/commondir' -o -type s",
    )?;
    ensure(left.is_empty(), || left)
}

/// Git inside must not take a worktree outside of the mounts for deleted: it removes the index, the
/// head and the logs of such a one. Nor may a command have any file shown by writing its path.
fn elsewhere_kept(mechanism: Mechanism) -> Result<(), String> {
    let secret = "printf 'gitdir: /nowhere' > ../secret";
    let relative = "git worktree add -q ../relative -b relative
        echo gitdir: ../main/.git/worktrees/relative > ../relative/.git
        echo ../../../../relative/.git > .git/worktrees/relative/gitdir";
    // A script that the host runs first, the mount of the command, and the worktrees that git is
    // right to consider deleted.
    let rows: [(&str, &str, &[&str]); 6] = [
        ("true", "main", &[]),
        ("true", "linked", &[]),
        (relative, "main", &[]),
        ("rm -r ../other", "main", &["other"]),
        (
            "mkdir ../dir; printf 'gitdir: /nowhere' > ../dir/.git
             echo $(realpath ..)/dir/.git > .git/worktrees/other/gitdir",
            "main",
            &["other"],
        ),
        (
            "mkdir ../dir; ln -s ../secret ../dir/.git
             echo $(realpath ..)/dir/.git > .git/worktrees/other/gitdir",
            "main",
            &["other"],
        ),
    ];
    for (before, place, gone) in rows {
        let world = World::new(mechanism);
        let dir = scene(&world)?;
        let failed = |what: String| Err(format!("{before} in {place}: {what}"));
        host(&dir.join("main"), secret)?;
        host(&dir.join("main"), before)?;
        let policy = Policy::builder()
            .mount(dir.join(place), "/", Access::ALL)
            .git(Git::Commit);
        let policy = policy.build().and_then(Policy::at_host_paths);
        let plan = world.mechanism.plan(&policy.map_err(say)?);
        // Git before 2.48 knows no relative paths.
        let script = "git worktree list | grep '^/.*prunable$'
             cat ../secret ../dir/.git; if [ -e .git/worktrees/relative ]; then
             grep -q main ../relative/.git || echo no pointer; fi; git worktree prune; true";
        let output = run(&world, &plan, script)?;
        let said = output.stdout.text();
        if said.lines().count() != gone.len() || !gone.iter().all(|name| said.contains(name)) {
            return failed(format!("{said}{}", output.stderr.text()));
        }
        let parts = dir.join("main/.git/worktrees");
        for part in ["linked", "other"]
            .iter()
            .filter(|part| !gone.contains(part))
        {
            for name in ["HEAD", "index", "logs/HEAD", "gitdir", "commondir"] {
                if !parts.join(part).join(name).exists() {
                    return failed(format!("{part}/{name} is gone"));
                }
            }
        }
    }
    Ok(())
}

/// Everything git obeys, attacked by name; and the main worktree's own state from a linked one.
fn obeyed(mechanism: Mechanism, place: &str) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    let repository = dir.join("main/.git");
    std::fs::create_dir_all(repository.join("modules/lib/hooks")).map_err(say)?;
    let plan = plan(&world, &dir.join(place), Git::Commit)?;
    let script = "
        r() { /probe --probe rename $1 $2; }
        a='--path-format=absolute'; g=$(git rev-parse $a --git-common-dir); d=$(git rev-parse $a --git-dir)
        for n in $g/hooks $g/config $g/config.worktree $g/info $g/commondir \\
            $g/modules/lib/hooks $d/gitdir $d/config.worktree $g/worktrees/other/gitdir \\
            $g/worktrees/other/commondir; do
            echo evil > evil; r evil $n; rm -rf $n; r $n aside; echo evil > $n; echo evil >> $n
            mkdir -p $n; echo evil > $n/evil; ln -sfn evil $n; touch $n/pre-commit
        done
        if [ $g != $d ]; then
            for n in $g/HEAD $g/index $g/rebase-merge $g/worktrees/other $g/worktrees/evil \
                $g/worktrees/other/HEAD $g/worktrees/other/index $g/worktrees/other/rebase-merge; do
                rm -rf $n; r $n aside; echo evil > $n; mkdir -p $n; echo evil > $n/evil
            done
            rm -f .git; r .git aside; echo 'gitdir: /evil' > .git
        fi
        r $g aside; git config core.fsmonitor ./evil; git config core.hooksPath . ; rm -rf aside evil
        true";
    let before = state(&dir)?;
    let output = run(&world, &plan, script)?;
    let after = state(&dir)?;
    ensure(before == after, || {
        format!("{before}\n{after}\n{}", output.stderr.text())
    })?;
    ensure(output.exit.success(), || format!("{output:?}"))?;
    let left = host(
        &dir,
        "find main/.git -name '*evil*' -not -path '*/.os-sandbox-quarantine/*'",
    )?;
    ensure(left.is_empty(), || left)?;
    host(&dir.join(place), "git status --short").map(|_| ())
}

/// What a person's git would execute or obey, as text. References and their logs are data.
fn state(dir: &Path) -> Result<String, String> {
    host(
        dir,
        "cd main/.git; ls hooks info modules/lib; cat config info/exclude HEAD
         ls -d commondir config.worktree rebase-merge index 2>/dev/null; ls worktrees; ls worktrees/other | grep -v -e logs -e refs
         cat worktrees/*/gitdir worktrees/*/commondir; cat ../../linked/.git; true",
    )
}

/// The repository of a linked worktree lies in a mount, or is somebody else's.
fn foreign(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    let policy = Policy::builder()
        .mount(dir.join("linked"), "/", Access::ALL)
        .mount(dir.join("main"), "/main", Access::READ)
        .git(Git::Commit);
    let plan = world.mechanism.plan(&policy.build().map_err(say)?);
    let said = remark(&world, &plan)?;
    ensure(said.contains("lies in a mount"), || said)?;
    if nix::unistd::geteuid().is_root() {
        let repository = dir.join("main/.git");
        nix::unistd::chown(&repository, Some(65534.into()), None).map_err(say)?;
        let plan = self::plan(&world, &dir.join("linked"), Git::Commit)?;
        let said = remark(&world, &plan)?;
        ensure(said.contains("another user"), || said)?;
    }
    Ok(())
}

fn remark(world: &World, plan: &Sandbox) -> Result<String, String> {
    let mut child = Command::new(&open_at(plan, world.host("state")), "true")
        .spawn()
        .map_err(say)?;
    let said = child.enforcement().to_string();
    child.wait().map_err(say)?;
    Ok(said)
}

/// A `.git` that a command could have written.
fn lies(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    if !mechanism.has_mount_layer() {
        let said = remark(&world, &plan(&world, &dir.join("linked"), Git::Commit)?)?;
        return ensure(said.contains("needs a mount layer"), || said);
    }
    let pointer = dir.join("linked/.git");
    let own = dir.join("main/.git/worktrees");
    std::os::unix::fs::symlink(dir.join("main"), dir.join("link")).map_err(say)?;
    for (text, said) in [
        (
            format!("gitdir: {}\n", own.join("other").display()),
            "belongs to another",
        ),
        (
            format!("gitdir: {}\n", own.join("none").display()),
            "not there",
        ),
        (
            format!("gitdir: {}\n", dir.join("main/.git").display()),
            "no part of",
        ),
        (
            format!(
                "gitdir: {}\n",
                dir.join("link/.git/worktrees/linked").display()
            ),
            "through a link",
        ),
        (
            "gitdir: ../main/.git/worktrees/linked\n".to_owned(),
            "relative",
        ),
        ("gitdir: /etc\n".to_owned(), "no part of"),
        (
            "gitdir: /proc/1/worktrees/root\n".to_owned(),
            "is not shown",
        ),
        ("nonsense\n".to_owned(), "not a pointer"),
        ("gitdir: a\ngitdir: b\n".to_owned(), "more than a line"),
    ] {
        std::fs::write(&pointer, &text).map_err(say)?;
        let receipt = remark(&world, &plan(&world, &dir.join("linked"), Git::Commit)?)?;
        ensure(receipt.contains(said), || format!("{text}: {receipt}"))?;
        let plan = plan(&world, &dir.join("linked"), Git::Commit)?;
        let output = run(
            &world,
            &plan,
            &format!("ls {}", dir.join("main/.git").display()),
        )?;
        ensure(!output.exit.success(), || format!("{text} is shown"))?;
    }
    Ok(())
}

fn read_only(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    host(&dir, "git init -q main/sub")?;
    let plan = plan(&world, &dir.join("main"), Git::ReadOnly)?;
    let output = run(
        &world,
        &plan,
        "git log --oneline | wc -l; git status --short; echo x >> file1
         git commit -qam x; git -C sub config a.b c; echo > .git/x; mv .git aside; true",
    )?;
    let said = output.stdout.text();
    ensure(said.starts_with("3\n"), || format!("{output:?}"))?;
    let after = host(
        &dir.join("main"),
        "git log --oneline | wc -l; git config -f sub/.git/config a.b; ls .git/x aside 2>/dev/null; true",
    )?;
    ensure(after == "3\n", || after)
}

fn made(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    std::fs::create_dir(world.host("git")).map_err(say)?;
    for git in [Git::Unaware, Git::Commit, Git::ReadOnly] {
        let root = world.host("git").join(format!("{git:?}"));
        std::fs::create_dir(&root).map_err(say)?;
        let policy = [".git/hooks", ".git/config", ".git/info", ".gitmodules"]
            .iter()
            .fold(
                Policy::builder().mount(&root, "/", Access::ALL),
                |all, name| all.protect(*name),
            );
        let plan = mechanism.plan(&policy.git(git).build().map_err(say)?);
        let output = run(
            &world,
            &plan,
            "set -e; git init -q . ; git init -q sub; cd sub; echo x > x; git add x
             git -c user.name=n -c user.email=n@example.org commit -qm x
             git clone -q . ../clone",
        )?;
        ensure(
            output.exit.success() && output.enforcement.quarantined.is_empty(),
            || {
                format!(
                    "{git:?}: {} {:?}",
                    output.stderr.text(),
                    output.enforcement.quarantined
                )
            },
        )?;
        let log = host(
            &root,
            "git -C clone log --oneline; git -C sub status --short; git status --short",
        )?;
        ensure(log.ends_with(" x\n?? clone/\n?? sub/\n"), || log)?;
    }
    Ok(())
}

fn harmful(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let root = world.host("git");
    std::fs::create_dir(&root).map_err(say)?;
    let plan = plan(&world, &root, Git::Commit)?;
    let output = run(
        &world,
        &plan,
        "git init -q a; git -C a config core.fsmonitor 'touch /tmp/evil; false'
         git init -q b; echo 'touch /tmp/evil' > b/.git/hooks/post-checkout; chmod +x b/.git/hooks/*
         git init -q c; echo '* filter=evil' > c/.git/info/attributes
         git init -q d; echo ../a/.git > d/.git/commondir
         mkdir e; echo 'gitdir: ../a/.git' > e/.git; mkdir f; ln -s ../a/.git f/.git; true",
    )?;
    let mut found: Vec<String> = output
        .enforcement
        .quarantined
        .iter()
        .map(|one| one.path.display().to_string())
        .collect();
    found.sort();
    let want = [
        "/work/a/.git/config",
        "/work/b/.git/hooks",
        "/work/c/.git/info",
        "/work/d/.git/commondir",
        "/work/e/.git",
        "/work/f/.git",
    ];
    ensure(found == want, || format!("{found:?}"))
}

/// Git follows links in a repository when it writes: a person's next commit would go where they
/// lead.
fn linked_away(mechanism: Mechanism, place: &str) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    let victim = world.host("victim");
    std::fs::write(&victim, "mine").map_err(say)?;
    // What is there already stays.
    std::os::unix::fs::symlink("HEAD", dir.join("main/.git/known")).map_err(say)?;
    let plan = plan(&world, &dir.join(place), Git::Commit)?;
    let script = "set -e; cd $(git rev-parse --git-dir); ls -d ../../known || ls known
        rm -f logs/HEAD COMMIT_EDITMSG; ln -s VICTIM logs/HEAD; ln -s VICTIM COMMIT_EDITMSG
        cd $(git rev-parse --git-common-dir); rm logs/refs/heads/side; ln -s VICTIM logs/refs/heads/side
        mkdir -p new/.git; ln -s VICTIM new/.git/FETCH_HEAD || true";
    let script = script.replace("VICTIM", &victim.display().to_string());
    let output = run(&world, &plan, &script)?;
    let names = ["logs/HEAD", "COMMIT_EDITMSG", "logs/refs/heads/side"];
    for name in names {
        let found = output
            .enforcement
            .quarantined
            .iter()
            .any(|one| one.path.ends_with(name));
        ensure(found, || format!("{name}: {output:?}"))?;
    }
    host(
        &dir.join(place),
        "git commit -q --allow-empty -m evil; git branch -f side HEAD~1; test -L ../main/.git/known",
    )?;
    let now = std::fs::read_to_string(&victim).map_err(say)?;
    ensure(now == "mine", || now)
}

/// Git obeys any directory with the right names in it, the mount itself included.
fn nameless(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let root = world.host("git");
    std::fs::create_dir(&root).map_err(say)?;
    std::fs::write(root.join("hooks"), "a person's own").map_err(say)?;
    let plan = plan(&world, &root, Git::Commit)?;
    let marker = world.host("marker");
    let script = "set -e; mkdir objects refs sub other; echo 'ref: refs/heads/m' > HEAD
        printf '[core]\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = \"touch MARKER; false\"\\n' > config
        cp -r HEAD config sub; touch sub/objects sub/refs; chmod +x sub/objects sub/refs
        cp HEAD config other; echo ../sub > other/commondir
        git status; cd sub; git status || true";
    let script = script.replace("MARKER", &marker.display().to_string());
    let output = run(&world, &plan, &script)?;
    let mut found: Vec<String> = output
        .enforcement
        .quarantined
        .iter()
        .map(|one| one.path.display().to_string())
        .collect();
    found.sort();
    ensure(
        found == ["/work/HEAD", "/work/other/HEAD", "/work/sub/HEAD"],
        || format!("{found:?} {output:?}"),
    )?;
    host(
        &root,
        "for d in . sub other; do (cd $d; GIT_CEILING_DIRECTORIES=$(dirname $PWD) git status) && exit 1; done; test -f hooks",
    )?;
    ensure(!marker.exists(), || "a person's git obeyed".to_owned())
}

/// Those that are made without anything to obey can be used; those that are there cannot be made
/// to bite.
fn bare(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    host(
        &dir,
        "git clone -q --bare main main/old; rm -r main/old/hooks",
    )?;
    let plan = plan(&world, &dir.join("main"), Git::Commit)?;
    let output = run(
        &world,
        &plan,
        "set -e; git init -q --bare new.git; git clone -q --mirror . mirror.git
         git push -q new.git side; git --git-dir=old log --oneline; git push -q old HEAD:refs/heads/x
         git --git-dir=old config core.fsmonitor evil && exit 1
         rm old/config && exit 1; mv old aside && exit 1; mkdir old/hooks
         echo evil > old/hooks/post-update; chmod +x old/hooks/post-update",
    )?;
    let found: Vec<String> = output
        .enforcement
        .quarantined
        .iter()
        .map(|one| one.path.display().to_string())
        .collect();
    ensure(
        output.exit.success() && found == ["/work/old/hooks"],
        || format!("{found:?} {output:?}"),
    )?;
    let log = host(
        &dir.join("main"),
        "for r in old new.git mirror.git; do git --git-dir=$r rev-parse -q --verify refs/heads/side; done | uniq | wc -l",
    )?;
    ensure(log == "1\n", || log)
}

/// While a command runs, a person's git sees nothing of the placeholders.
fn meanwhile(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    let names = [
        ".gitmodules",
        ".vscode",
        ".claude",
        ".envrc",
        ".mcp.json",
        ".git/info",
    ];
    let policy = names.iter().fold(
        Policy::builder()
            .mount(dir.join("main"), "/", Access::ALL)
            .hold_absent(),
        |all, name| all.protect(*name),
    );
    let plan = mechanism.plan(&policy.git(Git::Commit).build().map_err(say)?);
    std::fs::remove_dir_all(dir.join("main/.git/hooks")).map_err(say)?;
    std::fs::remove_dir_all(dir.join("main/.git/info")).map_err(say)?;
    let mut child = Command::new(&open_at(&plan, world.host("state")), "cat")
        .stdin(os_sandbox::Stdio::Piped)
        .spawn()
        .map_err(say)?;
    let said = host(
        &dir.join("main"),
        "test -S .vscode; test -d .git/hooks; git status --short; git diff; echo x > x; git add -A
         git commit -qm x; git show --stat --format= HEAD; git stash list; git worktree list | wc -l
         git branch -D side -q",
    );
    child.wait().map_err(say)?;
    let said = said?;
    ensure(
        said == " x | 1 +\n 1 file changed, 1 insertion(+)\n3\n",
        || said,
    )
}

fn everyday(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    let names = [
        ".gitmodules",
        ".vscode",
        ".claude",
        ".envrc",
        ".mcp.json",
        ".ssh",
        ".idea",
    ];
    let policy = names.iter().fold(
        Policy::builder()
            .mount(dir.join("main"), "/", Access::ALL)
            .hold_absent(),
        |all, name| all.protect(*name),
    );
    let plan = mechanism.plan(&policy.git(Git::Commit).build().map_err(say)?);
    let output = run(
        &world,
        &plan,
        "set -e; git status --short; echo y > y; git add -A; git commit -qm y
         git show --stat --format= HEAD; tar cf /tmp/x.tar . 2>/dev/null; cp -r . /tmp/copy 2>/dev/null || true
         grep -rq zzzzz . || true; if command -v npm >/dev/null; then npm init -y >/dev/null; fi",
    )?;
    let said = output.stdout.text();
    ensure(
        output.exit.success() && said == " y | 1 +\n 1 file changed, 1 insertion(+)\n",
        || format!("{output:?}"),
    )
}

/// What projects protect without saying anything about git, as far as it is git's.
const USUAL: [&str; 14] = [
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/info",
    ".git/worktrees/*/commondir",
    ".git/worktrees/*/gitdir",
    ".git/worktrees/*/config.worktree",
    ".git/modules/*/hooks",
    ".git/modules/*/config",
    ".git/modules/*/config.worktree",
    ".git/modules/*/commondir",
    ".git/modules/*/info",
    ".gitmodules",
];

/// `scene`, shown as one directory, with a worktree that is found by a relative path.
fn usual_plan(world: &World, dir: &Path) -> Result<Sandbox, String> {
    let pointer = dir.join("linked/.git");
    std::fs::write(pointer, "gitdir: ../main/.git/worktrees/linked\n").map_err(say)?;
    let policy = USUAL.iter().fold(
        Policy::builder().mount(dir, "/", Access::ALL),
        |all, name| all.protect(*name),
    );
    Ok(world.mechanism.plan(&policy.build().map_err(say)?))
}

fn usual(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    let plan = usual_plan(&world, &dir)?;
    let output = run(
        &world,
        &plan,
        "set -e; for d in main linked; do (cd $d; git status --short; echo $d > new; git add -A
         git commit -qm $d; git stash list; git log --oneline -1; git diff HEAD~1 >/dev/null); done
         git init -q fresh; git clone -q main clone; git -C clone status --short
         cd main; git worktree add -q ../added -b added; git -C ../added commit -q --allow-empty -m a",
    )?;
    ensure(
        output.exit.success() && output.enforcement.quarantined.is_empty(),
        || format!("{output:?}"),
    )?;
    let left = host(
        &dir,
        "for d in main linked clone; do git -C $d status --short; done
         find . -path '*/.git/commondir' -o -name config.worktree -o -type s",
    )?;
    ensure(left.is_empty(), || left)?;
    let log = host(
        &dir,
        "git -C linked log --oneline -1; git -C main log --oneline -1",
    )?;
    ensure(
        log.contains(" linked\n") && log.ends_with(" main\n"),
        || log,
    )
}

/// A configuration that git finds in another directory than the repository's.
fn elsewhere(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let dir = scene(&world)?;
    let plan = usual_plan(&world, &dir)?;
    let marker = world.host("marker");
    let script = "mkdir -p evil/objects evil/refs
        printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch MARKER; false\"\n' > evil/config
        echo ../../evil > main/.git/commondir && echo made
        echo ../../../../evil > main/.git/worktrees/linked/commondir && echo made
        rm -f main/.git/worktrees/linked/commondir && echo gone
        cp evil/config main/.git/config.worktree && echo made
        git init -q fresh; echo ../../evil > fresh/.git/commondir
        mkdir -p main/.git/worktrees/new main/.git/modules/m
        echo ../../../../evil > main/.git/worktrees/new/commondir
        cp evil/config main/.git/worktrees/new/config.worktree; cp evil/config main/.git/modules/m; true";
    let script = script.replace("MARKER", &marker.display().to_string());
    let output = run(&world, &plan, &script)?;
    let mut found: Vec<String> = output
        .enforcement
        .quarantined
        .iter()
        .map(|one| one.path.display().to_string())
        .collect();
    found.sort();
    let want = [
        "/work/fresh/.git/commondir",
        "/work/main/.git/commondir",
        "/work/main/.git/config.worktree",
        "/work/main/.git/modules/m/config",
        "/work/main/.git/worktrees/new/commondir",
        "/work/main/.git/worktrees/new/config.worktree",
    ];
    // What is absent can be made, and what is there cannot be changed.
    ensure(
        output.stdout.text() == "made\nmade\n" && found == want,
        || format!("{found:?} {output:?}"),
    )?;
    for place in ["main", "linked", "fresh"] {
        host(&dir.join(place), "git status --short")?;
    }
    ensure(!marker.exists(), || "a person's git obeyed".to_owned())
}
