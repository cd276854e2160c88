//! Any bytes as a worker file, and as its front matter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_config::Sources;
use sandbox_config_fuzz::{directory, look};

const NAME: &str = "workers/w.worker";
const PROJECT: &str = "\
sandbox: { zones: { data: { path: ./data, mode: ro }, workspace: { path: ./workspace } } }
shell: { rules: [{ pattern: \"grep *\", approval: ask }] }
";

fuzz_target!(|bytes: &[u8]| {
    let dir = directory();
    std::fs::write(dir.join("golem-forge.config.yaml"), PROJECT).expect("a file");
    let framed = [b"---\n", bytes, b"\n---\nGo.\n"].concat();
    for text in [bytes, &framed] {
        std::fs::write(dir.join(NAME), text).expect("a file");
        look(&Sources::new(dir), NAME, text);
    }
});
