//! `cargo xtask docs`: keeps the pages true. Writes the files and runs the commands of every page,
//! follows the relative links, looks for stale phrases, and writes (or with `--check` compares) the
//! parts that are generated. `docs/testing.md` describes the markup of the pages.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use crate::checkout;
use crate::failure::{Context, Failure};
use crate::markdown::{self, Block, Shown, Step};
use crate::picture;
use crate::process;
use crate::test_os;
use crate::workspace;

pub(crate) const ABOUT: &str = "write generated pages (--check: compare; --generated: nothing else), check links, run the pages' commands";

/// Generous: a watchdog for commands that do not end.
const WATCHDOG_S: u64 = 600;

/// The marks around the generated part of a page that is otherwise written by hand.
const HELP: &str = "<!-- generated: cargo xtask help -->\n";
const END: &str = "<!-- end of generated -->";

/// The page whose reader is in a fresh clone. Readers of the others are in an empty directory, with
/// an empty home.
const README: &str = "README.md";

/// The only page that may speak of what was and what will be.
const CHANGELOG: &str = "CHANGELOG.md";

/// The command by which readers of a fresh clone start forge. The check starts the forge that is
/// built already, because a release build takes minutes and prints the same.
const FROM_SOURCE: &str = "cargo run --release -- ";

/// The picture of the README, the command whose output it shows, and the mechanism that the
/// output names on the machines for which the picture is made.
const PICTURE: &str = "docs/stopped-attacks.svg";
const PICTURE_COMMAND: &str = "forge run --trust examples/dep-audit";
const PICTURE_MECHANISM: &str = "namespaces + landlock";

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
    let programs = test_os::built()?;
    let forge = program(&programs, "forge", "forge")?;
    let root = workspace::root();
    let copy = checkout::copy(&root, &workspace::target_dir().join("readme"))?;
    let failed = run_pages(&copy, forge, check)?;
    let mut wrong = stale_phrases()?;
    wrong.extend(foreign_citations()?);
    wrong.extend(broken_links()?);
    for line in &wrong {
        println!("{line}");
    }
    match (wrong.len(), failed) {
        (0, 0) => Ok(()),
        (texts, steps) => Err(Failure::new(format!(
            "{texts} broken links, citations or stale phrases, {steps} files or commands not as written"
        ))),
    }
}

/// What is generated: the list of commands in `docs/testing.md`, every key, what
/// needs a yes and what your own file may say in `docs/configuration.md`, the table of what each mechanism keeps, the JSON Schemas, and the copy
/// of our lock file that the example audits.
fn generated(check: bool) -> Result<(), Failure> {
    let help = format!("```text\n{}```\n", crate::help());
    keep_part("docs/testing.md", HELP, &help, check)?;
    reference_page(check)?;
    keep("docs/mechanisms.md", &mechanisms()?, check)?;
    keep(
        "docs/first-hour.md",
        &first_hour(
            &read("fixtures/first-hour.tsv")?,
            &read("fixtures/everyday.tsv")?,
        )?,
        check,
    )?;
    keep(
        "docs/network-programs.md",
        &network_programs(&read("fixtures/network-programs.tsv")?)?,
        check,
    )?;
    for which in ["config", "worker"] {
        let file = format!("schemas/forge-{which}.schema.json");
        keep(&file, &schema(which)?, check)?;
    }
    for (which, file) in [
        ("audit", "crates/forge-tools/src/audit/schema.json"),
        ("events", "crates/forge/src/run_view/events.schema.json"),
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
    let program = program(&programs, "os-sandbox", "os")?;
    process::output(process::command(program).arg("--page"))
}

fn program<'a>(
    programs: &'a BTreeMap<(String, String), PathBuf>,
    package: &str,
    name: &str,
) -> Result<&'a Path, Failure> {
    programs
        .get(&(package.to_owned(), name.to_owned()))
        .map(PathBuf::as_path)
        .ok_or_else(|| Failure::new(format!("{package} has no program `{name}`")))
}

