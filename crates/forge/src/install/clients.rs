//! Where each client keeps its servers. A table: the clients' own documentation is the source,
//! and it changes more often than anything else here.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// A program that speaks MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// VS Code and Copilot.
    Vscode,
    /// Cursor.
    Cursor,
    /// Zed.
    Zed,
    /// Gemini CLI.
    Gemini,
    /// Goose.
    Goose,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Windsurf.
    Windsurf,
    /// Cline.
    Cline,
    /// OpenCode.
    Opencode,
    /// The file of a project that several clients read.
    #[value(name = ".mcp.json", alias = "mcp-json")]
    McpJson,
}

/// Whom an entry is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// Whoever opens this project: a file in it.
    Project,
    /// You, in any project: a file in your home.
    User,
}

impl Scope {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Scope::Project => "project",
            Scope::User => "user",
        }
    }
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON; comments and trailing commas are left to the client to judge.
    Json,
    Toml,
    Yaml,
}

impl Format {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Toml => "toml",
            Format::Yaml => "yaml",
        }
    }
}

/// The systems whose customs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    Linux,
    Macos,
    Windows,
}

impl System {
    fn here() -> Self {
        match std::env::consts::OS {
            "macos" => System::Macos,
            "windows" => System::Windows,
            _ => System::Linux,
        }
    }
}

/// What places are made of.
#[derive(Debug, Clone)]
pub(crate) struct Places<'a> {
    system: System,
    home: Option<&'a Path>,
    env: &'a [(String, String)],
}

/// A file, and the directory below which it is found without following a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) base: PathBuf,
    pub(crate) below: PathBuf,
}

impl<'a> Places<'a> {
    /// On this machine.
    pub(crate) fn here(home: Option<&'a Path>, env: &'a [(String, String)]) -> Self {
        Places {
            system: System::here(),
            home,
            env,
        }
    }

    /// A directory that a variable names; relative ones are ignored, as XDG asks.
    fn var(&self, name: &str) -> Option<PathBuf> {
        self.env
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| PathBuf::from(value))
            .filter(|dir| dir.is_absolute())
    }

    fn home(&self, below: &str) -> Option<Place> {
        place(self.home?, below)
    }

    /// Below the directory of a variable, else below the home.
    fn named(&self, name: &str, below: &str, at_home: &str) -> Option<Place> {
        match self.var(name) {
            Some(dir) => place(&dir, below),
            None => self.home(at_home),
        }
    }

    /// Where programs keep settings: `%APPDATA%`, `~/Library/…` or XDG.
    fn settings(&self, windows: &str, macos: &str, xdg: &str) -> Option<Place> {
        match self.system {
            System::Windows => place(&self.var("APPDATA")?, windows),
            System::Macos => self.home(macos),
            System::Linux => self.named("XDG_CONFIG_HOME", xdg, &format!(".config/{xdg}")),
        }
    }
}

fn place(base: &Path, below: &str) -> Option<Place> {
    Some(Place {
        base: base.to_owned(),
        below: below.into(),
    })
}

