//! Questions about hosts that no rule names, on a real terminal: of a worker's command, and of
//! `forge exec --ask-hosts`.

use super::decisions::audit;
use super::servers;
use super::servers::Servers;
use crate::terminal::pty::{Ended, Terminal};

/// Gives forge the terminal as its controlling one.
const WITH_TERMINAL: &[&str] = &["setsid", "--ctty", "--wait"];
/// Takes any controlling terminal from forge.
const WITHOUT_TERMINAL: &[&str] = &["setsid", "--wait"];

const PROJECT: &str = "\
sandbox: { root: . }
model: scripted:play.yaml
network: { allow: [one.example], deny: [denied.example] }
shell: { rules: [{ pattern: 'curl *', approval: preApproved }] }
";

/// A worker whose commands reach for hosts.
fn worker(servers: &Servers, commands: &[&str]) {
    let world = &servers.world;
    world.write("forge.yaml", PROJECT);
    world.write(
        "workers/main.worker",
        "---\nname: main\nshell: {}\n---\nGo.\n",
    );
    let mut play = "version: 1\nworkers:\n  main:\n".to_owned();
    let mut said = String::new();
    for (number, command) in commands.iter().enumerate() {
        let args = serde_json::json!({ "command": command, "timeout_s": 20 });
        play.push_str(&format!(
            "    - calls: [{{ tool: shell, args: {args}, as: r{number} }}]\n"
        ));
        said.push_str(&format!("{{{{ results.r{number}.content }}}} "));
    }
    play.push_str(&format!("    - say: \"{said}\"\n"));
    world.write("play.yaml", &play);
}

fn run(servers: &Servers) -> Terminal {
    servers.terminal(&[], &["--trust", "run"])
}

fn check(ended: &Ended, code: i32, texts: &[&str]) {
    let output = ended.stdout.clone().unwrap_or_default();
    let all = format!("{output}\n{}", ended.screen);
    assert_eq!(ended.code, Some(code), "{all}");
    for text in texts {
        assert!(all.contains(text), "no {text:?}: {all}");
    }
}

const CURL: &str = "curl -sS --fail-with-body http://two.example/";
const AGAIN: &str = "curl -sS --fail-with-body --noproxy * http://two.example/";
const QUESTION: &str = "would     connect to two.example:80";
const KEYS: &str = "[w] always  [n] no  [?] >";

#[test]
fn a_yes_for_once_counts_for_one_command() {
    let Some(servers) = servers() else { return };
    worker(&servers, &[CURL, AGAIN]);
    let terminal = run(&servers);
    let shown = terminal.until(KEYS);
    for text in [
        "worker    main",
        "command = curl -sS",
        "would     connect to two.example:80",
        "asked     no rule of `network` names it",
        "this run  all connections of commands to two.example:80, for worker main",
    ] {
        assert!(shown.contains(text), "no {text:?}: {shown}");
    }
    terminal.type_text("y\r");
    // The second command, without the proxy, asks again.
    terminal.until("Allow `curl -sS --fail-with-body --noproxy * http://two.example/` to reach");
    wait_for(&terminal, KEYS, 2);
    terminal.type_text("n\r");
    let texts = [
        "hello of two.example",
        "refused: connect two.example:80 (access was declined)",
    ];
    check(&terminal.end(), 0, &texts);
    let audit = audit(&servers);
    for text in [
        r#""tool":"connect""#,
        r#""answer":"allowed","by":"a person at the terminal""#,
        r#""answer":"denied","by":"a person at the terminal""#,
        r#""reason":"a person allowed it for this command""#,
        r#""rule":"two.example:80""#,
    ] {
        assert!(audit.contains(text), "no {text}: {audit}");
    }
}

#[test]
fn a_yes_for_the_run_and_a_no_are_not_asked_again() {
    let Some(servers) = servers() else { return };
    for (key, text) in [
        ("r", "hello of two.example"),
        ("n", "(access was declined)"),
    ] {
        worker(&servers, &[CURL, AGAIN, CURL]);
        let terminal = run(&servers);
        terminal.until(KEYS);
        terminal.type_text(&format!("{key}\r"));
        let ended = terminal.end();
        check(&ended, 0, &[text]);
        assert_eq!(
            ended.screen.matches(QUESTION).count(),
            1,
            "{}",
            ended.screen
        );
        assert_eq!(ended.stdout.unwrap().matches(text).count(), 3);
    }
}

