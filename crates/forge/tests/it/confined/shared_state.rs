//! State that `--share` shows is no way to programs of the person outside: programs of its settings,
//! names that agents obey, and links that agents follow.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::exec::mount_layers;
use crate::support::{Ran, World};

/// A person with files in the home directory. `AT_HOME` in a text is that directory.
struct Person(World);

impl Person {
    fn new(files: &[(&str, &str)]) -> Person {
        let person = Person(World::new(&[("forge.yaml", "sandbox: { root: . }\n")]));
        for (name, text) in files {
            person.write(name, text);
        }
        person
    }

    fn home(&self) -> PathBuf {
        self.0.outside().join("home")
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.home().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = text.replace("AT_HOME", self.home().to_str().unwrap());
        fs::write(&file, text).unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.home().join(name)).ok()
    }

    fn exec(&self, preset: &str, mechanism: &str, script: &str) -> Ran {
        let flags = ["--preset", preset, "--share", "--mechanism", mechanism];
        let words = [&["exec"], &flags[..], &["--", "sh", "-c", script]].concat();
        self.0.forge(&words)
    }

    /// Writes each of these in the home directory by a command, under each mount layer, and expects that
    /// they are unchanged outside; absent ones stay absent.
    fn keeps(&self, preset: &str, names: &[&str]) {
        let before: Vec<_> = names.iter().map(|name| self.text(name)).collect();
        for mechanism in mount_layers(&self.0) {
            let mut script = String::new();
            for name in names {
                let path = format!("\"$HOME/{name}\"");
                script += &format!(
                    "mkdir -p \"$(dirname {path})\"; echo EVIL >> {path}; \
                     (echo EVIL > {path}.t; mv {path}.t {path}); rm -f {path}.t;"
                );
            }
            let ran = self.exec(
                preset,
                mechanism,
                &format!("{{ {script} }} 2>/dev/null; true"),
            );
            for (name, before) in names.iter().zip(&before) {
                let (now, told) = (self.text(name), &ran.stderr);
                assert_eq!(&now, before, "{mechanism} {preset} {name}: {told}");
            }
        }
    }

    /// Appends to each of these, and expects that it works.
    fn writes(&self, preset: &str, names: &[&str]) {
        for mechanism in mount_layers(&self.0) {
            for name in names {
                let ran = self.exec(preset, mechanism, &format!("echo mine >> \"$HOME/{name}\""));
                ran.code(0);
                let text = self.text(name).unwrap_or_default();
                assert!(
                    text.ends_with("mine\n"),
                    "{mechanism} {name}: {}",
                    ran.stderr
                );
            }
        }
    }
}

