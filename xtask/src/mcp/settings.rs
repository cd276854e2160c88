//! Real clients on the settings that `forge mcp install --write` puts into a home and a project of
//! the test's own. They run in a network namespace with nothing in it, so nothing leaves this machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::judges::{self, Judges, Missing};
use super::packages::{Installed, Packages};
use crate::failure::{Context, Failure};
use crate::process;
use crate::scratch::Scratch;
use crate::steps::Outcome;
use crate::test_os;
use crate::workspace;

/// The server of the project's file, and that of the user's own settings.
const TEAM: &str = "forge";
const USER: &str = "forge-user";

const PROJECT: &str = "\
sandbox:
  mode: direct
  zones:
    data: { path: ./data }
";

/// A listing takes seconds; this is only against a hang.
const LIMIT_S: u64 = 300;

/// Ways into an empty network namespace: as root, and as an ordinary user.
const NAMESPACES: [&[&str]; 2] = [&["--net"], &["--user", "--map-current-user", "--net"]];

pub(super) fn packages() -> Result<Packages, Failure> {
    let dir = workspace::cache_dir()?.join("mcp-clients");
    Ok(Packages::new("xtask/mcp/clients", dir))
}

/// Installs the clients, unless they are there. [`None`] where this machine has no npm.
///
/// # Errors
///
/// npm fails.
pub(crate) fn install() -> Result<Option<Installed>, Failure> {
    match process::find("npm") {
        Some(_) => packages()?.install().map(Some),
        None => Ok(None),
    }
}

/// As a step of `cargo xtask test`.
pub(crate) fn outcome() -> Outcome {
    match judge() {
        Ok(outcome) => outcome,
        Err(failure) => Outcome::Failed(failure.to_string()),
    }
}

fn judge() -> Result<Outcome, Failure> {
    let skipped = |why: &str| {
        println!("MCP clients did not run: {why}");
        Ok(Outcome::Skipped(why.to_owned()))
    };
    let packages = packages()?;
    let judges = match judges::find() {
        Ok(judges) if packages.are_installed() => judges,
        Err(Missing::NotHere(why)) => return skipped(&why),
        Ok(_) | Err(Missing::NotYet) => {
            return skipped("not installed: `cargo xtask setup --clients` installs them (1 GB)");
        }
    };
    let enters = |flags: &&&[&str]| {
        let mut unshare = process::command("unshare");
        process::find("unshare").is_some()
            && process::captured(unshare.args(**flags).arg("true"))
                .is_ok_and(|(status, _)| status.success())
    };
    let Some(namespace) = NAMESPACES.iter().find(enters) else {
        return skipped("no network namespace can be made, and clients may reach the network");
    };
    let key = ("forge".to_owned(), "forge".to_owned());
    let Some(forge) = test_os::built()?.remove(&key) else {
        return Err(Failure::new("there is no program `forge`"));
    };
    let mut world = World::new(&judges, packages, namespace, &forge)?;
    world.claude()?;
    world.codex()?;
    world.gemini()?;
    let opencode = world.opencode()?;
    for line in &world.wrong {
        println!("WRONG {line}");
    }
    Ok(match world.wrong.first() {
        Some(first) => Outcome::Failed(format!("{} not as expected: {first}", world.wrong.len())),
        None if opencode => Outcome::Passed,
        None => Outcome::Partly("npm has no OpenCode for this machine".to_owned()),
    })
}

/// A home and a project, in whose settings forge is installed.
struct World<'a> {
    judges: &'a Judges,
    packages: Packages,
    namespace: &'static [&'static str],
    scratch: Scratch,
    wrong: Vec<String>,
}

