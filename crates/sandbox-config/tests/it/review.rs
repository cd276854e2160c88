//! What a look through a whole project finds: as data, one row a finding.

use sandbox_config::{CallStatus, DelegationNode};

use crate::support::{CONFIG, Scratch};

const ZONES: &str =
    "sandbox:\n  zones:\n    data: { path: data, mode: ro }\n    ws: { path: ws }\n";

fn worker(name: &str, keys: &str) -> (String, String) {
    let text = format!("---\nname: {name}\ndescription: does things\n{keys}---\nGo.\n");
    (format!("workers/{name}.worker"), text)
}

fn scratch(config: &str, workers: &[(&str, &str)]) -> Scratch {
    let mut scratch = Scratch::new().file(CONFIG, config);
    for (name, keys) in workers {
        let (file, text) = worker(name, keys);
        scratch = scratch.file(&file, text);
    }
    scratch
}

/// `code file:line:column message`, of everything found; trust is given, or every
/// pre-approved rule would say so.
fn found(config: &str, workers: &[(&str, &str)]) -> Vec<String> {
    let scratch = scratch(config, workers);
    let mut sources = scratch.sources();
    sources.trust = sandbox_config::TrustedSettings::Given;
    let review = sandbox_config::load(&sources).unwrap().review();
    review
        .findings()
        .iter()
        .map(|one| {
            let level = if one.is_error() { "error" } else { "warning" };
            let place = |number: Option<u32>| number.map_or("-".to_owned(), |n| n.to_string());
            format!(
                "{level} {} {}:{}:{} {}",
                one.code().as_str(),
                one.file().unwrap_or("-"),
                place(one.line()),
                place(one.column()),
                one.message()
            )
        })
        .collect()
}

#[track_caller]
fn check(config: &str, workers: &[(&str, &str)], expected: &[&str]) {
    assert_eq!(found(config, workers), expected, "{config}\n{workers:?}");
}

const ALL: &str = "sandbox: { zones: [{ name: data, mode: ro }, { name: ws }] }\n";

#[test]
fn a_project_in_order_has_no_findings() {
    check(
        ZONES,
        &[
            ("main", "workers: [fmt]\n"),
            ("fmt", "sandbox: { zones: [{ name: data, mode: ro }] }\n"),
        ],
        &[],
    );
    check(
        "{}\n",
        &[],
        &[
            "warning config.empty golem-forge.config.yaml:1:1 the project file holds no keys: all defaults apply",
        ][..0],
    );
}

#[test]
fn a_named_entry_worker_exists() {
    let config = format!("entry: mian\n{ZONES}");
    let found =
        "error worker.unknown golem-forge.config.yaml:1:8 `entry` names the unknown worker `mian`";
    check(&config, &[], &[found]);
    check(&config, &[("main", "sandbox: inherit\n")], &[found]);
    check(ZONES, &[("other", "sandbox: inherit\n")], &[]);
}

#[test]
fn calls_that_cannot_work_are_errors_where_they_are_listed() {
    check(
        ZONES,
        &[("main", "workers: [fmy]\n"), ("fmt", ALL)],
        &[
            "warning worker.unreachable workers/fmt.worker:1:1 no worker calls 'fmt'",
            "error worker.unknown workers/main.worker:4:11 'main' may call the unknown worker 'fmy'",
        ],
    );
    check(
        ZONES,
        &[
            ("main", "workers: [a]\n"),
            ("a", "workers: [b]\n"),
            ("b", "workers: [a, b]\n"),
        ],
        &[
            "error worker.cycle workers/b.worker:4:11 'b' calls 'a', which is at work above it",
            "error worker.cycle workers/b.worker:4:14 'b' calls 'b', which is at work above it",
        ],
    );
    let shallow = format!("{ZONES}delegation: {{ max_depth: 2 }}\n");
    check(
        &shallow,
        &[
            ("main", "workers: [a]\n"),
            ("a", "workers: [b]\n"),
            ("b", ""),
        ],
        &[
            "error worker.too_deep workers/a.worker:4:11 'a' calls 'b' deeper than this project's limit of 2",
        ],
    );
    check(
        ZONES,
        &[
            (
                "main",
                "sandbox: { zones: [{ name: data, mode: ro }] }\nworkers: [fmt]\n",
            ),
            ("fmt", "sandbox: { zones: [{ name: ws, mode: rw }] }\n"),
        ],
        &[
            "error worker.exceeds_parent workers/fmt.worker:4:28 Child requests zone 'ws' but parent doesn't have it",
        ],
    );
    // A mode left out means rw, and that is more than the zone gives.
    check(
        ZONES,
        &[
            ("main", "workers: [fmt]\n"),
            ("fmt", "sandbox: { zones: [{ name: data }] }\n"),
        ],
        &[
            "error worker.exceeds_parent workers/fmt.worker:4:28 Child requests 'rw' on 'data' but parent only has 'ro'",
        ],
    );
}