type Named = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// The ways in which settings name programs: a key, its preset, the file, and the programs. The third
/// list is absent at the start.
const NAMED: [Named; 16] = [
    (
        "claude",
        ".claude/settings.json",
        r#"{"statusLine":{"type":"command","command":"bash ~/.claude/status.sh"}}"#,
        &[".claude/status.sh"],
        &[],
    ),
    (
        "claude",
        ".claude/settings.json",
        r#"{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"\"$HOME\"/.claude/scripts/h.sh -x"}]}]}}"#,
        &[".claude/scripts/h.sh", ".claude/scripts/lib.py"],
        &[".claude/scripts/new.sh"],
    ),
    (
        "claude",
        ".claude/settings.json",
        r#"{"apiKeyHelper":"~/.claude/key","awsAuthRefresh":"AT_HOME/.claude/aws.sh",
            "env":{"BASH_ENV":"~/.claude/env"}}"#,
        &[".claude/key", ".claude/aws.sh", ".claude/env"],
        &[],
    ),
    (
        "claude",
        ".claude/settings.json",
        r#"{"otelHeadersHelper":"\"AT_HOME/.claude/my tools/otel.py\" --now"}"#,
        &[".claude/my tools/otel.py"],
        &[],
    ),
    (
        "claude",
        ".claude/settings.json",
        r#"{"statusLine":{"command":"~/.claude/late/line.sh"}}"#,
        &[],
        &[".claude/late/line.sh"],
    ),
    (
        "claude",
        ".claude.json",
        r#"{"mcpServers":{"m":{"command":"node","args":["AT_HOME/.claude/mcp/dist/index.js"]}}}"#,
        &[".claude/mcp/package.json", ".claude/mcp/dist/index.js"],
        &[".claude/mcp/node_modules/a/index.js"],
    ),
    (
        "claude",
        ".claude/hooks/pre.sh",
        ". ~/.claude/lib/common.sh\n",
        &[".claude/lib/common.sh"],
        &[],
    ),
    (
        "codex",
        ".codex/config.toml",
        "# don't\nnotify = [\"python3\", 'AT_HOME/.codex/notify.py']\n",
        &[".codex/notify.py"],
        &[],
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers.x]\ncommand = \"uv\"\nargs = [\"run\", \"serve.py\"]\ncwd = \"~/.codex/x\"\n",
        &[".codex/x/serve.py"],
        &[],
    ),
    (
        "claude",
        ".claude/settings.json",
        r#"{"env":{"PATH":"AT_HOME/.claude/own:/usr/bin"}}"#,
        &[".claude/own/a.sh"],
        &[".claude/own/git"],
    ),
    (
        "codex",
        ".codex/config.toml",
        "notify = [\"sh\", \"-c\", '''\n. \"$CODEX_HOME/n.sh\"\n''']\n",
        &[".codex/n.sh"],
        &[],
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\n// don't\n\"mcpServers\":{\"a\":{\"command\":\"node\",\"args\":[\"~/.gemini/servers/a.js\"]}},\n}",
        &[".gemini/servers/a.js"],
        &[],
    ),
    (
        "copilot",
        ".copilot/mcp-config.json",
        r#"{"mcpServers":{"a":{"command":"${HOME}\/.copilot\/run"}}}"#,
        &[".copilot/run"],
        &[],
    ),
    (
        "cursor",
        ".cursor/hooks.json",
        r#"{"hooks":{"stop":[{"command":"./mine/audit.sh"}]}}"#,
        &[".cursor/mine/audit.sh"],
        &[],
    ),
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        r#"{"mcp":{"a":{"command":["bun","~/.local/share/opencode/a.ts"]}}}"#,
        &[".local/share/opencode/a.ts"],
        &[],
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "extensions:\n  a:\n    cmd: python3 ~/.local/share/goose/a.py\n",
        &[".local/share/goose/a.py"],
        &[],
    ),
];

#[test]
fn programs_that_settings_name_are_kept() {
    for (preset, settings, text, programs, absent) in NAMED {
        let person = Person::new(&[(settings, text)]);
        for name in programs {
            person.write(name, "old\n");
        }
        person.keeps(preset, &[programs, absent, &[settings]].concat());
    }
}

/// A link to the program, or to its directory, is another path to it.
#[test]
fn programs_that_settings_name_are_kept_behind_links() {
    let settings =
        r#"{"statusLine":{"command":"~/.claude/line"},"apiKeyHelper":"~/.claude/at/key.sh"}"#;
    let person = Person::new(&[
        (".claude/settings.json", settings),
        (".claude/real/line.sh", "old\n"),
        (".claude/there/key.sh", "old\n"),
    ]);
    symlink("real/line.sh", person.home().join(".claude/line")).unwrap();
    symlink("there", person.home().join(".claude/at")).unwrap();
    person.keeps("claude", &[".claude/real/line.sh", ".claude/there/key.sh"]);
}

