//! Any `-c KEY=VALUE` and any `FORGE__…` variable, over a project that has something to say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_config::Sources;
use sandbox_config_fuzz::{directory, look};

const NAME: &str = "golem-forge.config.yaml";
const PROJECT: &str = "\
sandbox: { zones: { data: { path: ./data, mode: ro, approval: { write: blocked } } }, hide: [x] }
shell: { rules: [{ pattern: \"rm *\", approval: blocked }] }
limits: { max_turns: 3 }
";

fuzz_target!(|words: Vec<(bool, String, String)>| {
    let dir = directory();
    std::fs::write(dir.join(NAME), PROJECT).expect("a file");
    let mut sources = Sources::new(dir);
    for (flag, key, value) in words.into_iter().take(8) {
        if flag {
            sources.overrides.push((key, value));
        } else {
            sources.env.push((format!("FORGE__{key}"), value));
        }
    }
    look(&sources, NAME, PROJECT.as_bytes());
});
