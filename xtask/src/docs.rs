//! `cargo xtask docs`: keeps the pages true. Runs the commands of some of them in a copy of the
//! checkout, follows the relative links, and writes (or with `--check` compares) the parts that
//! are generated. How a page says what it expects: `docs/testing.md`.

use std::fs;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use crate::checkout;
use crate::failure::{Context, Failure};
use crate::markdown::{self, Block, Shown};
use crate::process;
use crate::test_os;
use crate::workspace;

pub(crate) const ABOUT: &str = "write generated pages (--check: compare; --generated: nothing else), check links, run the pages' commands";

/// Generous: the first command also builds forge for release.
const WATCHDOG_S: u64 = 3600;

/// The marks around the generated part of a page that is otherwise written by hand.
const HELP: &str = "<!-- generated: cargo xtask help -->\n";
const TRUST: &str = "<!-- generated: what needs a yes -->\n";
const USER_FILE: &str = "<!-- generated: your own file -->\n";
const KEYS: &str = "<!-- generated: every key -->\n";
const END: &str = "<!-- end of generated -->";

/// The pages whose commands are run, in this order: the README's first command builds forge.
const RUN: [(&str, Start); 10] = [
    ("README.md", Start::Checkout),
    ("docs/tutorial.md", Start::Empty),
    ("docs/how-to/add-a-directory.md", Start::Empty),
    ("docs/how-to/let-tests-listen.md", Start::Empty),
    ("docs/how-to/run-in-ci.md", Start::Empty),
    ("docs/how-to/share-with-a-team.md", Start::Empty),
    ("docs/how-to/use-your-toolchain.md", Start::Empty),
    ("docs/how-to/write-a-playbook-test.md", Start::Empty),
    ("docs/mcp.md", Start::Empty),
    ("docs/git.md", Start::Empty),
];

/// Where a page's reader is.
#[derive(Debug, Clone, Copy)]
enum Start {
    /// In a fresh clone.
    Checkout,
    /// In an empty directory, with an empty home.
    Empty,
}

/// Commands that would run this check inside itself, or the whole of which it is a step.
const OURSELVES: [&str; 2] = ["cargo xtask ", ".ci/run"];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        [flag] if flag == "--generated" => return generated(false),
        _ => {
            return Err(Failure::Usage(
                "expected nothing, `--check` or `--generated`".into(),
            ));
        }
    };
    generated(check)?;
    let broken = broken_links()?;
    for line in &broken {
        println!("{line}");
    }
    let failed = run_pages()?;
    match (broken.len(), failed) {
        (0, 0) => Ok(()),
        (links, commands) => Err(Failure::new(format!(
            "{links} broken links, {commands} commands not as written"
        ))),
    }
}

/// What is generated: the list of commands in `docs/testing.md`, every key, what
/// needs a yes and what your own file may say in `docs/configuration.md`, the table of what each mechanism keeps, the JSON Schemas, and the copy
/// of our lock file that the example audits.
fn generated(check: bool) -> Result<(), Failure> {
    let help = format!("```text\n{}```\n", crate::help());
    keep_part("docs/testing.md", HELP, &help, check)?;
    let keys = page("reference")?;
    keep_part("docs/configuration.md", KEYS, &keys, check)?;
    keep_part(
        "docs/configuration.md",
        USER_FILE,
        &page("user-file")?,
        check,
    )?;
    keep_part("docs/configuration.md", TRUST, &page("trust")?, check)?;
    keep("docs/mechanisms.md", &mechanisms()?, check)?;
    keep(
        "docs/first-hour.md",
        &first_hour(&read("fixtures/everyday.tsv")?),
        check,
    )?;
    for which in ["config", "worker"] {
        let file = format!("schemas/forge-{which}.schema.json");
        keep(&file, &page(which)?, check)?;
    }
    for (which, file) in [
        ("audit", "crates/forge-tools/src/audit/schema.json"),
        ("events", "crates/forge/src/show/events.schema.json"),
        ("playbook", "crates/forge-runtime/src/playbook/schema.json"),
        (
            "transcript",
            "crates/forge-runtime/src/transcript/schema.json",
        ),
    ] {
        let published = format!("schemas/forge-{which}.schema.json");
        keep(&published, &read(file)?, check)?;
    }
    keep(
        "examples/dep-audit/inputs/Cargo.lock",
        &read("Cargo.lock")?,
        check,
    )
}

