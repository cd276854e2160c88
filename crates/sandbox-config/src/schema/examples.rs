//! Whole files for every table of keys, with every key of it; the reference page shows them, and a
//! test loads them.

/// The examples of a table, by its id.
pub(crate) fn of(id: &str) -> impl Iterator<Item = &'static str> {
    EXAMPLES
        .iter()
        .filter(move |(known, _)| *known == id)
        .map(|(_, text)| *text)
}

const EXAMPLES: &[(&str, &str)] = &[
    (
        "project",
        "\
version: 1
name: reports
model: anthropic:claude-haiku-4-5
entry: main
worker_paths: [workers]
sandbox:
  zones:
    data: { path: ./data, mode: ro }
network: false
approval: { mode: tool }
shell:
  rules:
    - { pattern: \"grep *\", approval: ask }
limits: { max_turns: 20 }
delegation: { max_depth: 2 }
execution: { mode: prefer_local }
docker: { enabled: false }
git: { mode: read_only }
require: boundaries
providers: { ollama: { context_tokens: 32000 } }
",
    ),
    (
        "project",
        "\
execution_mode: local_only
runs_dir: ./runs
knowledge_base: ./docs
log: { transcripts: true }
",
    ),
    (
        "execution",
        "\
execution:
  mode: prefer_docker
  runners: [os, docker]
",
    ),
    (
        "log",
        "\
log:
  dir: ./runs
  transcripts: false
  redact: [the name of the customer]
",
    ),
    (
        "docker",
        "\
docker:
  enabled: true
  image: forge-sandbox:1
  host: null
  network_default: none
  cpu_limit: 1.5
  mem_limit_mb: 512
  pids_limit: 256
  read_only_root: true
  reuse: call
",
    ),
    (
        "user",
        "\
version: 1
model: anthropic:claude-haiku-4-5
network: false
approval: { require_user_permission_by_risk: { exec: true } }
shell: { rules: [{ pattern: \"sudo *\", approval: blocked }] }
limits: { max_turns: 100 }
sandbox: { hide: [\"*.key\"] }
",
    ),
    (
        "sandbox",
        "\
sandbox:
  mode: sandboxed
  root: .sandbox
  zones:
    input: { path: ./input, mode: ro }
    drafts: { path: ./drafts }
  default: none
  require_os_sandbox: true
  protect: [Makefile, /drafts/settings]
  hide: [\"*.key\"]
  hardlinks: deny
  quota: { max_files: 10000 }
  strict_paths: true
  durable: true
  show: [\"*.pem\"]
  unprotect: [.vscode]
  programs: [/opt/tools/bin]
  unix_sockets: [\"/run/user/1000/agent.sock\"]
  survivors: ended
",
    ),
    (
        "sandbox",
        "\
# A root project: the whole tree is one directory.
sandbox: { root: ., readonly: true, network: false }
",
    ),
    (
        "sandbox",
        "\
# Directories by name, read-only unless they say otherwise.
sandbox:
  paths:
    notes: { root: ./notes, mode: rw }
",
    ),
    (
        "sandbox",
        "\
# What appears where.
sandbox:
  mounts:
    - { source: ., target: / }
",
    ),
    (
        "sandbox",
        "\
# What may be read and what may be written.
sandbox:
  read_paths: [.]
  write_paths: [./out]
",
    ),
    (
        "quota",
        "\
sandbox:
  quota: { max_bytes: 1000000000, max_files: 10000 }
",
    ),
    (
        "git",
        "\
git:
  mode: read_only
  author: reports <reports@example.com>
  trailer: assisted-by
  allow_executable_config: false
  repositories:
    - octo/reports
    - ./remotes/archive.git
  credentials:
    \"https://github.com\": { token_env: GITHUB_TOKEN }
",
    ),
    (
        "git_repository",
        "\
git:
  repositories:
    - { repo: octo/reports, access: rw }
    - { repo: \"https://git.example.com/style.git\", access: ro }
",
    ),
    (
        "git_credential",
        "\
git:
  credentials:
    \"https://git.example.com\": { token_env: EXAMPLE_TOKEN }
    \"ssh://git@git.example.com\": { agent: true, known_hosts: /etc/ssh/ssh_known_hosts }
",
    ),
    (
        "user_git",
        "\
# Your own file: what workers of any project may use at most, and who you are.
git:
  mode: unaware
  author: Me <me@example.com>
  trailer: none
  allow_executable_config: false
  repositories: [octo/reports, { repo: octo/style, access: ro }]
  credentials:
    \"https://github.com\": { token_env: GITHUB_TOKEN }
",
    ),
    (
        "user_git_credential",
        "\
# Your own file: only there a helper is named, which is a program that prints a key.
git:
  credentials:
    \"https://github.com\": { token_env: GITHUB_TOKEN }
    \"https://git.example.com\": { helper: [git-credential-libsecret] }
    \"ssh://git@git.example.com\": { agent: true, known_hosts: /etc/ssh/ssh_known_hosts }
",
    ),
    (
        "worker_git",
        "\
---
git:
  repositories:
    - { repo: octo/reports, access: ro }
---
Work.
",
    ),
    (
        "path",
        "\
sandbox:
  paths:
    portfolio:
      root: ./portfolio
      mode: rw
      suffixes: [.md]
      max_file_bytes: 10000000
      approval: { write: ask }
      hardlinks: deny
      quota: { max_files: 500 }
      strict_paths: true
      durable: true
",
    ),
    (
        "mount",
        "\
sandbox:
  mounts:
    - { source: ., target: /, readonly: true }
",
    ),
    (
        "zone",
        "\
sandbox:
  zones:
    reports:
      path: ./reports
      mode: rw
      suffixes: [.md, .json]
      max_file_bytes: 10000000
      approval: { write: preApproved }
      hardlinks: deny
      quota: { max_bytes: 100000000 }
      strict_paths: true
      durable: true
",
    ),
    (
        "zone_approval",
        "\
sandbox:
  zones:
    final:
      path: ./final
      approval: { read: preApproved, write: ask, delete: blocked }
",
    ),
    (
        "network",
        "\
network:
  allow: [\"example.com:443\", \"*.rust-lang.org\"]
",
    ),
    (
        "approval",
        "\
approval:
  mode: tool
  timeout_s: 120
  require_user_permission: { delete_file: true }
  require_user_permission_by_risk: { writes_workspace: true, exec: true }
",
    ),
    (
        "shell",
        "\
shell:
  rules:
    - { pattern: \"git (log|show|status) *\", approval: ask }
    - { pattern: \"rm *\", approval: blocked, why: use delete_file }
  default: blocked
  allow: [git, /usr/bin/make]
  deny: [curl]
  session: worker
  env: { set: { CI: \"1\" } }
",
    ),
    (
        "rule",
        "\
shell:
  rules:
    - pattern: \"git (log|show) *\"
      approval: ask
      why: history is read, never written
      examples: { match: [git log -1], no_match: [git push, git logx] }
",
    ),
    (
        "examples",
        "\
shell:
  rules:
    - pattern: \"wc *\"
      approval: ask
      examples:
        match: [wc, wc -l a.md]
        no_match: [wcx]
",
    ),
    (
        "env",
        "\
shell:
  env:
    pass: [LC_ALL]
    set: { CI: \"1\", RUST_BACKTRACE: \"1\" }
",
    ),
    (
        "limits",
        "\
limits:
  timeout_s_default: 60
  timeout_s_max: 600
  max_stdout_kb: 256
  max_stderr_kb: 64
  max_file_write_mb: 10
  max_turns: 20
  max_tokens: 200000
  max_tool_calls: 500
  max_cost_usd: 2.50
  max_wall_s: 900
  max_working_s: 600
  repeat_calls: 3
  processes: 64
  memory_mb: 1024
",
    ),
    (
        "provider",
        "\
# Somebody else's endpoint in a project file: `forge trust` shows where it is, and whose key it gets.
providers:
  work:
    wire: openai-responses
    base_url: https://models.example.com/v1
    api_key_env: WORK_API_KEY
    prices: { input: 1.25, output: 10, cache_read: 0.125 }
    max_tokens: 16000
    context_tokens: 200000
    retry_s: 60
",
    ),
    (
        "provider",
        "\
# A server of one's own; some send tool calls only in whole answers.
providers:
  local:
    wire: openai-chat
    base_url: http://10.0.0.7:8000/v1
    plain_http: true
    api_key_env: null
    stream: false
    prices: { input: 0, output: 0 }
    models:
      small: { context_tokens: 32000 }
",
    ),
    (
        "user_provider",
        "\
# Your own file: the key comes from a program, and prices make `limits.max_cost_usd` possible.
providers:
  anthropic:
    api_key_command: [pass, show, anthropic]
    models:
      claude-haiku-4-5:
        prices: { input: 1, output: 5, cache_read: 0.1, cache_write: 1.25 }
        context_tokens: 200000
  gateway:
    wire: anthropic
    base_url: https://gateway.example.com/v1
    api_key_env: GATEWAY_KEY
    plain_http: false
    prices: { input: 1, output: 5 }
    max_tokens: 16000
    context_tokens: 200000
    stream: true
    retry_s: 60
",
    ),
    (
        "model_facts",
        "\
providers:
  openai:
    models:
      gpt-5-mini:
        prices: { input: 0.25, output: 2, cache_read: 0.025 }
        max_tokens: 16000
        context_tokens: 400000
",
    ),
    (
        "prices",
        "\
providers:
  anthropic:
    prices: { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 }
",
    ),
    (
        "delegation",
        "\
delegation: { max_depth: 3, max_children: 8 }
",
    ),
    (
        "delegation",
        "\
sandbox:
  paths:
    notes: { root: ./notes, mode: rw }
delegation: { child_sandbox_policy: own }
",
    ),
    (
        "worker",
        "\
---
name: formatter
description: Formats data files
model: anthropic:claude-haiku-4-5
sandbox: none
network: false
shell:
  rules: [{ pattern: \"grep *\", approval: ask }]
git: { repositories: [octo/reports] }
tools: [read_file, list_files]
workers: [validator]
limits: { max_turns: 10 }
instructions: Format what you are given.
---
",
    ),
    (
        "worker",
        "\
---
compatible_models: [\"anthropic:*\"]
input_schema: { type: object, properties: { path: { type: string } }, required: [path] }
output_schema: { type: object, properties: { ok: { type: boolean } }, required: [ok] }
attachment_policy: { max_attachments: 2 }
allow_empty_input: true
license: MIT
metadata: { author: me }
toolsets: { filesystem: {}, shell: {}, workers: { allowed_workers: [validator] } }
---
Work.
",
    ),
    (
        "toolsets",
        "\
---
toolsets:
  filesystem: {}
  shell: {}
  workers: {}
---
Work.
",
    ),
    (
        "worker_toolset",
        "\
---
toolsets:
  workers:
    allowed_workers: [validator]
---
Work.
",
    ),
    (
        "attachment_policy",
        "\
---
attachment_policy:
  max_attachments: 4
  max_total_bytes: 10000000
  allowed_suffixes: [.pdf, .md]
  denied_suffixes: [.exe]
---
Read what is attached.
",
    ),
    (
        "worker_sandbox",
        "\
---
sandbox:
  zones:
    - { name: workspace, mode: ro }
  unix_sockets: closed
---
Read everything; write nothing.
",
    ),
    (
        "worker_sandbox",
        "\
---
sandbox: { restrict: /src, readonly: true, rebase: false, use: true, approval: { read: ask } }
---
Say what is wrong with the sources.
",
    ),
    (
        "worker_zone",
        "\
---
sandbox:
  zones:
    - { name: data, mode: ro, suffixes: [.csv], max_file_bytes: 1000000 }
    - { name: workspace, use: false, approval: { delete: blocked } }
---
Hand each file of data to a worker that writes.
",
    ),
    (
        "worker_approval",
        "\
---
approval:
  mode: manual
  require_user_permission: { shell: true }
  require_user_permission_by_risk: { read_only: true }
---
Ask before you look at anything.
",
    ),
    (
        "worker_shell",
        "\
---
shell:
  rules: [{ pattern: \"grep *\", approval: ask }]
  default: ask
  allow: [grep]
  deny: [find]
---
Search before you answer.
",
    ),
];