impl Client {
    /// The name on our command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Vscode => "vscode",
            Client::Cursor => "cursor",
            Client::Zed => "zed",
            Client::Gemini => "gemini",
            Client::Goose => "goose",
            Client::ClaudeDesktop => "claude-desktop",
            Client::Windsurf => "windsurf",
            Client::Cline => "cline",
            Client::Opencode => "opencode",
            Client::McpJson => ".mcp.json",
        }
    }

    /// Whom an entry is for if nobody says.
    pub(crate) fn usual_scope(self) -> Scope {
        match self {
            Client::Claude
            | Client::Vscode
            | Client::Cursor
            | Client::Gemini
            | Client::Opencode
            | Client::McpJson => Scope::Project,
            Client::Codex
            | Client::Zed
            | Client::Goose
            | Client::ClaudeDesktop
            | Client::Windsurf
            | Client::Cline => Scope::User,
        }
    }

    pub(crate) fn format(self) -> Format {
        match self {
            Client::Codex => Format::Toml,
            Client::Goose => Format::Yaml,
            Client::Claude
            | Client::Vscode
            | Client::Cursor
            | Client::Zed
            | Client::Gemini
            | Client::ClaudeDesktop
            | Client::Windsurf
            | Client::Cline
            | Client::Opencode
            | Client::McpJson => Format::Json,
        }
    }

    /// The key under which servers stand.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Client::Codex => "mcp_servers",
            Client::Vscode => "servers",
            Client::Zed => "context_servers",
            Client::Goose => "extensions",
            Client::Opencode => "mcp",
            Client::Claude
            | Client::Cursor
            | Client::Gemini
            | Client::ClaudeDesktop
            | Client::Windsurf
            | Client::Cline
            | Client::McpJson => "mcpServers",
        }
    }

    /// Returns the client's placeholder for the directory of a project. `None` if the client starts
    /// servers there anyway.
    pub(crate) fn project_variable(self) -> Option<&'static str> {
        match self {
            Client::Vscode | Client::Cursor => Some("${workspaceFolder}"),
            Client::Claude
            | Client::Codex
            | Client::Zed
            | Client::Gemini
            | Client::Goose
            | Client::ClaudeDesktop
            | Client::Windsurf
            | Client::Cline
            | Client::Opencode
            | Client::McpJson => None,
        }
    }

    /// Returns how a person confirms servers of a project's file. `None` if the client does not ask.
    pub(crate) fn trust(self) -> Option<&'static str> {
        match self {
            Client::Claude => Some(
                "Claude Code asks once whether to use the servers of this project: start `claude` in it",
            ),
            Client::Codex => Some(
                "Codex reads this file in projects that it trusts only: start `codex` in it and agree",
            ),
            Client::Vscode => Some(
                "VS Code starts servers in trusted folders only, and asks before the first start",
            ),
            Client::Cursor => {
                Some("Cursor asks before it starts a server of a project: Settings, MCP")
            }
            Client::Gemini => Some(
                "Gemini CLI disables all servers in folders that it does not trust: `/permissions` in it",
            ),
            Client::Zed
            | Client::Goose
            | Client::ClaudeDesktop
            | Client::Windsurf
            | Client::Cline
            | Client::Opencode
            | Client::McpJson => None,
        }
    }

    /// Returns the client's own command that makes the same entry in the same scope, up to where the
    /// server's command line follows. `None` if there is no such command: Codex has one, but it
    /// cannot set `tool_timeout_sec`.
    pub(crate) fn own_command(self, name: &str, scope: Scope) -> Option<Vec<String>> {
        let words: &[&str] = match self {
            Client::Claude => &["claude", "mcp", "add", "--scope", scope.word(), name, "--"],
            // No `--`: Gemini CLI then misses the server's command (yargs ends its positionals there).
            Client::Gemini => &["gemini", "mcp", "add", "--scope", scope.word(), name],
            Client::Codex
            | Client::Vscode
            | Client::Cursor
            | Client::Zed
            | Client::Goose
            | Client::ClaudeDesktop
            | Client::Windsurf
            | Client::Cline
            | Client::Opencode
            | Client::McpJson => return None,
        };
        Some(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// The file; none if this client has no such, or no home is known.
    pub(crate) fn place(self, scope: Scope, project: &Path, places: &Places<'_>) -> Option<Place> {
        match (self, scope) {
            (Client::Claude | Client::McpJson, Scope::Project) => place(project, ".mcp.json"),
            (Client::Claude, Scope::User) => {
                places.named("CLAUDE_CONFIG_DIR", ".claude.json", ".claude.json")
            }
            (Client::Codex, Scope::Project) => place(project, ".codex/config.toml"),
            (Client::Codex, Scope::User) => {
                places.named("CODEX_HOME", "config.toml", ".codex/config.toml")
            }
            (Client::Vscode, Scope::Project) => place(project, ".vscode/mcp.json"),
            (Client::Vscode, Scope::User) => places.settings(
                "Code/User/mcp.json",
                "Library/Application Support/Code/User/mcp.json",
                "Code/User/mcp.json",
            ),
            (Client::Cursor, Scope::Project) => place(project, ".cursor/mcp.json"),
            (Client::Cursor, Scope::User) => places.home(".cursor/mcp.json"),
            (Client::Zed, Scope::User) => places.settings(
                "Zed/settings.json",
                ".config/zed/settings.json",
                "zed/settings.json",
            ),
            (Client::Gemini, Scope::Project) => place(project, ".gemini/settings.json"),
            (Client::Gemini, Scope::User) => places.home(".gemini/settings.json"),
            (Client::Goose, Scope::User) => places.settings(
                "Block/goose/config/config.yaml",
                ".config/goose/config.yaml",
                "goose/config.yaml",
            ),
            // No build for Linux is Anthropic's own; those that exist keep to its names.
            (Client::ClaudeDesktop, Scope::User) => places.settings(
                "Claude/claude_desktop_config.json",
                "Library/Application Support/Claude/claude_desktop_config.json",
                "Claude/claude_desktop_config.json",
            ),
            (Client::Windsurf, Scope::User) => places.home(".codeium/windsurf/mcp_config.json"),
            (Client::Cline, Scope::User) => places.named(
                "CLINE_DATA_DIR",
                "settings/cline_mcp_settings.json",
                ".cline/data/settings/cline_mcp_settings.json",
            ),
            (Client::Opencode, Scope::Project) => place(project, "opencode.json"),
            // On every system: it follows XDG on macOS and Windows, too.
            (Client::Opencode, Scope::User) => places.named(
                "XDG_CONFIG_HOME",
                "opencode/opencode.json",
                ".config/opencode/opencode.json",
            ),
            (
                Client::Zed
                | Client::Goose
                | Client::ClaudeDesktop
                | Client::Windsurf
                | Client::Cline,
                Scope::Project,
            )
            | (Client::McpJson, Scope::User) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Client, scope, and the file on Linux (plain, then with XDG_CONFIG_HOME and the like set),
    /// macOS and Windows; `-` where there is none.
    const TABLE: &str = "\
claude    project /p/.mcp.json          /p/.mcp.json          /p/.mcp.json /p/.mcp.json
claude    user    /h/.claude.json       /cl/.claude.json      /h/.claude.json /h/.claude.json
codex     project /p/.codex/config.toml /p/.codex/config.toml /p/.codex/config.toml /p/.codex/config.toml
codex     user    /h/.codex/config.toml /co/config.toml       /h/.codex/config.toml /h/.codex/config.toml
vscode    project /p/.vscode/mcp.json   /p/.vscode/mcp.json   /p/.vscode/mcp.json /p/.vscode/mcp.json
vscode    user    /h/.config/Code/User/mcp.json /x/Code/User/mcp.json /h/Library/Application_Support/Code/User/mcp.json /a/Code/User/mcp.json
cursor    project /p/.cursor/mcp.json   /p/.cursor/mcp.json   /p/.cursor/mcp.json /p/.cursor/mcp.json
cursor    user    /h/.cursor/mcp.json   /h/.cursor/mcp.json   /h/.cursor/mcp.json /h/.cursor/mcp.json
zed       project -                     -                     -            -
zed       user    /h/.config/zed/settings.json /x/zed/settings.json /h/.config/zed/settings.json /a/Zed/settings.json
gemini    project /p/.gemini/settings.json /p/.gemini/settings.json /p/.gemini/settings.json /p/.gemini/settings.json
gemini    user    /h/.gemini/settings.json /h/.gemini/settings.json /h/.gemini/settings.json /h/.gemini/settings.json
goose     project -                     -                     -            -
goose     user    /h/.config/goose/config.yaml /x/goose/config.yaml /h/.config/goose/config.yaml /a/Block/goose/config/config.yaml
claude-desktop project -                -                     -            -
claude-desktop user /h/.config/Claude/claude_desktop_config.json /x/Claude/claude_desktop_config.json /h/Library/Application_Support/Claude/claude_desktop_config.json /a/Claude/claude_desktop_config.json
windsurf  project -                     -                     -            -
windsurf  user    /h/.codeium/windsurf/mcp_config.json /h/.codeium/windsurf/mcp_config.json /h/.codeium/windsurf/mcp_config.json /h/.codeium/windsurf/mcp_config.json
cline     project -                     -                     -            -
cline     user    /h/.cline/data/settings/cline_mcp_settings.json /cd/settings/cline_mcp_settings.json /h/.cline/data/settings/cline_mcp_settings.json /h/.cline/data/settings/cline_mcp_settings.json
opencode  project /p/opencode.json      /p/opencode.json      /p/opencode.json /p/opencode.json
opencode  user    /h/.config/opencode/opencode.json /x/opencode/opencode.json /h/.config/opencode/opencode.json /h/.config/opencode/opencode.json
.mcp.json project /p/.mcp.json          /p/.mcp.json          /p/.mcp.json /p/.mcp.json
.mcp.json user    -                     -                     -            -
";

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn where_the_files_are() {
        let none = pairs(&[("XDG_CONFIG_HOME", "relative")]);
        let set = pairs(&[
            ("XDG_CONFIG_HOME", "/x"),
            ("CODEX_HOME", "/co"),
            ("CLAUDE_CONFIG_DIR", "/cl"),
            ("CLINE_DATA_DIR", "/cd"),
        ]);
        let windows = pairs(&[("APPDATA", "/a")]);
        let columns = [
            (System::Linux, &none),
            (System::Linux, &set),
            (System::Macos, &none),
            (System::Windows, &windows),
        ];
        let mut found = String::new();
        for client in Client::value_variants() {
            for scope in [Scope::Project, Scope::User] {
                found.push_str(&format!("{} {}", client.word(), scope.word()));
                for (system, env) in &columns {
                    let places = Places {
                        system: *system,
                        home: Some(Path::new("/h")),
                        env,
                    };
                    let file = client
                        .place(scope, Path::new("/p"), &places)
                        .map(|place| place.base.join(place.below).display().to_string());
                    found.push(' ');
                    found.push_str(&file.unwrap_or("-".into()).replace(' ', "_"));
                }
                found.push('\n');
            }
            let usual = client.usual_scope();
            let places = Places::here(Some(Path::new("/h")), &[]);
            assert!(client.place(usual, Path::new("/p"), &places).is_some());
        }
        let words = |text: &str| {
            text.lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&found), words(TABLE));
    }

    #[test]
    fn without_a_home_there_is_no_file_in_it() {
        let places = Places::here(None, &[]);
        for client in Client::value_variants() {
            assert_eq!(client.place(Scope::User, Path::new("/p"), &places), None);
        }
    }
}
