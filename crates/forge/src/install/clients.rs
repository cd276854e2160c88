//! Where each client keeps its servers. A table: the clients' own documentation is the source,
//! and it changes more often than anything else here.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// A program that speaks MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
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

sandbox_names::word_enum! {
    /// The users of an entry.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
    pub(crate) enum Scope {
        /// Whoever opens this project: a file in it.
        Project = "project",
        /// You, in any project: a file in your home.
        User = "user",
    }
    pub(crate) fn word
}

sandbox_names::word_enum! {
    /// How a file is written.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum SettingsFormat {
        /// JSON; comments and trailing commas are left to the client to judge.
        Json = "json",
        Toml = "toml",
        Yaml = "yaml",
    }
    pub(crate) fn word
}

/// The operating systems with customs of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OsFamily {
    Linux,
    Macos,
    Windows,
}

impl OsFamily {
    fn here() -> Self {
        match std::env::consts::OS {
            "macos" => OsFamily::Macos,
            "windows" => OsFamily::Windows,
            _ => OsFamily::Linux,
        }
    }
}

/// The inputs from which settings paths are computed.
#[derive(Debug, Clone)]
pub(crate) struct SettingsRoots<'a> {
    system: OsFamily,
    home: Option<&'a Path>,
    env: &'a [(String, String)],
}

/// A file, and the directory below which it is found without following a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsPath {
    pub(crate) base: PathBuf,
    pub(crate) below: PathBuf,
}

