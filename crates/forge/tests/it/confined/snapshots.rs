//! Repositories beside the project in which an agent keeps what it undoes, in state that is shared:
//! they go on to work, inside and outside, and what git obeys in them is judged.

use std::fs;
use std::path::{Path, PathBuf};

use super::exec::mount_layers;
use crate::support::{Ran, World, ran};

/// The calls of git that opencode makes in each session. `$1` is its repository.
const SESSION: &str = r#"
if [ ! -d "$1" ]; then
  mkdir -p "$1"
  GIT_DIR=$1 GIT_WORK_TREE=$PWD git init -q
  while read -r setting; do git --git-dir "$1" config $setting; done <<EOF
core.autocrlf false
core.longpaths true
core.symlinks true
core.fsmonitor false
feature.manyFiles true
index.version 4
index.threads true
core.untrackedCache true
EOF
  mkdir -p "$1/objects/info"
  echo "$PWD/.git/objects" > "$1/objects/info/alternates"
  cp .git/index "$1/index"
fi
mkdir -p "$1/info"
echo build > "$1/info/exclude"
git --git-dir "$1" --work-tree . add --all .
git --git-dir "$1" --work-tree . write-tree
"#;

/// Changes after which git must not obey the repository, or not the change. `$2`: the home directory.
const EVIL: [&str; 12] = [
    "git config --file $1/config core.fsmonitor evil",
    "git config --file $1/config core.worktree $2/evil",
    "git config --file $1/config core.worktree $2/.local/share/opencode/evil",
    "git config --file $1/config core.worktree $PWD/evil",
    "git config --file $1/config filter.evil.clean evil",
    "git config --file $1/config core.hooksPath evil",
    "mkdir -p $1/hooks; echo evil > $1/hooks/post-checkout; chmod +x $1/hooks/post-checkout",
    "echo '* filter=evil' > $1/info/attributes",
    "rm -rf $1/info; mkdir $1/info; echo '* filter=evil' > $1/info/attributes",
    "echo $2/evil/.git/objects > $1/objects/info/alternates",
    "mkdir x; git init -q x/evil; echo $PWD/x/evil/.git/objects >> $1/objects/info/alternates",
    "echo $2/evil > $1/commondir",
];

struct Scene {
    world: World,
    git: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n"), ("a.txt", "a")]);
        let state = world.outside().join("home/.local/share/opencode");
        fs::create_dir_all(&state).unwrap();
        for args in [&["init", "-q"][..], &["add", "a.txt"]] {
            let mut git = world.command(Path::new("git"), args);
            ran(git.output().unwrap()).code(0);
        }
        let git = state.canonicalize().unwrap().join("snapshot/one/two");
        Scene { world, git }
    }

    fn session(&self, mechanism: &str, script: &str) -> Ran {
        let home = self.world.outside().join("home");
        self.world.forge(&[
            "exec",
            "--preset",
            "opencode",
            "--share",
            "--mechanism",
            mechanism,
            "--",
            "sh",
            "-c",
            script,
            "sh",
            self.git.to_str().unwrap(),
            home.to_str().unwrap(),
        ])
    }

    /// The person's git in the repository.
    fn git(&self, args: &[&str]) -> Ran {
        let own = ["--git-dir", self.git.to_str().unwrap(), "--work-tree", "."];
        let mut git = self.world.command(Path::new("git"), &[&own, args].concat());
        ran(git.output().unwrap())
    }

    /// Returns what git obeys in it; nothing if it is not a repository.
    fn obeyed(&self) -> String {
        if self.git(&["rev-parse", "--git-dir"]).code != 0 {
            return String::new();
        }
        let names = [
            "config",
            "commondir",
            "info/attributes",
            "objects/info/alternates",
        ];
        let texts = names.iter().map(|name| self.git.join(name));
        let texts = texts.chain([self.git.join("hooks/post-checkout")]);
        texts
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect()
    }
}

#[test]
fn what_an_agent_undoes_stays_readable() {
    for mechanism in mount_layers(&Scene::new().world) {
        let scene = Scene::new();
        for session in 0..3 {
            let ended = scene.session(mechanism, SESSION);
            ended.code(0);
            assert!(
                !ended.stderr.contains("quarantine"),
                "{mechanism} {session}: {}",
                ended.stderr
            );
            let tree = ended.stdout.trim();
            scene.git(&["cat-file", "-e", tree]).code(0);
            scene.git(&["read-tree", tree]).code(0);
            scene.world.write("a.txt", &session.to_string());
        }
    }
}

#[test]
fn what_git_obeys_there_is_judged() {
    let mut obeyed = Vec::new();
    for mechanism in mount_layers(&Scene::new().world) {
        for evil in EVIL {
            for together in [true, false] {
                let scene = Scene::new();
                if together {
                    scene.session(mechanism, &format!("{SESSION}\n{evil}; true"));
                } else {
                    scene.session(mechanism, SESSION).code(0);
                    scene.session(mechanism, &format!("{evil}; true"));
                }
                if scene.obeyed().contains("evil") {
                    obeyed.push(format!("{mechanism} {together} {evil}"));
                }
            }
        }
    }
    assert!(obeyed.is_empty(), "{}", obeyed.join("\n"));
}
