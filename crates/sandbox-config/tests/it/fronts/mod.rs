//! The five front-ends: what each lowers to, what none of them may say, and what they open.

mod lowering;
mod mistakes;
#[cfg(all(feature = "files", feature = "process"))]
mod opening;

use sandbox_config::{Grant, Sources};

use crate::support::Scratch;

/// A project with some directories, in `p`; `outside` lies beside it.
fn scratch(config: &str) -> (Scratch, Sources) {
    let scratch = Scratch::new()
        .dir("outside")
        .dir("p/data/deep")
        .dir("p/src/lib")
        .dir("p/docs")
        .file("p/file.txt", "x")
        .file("p/golem-forge.config.yaml", config)
        .link("data", "p/link")
        .link("../outside", "p/way-out");
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    (scratch, sources)
}

/// `front`, then a row per mount: target, host, mode.
fn table(scratch: &Scratch, grant: &Grant) -> Vec<String> {
    let mut rows = vec![format!("{:?}", grant.front())];
    for mount in grant.mounts() {
        let host = mount.host().display().to_string();
        let host = host.replace(&scratch.path().display().to_string(), "");
        rows.push(format!("{} {host} {}", mount.target(), mount.mode()));
    }
    rows
}