/// Made by the sandbox tests' program, which reads the fixtures anyway.
fn mechanisms() -> Result<String, Failure> {
    let programs = test_os::built()?;
    let program = programs
        .get(&("os-sandbox".to_owned(), "os".to_owned()))
        .ok_or_else(|| Failure::new("os-sandbox has no program `os`"))?;
    process::output(process::command(program).arg("--page"))
}

/// The commands that a test runs outside and inside, with what becomes of them.
fn first_hour(table: &str) -> String {
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    let rows = rows.map(|line| line.split('\t').collect::<Vec<_>>());
    let count = rows.clone().count();
    let mut page = format!(
        "# Everyday commands in `forge exec`\n\n\
         {count} commands, each run outside and inside by an ordinary user with an empty home, in a \
         git project, without a configuration file: by `cargo xtask test`, from \
         [`fixtures/everyday.tsv`](../fixtures/everyday.tsv). *Same* is: it succeeds and prints what it \
         prints outside. Where the program is not installed, the test says that it skips the command.\n"
    );
    let mut group = "";
    for row in rows {
        let [of, command, _, bubblewrap, landlock] = row[..] else {
            continue;
        };
        if of != group {
            group = of;
            let heading = format!("{}{}", of[..1].to_uppercase(), &of[1..]);
            page += &format!(
                "\n## {heading}\n\n| command | bubblewrap | Landlock alone |\n|---|---|---|\n"
            );
        }
        let command = command.replace('|', "\\|");
        page += &format!("| `` {command} `` | {bubblewrap} | {landlock} |\n");
    }
    page
}

/// What is made from the table of configuration keys, by a program beside it.
fn page(which: &str) -> Result<String, Failure> {
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "-p", "sandbox-config"]);
    cargo.args(["--all-features", "--example", "pages", "--", which]);
    process::output(&mut cargo)
}

fn read(file: &str) -> Result<String, Failure> {
    let path = workspace::root().join(file);
    fs::read_to_string(&path).context(path.display())
}

/// Writes a generated file, or with `check` only compares it.
fn keep(file: &str, fresh: &str, check: bool) -> Result<(), Failure> {
    let path = workspace::root().join(file);
    if fs::read_to_string(&path).is_ok_and(|old| old == fresh) {
        Ok(())
    } else if check {
        Err(Failure::new(format!(
            "{file} is out of date: run `cargo xtask docs`"
        )))
    } else {
        println!("written: {file}");
        fs::write(&path, fresh).context(path.display())
    }
}

/// Like [`keep`], for the part of a page behind `mark`.
fn keep_part(file: &str, mark: &str, fresh: &str, check: bool) -> Result<(), Failure> {
    let page = replace_generated(&read(file)?, mark, fresh)
        .ok_or_else(|| Failure::new(format!("{file}: the marks of its generated part are gone")))?;
    keep(file, &page, check)
}

fn replace_generated(page: &str, mark: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(mark)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{mark}{text}{END}{after}"))
}

/// Every relative link of a tracked page that leads nowhere.
fn broken_links() -> Result<Vec<String>, Failure> {
    let root = workspace::root();
    let mut broken = Vec::new();
    for page in checkout::files(&root)? {
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(root.join(&page)).context(page.display())?;
        for link in markdown::links(&text) {
            if let Some(why) = broken_link(&root, &page, &text, &link.target) {
                broken.push(format!(
                    "{}:{}: {why}: {}",
                    page.display(),
                    link.line,
                    link.target
                ));
            }
        }
    }
    Ok(broken)
}

fn broken_link(root: &Path, page: &Path, text: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let other;
    let headings = if file.is_empty() {
        text
    } else {
        if page.starts_with("crates") && page.ends_with("README.md") {
            return Some("dead on the page of the package; name the file instead");
        }
        let Some(path) = within(&page.parent().unwrap_or(Path::new("")).join(file)) else {
            return Some("leads out of the repository");
        };
        let path = root.join(path);
        if !path.exists() {
            return Some("no such file");
        }
        if anchor.is_empty() || path.is_dir() {
            return None;
        }
        other = fs::read_to_string(path).unwrap_or_default();
        &other
    };
    let known = anchor.is_empty() || markdown::anchors(headings).contains(anchor);
    if known { None } else { Some("no such heading") }
}

