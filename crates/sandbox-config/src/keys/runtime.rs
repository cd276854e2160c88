//! Sections about the runners of calls and the record of runs.

use crate::syntax::key_table::key_table;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{ENGINE, IMAGE, SECRET, ValueShape};

pub(crate) const EXECUTION_MODE: ValueShape = Words(
    &[
        "local_only",
        "prefer_local",
        "prefer_docker",
        "docker_required",
    ],
    &[],
);

key_table! {
    pub(crate) static EXECUTION = "execution", "`execution` has", blank;
    keys {
        /// Where hazardous calls run: `local_only` and `prefer_local` on this host, `prefer_docker`
        /// in a container or, if a person agrees, here; `docker_required` puts every call into a
        /// container.
        mode: EXECUTION_MODE, default("prefer_local");
        /// The runners that may be chosen for hazardous calls.
        runners: NonEmpty(&Words(&["os", "docker"], &[])), default("[os, docker]");
    }
    foreign {
        "runner" => "use `runners:`, a list",
    }
    example "\
execution:
  mode: prefer_docker
  runners: [os, docker]
";
}

key_table! {
    pub(crate) static DOCKER = "docker", "`docker` has", blank;
    keys {
        /// Whether containers may be used.
        enabled: Bool, default("false");
        /// The image of containers.
        image: Like(&IMAGE), default("forge-sandbox:1"), trust("always");
        /// The engine's address, as `DOCKER_HOST` spells it; `null`: the local one.
        host: OneOf(&[Like(&ENGINE), Null]), trust("always");
        /// The network of a container whose call asks for none.
        network_default: Words(&["none", "bridge"], &[]), default("none"),
            trust("when it is `bridge`");
        /// Processors of a container.
        cpu_limit: Number, default("1.0");
        /// MiB of memory of a container, swap included.
        mem_limit_mb: Count, default("512");
        /// Processes of a container.
        pids_limit: Count, default("256");
        /// Whether the image's own files stay as they are.
        read_only_root: Bool, default("true");
        /// `call`: a container for each call. `session`: one for all calls of a worker.
        reuse: Words(&["call", "session"], &[]), default("call");
    }
    foreign {
        "network" => "did you mean `network_default:`?",
        "memory" => "did you mean `mem_limit_mb:`?",
        "cpus" => "did you mean `cpu_limit:`?",
        "privileged" => "a container of forge is never privileged; there is no key for it",
        "volumes" => "a container shows the mounts of its worker and nothing else",
    }
    example "\
docker:
  enabled: true
  image: forge-sandbox:1
  host: null
  network_default: none
  cpu_limit: 1.5
  mem_limit_mb: 512
  pids_limit: 256
  read_only_root: true
  reuse: call
";
}

key_table! {
    pub(crate) static LOG = "log", "`log` has", blank;
    keys {
        /// Another spelling of `runs_dir`.
        dir: Text, last_layer_wins, trust("when it leaves the project");
        /// Whether what models see and say is kept; the audit is kept in any case.
        transcripts: Bool, default("true"), last_layer_wins;
        /// Texts that become placeholders in what models see and in what is kept of a run; of eight
        /// bytes or more.
        redact: List(&Like(&SECRET)), default("[]"), unites;
    }
    example "\
log:
  dir: ./runs
  transcripts: false
  redact: [the name of the customer]
";
}
