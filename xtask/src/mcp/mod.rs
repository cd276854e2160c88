//! `cargo xtask test --mcp`: programs of others on our MCP server. The conformance suite judges the
//! adapter with tools that the suite calls by name, the inspector and `mcpdo` judge `forge mcp`, and
//! clients read the settings that `forge mcp install` writes.

use crate::steps::Outcome;
use crate::test_os;

mod clients;
mod expected;
mod judges;
mod packages;
mod settings;
mod suite;

pub(crate) use judges::install;
pub(crate) use packages::Installed;
pub(crate) use settings::{install as install_clients, outcome as settings_outcome};

/// As a step of `cargo xtask test`.
pub(crate) fn outcome() -> Outcome {
    match judge() {
        Ok(outcome) => outcome,
        Err(failure) => Outcome::Failed(failure.to_string()),
    }
}

fn judge() -> Result<Outcome, crate::failure::Failure> {
    let judges = match judges::find() {
        Ok(judges) => judges,
        Err(judges::Missing::NotHere(why)) => {
            println!("the judges of MCP did not run: {why}");
            return Ok(Outcome::Skipped(why));
        }
        Err(judges::Missing::NotYet) => {
            let why = "the judges of MCP are not installed: run `cargo xtask setup`";
            return Ok(Outcome::Failed(why.into()));
        }
    };
    let mut programs = test_os::built()?;
    let mut program = |package: &str, name: &str| {
        let key = (package.to_owned(), name.to_owned());
        programs
            .remove(&key)
            .ok_or_else(|| crate::failure::Failure::new(format!("there is no program `{name}`")))
    };
    let (judged, forge) = (
        program("forge-mcp", "mcp_judged")?,
        program("forge", "forge")?,
    );
    let mut wrong = suite::judge(&judges, &judged)?;
    wrong.extend(clients::judge(&judges, &forge)?);
    for line in &wrong {
        println!("WRONG {line}");
    }
    Ok(match wrong.first() {
        None => Outcome::Passed,
        Some(first) => Outcome::Failed(format!("{} not as expected: {first}", wrong.len())),
    })
}
