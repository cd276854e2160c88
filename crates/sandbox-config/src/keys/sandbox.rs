//! `sandbox` of a project file: the front-ends, and the guards that hold for every mount.

use sandbox_names::{HIDDEN, PROTECTED, PROTECTED_OF_GIT};

use crate::grant::confinement::Survivors;
use crate::grant::file_rules::HardLinks;
use crate::grant::mount::Mode;
use crate::grant::verdict::Verdict;
use crate::keys::network::NETWORK_SHAPE;
use crate::keys::{DIRECTORIES, MODE_HELP};
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{
    BELOW_PROJECT, KeyPattern, MOUNT_NAME, MOUNT_TARGET, SUFFIX, ValueShape,
};
use crate::syntax::key_table::{MeetRule, key_table};
use crate::syntax::word::ConfigWord;

const TEXTS: ValueShape = List(&Text);

/// The one name of git's that `unprotect` may name: git replaces it, and it is looked at afterwards.
pub(crate) const GIT_CONFIG: &str = ".git/config";

/// Names that `unprotect` accepts: nothing else that git executes or obeys.
pub(crate) const UNPROTECTABLE: [&str; PROTECTED.len() - PROTECTED_OF_GIT + 1] = {
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
        /// Bytes of all files of the directory together.
        max_bytes: Count;
        /// Files in the directory.
        max_files: Count;
    }
    foreign {
        "bytes" => "did you mean `max_bytes:`?",
        "files" => "did you mean `max_files:`?",
    }
    example "\
sandbox:
  quota: { max_bytes: 1000000000, max_files: 10000 }
";
}

pub(crate) const SOCKETS_HELP: &str = "use `unix_sockets:` below `sandbox:`";