#[test]
fn always_writes_the_line_of_forge_allow() {
    let Some(servers) = servers() else { return };
    worker(&servers, &[CURL]);
    let terminal = run(&servers);
    terminal.until(KEYS);
    terminal.type_text("w\r");
    terminal.until("+host:two.example:80");
    terminal.until("Write this? [y/N]");
    // Not confirmed, so it is asked once more.
    terminal.type_text("\r");
    terminal.until("nothing is written");
    wait_for(&terminal, KEYS, 2);
    assert_eq!(
        servers
            .forge(&["allow", "--list"])
            .stdout
            .matches("host:")
            .count(),
        0
    );
    terminal.type_text("w\r");
    wait_for(&terminal, "Write this? [y/N]", 2);
    terminal.type_text("y\r");
    terminal.until("written: ");
    check(&terminal.end(), 0, &["hello of two.example"]);
    let list = servers.forge(&["allow", "--list"]);
    assert!(
        list.stdout.contains("host:two.example:80"),
        "{}",
        list.stdout
    );
    // The rule answers from now on.
    let ran = servers.forge(&["--trust", "run", "--no-input"]);
    ran.code(0);
    assert!(
        ran.stdout.contains("hello of two.example"),
        "{}",
        ran.stdout
    );
    let audit = audit(&servers);
    assert!(
        audit.contains("a person at the terminal, by a rule for this project"),
        "{audit}"
    );
}

/// A host is refused at once, without a question, if no person can answer and if the host may not be
/// asked about.
#[test]
fn nobody_is_asked_where_an_answer_may_not_come_or_count() {
    let Some(servers) = servers() else { return };
    worker(&servers, &[CURL, AGAIN]);
    for args in [
        &["--trust", "run", "--yes"][..],
        &["--trust", "run", "--no-input"],
        &["--trust", "run", "--approver", "host"],
        // A queue that nobody watches.
        &["--trust", "run"],
    ] {
        let ran = servers.forge(args);
        ran.code(0);
        for text in [
            "refused: connect two.example:80 (no rule names it)",
            "refused: resolve two.example (no rule names it)",
        ] {
            assert!(ran.stdout.contains(text), "{args:?}: {}", ran.stdout);
        }
    }
    let commands = [
        "curl -sS --fail http://denied.example/",
        "curl -sS --fail http://93.184.215.15/",
        "curl -sS --fail --noproxy '' --proxy http://127.0.0.53:3128 http://localhost:8080/",
    ];
    worker(&servers, &commands);
    let ended = run(&servers).end();
    let texts = [
        "refused: connect denied.example:80 (the rule `denied.example` denies it)",
        "refused: connect 93.184.215.15:80 (no rule names it)",
        "refused: connect localhost:8080 (no rule names it)",
    ];
    check(&ended, 0, &texts);
    assert!(!ended.screen.contains("[?] >"), "{}", ended.screen);
}

#[test]
fn a_yes_opens_no_private_address() {
    let Some(servers) = servers() else { return };
    worker(
        &servers,
        &["curl -sS --fail-with-body http://private.example/"],
    );
    let terminal = run(&servers);
    terminal.until(KEYS);
    terminal.type_text("r\r");
    check(
        &terminal.end(),
        0,
        &["it resolves to 10.0.0.5, a private address"],
    );
}

