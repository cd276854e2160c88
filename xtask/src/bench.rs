//! `cargo xtask bench [files] [os] [exec] [network] [review] [config] [mcp] [loop] [docker]`: runs `benches/ratios`, built as what is packaged.

use crate::failure::Failure;
use crate::peers;
use crate::process;
use crate::table::Table;

pub(crate) const ABOUT: &str = "what the sandboxes cost, as ratios measured in one run, beside the targets (files, os, exec, network, review, config, mcp, loop, docker)";

/// What is packaged; the program that measures looks for `forge` beside itself.
const PROFILE: &str = "dist";

const GROUPS: [&str; 9] = [
    "files", "os", "exec", "network", "review", "config", "mcp", "loop", "docker",
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments
        .iter()
        .find(|argument| !GROUPS.contains(&argument.as_str()))
    {
        return Err(Failure::Usage(format!(
            "`{unknown}` is not measured; there are: {}",
            GROUPS.join(", ")
        )));
    }
    let asked = |name: &str| arguments.is_empty() || arguments.iter().any(|group| group == name);
    if asked("exec") || asked("review") || asked("config") || asked("mcp") {
        // From start to exit: what people install.
        let mut build = process::cargo();
        build.args([
            "build",
            "--quiet",
            "--locked",
            "--profile",
            PROFILE,
            "--package",
            "forge",
        ]);
        process::shown(&mut build)?;
    }
    let mut cargo = process::cargo();
    cargo.args([
        "bench",
        "--quiet",
        "--locked",
        "--profile",
        PROFILE,
        "--package",
        "xtask",
        "--bench",
        "ratios",
        "--",
    ]);
    cargo.args(arguments);
    if asked("mcp") {
        cargo.envs(peers::install());
    }
    println!("{}", table(&process::output(&mut cargo)?));
    Ok(())
}

fn table(lines: &str) -> Table {
    let mut table = Table::new([
        "measure",
        "median",
        "compared with",
        "median",
        "ratio",
        "target",
        "",
    ]);
    for line in lines.lines() {
        table.row(line.split('\t').map(str::to_owned));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_tabs_between_become_a_table() {
        let expected = "\
measure  median  compared with  median  ratio  target
read     2 µs    std            1 µs    2.00   <= 1.2  ABOVE
";
        assert_eq!(
            table("read\t2 µs\tstd\t1 µs\t2.00\t<= 1.2\tABOVE\n").to_string(),
            expected
        );
    }
}