#[test]
fn a_worker_that_calls_everybody_is_only_warned_about() {
    check(
        ZONES,
        &[
            (
                "main",
                "sandbox: { zones: [{ name: data, mode: ro }] }\nworkers: ['*']\n",
            ),
            ("a", "sandbox: { zones: [{ name: ws }] }\n"),
            ("b", "workers: ['*']\n"),
        ],
        &[
            "warning config.unused_mount golem-forge.config.yaml:4:5 no worker uses `ws`",
            "warning worker.exceeds_parent workers/main.worker:1:1 'main' may call everybody, and some ask for more than it holds: a",
        ],
    );
}

#[test]
fn what_is_written_and_never_used() {
    check(
        ZONES,
        &[
            ("main", "sandbox: { zones: [{ name: data, mode: ro }] }\n"),
            ("lost", "sandbox: none\n"),
        ],
        &[
            "warning config.unused_mount golem-forge.config.yaml:4:5 no worker uses `ws`",
            "warning worker.unreachable workers/lost.worker:1:1 no worker calls 'lost'",
        ],
    );
    // Held only, and nobody to pass it on to.
    check(
        ZONES,
        &[(
            "main",
            "sandbox: { zones: [{ name: data, mode: ro }, { name: ws, use: false }] }\n",
        )],
        &["warning config.unused_mount golem-forge.config.yaml:4:5 no worker uses `ws`"],
    );
    // Without workers, commands of a person use everything.
    check(ZONES, &[], &[]);
    // Mounts that nobody declared are nobody's mistake.
    check("name: x\n", &[("main", "sandbox: none\n")], &[]);
}

#[test]
fn who_inherits_without_saying_so() {
    let inherit = ZONES.replace("sandbox:\n", "sandbox:\n  default: inherit\n");
    check(
        &inherit,
        &[
            ("main", "workers: [editor, pure]\n"),
            ("editor", ""),
            ("pure", "sandbox: none\n"),
        ],
        &[
            "warning worker.implicit_inherit workers/editor.worker:1:1 'editor' declares no sandbox and inherits all of it",
        ],
    );
}

#[test]
fn a_file_name_that_is_not_the_name() {
    let scratch = Scratch::new()
        .file(CONFIG, "name: x\n")
        .file("workers/other.worker", "---\nname: main\n---\nGo.\n");
    let review = scratch.load().unwrap().review();
    let codes: Vec<_> = review
        .findings()
        .iter()
        .map(|one| one.code().as_str())
        .collect();
    assert_eq!(codes, ["worker.file_name"]);
}