/// `path` without `..`, if it stays below where it starts.
fn within(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !clean.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(clean)
}

/// Runs the commands of the pages and returns how many were not as written.
fn run_pages() -> Result<usize, Failure> {
    let root = workspace::root();
    let copy = checkout::copy(&root, &workspace::target_dir().join("readme"))?;
    let mut failed = 0;
    for (page, start) in RUN {
        let text = fs::read_to_string(root.join(page)).context(page)?;
        let blocks = markdown::console_blocks(&text).context(page)?;
        let place = match start {
            Start::Checkout => copy.checkout(),
            Start::Empty => checkout::Place::empty()?,
        };
        for block in &blocks {
            for shown in &block.commands {
                print!("{page}:{}: {} ", shown.line, first_line(&shown.command));
                let _ = std::io::stdout().flush();
                match verdict(block, shown, &place)? {
                    Verdict::AsWritten => println!("... ok"),
                    Verdict::NotRun(reason) => println!("... not run: {reason}"),
                    Verdict::Otherwise { why, output } => {
                        failed += 1;
                        println!("... FAILED: {why}\n{output}");
                    }
                }
            }
        }
    }
    Ok(failed)
}

enum Verdict {
    AsWritten,
    NotRun(String),
    Otherwise { why: String, output: String },
}

fn verdict(block: &Block, shown: &Shown, place: &checkout::Place) -> Result<Verdict, Failure> {
    if let Some(reason) = &block.not_run {
        return Ok(Verdict::NotRun(reason.clone()));
    }
    if OURSELVES
        .iter()
        .any(|prefix| shown.command.starts_with(prefix))
    {
        return Ok(Verdict::NotRun("it would run this check again".into()));
    }
    if !cfg!(target_os = "linux") {
        return Ok(Verdict::NotRun(
            "the pages' commands are confined, which is for Linux so far".into(),
        ));
    }
    let mut command = process::command("sh");
    command.arg("-c").arg(&shown.command);
    place.enter(&mut command)?;
    let (code, output) = process::watched(&mut command, WATCHDOG_S)?;
    let Some(code) = code else {
        return Ok(Verdict::Otherwise {
            why: format!("no end after {WATCHDOG_S} s"),
            output,
        });
    };
    if code != block.exit {
        return Ok(Verdict::Otherwise {
            why: format!("exit {code}, expected {}", block.exit),
            output,
        });
    }
    if let Some(line) = markdown::missing_line(&shown.output, &output) {
        return Ok(Verdict::Otherwise {
            why: format!("the output has no line `{line}`"),
            output,
        });
    }
    Ok(Verdict::AsWritten)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_part_is_replaced_and_nothing_else() {
        let page = format!("a\n{KEYS}old\n{END}\nb\n");
        assert_eq!(
            replace_generated(&page, KEYS, "new\n"),
            Some(format!("a\n{KEYS}new\n{END}\nb\n"))
        );
        assert_eq!(replace_generated(&page, HELP, "new\n"), None);
    }

    #[test]
    fn links_must_lead_somewhere_inside() {
        let root = workspace::root();
        let page = Path::new("xtask/page.md");
        let text = "# Here\n";
        for (target, expected) in [
            ("https://example.org/x", None),
            ("#here", None),
            ("#there", Some("no such heading")),
            ("Cargo.toml", None),
            ("../xtask/./Cargo.toml", None),
            ("missing.md", Some("no such file")),
            ("../../outside", Some("leads out of the repository")),
            ("/etc/passwd", Some("leads out of the repository")),
        ] {
            assert_eq!(broken_link(&root, page, text, target), expected, "{target}");
        }
        let page = Path::new("crates/forge/README.md");
        let dead = "dead on the page of the package; name the file instead";
        for (target, expected) in [
            ("https://example.org/x", None),
            ("#here", None),
            ("../../README.md", Some(dead)),
        ] {
            assert_eq!(broken_link(&root, page, text, target), expected, "{target}");
        }
    }
}
