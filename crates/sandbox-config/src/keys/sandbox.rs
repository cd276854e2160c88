//! `sandbox` of a project file: the front-ends, and the guards that hold for every mount.

use sandbox_names::{HIDDEN, PROTECTED, PROTECTED_OF_GIT};

use crate::grant::confinement::{Survivors, Trace};
use crate::grant::file_rules::HardLinks;
use crate::grant::mount::DeclaredMode;
use crate::grant::verdict::Verdict;
use crate::keys::network::NETWORK_SHAPE;
use crate::keys::{DIRECTORIES, MODE_HELP};
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{
    BELOW_PROJECT, KeyPattern, MOUNT_NAME, MOUNT_TARGET, PRESET_NAME, SUFFIX, ValueShape,
};
use crate::syntax::key_table::{MeetRule, key_table};
use crate::syntax::word::ConfigWord;

const TEXTS: ValueShape = List(&Text);

/// The one name of git's that `unprotect` may name: git replaces it, and it is looked at afterwards.
pub(crate) const GIT_CONFIG: &str = ".git/config";
/// Protected names in which git makes harmless changes, unless the project lists one of them.
pub(crate) const WRITTEN_FOR_GIT: [&str; 2] = [GIT_CONFIG, ".gitmodules"];

/// Names that `sandbox.unprotect` accepts: nothing else that git executes or obeys.
pub const UNPROTECTABLE: [&str; PROTECTED.len() - PROTECTED_OF_GIT + 1] = {
    let mut names = [GIT_CONFIG; PROTECTED.len() - PROTECTED_OF_GIT + 1];
    let mut at = 1;
    while at < names.len() {
        names[at] = PROTECTED[PROTECTED_OF_GIT + at - 1];
        at += 1;
    }
    names
};

const ENDINGS: ValueShape = NonEmpty(&Like(&SUFFIX));

key_table! {
    pub(crate) static QUOTA = "quota", "`quota` has", blank;
    keys {
        /// Largest total size of all files in the directory, in bytes.
        max_bytes: Count;
        /// Largest number of files in the directory.
        max_files: Count;
    }
    foreign {
        "bytes" => "did you mean `max_bytes:`?",
        "files" => "did you mean `max_files:`?",
    }
}

pub(crate) const SOCKETS_HELP: &str = "use `unix_sockets:` below `sandbox:`";