#[test]
fn rules_that_never_decide() {
    let rules = |rules: &str| format!("shell:\n  rules:\n{rules}");
    for (list, expected) in [
        // The first match counts.
        (
            "    - { pattern: 'ls *', approval: ask }\n    - { pattern: 'ls -l', approval: preApproved }\n",
            &[
                "warning rule.shadowed golem-forge.config.yaml:4:18 `ls -l` never decides: `ls *` always does",
            ][..],
        ),
        // A blocked rule counts wherever it stands.
        (
            "    - { pattern: 'rm -r x', approval: ask }\n    - { pattern: 'rm *', approval: blocked }\n",
            &[
                "warning rule.shadowed golem-forge.config.yaml:3:18 `rm -r x` never decides: `rm *` always does",
            ],
        ),
        (
            "    - { pattern: 'rm *', approval: ask }\n    - { pattern: 'rm -r x', approval: blocked }\n",
            &[],
        ),
        (
            "    - { pattern: 'wc', approval: ask }\n    - { pattern: 'wc *', approval: ask }\n",
            &[],
        ),
    ] {
        check(&rules(list), &[], expected);
    }
    check(
        "shell: { default: ask }\n",
        &[(
            "main",
            "shell:\n  rules:\n    - { pattern: 'ls *', approval: ask }\n    - { pattern: 'ls', approval: blocked }\n    - { pattern: 'ls', approval: ask }\n",
        )],
        &["warning rule.shadowed workers/main.worker:8:18 `ls` never decides: `ls *` always does"],
    );
}

#[test]
fn rules_that_run_anything() {
    for (pattern, runs) in [
        ("git *", true),
        ("git (log|show) *", false),
        ("git * log", true),
        ("git", false),
        ("python *", true),
        ("/usr/bin/python3 *", true),
        ("python tool.py *", false),
        ("python -c *", true),
        ("sh -c *", true),
        ("sh -c 'echo hi'", false),
        ("bash", false),
        ("*", true),
        ("* x", true),
        ("(ls|env) *", true),
        ("grep *", false),
        ("cargo test *", false),
        ("git push *", true),
        ("git -c *", true),
        ("git grep x", false),
        ("find *", true),
        ("/usr/bin/find *", true),
        ("find . *", true),
        ("find . -name *", true),
        ("find * -print", true),
        ("find . -delete", false),
        ("fd *", true),
        ("tar *", true),
        ("tar -tf *", true),
        ("rsync *", true),
        ("sed *", true),
        ("sed -n *", true),
        ("awk *", true),
        ("awk -F : *", true),
        ("xargs *", true),
        ("less *", true),
        ("vim *", true),
        ("man *", true),
        ("rg *", true),
        ("sort *", true),
        ("strace *", true),
        ("split *", true),
        ("socat *", true),
        ("wc *", false),
        ("cat *", false),
        ("ls -l *", false),
    ] {
        for (approval, matters) in [("preApproved", true), ("ask", false), ("blocked", false)] {
            let config = format!(
                "shell:\n  rules:\n    - {{ pattern: \"{pattern}\", approval: {approval} }}\n"
            );
            let list = found(&config, &[]);
            assert_eq!(
                list.iter().any(|one| one.contains("rule.runs_anything")),
                runs && matters,
                "{pattern} {approval}: {list:?}"
            );
        }
    }
}

/// A rule that says where it stops is quiet.
#[test]
fn rules_whose_ways_to_anything_are_stopped() {
    let all = "(-exec|-execdir|-ok|-okdir|-delete|-fls|-fprint|-fprint0|-fprintf)";
    let allows = "{ pattern: 'find *', approval: preApproved }";
    let stops = |approval: &str| format!("{{ pattern: 'find * {all} *', approval: {approval} }}");
    for (rules, quiet) in [
        ([stops("blocked"), allows.to_owned()], true),
        ([allows.to_owned(), stops("blocked")], true),
        ([stops("ask"), allows.to_owned()], true),
        ([allows.to_owned(), stops("ask")], false),
        (
            [stops("blocked").replace("|-delete", ""), allows.to_owned()],
            false,
        ),
    ] {
        let list = found(&format!("shell:\n  rules: [{}]\n", rules.join(", ")), &[]);
        let loud = list.iter().any(|one| one.contains("rule.runs_anything"));
        assert_eq!(loud, !quiet, "{rules:?}: {list:?}");
    }
}

