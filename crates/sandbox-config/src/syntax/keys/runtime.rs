//! Sections about where things run and what is kept of them.

use crate::syntax::keys::shape::{Names, Shape};
use crate::syntax::keys::{Keys, later};

const TEXTS: Shape = Shape::List(&Shape::Text);

const ASKS: Shape = Shape::Map(Names::Any, &Shape::Bool);

pub(crate) static EXECUTION: Keys = Keys {
    id: "execution",
    plural: "`execution` has",
    may_be_blank: true,
    list: &[
        later(
            "mode",
            Shape::Words(
                &[
                    "local_only",
                    "prefer_local",
                    "prefer_docker",
                    "docker_required",
                ],
                &[],
            ),
            "Which runner hazardous calls get.",
        )
        .default("prefer_local"),
        later(
            "runners",
            Shape::List(&Shape::Words(&["os", "docker", "kubernetes"], &[])),
            "The runners that may be chosen.",
        )
        .default("[os, docker]"),
    ],
    foreign: &[],
};

pub(crate) static DOCKER: Keys = Keys {
    id: "docker",
    plural: "`docker` has",
    may_be_blank: true,
    list: &[
        later("enabled", Shape::Bool, "Whether containers may be used.").default("false"),
        later("image", Shape::Text, "The image.").trust("always"),
        later("host", Shape::Text, "The engine's address.").trust("always"),
        later(
            "network_default",
            Shape::Words(&["none", "bridge"], &[]),
            "The network of a container whose call asks for none.",
        )
        .default("none"),
        later("cpu_limit", Shape::Number, "Processors.").default("1.0"),
        later("mem_limit_mb", Shape::Count, "MiB of memory.").default("512"),
        later("pids_limit", Shape::Count, "Processes.").default("256"),
        later(
            "read_only_root",
            Shape::Bool,
            "Whether the image's own files stay as they are.",
        )
        .default("true"),
        later(
            "reuse",
            Shape::Bool,
            "Whether a container serves more than one call.",
        )
        .default("false"),
    ],
    foreign: &[],
};

pub(crate) static GIT: Keys = Keys {
    id: "git",
    plural: "`git` has",
    may_be_blank: true,
    list: &[
        later("author", Shape::Text, "The author of staged commits."),
        later("trailer", Shape::Text, "A trailer of staged commits."),
        later(
            "allow_executable_config",
            Shape::Bool,
            "Whether files that make git run programs may be staged.",
        )
        .default("false"),
    ],
    foreign: &[],
};

pub(crate) static LOG: Keys = Keys {
    id: "log",
    plural: "`log` has",
    may_be_blank: true,
    list: &[
        later("dir", Shape::Text, "Where records are kept.").strongest(),
        later(
            "transcripts",
            Shape::Bool,
            "Whether what the model said is kept.",
        )
        .default("true")
        .strongest(),
        later("redact", TEXTS, "Texts that are never written down.").unites(),
    ],
    foreign: &[],
};

pub(crate) static PROVIDER: Keys = Keys {
    id: "provider",
    plural: "providers have",
    may_be_blank: false,
    list: &[
        later("wire", Shape::Text, "The protocol it speaks."),
        later("base_url", Shape::Text, "Where it is reached."),
        later(
            "api_key_env",
            Shape::Text,
            "The variable that holds the key.",
        ),
        later(
            "prices",
            Shape::Map(Names::Any, &Shape::Number),
            "US dollars for a million tokens.",
        ),
    ],
    foreign: &[],
};

pub(crate) static PERMISSIONS: Keys = Keys {
    id: "permissions",
    plural: "`permissions` has",
    may_be_blank: true,
    list: &[
        later(
            "require_user_permission",
            ASKS,
            "By tool: whether a person is asked.",
        ),
        later(
            "require_user_permission_by_risk",
            ASKS,
            "By risk: whether a person is asked.",
        ),
    ],
    foreign: &[],
};