key_table! {
    pub(crate) static SANDBOX = "sandbox", "`sandbox` has", blank;
    keys {
        /// Base of the paths of zones. `sandboxed`: `root`, which no path leaves. `direct`: the
        /// project; absolute paths and paths that leave it are possible.
        mode: Words(&["sandboxed", "direct"], &[]), default("sandboxed"), project_only(DIRECTORIES);
        /// Directory of the project. With `zones` or `mode`, the zones are below it (`.sandbox` if
        /// left out; without effect in `mode: direct`). Without both it is the whole sandbox, which
        /// workers see as `/`, and it must exist.
        root: Like(&BELOW_PROJECT), trust("when it is written in place or has a variable in it"), project_only(DIRECTORIES);
        /// Directories by name, read-write by default. Workers and commands see each as `/NAME`.
        /// Instead of zones, a project can use `root` alone, `paths`, `mounts`, or `read_paths` and
        /// `write_paths`.
        zones: Map(KeyPattern::Like(&MOUNT_NAME), &Section(&ZONE)),
            default("{ cache: { path: ./cache }, workspace: { path: ./workspace } }"),
            project_only(DIRECTORIES);
        /// Makes the directory of `root` read-only, in a project that uses `root` alone.
        readonly: Bool, default("false"), project_only(DIRECTORIES);
        /// Directories by name, read-only by default. Workers and commands see each as `/NAME`. An
        /// alternative to `zones`.
        paths: Map(KeyPattern::Like(&MOUNT_NAME), &Section(&NAMED_PATH)), project_only(DIRECTORIES);
        /// Directories with the places at which workers and commands see them. An alternative to
        /// `zones`.
        mounts: List(&Section(&MOUNT)), project_only(DIRECTORIES);
        /// Directories that workers and commands may read. Each appears as `/NAME`, after its last
        /// component, and the project's own directory as `/project`. An alternative to `zones`.
        read_paths: TEXTS, trust("when one leads out of the project, or through a link"),
            project_only(DIRECTORIES);
        /// Directories that workers and commands may read and write. One inside a directory of
        /// `read_paths` appears at its place there, any other as with `read_paths`. An alternative
        /// to `zones`.
        write_paths: TEXTS,
            trust("when one leads out of the project or through a link, is written in place, or has a variable in it"),
            project_only(DIRECTORIES);
        /// Directories of a called worker without `sandbox`: none, or all that its caller holds
        /// (`inherit`). If left out: `none` in a project with zones, `inherit` in any other.
        default: Words(&["none", "inherit"], &[]),
            project_only("what workers of a project hold is for the project to say");
        /// Refuses to run commands on a host where the operating system cannot confine them.
        require_os_sandbox: Bool, default("false"), user_limit(MeetRule::TRUE);
        /// `forge exec` and `forge run` as with `--review`: changes of a command or a worker are
        /// kept apart until you apply them (`forge review`). `forge mcp`, `forge tools call` and nodes
        /// change directories at once.
        review: Bool, default("false"), user_limit(MeetRule::TRUE);
        /// Names that workers and commands never write, in addition to the built-in ones. A name
        /// counts at any depth (`*.lock`, `a/b`), a path from a worker's `/` on (`/data/p`). `*`
        /// matches any text within one name; case does not matter. git makes harmless changes of
        /// `.git/config` and `.gitmodules` (the identity of the committer, new remotes and branches,
        /// modules), unless one of them is in this list.
        protect: TEXTS, default("[]"), unites;
        /// Names and paths, in the form of `protect`, that workers and commands cannot read and
        /// that are listed as absent, in addition to the built-in ones.
        hide: TEXTS, default("[]"), unites;
        /// Another place for `network`. A file can have it here or at the top, not both.
        network: NETWORK_SHAPE, default("false"), trust("when it is not `false`"),
            project_only("write `network` at the top");
        /// Built-in names of `hide` that workers and commands may read here. They stay protected.
        show: List(&Words(HIDDEN, &[])), last_layer_wins, default("[]"), trust("always");
        /// Built-in names of `protect` that workers and commands may write here, such as `.vscode`.
        /// With `.git/config`, commands may change that file in any way, and not only by git; forge
        /// restores it after the command if git would then execute or obey more, or fetch and push
        /// elsewhere. For all other names below `.git` see `git.mode`.
        unprotect: List(&Words(&UNPROTECTABLE, &[])), last_layer_wins, default("[]"),
            trust("always");
        /// Treatment by file tools of files that have more than one name. `allow`: read and write.
        /// `read_only`: read. `deny`: neither.
        hardlinks: HardLinks::SHAPE, default("read_only"),
            trust("when it is `allow`"), stricter(&["allow", "read_only", "deny"]);
        /// Limits on the content of each directory, which file tools keep.
        quota: Section(&QUOTA);
        /// Makes file tools refuse every path that contains `..`, even if it stays inside.
        strict_paths: Bool, default("false"), user_limit(MeetRule::TRUE);
        /// Puts changes of file tools on the disk before the call returns, and decisions of the
        /// audit log before the call is made.
        durable: Bool, default("false"), user_limit(MeetRule::TRUE);
        /// Local sockets of the host that commands may connect to: none (`closed`), those in a list
        /// of paths, or all that they can name (`open`). With `closed`, a command can use sockets
        /// that it creates itself, where namespaces separate them from the host's and `require` is
        /// not `guards`.
        unix_sockets: OneOf(&[Words(&["closed", "open"], &[]), List(&Text)]), default("closed"),
            trust("when it is not `closed`"), user_limit(MeetRule::Sockets);
        /// Directories with programs of yours, such as `~/.cargo/bin` or `~/.nvm`, that commands
        /// may read and execute at the same paths. Links in them are followed. The `PATH` of
        /// commands begins with them, in the order of your own `PATH`. Containers have the programs
        /// of their image instead.
        programs: TEXTS, last_layer_wins, default("[]"), trust("always");
        /// Presets for `forge exec` where the command line names none (`forge preset list`). Your yes
        /// covers their present contents: a preset that has changed needs another one. Your login,
        /// history and keys are shared only after a yes of its own.
        presets: List(&Like(&PRESET_NAME)), last_layer_wins, default("[]"), trust("always"),
            project_only("name them in a project, or with `--preset`");
        /// Attempts of commands that are reported. `refused`: refused changes and connections.
        /// `full`: refused reads and executions too, and every file that was touched, as with
        /// `forge exec --trace=full`; each open of a file takes some microseconds longer.
        trace: Trace::SHAPE, last_layer_wins, default("refused");
        /// Treatment of processes that outlive their command. `ended`: they end with it. `left`:
        /// they continue, confined as before, which gives up a boundary. A PID namespace and a
        /// container end them all the same. Under Landlock alone HOME and TMPDIR are removed with the
        /// command.
        survivors: Survivors::SHAPE, default("ended"), trust("when it is `left`"),
            stricter(&["left", "ended"]);
    }
    foreign {
        "enabled" => "the sandbox is always on; `require_os_sandbox: true` refuses to run commands without one",
        "restrict" => "`restrict` narrows a worker: it stands in the worker's file",
        "path" => "did you mean `paths:` or `root:`? Directories of programs are `programs:`",
        "roots" => "did you mean `root:`? Several directories are `zones:`, `paths:` or `mounts:`",
        "preset" => "did you mean `presets:`, a list of names?",
        "sockets" => "did you mean `unix_sockets:`?",
        "allow" => "name directories under `zones:`",
        "deny" => "use `hide:` or `protect:`",
        "child_sandbox" => "there is no such key: a child's rights follow from its own declaration",
    }
}