/// Files of an agent's own stay writable, although settings name it.
#[test]
fn what_an_agent_writes_is_not_kept() {
    let settings = r#"{"permissions":{"deny":["Read(~/.claude/.credentials.json)"],
        "allow":["Read(~/.claude/notes/a.json)"],"additionalDirectories":["~/.claude/projects"]},
        "hooks":{"Stop":[{"hooks":[{"command":"jq . ~/.claude/.credentials.json >> ~/.claude/hook.log"}]}]},
        "statusLine":{"command":"tail -1 ~/.claude/history.jsonl"}}"#;
    let names = [
        ".claude/.credentials.json",
        ".claude/history.jsonl",
        ".claude/hook.log",
        ".claude/notes/a.json",
        ".claude/projects/p/s.jsonl",
        ".claude/todos/a.json",
    ];
    let person = Person::new(&[(".claude/settings.json", settings)]);
    for name in names {
        person.write(name, "old\n");
    }
    person.writes("claude", &names);
}

/// Names in shared state that an agent, a browser, git or a scheduler outside executes or obeys.
#[test]
fn names_that_programs_outside_obey_are_kept() {
    for (preset, names) in [
        (
            "claude",
            &[
                ".claude/chrome/chrome-native-host",
                ".claude/session-env/s/sessionstart-hook-0.sh",
                ".claude/.config.json",
                ".claude/.claude.json",
                ".claude/scheduled_tasks.json",
                ".claude/workflows/a.js",
                ".claude/rules/a.md",
                ".claude/CLAUDE.md",
                ".claude/launch.json",
                ".claude/loop.md",
            ][..],
        ),
        (
            "codex",
            &[
                ".codex/automations/a/automation.toml",
                ".codex/managed_config.toml",
                ".codex/.env",
            ],
        ),
        (
            "gemini",
            &[
                ".gemini/history/h/git/config",
                ".gemini/history/h/.gitconfig",
                ".gemini/tmp/bin/rg",
                ".gemini/acknowledgments/agents.json",
                ".gemini/mcp-server-enablement.json",
                ".gemini/extension_integrity.json",
                ".gemini/antigravity/mcp_config.json",
                ".gemini/antigravity/skills/a/SKILL.md",
                ".gemini/antigravity/global_workflows/a.md",
                ".gemini/antigravity-cli/settings.json",
                ".gemini/antigravity-ide/mcp_config.json",
                ".gemini/config/mcp_config.json",
            ],
        ),
        (
            "copilot",
            &[".copilot/permissions-config.json", ".copilot/ide/1.lock"],
        ),
        (
            "cursor",
            &[
                ".cursor/projects/p/mcp-approvals.json",
                ".cursor/argv.json",
                ".cursor/permissions.json",
                ".cursor/skills-cursor/a/SKILL.md",
            ],
        ),
        (
            "opencode",
            &[".local/share/opencode/storage/permission/a.json"],
        ),
        (
            "goose",
            &[
                ".local/share/goose/schedule.json",
                ".local/share/goose/scheduled_recipes/a.yaml",
            ],
        ),
        ("aider", &[".aider/oauth-keys.env"]),
    ] {
        for text in [None, Some("old\n")] {
            let person = Person::new(&[]);
            for name in names {
                let around = person.home().join(name);
                fs::create_dir_all(around.parent().unwrap()).unwrap();
                text.into_iter().for_each(|text| person.write(name, text));
            }
            person.keeps(preset, names);
        }
    }
}

