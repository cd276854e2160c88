//! `cargo xtask race`: the race test of file-sandbox, built for release, with many attempts. The
//! test panics at the first escape, so a table means that there was none.

use crate::failure::Failure;
use crate::process;
use crate::table::Table;

pub(crate) const ABOUT: &str =
    "file-sandbox while links and directories are exchanged (--attempts N, for each operation)";

const ATTEMPTS: u64 = 100_000;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let attempts = attempts(arguments)?;
    let mut cargo = process::cargo();
    cargo
        .args(["test", "--quiet", "--release", "--locked"])
        .args(["--package", "file-sandbox", "--test", "it", "--"])
        .args(["--exact", "race::nothing_comes_out_on_any_resolver"])
        .arg("--nocapture")
        .env("FILE_SANDBOX_RACE_ATTEMPTS", attempts.to_string());
    let output = process::output(&mut cargo)?;
    let lines: Vec<&str> = output
        .lines()
        .filter_map(|line| line.strip_prefix("race\t"))
        .collect();
    if lines.is_empty() {
        return Err(Failure::new("no race ran: the test is for Linux"));
    }
    println!("{}", table(&lines));
    println!("no escape");
    Ok(())
}

fn attempts(arguments: &[String]) -> Result<u64, Failure> {
    match arguments {
        [] => Ok(ATTEMPTS),
        [flag, number] if flag == "--attempts" => number
            .parse()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| Failure::Usage(format!("`{number}` is no number of attempts"))),
        [flag] if flag == "--attempts" => Err(Failure::Usage("--attempts needs a number".into())),
        [argument, ..] => Err(Failure::Usage(format!("unexpected argument `{argument}`"))),
    }
}

fn table(lines: &[&str]) -> Table {
    let mut table = Table::new(["resolver", "operation", "attempts", "worked", "exchanges"]);
    for line in lines {
        table.row(line.split('\t').map(str::to_owned));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_attempts() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            attempts(&words).ok()
        };
        assert_eq!(parse(&[]), Some(ATTEMPTS));
        assert_eq!(parse(&["--attempts", "7"]), Some(7));
        for wrong in [&["--attempts"][..], &["--attempts", "0"], &["7"]] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