impl<'a> World<'a> {
    fn new(
        judges: &'a Judges,
        packages: Packages,
        namespace: &'static [&'static str],
        forge: &Path,
    ) -> Result<Self, Failure> {
        let scratch = Scratch::new()?;
        for dir in ["home", "bin", "project", "project/data"] {
            let dir = scratch.file(dir);
            fs::create_dir(&dir).context(dir.display())?;
        }
        let link = scratch.file("bin/forge");
        symlink(forge, &link).context(link.display())?;
        let world = World {
            judges,
            packages,
            namespace,
            scratch,
            wrong: Vec::new(),
        };
        world.write("project/forge.yaml", PROJECT)?;
        process::quiet(
            process::command("git")
                .args(["init", "--quiet"])
                .arg(world.scratch.file("project")),
        )?;
        Ok(world)
    }

    fn claude(&mut self) -> Result<(), Failure> {
        fn claude(world: &World<'_>, arguments: &[&str]) -> Command {
            world.script("@anthropic-ai/claude-code/cli-wrapper.cjs", arguments)
        }
        self.install("claude")?;
        let user = format!("{USER}: {} - ✔ Connected", self.command_line());
        let listed = claude(self, &["mcp", "list"]);
        let pending = format!("{TEAM}: forge mcp - ⏸ Pending approval");
        self.check("claude mcp list", listed, &[&user, &pending])?;
        // As Claude Code itself keeps a person's yes to its questions.
        let project = self.project();
        let file = "home/.claude.json";
        let mut settings: Value = serde_json::from_str(&self.read(file)?).context(file)?;
        settings["projects"][&project] = json!({
            "hasTrustDialogAccepted": true,
            "enabledMcpjsonServers": [TEAM],
        });
        self.write(file, &settings.to_string())?;
        let listed = claude(self, &["mcp", "list"]);
        let team = format!("{TEAM}: forge mcp - ✔ Connected");
        self.check("claude mcp list, trusted", listed, &[&user, &team])?;
        let shown = claude(self, &["mcp", "get", TEAM]);
        let says = ["Scope: Project config", "Command: forge\n", "Args: mcp\n"];
        self.check("claude mcp get", shown, &says)?;
        println!("Claude Code: both connected, the project's after a yes");
        Ok(())
    }

    fn codex(&mut self) -> Result<(), Failure> {
        fn codex(world: &World<'_>, arguments: &[&str]) -> Command {
            world.script("@openai/codex/bin/codex.js", arguments)
        }
        self.install("codex")?;
        // A table with a column for program and arguments each; one line for a server.
        let has_team = |said: &str| said.lines().any(|line| line.starts_with("forge "));
        let listed = codex(self, &["mcp", "list"]);
        let said = self.check("codex mcp list", listed, &[USER])?;
        if has_team(&said) {
            self.wrong
                .push(format!("codex reads a project's file before a yes: {said}"));
        }
        let file = "home/.codex/config.toml";
        let trusted = format!(
            "{}\n[projects.{:?}]\ntrust_level = \"trusted\"\n",
            self.read(file)?,
            self.project()
        );
        self.write(file, &trusted)?;
        let listed = codex(self, &["mcp", "list"]);
        let said = self.check("codex mcp list, trusted", listed, &[USER])?;
        if !has_team(&said) {
            self.wrong
                .push(format!("codex does not read the project's file: {said}"));
        }
        for (name, command, arguments) in [
            (TEAM, "forge".to_owned(), "mcp".to_owned()),
            (USER, self.forge(), format!("-C {} mcp", self.project())),
        ] {
            let get = ["mcp", "get", name];
            let shown = codex(self, &get);
            let command = format!("command: {command}\n");
            let arguments = format!("args: {arguments}\n");
            let says = [
                "transport: stdio",
                &command,
                &arguments,
                "tool_timeout_sec: 360",
            ];
            self.check(&format!("codex mcp get {name}"), shown, &says)?;
        }
        println!("Codex: both listed, the project's after a yes, with the time limit");
        Ok(())
    }

    fn gemini(&mut self) -> Result<(), Failure> {
        self.install("gemini")?;
        let list =
            |world: &Self| world.script("@google/gemini-cli/bundle/gemini.js", &["mcp", "list"]);
        for (trusted, state) in [(false, "Disabled"), (true, "Connected")] {
            if trusted {
                let folders = json!({ self.project(): "TRUST_FOLDER" });
                self.write("home/.gemini/trustedFolders.json", &folders.to_string())?;
            }
            let team = format!("{TEAM}: forge mcp (stdio) - {state}");
            let user = format!("{USER}: {} (stdio) - {state}", self.command_line());
            let listed = list(self);
            self.check(
                &format!("gemini mcp list, {state}"),
                listed,
                &[&team, &user],
            )?;
        }
        println!("Gemini CLI: both disabled, and connected once the folder is trusted");
        Ok(())
    }

    /// Returns `false` if npm has none for this machine.
    fn opencode(&mut self) -> Result<bool, Failure> {
        let program = self.packages.file("opencode-linux-x64/bin/opencode");
        if !program.is_file() {
            println!("OpenCode: npm has none for this machine");
            return Ok(false);
        }
        self.install("opencode")?;
        let mut list = process::command(program);
        list.args(["mcp", "list"]);
        let absolute = self.command_line();
        let said = self.check("opencode mcp list", list, &["forge mcp", &absolute])?;
        if said.matches("connected").count() != 2 {
            self.wrong
                .push(format!("opencode: two servers should be connected: {said}"));
        }
        println!("OpenCode: both connected");
        Ok(true)
    }

    /// Both entries, by forge itself.
    fn install(&mut self, client: &str) -> Result<(), Failure> {
        for (scope, name) in [("project", TEAM), ("user", USER)] {
            let mut forge = process::command(self.scratch.file("bin/forge"));
            forge.args(["mcp", "install", client, "--scope", scope, "--name", name]);
            forge.arg("--write");
            let what = format!("forge mcp install {client} --scope {scope}");
            self.check(&what, forge, &["written: "])?;
        }
        Ok(())
    }

    fn script(&self, path: &str, arguments: &[&str]) -> Command {
        let mut command = self.judges.script(&self.packages.file(path));
        command.args(arguments);
        command
    }

    /// Runs the command in the project, without a network, and returns what it said.
    fn check(&mut self, what: &str, command: Command, says: &[&str]) -> Result<String, Failure> {
        let mut inside = process::command("unshare");
        inside
            .args(self.namespace)
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(self.scratch.file("project"))
            .env_clear()
            .env("HOME", self.scratch.file("home"))
            .env(
                "PATH",
                format!(
                    "{}:/usr/local/bin:/usr/bin:/bin",
                    self.scratch.file("bin").display()
                ),
            )
            .env("TERM", "dumb")
            .env("NO_COLOR", "1");
        let (ended, said) = process::watched(&mut inside, LIMIT_S)?;
        let missing: Vec<&&str> = says.iter().filter(|text| !said.contains(**text)).collect();
        if ended != Some(0) || !missing.is_empty() {
            self.wrong.push(format!(
                "{what}: exit {ended:?}, without {missing:?}: {}",
                said.trim()
            ));
        }
        Ok(said)
    }

    fn project(&self) -> String {
        self.scratch.file("project").display().to_string()
    }

    fn forge(&self) -> String {
        self.scratch.file("bin/forge").display().to_string()
    }

    /// The command in the user's own settings.
    fn command_line(&self) -> String {
        format!("{} -C {} mcp", self.forge(), self.project())
    }

    fn read(&self, file: &str) -> Result<String, Failure> {
        fs::read_to_string(self.scratch.file(file)).context(file)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Failure> {
        fs::write(self.scratch.file(file), text).context(file)
    }
}