key_table! {
    pub(crate) static ZONE = "zone", "zones have";
    keys {
        /// Directory of the host. `~`, `${VAR}` and `${VAR:-default}` are expanded; a relative path
        /// starts at `sandbox.root`, or in `mode: direct` at the project. `run:workspace`: a
        /// directory that each run has for itself.
        path: Text, required("name the directory: `path: ./{name}`"),
            trust("when it leads out of the project or through a link, is written in place, or has a variable in it");
        /// Access to the zone: `ro` to read, `rw` to read and write, `staged` to read and write with
        /// changes that wait until you apply them (`forge review`). `forge mcp`, `forge tools call`
        /// and nodes keep no changes for a review: for them a staged directory is read-only.
        mode: DeclaredMode::SHAPE, default("rw");
        /// Suffixes of the files that file tools may touch, compared without case. Commands are not
        /// bound. If left out: every file.
        suffixes: ENDINGS;
        /// Size of the largest file that file tools read or write, in bytes. Commands are not
        /// bound.
        max_file_bytes: Count;
        /// Verdicts about operations on the files of the directory.
        approval: Section(&ZONE_APPROVAL);
        hardlinks of SANDBOX;
        quota of SANDBOX;
        strict_paths of SANDBOX;
        durable of SANDBOX;
    }
    foreign {
        "readOnly" | "read_only" | "readonly" | "write" | "access" => MODE_HELP,
        "unix_sockets" => SOCKETS_HELP,
        "root" | "source" => "did you mean `path:`?",
        "allow" => "use `suffixes:` or `approval:`",
        "deny" => "use `approval:` here, or `sandbox.hide:`",
    }
}

key_table! {
    pub(crate) static ZONE_APPROVAL = "zone_approval", "`approval` of a zone has", blank;
    keys {
        /// Verdict about reading, listing and searching files.
        read: Verdict::SHAPE, default("preApproved");
        /// Verdict about creating and changing files. In `paths`, the default is `preApproved`.
        write: Verdict::SHAPE, default("ask");
        /// Verdict about deleting files, and about moving them away. In `paths`, the default is
        /// `preApproved`.
        delete: Verdict::SHAPE, default("ask"), trust("when it is `preApproved`");
    }
}

key_table! {
    pub(crate) static NAMED_PATH = "path", "paths have";
    keys {
        /// Directory of the host, relative to the project. `~`, `${VAR}` and `${VAR:-default}` are
        /// expanded. `run:workspace`: a directory that each run has for itself.
        root: Text, required("name the directory: `root: ./{name}`"),
            trust("when it leads out of the project or through a link, is written in place, or has a variable in it");
        /// Access to the directory: `ro`, `rw` or `staged`, as for a zone.
        mode: DeclaredMode::SHAPE, default("ro");
        suffixes of ZONE;
        max_file_bytes of ZONE;
        approval of ZONE;
        hardlinks of SANDBOX;
        quota of SANDBOX;
        strict_paths of SANDBOX;
        durable of SANDBOX;
    }
    foreign {
        "readOnly" | "read_only" | "readonly" | "write" | "access" => MODE_HELP,
        "path" | "source" => "did you mean `root:`?",
        "allow" => "use `suffixes:` or `approval:`",
        "deny" => "use `approval:` here, or `sandbox.hide:`",
    }
}

const READONLY_HELP: &str = "did you mean `readonly: true`?";
const SOURCE_HELP: &str = "did you mean `source:`?";

key_table! {
    pub(crate) static MOUNT = "mount", "mounts have";
    keys {
        /// Existing directory of the host, relative to the project. `~`, `${VAR}` and
        /// `${VAR:-default}` are expanded. `run:workspace`: a directory that each run has for
        /// itself.
        source: Text, required("write `source: .`"),
            trust("when it leads out of the project or through a link, is written in place, or has a variable in it");
        /// Place at which workers and commands see the directory: `/`, `/NAME`, or a path below
        /// another mount, which then covers its names there.
        target: Like(&MOUNT_TARGET), required("write `target: /`");
        /// Makes the directory read-only.
        readonly: Bool, default("false");
    }
    foreign {
        "readOnly" | "read_only" | "mode" => READONLY_HELP,
        "path" | "root" | "src" | "host" => SOURCE_HELP,
        "name" => "did you mean `target: /NAME`?",
        "dst" | "destination" => "did you mean `target:`?",
    }
}
