//! `cargo xtask crash`: the test that kills runs and goes on with them, with many kills. The test
//! panics at the first promise that is broken, so a table means that all held.

use crate::failure::Failure;
use crate::process;
use crate::table::Table;

pub(crate) const ABOUT: &str =
    "`forge run` killed at random moments, and gone on with until it is through (--kills N)";

const KILLS: u64 = 200;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let kills = kills(arguments)?;
    let mut cargo = process::cargo();
    cargo
        .args(["test", "--quiet", "--locked"])
        .args(["--package", "forge", "--test", "it", "--"])
        .args(["--exact", "confined::crash::a_run_that_is_killed_goes_on"])
        .arg("--nocapture")
        .env("FORGE_TEST_KILLS", kills.to_string());
    let output = process::output(&mut cargo)?;
    let lines: Vec<&str> = output
        .lines()
        .filter_map(|line| line.strip_prefix("crash\t"))
        .collect();
    if lines.is_empty() {
        return Err(Failure::new("nothing was killed: the test is for Linux"));
    }
    println!("{}", table(&lines));
    println!("every promise held");
    Ok(())
}

fn kills(arguments: &[String]) -> Result<u64, Failure> {
    match arguments {
        [] => Ok(KILLS),
        [flag, number] if flag == "--kills" => number
            .parse()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| Failure::Usage(format!("`{number}` is no number of kills"))),
        [flag] if flag == "--kills" => Err(Failure::Usage("--kills needs a number".into())),
        [argument, ..] => Err(Failure::Usage(format!("unexpected argument `{argument}`"))),
    }
}

fn table(lines: &[&str]) -> Table {
    let mut table = Table::new(["what", "how often"]);
    for line in lines {
        table.row(line.split('\t').map(str::to_owned));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_kills() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            kills(&words).ok()
        };
        assert_eq!(parse(&[]), Some(KILLS));
        assert_eq!(parse(&["--kills", "7"]), Some(7));
        for wrong in [&["--kills"][..], &["--kills", "0"], &["7"]] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
