//! `forge run` as a person sees it, on a terminal, and as a program does.

mod behind_http;
mod events;

mod plain;
pub(crate) mod pty;
mod view;
mod widths;

use crate::support::World;

const RUN: [&str; 4] = ["--trust", "run", "--model", "scripted:play.yaml"];

/// A run that goes on until it is stopped: it waits for an answer that nobody gives.
const SLEEPS: &str = "version: 1
workers:
  main:
    - calls: [{ tool: shell, args: { command: sleep 100.0000000000000000000000000000000000000000000000000000000000000000000000 } }]
";

/// Everything that tries to be more than text.
const HOSTILE: &str = "\\u001b[2J\\u001b]0;owned\\u0007\\u001b[?25l\\u009b31m\\r\\u202eevil\\u0008";

/// Two workers below the entry worker, one below these; writing has to be asked about.
fn world() -> World {
    let world = World::new(&[
        (
            "golem-forge.config.yaml",
            "sandbox: { mode: direct, zones: { data: { path: ./data, mode: ro }, out: { path: ./out } } }\nshell: { rules: [{ pattern: 'sleep *', approval: preApproved }] }\n",
        ),
        (
            "workers/main.worker",
            "---\nname: main\nworkers: [reader, writer]\n---\nGo.\n",
        ),
        (
            "workers/reader.worker",
            "---\nname: reader\ndescription: Reads.\nsandbox: { zones: [{ name: data, mode: ro }] }\n---\nRead.\n",
        ),
        (
            "workers/writer.worker",
            "---\nname: writer\ndescription: Writes.\nsandbox: { zones: [{ name: out }] }\n---\nWrite.\n",
        ),
        (
            "data/notes.md",
            "one \u{1b}[31mred\u{1b}[0m\ntwo \u{9b}2J\u{7}\n",
        ),
        ("out/report.md", "# Report\n\nold line\n"),
    ]);
    let name = "data/bad\u{1b}[2J\u{202e}\u{7}.md";
    world.write(name, "x");
    let playbook = format!(
        "version: 1
workers:
  main:
    - say: \"Two workers will do this: one reads, the other one writes what the first one has found. Wide: 日本語のテキストは幅が二倍です。日本語のテキストは幅が二倍です。日本語のテキスト\"
      calls: [{{ tool: reader, args: {{ input: read it }} }}]
      usage: {{ input_tokens: 1200, output_tokens: 300 }}
    - say: \"{HOSTILE}\"
      calls: [{{ tool: writer, args: {{ input: write it }} }}]
    - say: \"All is done.\\n\\nThe report stands in /out/report.md.\"
  reader:
    - calls: [{{ tool: list_files, args: {{ path: /data }} }}]
    - calls: [{{ tool: read_file, args: {{ path: /data/notes.md }} }}]
    - calls: [{{ tool: read_file, args: {{ path: \"/data/no{HOSTILE}\" }} }}]
    - say: \"found {HOSTILE}\"
  writer:
    - calls: [{{ tool: write_file, args: {{ path: /out/report.md, content: \"# Report\\n\\nnew line {HOSTILE}\\n\" }} }}]
    - say: written
"
    );
    world.write("play.yaml", &playbook);
    world
}