/// Draws the table that `output` ends with.
fn picture(output: &str, check: bool) -> Result<(), Failure> {
    let table = picture::table(output).ok_or_else(|| {
        Failure::new(format!(
            "`{PICTURE_COMMAND}` printed no table of attempts:\n{output}"
        ))
    })?;
    let mut cells = table.iter().flatten();
    if cells.any(|cell| cell.contains(PICTURE_MECHANISM)) {
        keep(PICTURE, &picture::svg(&table), check)
    } else {
        println!("{PICTURE}: not compared: this machine does not have {PICTURE_MECHANISM}");
        Ok(())
    }
}

/// The page of the first half hour: promises with their tests, and everyday commands with what
/// becomes of them.
fn first_hour(promises: &str, commands: &str) -> Result<String, Failure> {
    let count = rows(commands).count();
    let mut page = "# The first half hour\n\n\
         What a newcomer meets first, each with a test of `cargo xtask test` that shows it. The page \
         is generated from [`fixtures/first-hour.tsv`](../fixtures/first-hour.tsv) and \
         [`fixtures/everyday.tsv`](../fixtures/everyday.tsv).\n\n\
         | about | promise | test |\n|---|---|---|\n"
        .to_owned();
    for row in rows(promises) {
        let [topic, promise, file, test] = row[..] else {
            return Err(Failure::new(format!(
                "first-hour.tsv: not four cells: {row:?}"
            )));
        };
        if !read(file)?.contains(&format!("fn {test}(")) {
            return Err(Failure::new(format!(
                "first-hour.tsv: {file} has no `{test}`"
            )));
        }
        page += &format!("| {topic} | {promise} | `{test}` in [{file}](../{file}) |\n");
    }
    page += &format!(
        "\n## Everyday commands in `forge exec`\n\n\
         A test runs {count} commands outside and inside, by an ordinary user with an empty home, in a \
         git project without a configuration file. *Same* means: the command succeeds and prints the \
         same as outside. If a program is not installed, the test says that it skips the command.\n"
    );
    let mut group = "";
    for row in rows(commands) {
        let [of, command, _, namespaces, landlock] = row[..] else {
            return Err(Failure::new(format!(
                "everyday.tsv: not five cells: {row:?}"
            )));
        };
        if of != group {
            group = of;
            let heading = format!("{}{}", of[..1].to_uppercase(), &of[1..]);
            page += &format!(
                "\n### {heading}\n\n| command | namespaces | Landlock alone |\n|---|---|---|\n"
            );
        }
        let command = command.replace('|', "\\|");
        page += &format!("| `` {command} `` | {namespaces} | {landlock} |\n");
    }
    Ok(page)
}

/// The page of the programs that reach named hosts.
fn network_programs(table: &str) -> Result<String, Failure> {
    let mut page = "# Programs and named hosts\n\n\
         A command with `network.allow` or `forge exec --host` reaches the named hosts in two ways. \
         `http_proxy` and the other variables name a proxy. For programs that do not read them, the \
         resolver gives each name an address, and connections to it lead to the host on the ports \
         that the rules name; without a port in the rule these are 22, 80 and 443.\n\n\
         A test runs each program twice against its own servers: with the variables, and after it \
         has unset them. *Not run* are programs that were not installed where the page was made; the \
         test runs them where they are, and says what it skips. The page is generated from \
         [`fixtures/network-programs.tsv`](../fixtures/network-programs.tsv), which also has the \
         commands.\n\n\
         | program | task | version | with variables | without |\n|---|---|---|---|---|\n"
        .to_owned();
    for row in rows(table) {
        let [program, task, _, _, version, proxied, direct, _] = row[..] else {
            return Err(Failure::new(format!(
                "network-programs.tsv: not eight cells: {row:?}"
            )));
        };
        let results = match version {
            "-" => "not run | | ".to_owned(),
            version => format!("{version} | {proxied} | {direct}"),
        };
        page += &format!("| {program} | {task} | {results} |\n");
    }
    page += "\nMaven of Debian needs its configuration: \
             `-c 'sandbox.programs=[/etc/maven]'`. Programs of your home need \
             [`sandbox.programs`](how-to/use-your-toolchain.md) too. A JVM reads none of the \
             variables, and its tools need no option.\n";
    Ok(page)
}