/// Keys that give nothing without another, names of tools, and places that are not there.
#[test]
fn what_a_worker_asks_for_in_vain() {
    let shell = format!("{ZONES}shell: {{ default: ask }}\n");
    for (config, name, keys, says) in [
        (ZONES, "shell", "", "that is a tool's name"),
        (ZONES, "read_file", "", "that is a tool's name"),
        (ZONES, "git_pull", "", "that is a tool's name"),
        (ZONES, "readfile", "", ""),
        (
            ZONES,
            "a",
            "sandbox: none\ntools: [read_file]\n",
            "it is shown no files",
        ),
        (ZONES, "a", "sandbox: none\n", ""),
        (ZONES, "a", "sandbox: inherit\ntools: [read_file]\n", ""),
        (
            ZONES,
            "a",
            "sandbox: inherit\ntools: [shell]\n",
            "it has no `shell`",
        ),
        (
            &shell,
            "a",
            "sandbox: inherit\nshell: {}\ntools: [shell]\n",
            "",
        ),
        (
            ZONES,
            "a",
            "sandbox: inherit\ntools: [git_pull]\n",
            "it has no repository",
        ),
        (
            "sandbox: { root: . }\n",
            "a",
            "sandbox: { restrict: /file }\n",
            "is a file",
        ),
        (
            "sandbox: { root: ., readonly: true }\n",
            "a",
            "sandbox: { restrict: /nowhere }\n",
            "does not exist, and no worker may create it",
        ),
        (
            "sandbox: { root: . }\nentry: a\n",
            "a",
            "sandbox: { restrict: /worker }\n",
            "did you mean `/workers`?",
        ),
        (
            "sandbox: { root: . }\nentry: a\n",
            "a",
            "sandbox: { restrict: /nowhere }\n",
            "does not exist, and no worker runs before this one",
        ),
        (
            "sandbox: { root: . }\n",
            "a",
            "sandbox: { restrict: /made/later }\n",
            "",
        ),
        (
            "sandbox: { root: . }\n",
            "a",
            "sandbox: { restrict: /workers }\n",
            "",
        ),
    ] {
        let (file, text) = worker(name, keys);
        let scratch = scratch(config, &[]).file(&file, text).file("file", "");
        let findings = match scratch.load() {
            Ok(project) => project.review().findings().to_vec(),
            Err(mistakes) => panic!("{mistakes}"),
        };
        let errors: Vec<String> = findings
            .iter()
            .filter(|one| one.is_error())
            .map(ToString::to_string)
            .collect();
        match says {
            "" => assert!(errors.is_empty(), "{keys}: {errors:?}"),
            says => {
                let all = errors.join("\n");
                assert!(all.contains(says) && all.contains(&file), "{keys}: {all}");
            }
        }
    }
}

/// Directories that are missing: `data` and `.sandbox` exist, with `.sandbox/notes`.
#[test]
fn a_missing_directory_is_reported_where_it_is_named() {
    let direct = |zone: &str| format!("sandbox: {{ mode: direct, zones: {{ d: {zone} }} }}\n");
    let sandboxed = |zone: &str| format!("sandbox: {{ zones: {{ d: {zone} }} }}\n");
    for (config, says) in [
        (direct("{ path: ./data, mode: ro }"), ""),
        (
            direct("{ path: ./dta, mode: ro }"),
            "did you mean <project>/data?",
        ),
        (direct("{ path: ./dta }"), "did you mean <project>/data?"),
        (direct("{ path: ./out }"), ""),
        (
            direct("{ path: ./facts, mode: ro }"),
            "the first call would make an empty one",
        ),
        (
            direct("{ path: ../outside-of-all, mode: ro }"),
            "error[config.host_path]: the directory of `d` does not exist",
        ),
        (direct("{ path: 'run:workspace' }"), ""),
        (
            sandboxed("{ path: ./note }"),
            "did you mean <project>/.sandbox/notes?",
        ),
        (sandboxed("{ path: ./new, mode: ro }"), ""),
        (
            sandboxed("{ path: ./data, mode: ro }"),
            "write `mode: direct`",
        ),
        (
            "sandbox: { paths: { d: { root: ./dta } } }\n".to_owned(),
            "did you mean <project>/data?",
        ),
        (
            "sandbox: { write_paths: [./dta] }\n".to_owned(),
            "did you mean",
        ),
        ("sandbox: { mode: sandboxed }\n".to_owned(), ""),
    ] {
        let scratch = Scratch::new().dir("data").dir(".sandbox/notes");
        let scratch = scratch.file(CONFIG, &config);
        let mut sources = scratch.sources();
        sources.trust = sandbox_config::TrustedSettings::Given;
        let review = sandbox_config::load(&sources).unwrap().review();
        let told: Vec<String> = review.findings().iter().map(ToString::to_string).collect();
        let told = scratch.anonymous(&told.join("\n"));
        match says {
            "" => assert_eq!(told, "", "{config}"),
            says => assert!(
                told.contains(says) && told.contains(&format!("{CONFIG}:1:")),
                "{config}: {told}"
            ),
        }
    }
}

