//! Any bytes as a project file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_config::Sources;
use sandbox_config_fuzz::{directory, look};

const NAME: &str = "golem-forge.config.yaml";

fuzz_target!(|bytes: &[u8]| {
    let dir = directory();
    std::fs::write(dir.join(NAME), bytes).expect("a file");
    look(&Sources::new(dir), NAME, bytes);
});
