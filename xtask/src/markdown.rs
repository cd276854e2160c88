//! Reads a Markdown file for `cargo xtask docs`: files to write, commands to run, links, headings,
//! stale phrases. The parser works line by line, and knows only the Markdown that these files use.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Phrases that describe a state of the program which passes. A page that says "not in this
/// version" stays when the version has it.
const STALE_PHRASES: [&str; 14] = [
    "in this version",
    "in a later version",
    "in a future version",
    "in the future",
    "not yet implemented",
    "not implemented yet",
    "will be implemented",
    "will be supported",
    "will be added",
    "coming soon",
    "at the moment",
    "currently",
    "for now",
    "so far",
];

/// Notes to oneself, in capitals.
const UNFINISHED: [&str; 3] = ["TODO", "FIXME", "TBD"];

/// References to documents that readers do not have; `#` is one digit.
#[rustfmt::skip]
const FOREIGN_CITATIONS: [&str; 6] = ["F00#-#", "(C#)", "(C##)", "seed 00#", "decisions #", "behaviour section #"];

/// One step of a page, in the order of the page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A fenced block below a line that consists of a name in backticks and a colon.
    File(NamedFile),
    /// A fenced block marked `console`.
    Commands(Block),
    /// `<!-- new directory -->`: the rest of the page runs in an empty directory.
    NewDirectory,
}

/// A file that the page shows whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// Of the line with the name, counted from 1.
    pub(crate) line: usize,
    /// Relative and without `..`.
    pub(crate) name: PathBuf,
    pub(crate) text: String,
}

/// A fenced block marked `console`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The exit code that `<!-- exit: N -->` above the block asks of its commands; otherwise 0.
    pub(crate) exit: i32,
    /// The reason that `<!-- not run: … -->` above the block gives.
    pub(crate) not_run: Option<String>,
    pub(crate) commands: Vec<Shown>,
}

/// One command as shown to the reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Of the `$ ` line, counted from 1.
    pub(crate) line: usize,
    pub(crate) command: String,
    /// The output lines below it.
    pub(crate) output: Vec<String>,
}

/// A link's target as written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// Returns the steps of a page. A directive that cannot be read is an error with its line, because
/// the block below it would expect something else than the page says.
pub(crate) fn steps(page: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut exit = 0;
    let mut not_run = None;
    let mut name = None;
    let mut lines = numbered(page);
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        if let Some(directive) = comment(trimmed) {
            if let Some(code) = directive.strip_prefix("exit:") {
                exit = code
                    .trim()
                    .parse()
                    .map_err(|_| format!("line {number}: invalid exit code in `{trimmed}`"))?;
            } else if let Some(reason) = directive.strip_prefix("not run:") {
                not_run = Some(reason.trim().to_owned());
            } else if directive == "new directory" {
                steps.push(Step::NewDirectory);
            }
            continue;
        }
        if trimmed.is_empty() {
            continue;
        }
        if let Some(info) = fence(trimmed) {
            let body: Vec<(usize, &str)> = lines
                .by_ref()
                .take_while(|(_, line)| fence(line.trim()) != Some(""))
                .collect();
            if let Some((line, name)) = name.take() {
                let text = body.iter().map(|(_, line)| format!("{line}\n")).collect();
                steps.push(Step::File(NamedFile { line, name, text }));
            } else if let Some(name) = body.first().and_then(|(_, line)| name_in_comment(line)) {
                return Err(format!(
                    "line {number}: write the name above the block, as `` `{name}`: ``"
                ));
            } else if info == "console" {
                steps.push(Step::Commands(Block {
                    exit,
                    not_run: not_run.take(),
                    commands: commands(&body),
                }));
            }
        } else {
            name = file_name(trimmed).map(|name| (number, name));
        }
        exit = 0;
        not_run = None;
    }
    Ok(steps)
}