/// A refused call is one finding: the workers that only its worker calls are named all the same.
#[test]
fn workers_below_a_refused_one_are_called() {
    check(
        ZONES,
        &[
            (
                "main",
                "sandbox: { zones: [{ name: data, mode: ro }] }\nworkers: [writer]\n",
            ),
            (
                "writer",
                "sandbox: { zones: [{ name: ws }] }\nworkers: [cleaner]\n",
            ),
            ("cleaner", "sandbox: none\nworkers: [deeper]\n"),
            ("deeper", "sandbox: none\n"),
        ],
        &[
            "error worker.exceeds_parent workers/writer.worker:4:28 Child requests zone 'ws' but parent doesn't have it",
        ],
    );
    // The entry worker, too, can be refused.
    check(
        ZONES,
        &[
            (
                "main",
                "sandbox: { zones: [{ name: data }] }\nworkers: [fmt]\n",
            ),
            ("fmt", "sandbox: none\n"),
        ],
        &[
            "error worker.exceeds_parent workers/main.worker:4:28 The worker requests 'rw' on 'data' but the project only has 'ro'",
        ],
    );
}

#[test]
fn the_tree_shows_every_call_and_how_it_narrows() {
    fn lines(branch: &DelegationNode, depth: usize, out: &mut Vec<String>) {
        let standing = match branch.standing() {
            CallStatus::Holds => "holds",
            CallStatus::AsShown => "as shown",
            CallStatus::Refused(_) => "refused",
            CallStatus::Missing => "missing",
            CallStatus::Cycle => "cycle",
            CallStatus::TooDeep => "too deep",
        };
        out.push(format!(
            "{}{} {standing}: {}",
            "  ".repeat(depth),
            branch.worker(),
            branch.narrowed().join(", ")
        ));
        for call in branch.calls() {
            lines(call, depth + 1, out);
        }
    }
    let scratch = scratch(
        &format!("{ZONES}limits: {{ max_turns: 9 }}\nshell: {{ default: ask }}\n"),
        &[
            ("main", "workers: [a, b]\n"),
            (
                "a",
                "sandbox: { zones: [{ name: ws, suffixes: [.md], approval: { delete: blocked } }] }\nworkers: [b]\ntools: [read_file]\n",
            ),
            (
                "b",
                "sandbox: { zones: [{ name: ws, mode: ro, use: false }] }\nshell: {}\nlimits: { max_turns: 1 }\nworkers: [c]\n",
            ),
            ("c", ""),
        ],
    );
    let review = scratch.load().unwrap().review();
    let mut out = Vec::new();
    for branch in review.tree() {
        lines(branch, 0, &mut out);
    }
    insta::assert_snapshot!(out.join("\n"), @r"
    main holds: 
      a holds: no data, ws delete ask → blocked, ws only .md, no shell, only the tools read_file
        b refused: 
      b holds: no data, ws rw → ro, ws not used, tighter limits
        c holds: no ws, no shell
    ");
}

#[test]
fn a_graph_with_more_ways_than_atoms_ends() {
    // Every worker lists every later one: 2^60 ways through.
    let names: Vec<String> = (0..60).map(|n| format!("w{n:02}")).collect();
    let mut scratch = Scratch::new().file(CONFIG, "entry: w00\ndelegation: { max_depth: 100 }\n");
    for (n, name) in names.iter().enumerate() {
        let (file, text) = worker(name, &format!("workers: [{}]\n", names[n + 1..].join(", ")));
        scratch = scratch.file(&file, text);
    }
    let review = scratch.load().unwrap().review();
    assert!(review.tree().len() == 1);
}

/// What a run with such a model would not begin with.
#[test]
fn models_without_a_provider_or_prices() {
    check(
        "model: nobody:m\n",
        &[("main", "")],
        &[
            "error config.bad_value golem-forge.config.yaml:1:8 `model: nobody:m`: unknown provider `nobody`",
        ],
    );
    check(
        "name: p\n",
        &[("main", "model: antropic:m\n")],
        &[
            "error config.bad_value workers/main.worker:4:8 `model: antropic:m`: unknown provider `antropic`",
        ],
    );
    check("model: scripted:a.yaml\n", &[("main", "")], &[]);
    check("model: anthropic:m\n", &[("main", "")], &[]);
    check(
        "model: anthropic:m\nlimits: { max_cost_usd: 1 }\n",
        &[("main", "")],
        &[
            "error config.missing_key golem-forge.config.yaml:2:25 `limits.max_cost_usd` cannot be kept: no prices of `anthropic:m` are known",
        ],
    );
    let priced = "model: ollama:m\nproviders: { ollama: { models: { m: { prices: { input: 0, output: 0 } } } } }\n";
    check(
        &format!("{priced}limits: {{ max_cost_usd: 1 }}\n"),
        &[("main", "")],
        &[],
    );
    check(
        priced,
        &[("main", "model: openai:x\nlimits: { max_cost_usd: 1 }\n")],
        &[
            "error config.missing_key workers/main.worker:4:8 `limits.max_cost_usd` cannot be kept: no prices of `openai:x` are known",
        ],
    );
}

#[test]
fn a_worker_without_instructions_is_told_of() {
    let scratch = Scratch::new().file(CONFIG, ZONES);
    let scratch = scratch.file("workers/main.worker", "---\nname: main\n---\n\n");
    let findings = sandbox_config::load(&scratch.sources()).unwrap().check();
    let told: Vec<&str> = findings.iter().map(|one| one.message()).collect();
    assert!(told.contains(&"'main' has no instructions"), "{told:?}");
}

/// A word of another tool is answered with ours.
#[test]
fn words_of_other_tools_have_a_suggestion() {
    for (mode, tool, expected) in [
        (
            "readonly",
            "bash",
            ["did you mean `ro`?", "did you mean `shell`?"],
        ),
        (
            "read-write",
            "Read",
            ["did you mean `rw`?", "did you mean `read_file`?"],
        ),
        (
            "r",
            "MultiEdit",
            ["did you mean `ro`?", "did you mean `edit_file`?"],
        ),
        (
            "rx",
            "Grep",
            ["did you mean `ro`?", "did you mean `search_files`?"],
        ),
    ] {
        let config = format!("sandbox: {{ zones: {{ ws: {{ path: ws, mode: {mode} }} }} }}\n");
        let text = sandbox_config::load(&Scratch::new().file(CONFIG, &config).sources());
        let text = text.unwrap_err().to_string();
        assert!(text.contains(expected[0]), "{mode}: {text}");
        let known = ["read_file", "edit_file", "search_files", "shell"].map(str::to_owned);
        let scratch = scratch(ZONES, &[("main", &format!("tools: [{tool}]\n"))]);
        let mut sources = scratch.sources();
        sources.known_tools = Some(known.to_vec());
        let findings = sandbox_config::load(&sources).unwrap().check();
        let help: Vec<&str> = findings.iter().filter_map(|one| one.help_text()).collect();
        assert!(help.contains(&expected[1]), "{tool}: {help:?}");
    }
}
