//! Sections about the runners of calls and the record of runs.

use crate::syntax::key_table::shape::{ENGINE, IMAGE, SECRET, ValueShape};
use crate::syntax::key_table::{KeySpec, KeyTable};

pub(crate) const EXECUTION_MODE: ValueShape = ValueShape::Words(
    &[
        "local_only",
        "prefer_local",
        "prefer_docker",
        "docker_required",
    ],
    &[],
);

pub(crate) static EXECUTION: KeyTable = KeyTable {
    id: "execution",
    plural: "`execution` has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "mode",
            EXECUTION_MODE,
            "Where hazardous calls run: `local_only` and `prefer_local` on this host, `prefer_docker` in a container or, if a person agrees, here; `docker_required` puts every call into a container.",
        )
        .default("prefer_local"),
        KeySpec::new(
            "runners",
            ValueShape::Some(&ValueShape::Words(&["os", "docker"], &[])),
            "The runners that may be chosen for hazardous calls.",
        )
        .default("[os, docker]"),
    ],
    foreign: &[("runner", "use `runners:`, a list")],
};

pub(crate) static DOCKER: KeyTable = KeyTable {
    id: "docker",
    plural: "`docker` has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "enabled",
            ValueShape::Bool,
            "Whether containers may be used.",
        )
        .default("false"),
        KeySpec::new(
            "image",
            ValueShape::Like(&IMAGE),
            "The image of containers.",
        )
        .default("forge-sandbox:1")
        .trust("always"),
        KeySpec::new(
            "host",
            ValueShape::OneOf(&[ValueShape::Like(&ENGINE), ValueShape::Null]),
            "The engine's address, as `DOCKER_HOST` spells it; `null`: the local one.",
        )
        .trust("always"),
        KeySpec::new(
            "network_default",
            ValueShape::Words(&["none", "bridge"], &[]),
            "The network of a container whose call asks for none.",
        )
        .default("none")
        .trust("when it is `bridge`"),
        KeySpec::new(
            "cpu_limit",
            ValueShape::Number,
            "Processors of a container.",
        )
        .default("1.0"),
        KeySpec::new(
            "mem_limit_mb",
            ValueShape::Count,
            "MiB of memory of a container, swap included.",
        )
        .default("512"),
        KeySpec::new("pids_limit", ValueShape::Count, "Processes of a container.").default("256"),
        KeySpec::new(
            "read_only_root",
            ValueShape::Bool,
            "Whether the image's own files stay as they are.",
        )
        .default("true"),
        KeySpec::new(
            "reuse",
            ValueShape::Words(&["call", "session"], &[]),
            "`call`: a container for each call. `session`: one for all calls of a worker.",
        )
        .default("call"),
    ],
    foreign: &[
        ("network", "did you mean `network_default:`?"),
        ("memory", "did you mean `mem_limit_mb:`?"),
        ("cpus", "did you mean `cpu_limit:`?"),
        (
            "privileged",
            "a container of forge is never privileged; there is no key for it",
        ),
        (
            "volumes",
            "a container shows the mounts of its worker and nothing else",
        ),
    ],
};

pub(crate) static LOG: KeyTable = KeyTable {
    id: "log",
    plural: "`log` has",
    may_be_blank: true,
    list: &[
        KeySpec::new("dir", ValueShape::Text, "Another spelling of `runs_dir`.")
            .last_layer_wins()
            .trust("when it leaves the project"),
        KeySpec::new(
            "transcripts",
            ValueShape::Bool,
            "Whether what models see and say is kept; the audit is kept in any case.",
        )
        .default("true")
        .last_layer_wins(),
        KeySpec::new(
            "redact",
            ValueShape::List(&ValueShape::Like(&SECRET)),
            "Texts that become placeholders in what models see and in what is kept of a run; of eight bytes or more.",
        )
        .default("[]")
        .unites(),
    ],
    foreign: &[],
};