/// The rows of a table of tab-separated cells, without comments.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
}

/// Writes the parts of `docs/configuration.md` that come from the table of configuration keys, or with
/// `check` only compares them: by a test, which alone knows the table.
fn reference_page(check: bool) -> Result<(), Failure> {
    let mut cargo = process::cargo();
    cargo.args(["test", "--quiet", "-p", "sandbox-config", "--all-features"]);
    cargo.args(["--lib", "--", "the_page_is_up_to_date"]);
    match check {
        true => cargo.env_remove("FORGE_UPDATE_FIXTURES"),
        false => cargo.env("FORGE_UPDATE_FIXTURES", "1"),
    };
    process::output(&mut cargo).map(drop)
}

/// A schema that is made from the table of configuration keys, by a program beside it.
fn schema(which: &str) -> Result<String, Failure> {
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

/// The tracked pages with their texts, the README first.
fn pages() -> Result<Vec<(PathBuf, String)>, Failure> {
    let root = workspace::root();
    let mut pages = Vec::new();
    for page in checkout::files(&root)? {
        if page.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(root.join(&page)).context(page.display())?;
            pages.push((page, text));
        }
    }
    pages.sort_by_key(|(page, _)| page != Path::new(README));
    Ok(pages)
}

/// Every stale phrase of a page but the changelog.
fn stale_phrases() -> Result<Vec<String>, Failure> {
    let pages = pages()?;
    let pages = pages
        .iter()
        .filter(|(page, _)| page != Path::new(CHANGELOG));
    Ok(pages
        .flat_map(|(page, text)| {
            markdown::stale_phrases(text)
                .into_iter()
                .map(|(line, phrase)| format!("{}:{line}: stale phrase: {phrase}", page.display()))
        })
        .collect())
}