/// The name in a line such as `` `workers/main.worker`: ``, if it is a relative path without `..`.
fn file_name(line: &str) -> Option<PathBuf> {
    let name = line.strip_prefix('`')?.strip_suffix("`:")?;
    let path = Path::new(name);
    let mut components = path.components();
    let is_plain = components.all(|part| matches!(part, Component::Normal(_)));
    (is_plain && !name.is_empty() && !name.contains(['`', ' '])).then(|| path.to_owned())
}

/// The name of a configuration file in a comment such as `# forge.yaml`. A block that begins with
/// one is a file that nothing checks.
fn name_in_comment(line: &str) -> Option<&str> {
    let name = line.strip_prefix("# ")?;
    let is_configuration = [".yaml", ".yml", ".worker"]
        .iter()
        .any(|suffix| name.ends_with(suffix));
    (is_configuration && !name.contains(' ')).then_some(name)
}

/// Returns the stale phrases in the prose of a page, each with its line.
pub(crate) fn stale_phrases(page: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (line, text) in prose(page) {
        let text = without_code_spans(text);
        let words = format!(" {} ", words_of(&text));
        let lower = words.to_lowercase();
        let has = |text: &str, phrase: &str| text.contains(&format!(" {phrase} "));
        found.extend(
            STALE_PHRASES
                .into_iter()
                .filter(|phrase| has(&lower, phrase))
                .chain(UNFINISHED.into_iter().filter(|phrase| has(&words, phrase)))
                .map(|phrase| (line, phrase)),
        );
    }
    found
}

/// Returns the references to documents that are not in the repository, each with its line: marks of
/// requirements and behaviours, and decisions by another number than docs/decisions gives.
pub(crate) fn foreign_citations(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().zip(1..);
    lines
        .filter_map(|(text, line)| Some((line, foreign_citation(text)?)))
        .collect()
}

fn foreign_citation(line: &str) -> Option<&str> {
    FOREIGN_CITATIONS.into_iter().find_map(|pattern| {
        let starts = line.char_indices().map(|(at, _)| at);
        let mut found = starts.filter_map(|at| matched(&line[at..], pattern));
        found.next()
    })
}

/// Returns the beginning of a text that a pattern fits. `#` is one digit, everything else is itself
/// in either case.
fn matched<'a>(text: &'a str, pattern: &str) -> Option<&'a str> {
    let mut end = 0;
    for wanted in pattern.chars() {
        let next = text[end..].chars().next()?;
        let fits = match wanted {
            '#' => next.is_ascii_digit(),
            _ => next.eq_ignore_ascii_case(&wanted),
        };
        end += fits.then_some(next.len_utf8())?;
    }
    Some(&text[..end])
}

/// The words of a text with one space between them.
fn words_of(text: &str) -> String {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Links outside code, `[text](target)` and `[name]: target`.
pub(crate) fn links(page: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (line, text) in prose(page) {
        let text = without_code_spans(text);
        if let Some((name, target)) = text.split_once("]: ")
            && name.starts_with('[')
            && !target.contains(' ')
        {
            found.push(Link {
                line,
                target: target.trim().to_owned(),
            });
        }
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            if let Some(end) = rest.find(')') {
                let target = rest[..end].split_whitespace().next().unwrap_or_default();
                found.push(Link {
                    line,
                    target: target.to_owned(),
                });
            }
        }
    }
    found
}

/// The anchors that a page's headings make.
pub(crate) fn anchors(page: &str) -> BTreeSet<String> {
    prose(page)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

/// The first shown output line that `actual` does not have. Shown lines must occur in this
/// order; lines between them may be left out, and `[..]` within one stands for anything.
pub(crate) fn missing_line<'a>(shown: &'a [String], actual: &str) -> Option<&'a str> {
    let mut actual = actual.lines();
    shown
        .iter()
        .map(|line| line.trim_end())
        .filter(|line| !line.is_empty() && !matches!(line.trim(), "..." | "…"))
        .find(|wanted| !actual.any(|line| is_like(wanted, line.trim_end())))
}

fn is_like(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("[..]");
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    // What follows the last wildcard must also end the line.
    open || rest.is_empty()
        || pattern
            .rsplit("[..]")
            .next()
            .is_some_and(|last| pattern.contains("[..]") && line.ends_with(last))
}