/// A link that a command makes in shared state leads an agent outside that writes there. Links of the
/// person, and those that stay within what commands may write, are left.
#[test]
fn no_new_link_leads_out_of_shared_state() {
    let files = [
        (".bashrc", "old\n"),
        (".config/autostart/x", ""),
        (".claude/settings.json", "{}"),
        (".claude/hooks/h", ""),
        (".claude/history.jsonl", "old\n"),
        (".claude/debug/1", ""),
    ];
    let away = [
        ("AT_HOME/.bashrc", "history.jsonl"),
        ("../.config/autostart", "todos"),
        ("../absent", "projects"),
        ("absent/../../absent", "statsig"),
        ("settings.json", "cache.json"),
        ("hooks", "shell"),
        ("plugins/absent", "next"),
        ("/etc/passwd", "debug/a"),
        ("two", "one"),
        ("../.bashrc", "two"),
    ];
    for mechanism in mount_layers(&Person::new(&[]).0) {
        let person = Person::new(&files);
        let (home, claude) = (person.home(), person.home().join(".claude"));
        symlink(home.join(".config"), claude.join("of_the_person")).unwrap();
        let mut script = String::from(
            "cd ~/.claude; rm history.jsonl; ln -s 1 debug/latest; ln -s nowhere dangling;",
        );
        for (to, name) in away {
            let to = to.replace("AT_HOME", home.to_str().unwrap());
            script += &format!("ln -s {to} {name};");
        }
        let ran = person.exec("claude", mechanism, &script);
        for (_, name) in away {
            let left = claude.join(name).symlink_metadata();
            // A link to a link that is gone leads nowhere.
            assert!(
                left.is_err() || name == "one",
                "{mechanism} {name}: {}",
                ran.stderr
            );
        }
        for name in ["of_the_person", "debug/latest", "dangling"] {
            let left = claude.join(name).symlink_metadata();
            assert!(left.is_ok(), "{mechanism} {name}: {}", ran.stderr);
        }
        // A person's link that is led elsewhere gets its target back; a directory that is moved takes its
        // links along.
        let script = "cd ~/.claude; ln -sfn /etc of_the_person; mkdir -p a/b; ln -s ../../x a/b/l";
        let ran = person.exec("claude", mechanism, script);
        ran.code(0)
            .says(&["of_the_person (a link: it leads to /etc, out of"]);
        let to = fs::read_link(claude.join("of_the_person")).unwrap();
        assert_eq!(to, home.join(".config"), "{mechanism}");
        person
            .exec("claude", mechanism, "cd ~/.claude; mv a/b b")
            .code(0);
        assert!(
            claude.join("b/l").symlink_metadata().is_err(),
            "{mechanism}"
        );
    }
}

/// The directory of an agent that a preset gives back to commands has the protected names of the state,
/// and the programs that settings there name.
#[test]
fn programs_of_a_project_are_kept_as_those_of_the_person() {
    let settings = r#"{"statusLine":{"command":"\"$CLAUDE_PROJECT_DIR\"/.claude/line.sh"},
        "hooks":{"Stop":[{"hooks":[{"command":".claude/tools/stop.py"},{"command":"src/own.sh"}]}]}}"#;
    let kept = [
        "line.sh",
        "tools/stop.py",
        "settings.json",
        "scheduled_tasks.json",
        "workflows/a.js",
        "rules/a.md",
        "output-styles/a.md",
        "CLAUDE.md",
        "skills/a/SKILL.md",
        "launch.json",
        "loop.md",
    ];
    let given = [
        ".claude/settings.local.json",
        ".claude/notes.md",
        "src/own.sh",
    ];
    let person = Person::new(&[]);
    let text = |name: &str| fs::read_to_string(person.0.project().join(name)).unwrap();
    for name in kept {
        person.0.write(&format!(".claude/{name}"), "old\n");
    }
    given.iter().for_each(|name| person.0.write(name, "old\n"));
    person.0.write(".claude/settings.json", settings);
    for mechanism in mount_layers(&person.0) {
        let names = kept.iter().map(|name| format!(".claude/{name}"));
        let names = names.chain(given.iter().map(|name| (*name).to_owned()));
        let script: String = names.map(|name| format!("echo new >> {name};")).collect();
        let flags = [
            "exec",
            "--preset",
            "claude",
            "--no-share",
            "--mechanism",
            mechanism,
        ];
        let words = [&flags[..], &["--", "sh", "-c", &script]].concat();
        let ran = person.0.forge(&words);
        for name in kept {
            let text = text(&format!(".claude/{name}"));
            assert!(
                !text.ends_with("new\n"),
                "{mechanism} {name}: {}",
                ran.stderr
            );
        }
        for name in given {
            assert!(
                text(name).ends_with("new\n"),
                "{mechanism} {name}: {}",
                ran.stderr
            );
        }
    }
}
