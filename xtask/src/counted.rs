//! A test that does one thing many times and prints what came of it: how often is said on the
//! command line, and its lines become a table. Such a test panics at the first promise that is
//! broken, so that a table means that all held.

use crate::failure::Failure;
use crate::process;
use crate::table::Table;

/// One such test.
pub(crate) struct Counted {
    /// What is put before `test`'s arguments, such as its package.
    pub(crate) cargo: &'static [&'static str],
    /// Its whole name.
    pub(crate) test: &'static str,
    /// What its lines begin with.
    pub(crate) mark: &'static str,
    /// The heads of the table.
    pub(crate) columns: &'static [&'static str],
    /// `--kills`
    pub(crate) flag: &'static str,
    /// How often, if nobody says.
    pub(crate) times: u64,
    /// Where the test finds how often.
    pub(crate) variable: &'static str,
    /// What it means that it printed nothing.
    pub(crate) nothing: &'static str,
    /// What it means that it came to its end.
    pub(crate) held: &'static str,
}

impl Counted {
    pub(crate) fn run(&self, arguments: &[String]) -> Result<(), Failure> {
        let times = self.times(arguments)?;
        let mut cargo = process::cargo();
        cargo
            .args(["test", "--quiet", "--locked"])
            .args(self.cargo)
            .args(["--", "--exact", self.test, "--nocapture"])
            .env(self.variable, times.to_string());
        let output = process::output(&mut cargo)?;
        let mut table = Table::new(self.columns.iter().copied());
        let mut lines = output
            .lines()
            .filter_map(|line| line.strip_prefix(self.mark)?.strip_prefix('\t'))
            .peekable();
        if lines.peek().is_none() {
            return Err(Failure::new(self.nothing));
        }
        for line in lines {
            table.row(line.split('\t').map(str::to_owned));
        }
        println!("{table}");
        println!("{}", self.held);
        Ok(())
    }

    fn times(&self, arguments: &[String]) -> Result<u64, Failure> {
        let flag = self.flag;
        match arguments {
            [] => Ok(self.times),
            [one, number] if one == flag => number
                .parse()
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| {
                    Failure::Usage(format!("{flag}: `{number}` is not a number above 0"))
                }),
            [one] if one == flag => Err(Failure::Usage(format!("{flag} needs a number"))),
            [argument, ..] => Err(Failure::Usage(format!("unexpected argument `{argument}`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{crash, race};

    #[test]
    fn how_often() {
        for (counted, usual) in [(crash::TEST, 200), (race::TEST, 100_000)] {
            let parse = |words: &[&str]| {
                let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
                counted.times(&words).ok()
            };
            let flag = counted.flag;
            assert_eq!(parse(&[]), Some(usual));
            assert_eq!(parse(&[flag, "7"]), Some(7));
            for wrong in [
                &[flag][..],
                &[flag, "0"],
                &[flag, "x"],
                &["7"],
                &[flag, "7", "8"],
            ] {
                assert_eq!(parse(wrong), None, "{wrong:?}");
            }
        }
    }
}