key_table! {
    pub(crate) static SANDBOX = "sandbox", "`sandbox` has", blank;
    keys {
        /// `sandboxed`: the paths of zones are below `root`. `direct`: below the project, or
        /// elsewhere.
        mode: Words(&["sandboxed", "direct"], &[]), default("sandboxed"), project_only(DIRECTORIES);
        /// With zones: the directory that holds them, `.sandbox` without a word. Without `zones`
        /// and `mode` it is the front-end of a root project: this directory of the project, which
        /// exists, is the whole tree.
        root: Like(&BELOW_PROJECT), trust("when it is written in place"), project_only(DIRECTORIES);
        /// Directories by name; each appears to workers as `/NAME`.
        zones: Map(KeyPattern::Like(&MOUNT_NAME), &Section(&ZONE)),
            default("{ cache: { path: ./cache }, workspace: { path: ./workspace } }"),
            project_only(DIRECTORIES);
        /// With a root project: nothing is written.
        readonly: Bool, default("false"), project_only(DIRECTORIES);
        /// Front-end: named directories, read-only unless they say otherwise.
        paths: Map(KeyPattern::Like(&MOUNT_NAME), &Section(&NAMED_PATH)), project_only(DIRECTORIES);
        /// Front-end: directories, and the places at which they appear: `/`, `/NAME`, or a place
        /// below another mount.
        mounts: List(&Section(&MOUNT)), project_only(DIRECTORIES);
        /// Front-end: directories that may be read; each is named after itself.
        read_paths: TEXTS, trust("when one leads out of the project, or through a link"),
            project_only(DIRECTORIES);
        /// Front-end: directories that may be written; inside a readable one they keep their place
        /// there.
        write_paths: TEXTS,
            trust("when one leads out of the project or through a link, or is written in place"),
            project_only(DIRECTORIES);
        /// What a called worker gets that declares no `sandbox` of its own: nothing, or what its
        /// caller holds. Without a word: nothing in a project with zones, and all of it in every
        /// other.
        default: Words(&["none", "inherit"], &[]),
            project_only("what workers of a project hold is for the project to say");
        /// Refuse to run commands where the operating system cannot confine them.
        require_os_sandbox: Bool, default("false"), user_limit(MeetRule::True);
        /// Names at any depth (`*.lock`, `a/b`) and paths as workers see them (`/data/p`) that are
        /// never written, beside the built-in ones. `*` is any text in one name, and case does not
        /// matter.
        protect: TEXTS, default("[]"), unites;
        /// Names and paths, as for `protect`, that are not readable and listed as absent, beside
        /// the built-in ones.
        hide: TEXTS, default("[]"), unites;
        /// The same as `network` at the top level, which it may not stand beside.
        network: NETWORK_SHAPE, default("false"), trust("when it is not `false`"),
            project_only("write `network` at the top");
        /// Built-in names of `hide` (`.env*`, `*.pem`, `.ssh`) that are files like others here, as
        /// far as reading goes.
        show: List(&Words(HIDDEN, &[])), last_layer_wins, default("[]"), trust("always");
        /// Built-in names of `protect` that may be written here, such as `.vscode`. `.git/config`
        /// may be changed by git in commands (`git remote add`, `git push -u`), and is put back
        /// after the end if it then executes, obeys or redirects anything; the other names below
        /// `.git` are for `git.mode`.
        unprotect: List(&Words(&UNPROTECTABLE, &[])), last_layer_wins, default("[]"),
            trust("always");
        /// What file tools do with files that have more than one name.
        hardlinks: HardLinks::SHAPE, default("read_only"),
            trust("when it is `allow`"), stricter(&["allow", "read_only", "deny"]);
        /// How much file tools may put into each directory.
        quota: Section(&QUOTA);
        /// File tools refuse every path that holds `..`, also those that stay inside.
        strict_paths: Bool, default("false"), user_limit(MeetRule::True);
        /// What file tools change is on the disk before the call returns, and decisions of the
        /// audit log before calls are made.
        durable: Bool, default("false"), user_limit(MeetRule::True);
        /// Local sockets of the host that commands may connect to: none, these by path, or all they
        /// can name. With `closed` a command's own work where bubblewrap tells them from the
        /// host's, unless `require: guards`.
        unix_sockets: OneOf(&[Words(&["closed", "open"], &[]), List(&Text)]), default("closed"),
            trust("when it is not `closed`"), user_limit(MeetRule::Sockets);
        /// Directories with programs of yours, such as `~/.cargo/bin` or `~/.nvm`, that commands
        /// may read and execute, at their own paths. Links in them are followed. `PATH` has those
        /// of yours that lie there, in your order. Containers have the programs of their image
        /// instead.
        programs: TEXTS, last_layer_wins, default("[]"), trust("always");
        /// What becomes of processes that a command leaves behind; `left` gives up a boundary by
        /// name.
        survivors: Survivors::SHAPE, default("ended"), trust("when it is `left`"),
            stricter(&["left", "ended"]);
    }
    foreign {
        "enabled" => "the sandbox is always on; `require_os_sandbox: true` refuses to run commands without one",
        "restrict" => "`restrict` narrows a worker: it stands in the worker's file",
        "path" => "use `programs:`, a list of directories",
        "sockets" => "did you mean `unix_sockets:`?",
        "allow" => "name directories under `zones:`",
        "deny" => "use `hide:` or `protect:`",
        "child_sandbox" => "there is no such key: a child's rights follow from its own declaration",
    }
    example "\
sandbox:
  mode: sandboxed
  root: .sandbox
  zones:
    input: { path: ./input, mode: ro }
    drafts: { path: ./drafts }
  default: none
  require_os_sandbox: true
  protect: [Makefile, /drafts/settings]
  hide: [\"*.key\"]
  hardlinks: deny
  quota: { max_files: 10000 }
  strict_paths: true
  durable: true
  show: [\"*.pem\"]
  unprotect: [.vscode]
  programs: [/opt/tools/bin]
  unix_sockets: [\"/run/user/1000/agent.sock\"]
  survivors: ended
";
    example "\
# A root project: the whole tree is one directory.
sandbox: { root: ., readonly: true, network: false }
";
    example "\
# Directories by name, read-only unless they say otherwise.
sandbox:
  paths:
    notes: { root: ./notes, mode: rw }
";
    example "\
# What appears where.
sandbox:
  mounts:
    - { source: ., target: / }
";
    example "\
# What may be read and what may be written.
sandbox:
  read_paths: [.]
  write_paths: [./out]
";
}

key_table! {
    pub(crate) static ZONE = "zone", "zones have";
    keys {
        /// The directory; `~`, `${VAR}` and `${VAR:-default}` are expanded. `run:workspace`: one
        /// that each run has of its own.
        path: Text, required,
            trust("when it leads out of the project or through a link, or is written in place");
        /// `ro`: read only. `rw`: read and write.
        mode: Mode::SHAPE, default("rw");
        /// File tools touch only files that end in one of these, in any case; commands are not
        /// bound by it.
        suffixes: ENDINGS;
        /// File tools read and write no larger file.
        max_file_bytes: Count;
        /// Whether a person is asked, by operation.
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
    example "\
sandbox:
  zones:
    reports:
      path: ./reports
      mode: rw
      suffixes: [.md, .json]
      max_file_bytes: 10000000
      approval: { write: preApproved }
      hardlinks: deny
      quota: { max_bytes: 100000000 }
      strict_paths: true
      durable: true
";
}

key_table! {
    pub(crate) static ZONE_APPROVAL = "zone_approval", "`approval` of a zone has", blank;
    keys {
        /// Reading files.
        read: Verdict::SHAPE, default("preApproved");
        /// Writing and creating files.
        write: Verdict::SHAPE, default("ask");
        /// Deleting files.
        delete: Verdict::SHAPE, default("ask"), trust("when it is `preApproved`");
    }
    example "\
sandbox:
  zones:
    final:
      path: ./final
      approval: { read: preApproved, write: ask, delete: blocked }
";
}

key_table! {
    pub(crate) static NAMED_PATH = "path", "paths have";
    keys {
        /// The directory; `~`, `${VAR}` and `${VAR:-default}` are expanded. `run:workspace`: one
        /// that each run has of its own.
        root: Text, required,
            trust("when it leads out of the project or through a link, or is written in place");
        /// `ro`: read only. `rw`: read and write.
        mode: Mode::SHAPE, default("ro");
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
    example "\
sandbox:
  paths:
    portfolio:
      root: ./portfolio
      mode: rw
      suffixes: [.md]
      max_file_bytes: 10000000
      approval: { write: ask }
      hardlinks: deny
      quota: { max_files: 500 }
      strict_paths: true
      durable: true
";
}

const READONLY_HELP: &str = "did you mean `readonly: true`?";
const SOURCE_HELP: &str = "did you mean `source:`?";

key_table! {
    pub(crate) static MOUNT = "mount", "mounts have";
    keys {
        /// The directory, which exists; `~`, `${VAR}` and `${VAR:-default}` are expanded.
        /// `run:workspace`: one that each run has of its own.
        source: Text, required,
            trust("when it leads out of the project or through a link, or is written in place");
        /// Where it appears: `/`, `/NAME`, or a place below another mount, which then covers what
        /// that mount has there.
        target: Like(&MOUNT_TARGET), required;
        /// Nothing is written.
        readonly: Bool, default("false");
    }
    foreign {
        "readOnly" | "read_only" | "mode" => READONLY_HELP,
        "path" | "root" | "src" | "host" => SOURCE_HELP,
        "name" => "did you mean `target: /NAME`?",
        "dst" | "destination" => "did you mean `target:`?",
    }
    example "\
sandbox:
  mounts:
    - { source: ., target: /, readonly: true }
";
}