fn commands(body: &[(usize, &str)]) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut continued = false;
    for (line, text) in body {
        if let Some(command) = text.strip_prefix("$ ") {
            commands.push(Shown {
                line: *line,
                command: command.to_owned(),
                output: Vec::new(),
            });
        } else if let Some(last) = commands.last_mut() {
            if continued {
                last.command.push('\n');
                last.command.push_str(text);
            } else {
                last.output.push((*text).to_owned());
                continue;
            }
        }
        continued = text.ends_with('\\');
    }
    commands
}

/// Lines outside fenced blocks.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    numbered(page).filter(move |(_, line)| {
        let is_fence = fence(line.trim()).is_some();
        inside ^= is_fence;
        !inside && !is_fence
    })
}

fn numbered(page: &str) -> impl Iterator<Item = (usize, &str)> {
    page.lines().enumerate().map(|(at, line)| (at + 1, line))
}

fn fence(line: &str) -> Option<&str> {
    line.strip_prefix("```").map(str::trim)
}

fn comment(line: &str) -> Option<&str> {
    Some(line.strip_prefix("<!--")?.strip_suffix("-->")?.trim())
}

fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn anchor(heading: &str) -> String {
    heading
        .chars()
        .filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            _ if character.is_alphanumeric() => Some(character.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A page

```console
$ forge exec -- ls
a
b
$ forge check \\
    --format json
```

<!-- exit: 1 -->
```console
$ forge exec -- cat /etc/shadow
cat: [..]: Permission denied
```
Text in between ends a directive.

<!-- exit: 3 -->
not a block
```console
$ true
```
<!-- not run: needs a key -->

```console
$ forge run --model live
```
```sh
$ not a console block
```
";

    #[test]
    fn blocks_carry_commands_output_and_what_is_expected() {
        let blocks: Vec<Block> = steps(PAGE)
            .expect("a valid page")
            .into_iter()
            .filter_map(|step| match step {
                Step::Commands(block) => Some(block),
                Step::File(_) | Step::NewDirectory => None,
            })
            .collect();
        let seen: Vec<(i32, Option<&str>, Vec<&str>)> = blocks
            .iter()
            .map(|block| {
                let commands = block
                    .commands
                    .iter()
                    .map(|shown| shown.command.as_str())
                    .collect();
                (block.exit, block.not_run.as_deref(), commands)
            })
            .collect();
        assert_eq!(
            seen,
            [
                (
                    0,
                    None,
                    vec!["forge exec -- ls", "forge check \\\n    --format json"]
                ),
                (1, None, vec!["forge exec -- cat /etc/shadow"]),
                (0, None, vec!["true"]),
                (0, Some("needs a key"), vec!["forge run --model live"]),
            ]
        );
        assert_eq!(blocks[0].commands[0].output, ["a", "b"]);
        assert_eq!(blocks[0].commands[1].line, 7);
    }

    #[test]
    fn an_invalid_exit_code_is_an_error() {
        let error = steps("<!-- exit: no -->\n").expect_err("no number");
        assert_eq!(error, "line 1: invalid exit code in `<!-- exit: no -->`");
    }

    #[test]
    fn a_name_in_a_comment_is_an_error() {
        let error = steps("```yaml\n# workers/main.worker\nname: main\n```\n").expect_err("a name");
        assert_eq!(
            error,
            "line 1: write the name above the block, as `` `workers/main.worker`: ``"
        );
        for fine in ["# Your own file", "# see forge.yaml", "#forge.yaml"] {
            let page = format!("```yaml\n{fine}\nname: main\n```\n");
            assert_eq!(steps(&page), Ok(Vec::new()), "{fine}");
        }
    }

    #[test]
    fn a_block_below_a_name_is_a_file() {
        let page = "\
`workers/main.worker`:

```yaml
---
name: main
---
Work.
```

A sentence about `forge.yaml`:
```yaml
unnamed: true
```
`../outside`:
```text
x
```
`/etc/passwd`:
```text
x
```
`forge.yaml`:
A sentence between name and block.
```yaml
unnamed: true
```
<!-- new directory -->
`run.sh`:
```console
$ not a command here
```
";
        let file = |line, name: &str, text: &str| {
            Step::File(NamedFile {
                line,
                name: name.into(),
                text: text.into(),
            })
        };
        assert_eq!(
            steps(page).expect("a valid page"),
            [
                file(1, "workers/main.worker", "---\nname: main\n---\nWork.\n"),
                Step::NewDirectory,
                file(28, "run.sh", "$ not a command here\n"),
            ]
        );
    }

    #[test]
    fn stale_phrases_are_found_in_prose_as_whole_words() {
        let page = "\
Staging is in version 2.
Pushing is Not In  This Version, *currently*.
`currently` in code, concurrently, todo.
```text
in this version
```
A TODO, so far.
";
        assert_eq!(
            stale_phrases(page),
            [
                (2, "in this version"),
                (2, "currently"),
                (7, "so far"),
                (7, "TODO"),
            ]
        );
    }

    #[test]
    fn citations_of_other_documents_are_found_in_every_text() {
        // In two parts, so that the check does not find them here.
        for (before, citation, after) in [
            ("", ["F", "004-3"], "4..36"),
            ("x ", ["(C", "21)"], ""),
            ("", ["(c", "9)"], "."),
            ("", ["Seed ", "002"], "'s words"),
            ("é, ", ["decision", "s 1"], "7"),
            ("", ["Behaviour ", "section 7"], ""),
            (
                "decision 0013, (C0, C1), seed 4, F0004-1, decisions",
                ["", ""],
                "",
            ),
        ] {
            let citation = citation.concat();
            let text = format!("{before}{citation}{after}");
            let found = Some(&*citation).filter(|citation| !citation.is_empty());
            let text = format!("one\n/// {text}\n");
            let wanted: Vec<_> = found.map(|found| (2, found)).into_iter().collect();
            assert_eq!(foreign_citations(&text), wanted, "{text}");
        }
    }

    #[test]
    fn shown_output_is_found_in_order_with_gaps_and_wildcards() {
        let actual = "one\ntwo 2.4 ms end\nthree\n";
        let missing = |shown: &[&str]| {
            let shown: Vec<String> = shown.iter().map(|line| (*line).to_owned()).collect();
            missing_line(&shown, actual).map(str::to_owned)
        };
        for good in [
            &["one", "three"][..],
            &["one", "…", "three"],
            &["two [..] ms end"],
            &["[..]end"],
            &["two[..]"],
            &["", "one"],
            &[],
        ] {
            assert_eq!(missing(good), None, "{good:?}");
        }
        assert_eq!(missing(&["three", "one"]), Some("one".into()));
        assert_eq!(missing(&["two"]), Some("two".into()));
        assert_eq!(missing(&["two [..] ms"]), Some("two [..] ms".into()));
        assert_eq!(missing(&["[..]x[..]"]), Some("[..]x[..]".into()));
    }

    #[test]
    fn links_are_taken_from_prose_only() {
        let page = "\
See [the map](docs/architecture.md#the-map) and ![x](a.png \"title\").
`[not](this)` but [`this`](one.md)
```
[nor](that)
```
[ref]: https://example.org
";
        let targets: Vec<(usize, String)> = links(page)
            .into_iter()
            .map(|link| (link.line, link.target))
            .collect();
        assert_eq!(
            targets,
            [
                (1, "docs/architecture.md#the-map".into()),
                (1, "a.png".into()),
                (2, "one.md".into()),
                (6, "https://example.org".into()),
            ]
        );
    }

    #[test]
    fn headings_become_anchors() {
        let page = "# A `first` heading: yes, really\n```\n# no\n```\n## Two_words-here\n";
        assert_eq!(
            anchors(page),
            BTreeSet::from([
                "a-first-heading-yes-really".to_owned(),
                "two_words-here".to_owned()
            ])
        );
    }
}
