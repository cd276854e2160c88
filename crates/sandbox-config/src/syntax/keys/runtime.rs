//! Sections about where things run and what is kept of them.

use crate::syntax::keys::shape::{ENGINE, IMAGE, SECRET, Shape};
use crate::syntax::keys::{Keys, now};

pub(crate) const EXECUTION_MODE: Shape = Shape::Words(
    &[
        "local_only",
        "prefer_local",
        "prefer_docker",
        "docker_required",
    ],
    &[],
);

pub(crate) static EXECUTION: Keys = Keys {
    id: "execution",
    plural: "`execution` has",
    may_be_blank: true,
    list: &[
        now(
            "mode",
            EXECUTION_MODE,
            "Where hazardous calls run: `local_only` and `prefer_local` on this host, `prefer_docker` in a container or, if a person agrees, here; `docker_required` puts every call into a container.",
        )
        .default("prefer_local"),
        now(
            "runners",
            Shape::Some(&Shape::Words(&["os", "docker"], &[])),
            "The runners that may be chosen for hazardous calls.",
        )
        .default("[os, docker]"),
    ],
    foreign: &[("runner", "use `runners:`, a list")],
};

pub(crate) static DOCKER: Keys = Keys {
    id: "docker",
    plural: "`docker` has",
    may_be_blank: true,
    list: &[
        now("enabled", Shape::Bool, "Whether containers may be used.").default("false"),
        now("image", Shape::Like(&IMAGE), "The image of containers.")
            .default("forge-sandbox:1")
            .trust("always"),
        now(
            "host",
            Shape::OneOf(&[Shape::Like(&ENGINE), Shape::Null]),
            "The engine's address, as `DOCKER_HOST` spells it; `null`: the local one.",
        )
        .trust("always"),
        now(
            "network_default",
            Shape::Words(&["none", "bridge"], &[]),
            "The network of a container whose call asks for none.",
        )
        .default("none")
        .trust("when it is `bridge`"),
        now("cpu_limit", Shape::Number, "Processors of a container.").default("1.0"),
        now(
            "mem_limit_mb",
            Shape::Count,
            "MiB of memory of a container, swap included.",
        )
        .default("512"),
        now("pids_limit", Shape::Count, "Processes of a container.").default("256"),
        now(
            "read_only_root",
            Shape::Bool,
            "Whether the image's own files stay as they are.",
        )
        .default("true"),
        now(
            "reuse",
            Shape::Words(&["call", "session"], &[]),
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

pub(crate) static LOG: Keys = Keys {
    id: "log",
    plural: "`log` has",
    may_be_blank: true,
    list: &[
        now("dir", Shape::Text, "Another spelling of `runs_dir`.")
            .strongest()
            .trust("when it leaves the project"),
        now(
            "transcripts",
            Shape::Bool,
            "Whether what models see and say is kept; the audit is kept in any case.",
        )
        .default("true")
        .strongest(),
        now(
            "redact",
            Shape::List(&Shape::Like(&SECRET)),
            "Texts that become placeholders in what models see and in what is kept of a run; of eight bytes or more.",
        )
        .default("[]")
        .unites(),
    ],
    foreign: &[],
};