impl<'a> SettingsRoots<'a> {
    /// On this machine.
    pub(crate) fn here(home: Option<&'a Path>, env: &'a [(String, String)]) -> Self {
        SettingsRoots {
            system: OsFamily::here(),
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

    fn home(&self, below: &str) -> Option<SettingsPath> {
        place(self.home?, below)
    }

    /// Below the directory of a variable, else below the home.
    fn named(&self, name: &str, below: &str, at_home: &str) -> Option<SettingsPath> {
        match self.var(name) {
            Some(dir) => place(&dir, below),
            None => self.home(at_home),
        }
    }

    /// Where programs keep settings: `%APPDATA%`, `~/Library/…` or XDG.
    fn settings(&self, windows: &str, macos: &str, xdg: &str) -> Option<SettingsPath> {
        match self.system {
            OsFamily::Windows => place(&self.var("APPDATA")?, windows),
            OsFamily::Macos => self.home(macos),
            OsFamily::Linux => self.named("XDG_CONFIG_HOME", xdg, &format!(".config/{xdg}")),
        }
    }
}

fn place(base: &Path, below: &str) -> Option<SettingsPath> {
    Some(SettingsPath {
        base: base.to_owned(),
        below: below.into(),
    })
}

/// The names and the behaviour of one client.
struct ClientCustoms {
    word: &'static str,
    usual_scope: Scope,
    format: SettingsFormat,
    section: &'static str,
    variables_key: &'static str,
    project_variable: Option<&'static str>,
    trust: Option<&'static str>,
}

impl McpClient {
    sandbox_names::getters! {
        /// The name on our command line.
        pub(crate) word: &'static str = customs().word;
        /// Returns the scope of an entry if the user names none.
        pub(crate) usual_scope: Scope = customs().usual_scope;
        pub(crate) format: SettingsFormat = customs().format;
        /// The key under which servers stand.
        pub(crate) section: &'static str = customs().section;
        /// The key of a server's variables.
        pub(crate) variables_key: &'static str = customs().variables_key;
        /// Returns the client's placeholder for the directory of a project. `None` if the client starts
        /// servers there anyway.
        pub(crate) project_variable: Option<&'static str> = customs().project_variable;
        /// Returns how a person confirms servers of a project's file. `None` if the client does not ask.
        pub(crate) trust: Option<&'static str> = customs().trust;
    }

    fn customs(self) -> ClientCustoms {
        let of_project = |word| ClientCustoms {
            word,
            usual_scope: Scope::Project,
            format: SettingsFormat::Json,
            section: "mcpServers",
            variables_key: "env",
            project_variable: None,
            trust: None,
        };
        let of_user = |word| ClientCustoms {
            usual_scope: Scope::User,
            ..of_project(word)
        };
        match self {
            McpClient::Claude => ClientCustoms {
                trust: Some(
                    "Claude Code asks once whether to use the servers of this project: start `claude` in it",
                ),
                ..of_project("claude")
            },
            McpClient::Codex => ClientCustoms {
                format: SettingsFormat::Toml,
                section: "mcp_servers",
                trust: Some(
                    "Codex reads this file in projects that it trusts only: start `codex` in it and agree",
                ),
                ..of_user("codex")
            },
            McpClient::Vscode => ClientCustoms {
                section: "servers",
                project_variable: Some("${workspaceFolder}"),
                trust: Some(
                    "VS Code starts servers in trusted folders only, and asks before the first start",
                ),
                ..of_project("vscode")
            },
            McpClient::Cursor => ClientCustoms {
                project_variable: Some("${workspaceFolder}"),
                trust: Some("Cursor asks before it starts a server of a project: Settings, MCP"),
                ..of_project("cursor")
            },
            McpClient::Zed => ClientCustoms {
                section: "context_servers",
                ..of_user("zed")
            },
            McpClient::Gemini => ClientCustoms {
                trust: Some(
                    "Gemini CLI disables all servers in folders that it does not trust: `/permissions` in it",
                ),
                ..of_project("gemini")
            },
            McpClient::Goose => ClientCustoms {
                format: SettingsFormat::Yaml,
                section: "extensions",
                variables_key: "envs",
                ..of_user("goose")
            },
            McpClient::ClaudeDesktop => of_user("claude-desktop"),
            McpClient::Windsurf => of_user("windsurf"),
            McpClient::Cline => of_user("cline"),
            McpClient::Opencode => ClientCustoms {
                section: "mcp",
                variables_key: "environment",
                ..of_project("opencode")
            },
            McpClient::McpJson => of_project(".mcp.json"),
        }
    }

    /// Returns the client's own command that makes the same entry in the same scope, up to the
    /// server's command line. `None` if the client has no such command: Codex has one, but it
    /// cannot set `tool_timeout_sec`.
    pub(crate) fn own_command(self, name: &str, scope: Scope) -> Option<Vec<String>> {
        let words: &[&str] = match self {
            McpClient::Claude => &["claude", "mcp", "add", "--scope", scope.word(), name, "--"],
            // No `--`: Gemini CLI then misses the server's command (yargs ends its positionals there).
            McpClient::Gemini => &["gemini", "mcp", "add", "--scope", scope.word(), name],
            _ => return None,
        };
        Some(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// The file; none if this client has no such, or no home is known.
    pub(crate) fn place(
        self,
        scope: Scope,
        project: &Path,
        places: &SettingsRoots<'_>,
    ) -> Option<SettingsPath> {
        match (self, scope) {
            (McpClient::Claude | McpClient::McpJson, Scope::Project) => place(project, ".mcp.json"),
            (McpClient::Claude, Scope::User) => {
                places.named("CLAUDE_CONFIG_DIR", ".claude.json", ".claude.json")
            }
            (McpClient::Codex, Scope::Project) => place(project, ".codex/config.toml"),
            (McpClient::Codex, Scope::User) => {
                places.named("CODEX_HOME", "config.toml", ".codex/config.toml")
            }
            (McpClient::Vscode, Scope::Project) => place(project, ".vscode/mcp.json"),
            (McpClient::Vscode, Scope::User) => places.settings(
                "Code/User/mcp.json",
                "Library/Application Support/Code/User/mcp.json",
                "Code/User/mcp.json",
            ),
            (McpClient::Cursor, Scope::Project) => place(project, ".cursor/mcp.json"),
            (McpClient::Cursor, Scope::User) => places.home(".cursor/mcp.json"),
            (McpClient::Zed, Scope::User) => places.settings(
                "Zed/settings.json",
                ".config/zed/settings.json",
                "zed/settings.json",
            ),
            (McpClient::Gemini, Scope::Project) => place(project, ".gemini/settings.json"),
            (McpClient::Gemini, Scope::User) => places.home(".gemini/settings.json"),
            (McpClient::Goose, Scope::User) => places.settings(
                "Block/goose/config/config.yaml",
                ".config/goose/config.yaml",
                "goose/config.yaml",
            ),
            // No build for Linux is Anthropic's own; those that exist keep to its names.
            (McpClient::ClaudeDesktop, Scope::User) => places.settings(
                "Claude/claude_desktop_config.json",
                "Library/Application Support/Claude/claude_desktop_config.json",
                "Claude/claude_desktop_config.json",
            ),
            (McpClient::Windsurf, Scope::User) => places.home(".codeium/windsurf/mcp_config.json"),
            (McpClient::Cline, Scope::User) => places.named(
                "CLINE_DATA_DIR",
                "settings/cline_mcp_settings.json",
                ".cline/data/settings/cline_mcp_settings.json",
            ),
            (McpClient::Opencode, Scope::Project) => place(project, "opencode.json"),
            // On every system: it follows XDG on macOS and Windows, too.
            (McpClient::Opencode, Scope::User) => places.named(
                "XDG_CONFIG_HOME",
                "opencode/opencode.json",
                ".config/opencode/opencode.json",
            ),
            (_, Scope::Project) | (McpClient::McpJson, Scope::User) => None,
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
            (OsFamily::Linux, &none),
            (OsFamily::Linux, &set),
            (OsFamily::Macos, &none),
            (OsFamily::Windows, &windows),
        ];
        let mut found = String::new();
        for client in McpClient::value_variants() {
            for scope in [Scope::Project, Scope::User] {
                found.push_str(&format!("{} {}", client.word(), scope.word()));
                for (system, env) in &columns {
                    let places = SettingsRoots {
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
            let places = SettingsRoots::here(Some(Path::new("/h")), &[]);
            assert!(client.place(usual, Path::new("/p"), &places).is_some());
        }
        let words = |text: &str| {
            text.lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&found), words(TABLE));
    }

    /// These files name programs that a client of the host starts.
    #[test]
    fn the_files_of_projects_are_protected() {
        let places = SettingsRoots::here(None, &[]);
        for client in McpClient::value_variants() {
            let Some(place) = client.place(Scope::Project, Path::new("/p"), &places) else {
                continue;
            };
            let first = place.below.components().next().unwrap();
            let first = first.as_os_str().to_str().unwrap();
            assert!(sandbox_names::PROTECTED.contains(&first), "{first}");
        }
    }

    #[test]
    fn without_a_home_there_is_no_file_in_it() {
        let places = SettingsRoots::here(None, &[]);
        for client in McpClient::value_variants() {
            assert_eq!(client.place(Scope::User, Path::new("/p"), &places), None);
        }
    }
}
