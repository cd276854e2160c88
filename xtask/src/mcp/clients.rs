//! The official clients on the product itself: `forge mcp` in a project of its own, once for each
//! era of the protocol.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::judges::Judges;
use crate::failure::{Context, Failure};
use crate::process;
use crate::scratch::Scratch;

/// How the clients call what they open with.
const ERAS: [&str; 2] = ["legacy", "modern"];

/// Writing is asked for.
const PROJECT: &str = "\
sandbox:
  mode: direct
  zones:
    data: { path: ./data }
";

/// One call takes half a second; this is only against a hang.
const LIMIT_S: u64 = 120;

/// What the clients say of a result that is a failure.
const IS_ERROR: i32 = 5;

/// A project, and everything that the clients keep.
struct World<'a> {
    judges: &'a Judges,
    forge: &'a Path,
    scratch: Scratch,
    wrong: Vec<String>,
}

/// Runs them. Everything that did not go as expected.
pub(super) fn judge(judges: &Judges, forge: &Path) -> Result<Vec<String>, Failure> {
    let scratch = Scratch::new()?;
    let write = |name: &str, text: &str| {
        let path = scratch.file(name);
        fs::write(&path, text).context(path.display())
    };
    for dir in ["data", "home"] {
        let path = scratch.file(dir);
        fs::create_dir(&path).context(path.display())?;
    }
    write("golem-forge.config.yaml", PROJECT)?;
    write("data/a.md", "hello\n")?;
    let server = json!({"type": "stdio", "command": forge, "args": ["--trust", "mcp"],
        "cwd": scratch.path()});
    write(
        "mcp.json",
        &json!({"mcpServers": {"forge": server}}).to_string(),
    )?;
    let mut world = World {
        judges,
        forge,
        scratch,
        wrong: Vec::new(),
    };
    for era in ERAS {
        world.inspect(era)?;
        world.converse(era)?;
    }
    // It was started by the first of these calls, and would stay.
    world.mcpdo("stop", &["daemon", "stop"], 0, "stopping")?;
    Ok(world.wrong)
}

impl World<'_> {
    /// The inspector: each call is a process of its own.
    fn inspect(&mut self, era: &str) -> Result<(), Failure> {
        let read = ["--method", "tools/call", "--tool-name", "read_file"];
        let with = |path| {
            read.into_iter()
                .chain(["--tool-arg", path])
                .collect::<Vec<_>>()
        };
        for (what, args, code, says) in [
            (
                // Whatever other clients could not take is an error with it.
                "the list of tools",
                vec!["--method", "tools/list", "--strict"],
                0,
                "\"name\":\"read_file\"",
            ),
            ("a file", with("path=/data/a.md"), 0, r#""text":"hello\n""#),
            (
                "a file outside",
                with("path=/etc/passwd"),
                IS_ERROR,
                "OUTSIDE_SANDBOX",
            ),
        ] {
            let mut inspector = self.judges.inspector();
            inspector
                .args(["--protocol-era", era, "--format", "json"])
                .args(args)
                .arg("--")
                .arg(self.forge)
                .args(["--trust", "mcp"]);
            self.check(&format!("inspector, {era}, {what}"), inspector, code, says)?;
        }
        println!("inspector, {era}: list, call, refusal");
        Ok(())
    }

    /// The one that can be asked: a call that waits for an answer, in another process.
    fn converse(&mut self, era: &str) -> Result<(), Failure> {
        let connect = ["connect", "forge", "--config", "mcp.json", "--era", era];
        self.mcpdo(&format!("{era}, connect"), &connect, 0, era)?;
        for (answer, code, says, written) in [
            ("decision:=allow_once", 0, "Written 2 characters", true),
            ("decision:=deny", IS_ERROR, "DENIED", false),
            ("--decline", IS_ERROR, "DENIED", false),
            ("--cancel", IS_ERROR, "DENIED", false),
        ] {
            let what = format!("{era}, {answer}");
            let name = format!("{era}{}.md", answer.replace([':', '='], ""));
            let arguments = json!({"path": format!("/data/{name}"), "content": "hi"}).to_string();
            let call = ["@forge", "tools/call", "write_file", &arguments];
            let asked = self.mcpdo(&what, &call, 0, "elicitationPending")?;
            // Between what it says to people, so not read as a whole.
            let id = asked
                .split_once("\"elicitationId\": \"")
                .and_then(|(_, rest)| rest.split('"').next())
                .unwrap_or_default();
            let respond = ["@forge", "elicitation/respond", id, answer];
            self.mcpdo(&what, &respond, code, says)?;
            if self.scratch.file("data").join(&name).exists() != written {
                self.wrong
                    .push(format!("mcpdo, {what}: written should be {written}"));
            }
        }
        let name = ["disconnect", "forge"];
        self.mcpdo(&format!("{era}, disconnect"), &name, 0, "forge")?;
        println!("mcpdo, {era}: approval by a form agreed to, denied, declined, cancelled");
        Ok(())
    }

    /// What it wrote to standard output and error.
    fn mcpdo(
        &mut self,
        what: &str,
        args: &[&str],
        code: i32,
        says: &str,
    ) -> Result<String, Failure> {
        let mut mcpdo = self.judges.mcpdo();
        mcpdo.args(["--format", "json"]).args(args);
        self.check(&format!("mcpdo, {what}"), mcpdo, code, says)
    }

    fn check(
        &mut self,
        what: &str,
        mut command: Command,
        code: i32,
        says: &str,
    ) -> Result<String, Failure> {
        let home = self.scratch.file("home");
        command.current_dir(self.scratch.path()).env("HOME", &home);
        for name in [
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
            "XDG_RUNTIME_DIR",
        ] {
            command.env(name, &home);
        }
        command
            .env("MCP_INSPECTOR_SECRET_STORE", "file")
            .env("MCP_INSPECTOR_DAEMON_DIR", self.scratch.file("daemon"))
            // Whoever knows it may use the daemon; its directory is ours alone.
            .env("MCP_INSPECTOR_DAEMON_TOKEN", "of-this-run-only");
        let (ended, said) = process::watched(&mut command, LIMIT_S)?;
        if ended != Some(code) || !said.contains(says) {
            self.wrong.push(format!(
                "{what}: exit {ended:?} and not {code}, or not {says:?}: {}",
                said.trim()
            ));
        }
        Ok(said)
    }
}