#[test]
fn the_time_of_a_question_is_not_the_command_s() {
    let Some(servers) = servers() else { return };
    worker(&servers, &[CURL]);
    let play = std::fs::read_to_string(servers.world.project().join("play.yaml")).unwrap();
    servers.world.write(
        "play.yaml",
        &play.replace(r#""timeout_s":20"#, r#""timeout_s":2"#),
    );
    let terminal = run(&servers);
    terminal.until(KEYS);
    std::thread::sleep(std::time::Duration::from_secs(3));
    terminal.type_text("y\r");
    check(&terminal.end(), 0, &["hello of two.example"]);
}

/// An answer for a worker is none for the worker that it calls, and each question names its worker.
#[test]
fn a_called_worker_asks_for_itself() {
    let Some(servers) = servers() else { return };
    let world = &servers.world;
    world.write("forge.yaml", PROJECT);
    let front = "shell: {}\nnetwork: { allow: [one.example] }\n";
    world.write(
        "workers/main.worker",
        &format!("---\nname: main\n{front}workers: [helper]\n---\nGo.\n"),
    );
    world.write(
        "workers/helper.worker",
        &format!("---\nname: helper\n{front}---\nGo.\n"),
    );
    let call = serde_json::json!({ "tool": "shell", "args": { "command": CURL }, "as": "r" });
    let say = "say: \"{{ results.r.content }}\"";
    world.write(
        "play.yaml",
        &format!(
            "version: 1\nworkers:\n  main:\n    - calls: [{call}]\n    - calls: \
             [{{ tool: helper, args: {{ input: go }}, as: h }}]\n    - say: \
             \"{{{{ results.r.content }}}} {{{{ results.h.content }}}}\"\n  helper:\n    \
             - calls: [{call}]\n    - {say}\n"
        ),
    );
    let terminal = run(&servers);
    terminal.until(KEYS);
    // The list of the worker is its own, and a rule of the person's does not widen it.
    terminal.type_text("w\r");
    terminal.until("Write this? [y/N]");
    terminal.type_text("y\r");
    terminal.until("note: worker main keeps to its own `network.allow`");
    terminal.until("worker    main > helper");
    wait_for(&terminal, KEYS, 2);
    terminal.type_text("n\r");
    let texts = ["hello of two.example", "(access was declined)"];
    check(&terminal.end(), 0, &texts);
}

/// Waits until a text is on the screen this often.
fn wait_for(terminal: &Terminal, text: &str, times: usize) {
    let begun = std::time::Instant::now();
    while terminal.screen().matches(text).count() < times {
        assert!(begun.elapsed().as_secs() < 300, "{}", terminal.screen());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn another_terminal_answers_too() {
    let Some(servers) = servers() else { return };
    worker(&servers, &[CURL]);
    let terminal = servers.terminal(&[], &["--trust", "run", "--approver", "queue"]);
    terminal.until("waiting for approval: forge approve ");
    let list = servers.forge(&["approve", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let request = &list["pending"][0];
    assert_eq!(request["host"], "two.example:80", "{list}");
    let id = request["id"].as_str().unwrap();
    let told = servers.forge(&["approve", id, "--allow"]);
    told.code(0).says(&["forge allow host:two.example:80"]);
    check(&terminal.end(), 0, &["hello of two.example"]);
    let audit = audit(&servers);
    assert!(audit.contains("a person at forge approve"), "{audit}");
}

#[test]
fn exec_asks_on_the_terminal_while_the_command_waits() {
    let Some(servers) = servers() else { return };
    // One question for two connections at once, one for each host, and none for a denied one.
    servers.world.write("forge.yaml", PROJECT);
    let script = "curl -sS http://one.example/; \
                  curl -sS http://two.example/ & curl -sS --noproxy '*' http://two.example/ & wait; \
                  curl -sS http://denied.example/; exec 3<>/dev/tty; echo done >&3";
    let args = [
        "--trust",
        "exec",
        "--ask-hosts",
        "--receipt",
        "receipt.json",
        "--",
        "bash",
        "-c",
    ];
    let terminal = servers.terminal(WITH_TERMINAL, &[&args[..], &[script]].concat());
    let shown = terminal.until(KEYS);
    assert!(shown.contains("tool      exec"), "{shown}");
    terminal.type_text("y\r");
    terminal.until("done");
    let ended = terminal.end();
    check(
        &ended,
        0,
        &[
            "hello of one.example",
            "denied.example:80 is refused: the rule",
        ],
    );
    let output = ended.stdout.unwrap();
    assert_eq!(
        output.matches("hello of two.example").count(),
        2,
        "{output}"
    );
    assert_eq!(
        ended.screen.matches(QUESTION).count(),
        1,
        "{}",
        ended.screen
    );
    let receipt = std::fs::read_to_string(servers.world.project().join("receipt.json")).unwrap();
    assert!(
        receipt.contains("a person allowed it for this command"),
        "{receipt}"
    );
    let audit = audit(&servers);
    assert!(audit.contains(r#""tool":"connect""#), "{audit}");
}

/// An empty list, and an interactive command that has the terminal in a state of its own.
#[test]
fn exec_takes_the_terminal_and_gives_it_back() {
    let Some(servers) = servers() else { return };
    servers.world.write("forge.yaml", "sandbox: { root: . }\n");
    servers.world.write(
        "raw.py",
        "import subprocess, sys, termios, tty
tty.setraw(0)
before = termios.tcgetattr(0)
print(subprocess.run(['curl', '-sS', 'http://two.example/'], capture_output=True, stdin=subprocess.DEVNULL).stdout)
print(termios.tcgetattr(0) == before)
",
    );
    let args = ["exec", "--ask-hosts", "--", "python3", "raw.py"];
    // The command shares the terminal of forge, or has one of its own.
    for piped in [true, false] {
        let terminal = servers.terminal_with(WITH_TERMINAL, &args, piped);
        let before = terminal.before.local_modes;
        terminal.until(KEYS);
        terminal.type_text("y\r");
        let ended = terminal.end();
        check(&ended, 0, &["hello of two.example", "True"]);
        if !piped {
            assert_eq!(ended.modes.local_modes, before);
        }
    }
}

/// A command whose terminal is forge's own waits with its output, and gets what is typed afterwards.
#[test]
fn exec_asks_while_a_relay_runs() {
    let Some(servers) = servers() else { return };
    servers.world.write("forge.yaml", PROJECT);
    let script = "(while :; do echo noise; sleep 0.01; done) & \
                  curl -sS http://two.example/; kill $!; read -r line; echo \"line: $line\"";
    let args = ["--trust", "exec", "--ask-hosts", "--", "bash", "-c", script];
    let terminal = servers.terminal_with(WITH_TERMINAL, &args, false);
    let shown = terminal.until(KEYS);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(
        terminal.screen(),
        shown,
        "the command writes into the question"
    );
    terminal.type_text("y\r");
    terminal.until("hello of two.example");
    terminal.type_text("typed\r");
    check(&terminal.end(), 0, &["line: typed"]);
}

#[test]
fn a_question_ends_with_its_command() {
    let Some(servers) = servers() else { return };
    let script = "curl -sS --max-time 3 http://two.example/; exit 7";
    let args = ["exec", "--ask-hosts", "--", "bash", "-c", script];
    let terminal = servers.terminal(WITH_TERMINAL, &args);
    terminal.until(KEYS);
    let ended = terminal.end();
    check(
        &ended,
        7,
        &["the question is withdrawn: what asked it has ended"],
    );
}

/// Ctrl-C at a question is the person's answer to all of it.
#[test]
fn an_interrupt_at_a_question_ends_the_command() {
    let Some(servers) = servers() else { return };
    let script = "curl -sS http://two.example/; sleep 600";
    let args = ["exec", "--ask-hosts", "--", "bash", "-c", script];
    for piped in [true, false] {
        let terminal = servers.terminal_with(WITH_TERMINAL, &args, piped);
        terminal.until(KEYS);
        terminal.type_text("\u{3}");
        check(&terminal.end(), 130, &["the question is withdrawn"]);
    }
}

/// The command reads the person's keys one by one, and connects in the middle of a word that ends in `y`.
#[test]
fn keys_for_the_command_answer_no_question() {
    let Some(servers) = servers() else { return };
    let script = "echo ready; stty -icanon </dev/tty; read -r -n4 keys </dev/tty; \
                  curl -sS http://two.example/; exit 7";
    let args = ["exec", "--ask-hosts", "--", "bash", "-c", script];
    for piped in [true, false] {
        let terminal = servers.terminal_with(WITH_TERMINAL, &args, piped);
        if !piped {
            terminal.until("ready");
        }
        let type_slowly = |word: &str| {
            for key in word.chars() {
                terminal.type_text(&key.to_string());
                std::thread::sleep(std::time::Duration::from_millis(120));
            }
        };
        type_slowly("happ");
        terminal.until(QUESTION);
        type_slowly("y\r");
        terminal.until(KEYS);
        terminal.type_text("n\r");
        let refused = "two.example:80 is refused: access was declined";
        check(
            &terminal.end_with_command(),
            7,
            &[refused, "typed before do not count"],
        );
    }
}

#[test]
fn exec_needs_a_terminal_to_ask() {
    let Some(servers) = servers() else { return };
    let args = ["exec", "--ask-hosts", "--", "true"];
    servers.forge_by(WITHOUT_TERMINAL, &args).code(125).says(&[
        "--ask-hosts cannot ask: there is no terminal",
        "forge exec --host HOST",
    ]);
    let job = "set -m; \"$0\" \"$@\" & wait $!";
    let starter = [WITH_TERMINAL, &["bash", "-c", job]].concat();
    let terminal = servers.terminal(&starter, &args);
    check(
        &terminal.end(),
        125,
        &["--ask-hosts cannot ask: forge runs in the background"],
    );
    let quiet = [&["--no-input"][..], &args].concat();
    let told = servers.forge_by(WITHOUT_TERMINAL, &quiet);
    told.code(125)
        .says(&["--ask-hosts cannot ask: questions are turned off"]);
}

/// A command that shows a question of its own and hides the one of forge.
#[test]
fn a_command_hides_no_question() {
    let Some(servers) = servers() else { return };
    servers.world.write("forge.yaml", "sandbox: { root: . }\n");
    let script = "printf 'Allow `npm install` to reach good.example:443?\\r\\n[y] this command > '; \
                  printf '\\033[22;24r\\033[22;1H\\033[8m\\033[30;40m\\033(0'; \
                  curl -sS http://two.example/; printf '\\033[?1049h\\033[?25l\\033[8m'; exit 1";
    servers.world.write("spoof.sh", script);
    let args = ["exec", "--ask-hosts", "--", "bash", "spoof.sh"];
    let terminal = servers.terminal_with(WITH_TERMINAL, &args, false);
    let shown = terminal.until(KEYS);
    assert!(shown.contains(QUESTION), "{shown}");
    assert!(!shown.contains("good.example"), "{shown}");
    terminal.type_text("n\r");
    let ended = terminal.end_with_command();
    let told = "refused: connect two.example:80";
    assert!(ended.screen.contains(told), "{}", ended.screen);
}