/// Every reference in a page or a source to a document that readers do not have.
fn foreign_citations() -> Result<Vec<String>, Failure> {
    let root = workspace::root();
    let mut found = Vec::new();
    for file in checkout::files(&root)? {
        let extension = file.extension();
        if extension.is_none_or(|extension| extension != "md" && extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(root.join(&file)).context(file.display())?;
        for (line, citation) in markdown::foreign_citations(&text) {
            found.push(format!(
                "{}:{line}: a document that readers do not have: {citation}",
                file.display()
            ));
        }
    }
    Ok(found)
}

/// Every relative link of a tracked page that leads nowhere.
fn broken_links() -> Result<Vec<String>, Failure> {
    let root = workspace::root();
    let mut broken = Vec::new();
    for (page, text) in pages()? {
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

/// Writes the files and runs the commands of all pages. Returns how many were not as written.
fn run_pages(copy: &checkout::Copy, forge: &Path, check: bool) -> Result<usize, Failure> {
    let mut failed = 0;
    let mut shows_picture = false;
    for (page, text) in pages()? {
        let name = page.display();
        let steps = markdown::steps(&text).context(&name)?;
        if steps.is_empty() {
            continue;
        }
        for file in unused_files(&steps) {
            failed += 1;
            println!("{name}:{file}: FAILED: no command of the page uses this file");
        }
        let mut place = if page == Path::new(README) {
            copy.checkout()
        } else {
            checkout::Place::empty()?
        };
        for step in &steps {
            match step {
                Step::NewDirectory => place = checkout::Place::empty()?,
                Step::File(file) => place.write(&file.name, &file.text)?,
                Step::Commands(block) => {
                    for shown in &block.commands {
                        print!("{name}:{}: {} ", shown.line, first_line(&shown.command));
                        let _ = std::io::stdout().flush();
                        let is_picture = as_run(&shown.command) == PICTURE_COMMAND;
                        shows_picture |= is_picture;
                        match verdict(block, shown, &place, forge)? {
                            Verdict::AsWritten(output) => {
                                println!("... ok");
                                if is_picture && let Err(failure) = picture(&output, check) {
                                    failed += 1;
                                    println!("FAILED: {failure}");
                                }
                            }
                            Verdict::NotRun(reason) => println!("... not run: {reason}"),
                            Verdict::Otherwise { why, output } => {
                                failed += 1;
                                println!("... FAILED: {why}\n{output}");
                            }
                        }
                    }
                }
            }
        }
    }
    if !shows_picture {
        failed += 1;
        println!("{PICTURE}: FAILED: no page runs `{PICTURE_COMMAND}`");
    }
    Ok(failed)
}

/// The lines of files after which no command runs in the same directory: nothing would check them.
fn unused_files(steps: &[Step]) -> Vec<usize> {
    let mut unused = Vec::new();
    let mut written = Vec::new();
    for step in steps {
        match step {
            Step::File(file) => written.push(file.line),
            Step::Commands(block) if block.not_run.is_none() => written.clear(),
            Step::Commands(_) => {}
            Step::NewDirectory => unused.append(&mut written),
        }
    }
    unused.append(&mut written);
    unused
}

/// The command that is run for a shown one.
fn as_run(shown: &str) -> String {
    match shown.strip_prefix(FROM_SOURCE) {
        Some(arguments) => format!("forge {arguments}"),
        None => shown.to_owned(),
    }
}

enum Verdict {
    /// With what the command printed.
    AsWritten(String),
    NotRun(String),
    Otherwise {
        why: String,
        output: String,
    },
}

fn verdict(
    block: &Block,
    shown: &Shown,
    place: &checkout::Place,
    forge: &Path,
) -> Result<Verdict, Failure> {
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
        return Ok(Verdict::NotRun("the output shown is that of Linux".into()));
    }
    let mut command = process::command("sh");
    command.arg("-c").arg(as_run(&shown.command));
    place.enter(&mut command, forge)?;
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
    Ok(Verdict::AsWritten(output))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_part_is_replaced_and_nothing_else() {
        let mark = "<!-- generated: every key -->\n";
        let page = format!("a\n{mark}old\n{END}\nb\n");
        assert_eq!(
            replace_generated(&page, mark, "new\n"),
            Some(format!("a\n{mark}new\n{END}\nb\n"))
        );
        assert_eq!(replace_generated(&page, HELP, "new\n"), None);
    }

    #[test]
    fn a_promise_without_its_test_is_refused() {
        let commands = "files\tls | cat\t-\tsame\tno pipes\n";
        let row = "# a comment\nways in\tPages run.\txtask/src/docs.rs\trun_pages\n";
        let page = first_hour(row, commands).expect("the function is there");
        for part in [
            "| ways in | Pages run. | `run_pages` in [xtask/src/docs.rs](../xtask/src/docs.rs) |\n",
            "### Files\n",
            "| `` ls \\| cat `` | same | no pipes |\n",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        let gone = row.replace("run_pages", "missing_test");
        let error = first_hour(&gone, commands).expect_err("there is no such test");
        assert_eq!(
            error.to_string(),
            "first-hour.tsv: xtask/src/docs.rs has no `missing_test`"
        );
    }

    #[test]
    fn a_file_that_no_command_uses_is_told() {
        let page = "\
`one.yaml`:
```yaml
a: 1
```
```console
$ forge check
```
`two.yaml`:
```yaml
a: 1
```
<!-- not run: needs a key -->
```console
$ forge run
```
<!-- new directory -->
`three.yaml`:
```yaml
a: 1
```
";
        let steps = markdown::steps(page).expect("a valid page");
        assert_eq!(unused_files(&steps), [8, 17]);
    }

    #[test]
    fn the_forge_that_is_built_runs_what_readers_build() {
        assert_eq!(
            as_run("cargo run --release -- exec -- true"),
            "forge exec -- true"
        );
        assert_eq!(
            as_run("cat cargo run --release -- x"),
            "cat cargo run --release -- x"
        );
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
