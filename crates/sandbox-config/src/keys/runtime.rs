//! Sections about the runners of calls and the record of runs.

use crate::grant::execution::ExecutionMode;
use crate::syntax::key_table::shape::SECRET;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::{MeetRule, key_table};
use crate::syntax::word::ConfigWord;

key_table! {
    pub(crate) static EXECUTION = "execution", "`execution` has", blank;
    keys {
        /// Place where hazardous calls run (risk `writes_fs`, `network` or `exec`). `local_only`:
        /// this host. `prefer_local`: this host if an OS sandbox can be enforced, else a container.
        /// `prefer_docker`: a container. If these two find no container: this host if a person
        /// agrees, else the call is refused. `docker_required`: a container, also for all other
        /// calls, else the call is refused.
        mode: ExecutionMode::SHAPE, default("prefer_local"),
            stricter(&["local_only", "prefer_local", "prefer_docker", "docker_required"]);
        /// Runners for hazardous calls: `os` is this host.
        runners: NonEmpty(&Words(&["os", "docker"], &[])), default("[os, docker]"),
            user_limit(MeetRule::Only);
    }
    foreign {
        "runner" => "use `runners:`, a list",
    }
}

key_table! {
    pub(crate) static LOG = "log", "`log` has", blank;
    keys {
        /// Another spelling of `runs_dir`.
        dir: Text, last_layer_wins, trust("when it leaves the project");
        /// Keeps the conversation with the models, without which a run cannot be resumed. The audit
        /// log is kept in any case.
        transcripts: Bool, default("true"), last_layer_wins;
        /// Texts that placeholders replace in everything that models see and that is kept of a run.
        /// At most 1,000.
        redact: List(&Like(&SECRET)), default("[]"), unites;
    }
}
