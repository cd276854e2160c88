//! The person's browser.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ExitStatus, Stdio};

use crate::setup::host_programs::HostPrograms;

/// Opens a URL with the first program in `BROWSER` that starts, or else with that of the desktop. No
/// shell reads the URL. `failed` is called later, on another thread, if the program fails.
///
/// `BROWSER` is a list of commands with `:` between them; `%s` in one stands for the URL, which is
/// otherwise its last argument.
/// <https://manpages.debian.org/stable/sensible-utils/sensible-browser.1.en.html>
pub(super) fn open(
    browser: Option<&str>,
    programs: &HostPrograms,
    url: &str,
    failed: impl FnOnce(ExitStatus) + Send + 'static,
) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for line in browser.unwrap_or("xdg-open:open").split(':') {
        let words = words(line, url);
        match words.map(|(program, arguments)| start(&program, &arguments, programs)) {
            Some(Ok(mut child)) => {
                std::thread::spawn(move || {
                    if let Ok(status) = child.wait()
                        && !status.success()
                    {
                        failed(status);
                    }
                });
                return Ok(());
            }
            Some(Err(error)) => last = error,
            None => {}
        }
    }
    Err(last)
}

/// Returns the words of one command of the list: the program, and its arguments.
fn words(line: &str, url: &str) -> Option<(String, Vec<String>)> {
    let mut words = line.split_whitespace();
    let program = words.next()?.to_owned();
    let mut arguments: Vec<String> = words.map(|word| word.replace("%s", url)).collect();
    if !line.contains("%s") {
        arguments.push(url.to_owned());
    }
    Some((program, arguments))
}

fn start(program: &str, arguments: &[String], programs: &HostPrograms) -> io::Result<Child> {
    let command = programs.command(program);
    let mut command = command.map_err(|error| io::Error::other(error.to_string()))?;
    // A group of its own: Ctrl-C is for the command inside.
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_the_list() {
        let url = "https://example.com/?a=%s";
        for (line, expected) in [
            ("firefox", Some(vec!["firefox", url])),
            (
                " firefox  --new-tab ",
                Some(vec!["firefox", "--new-tab", url]),
            ),
            ("open %s -a Safari", Some(vec!["open", url, "-a", "Safari"])),
            (
                "w3m -T=%s",
                Some(vec!["w3m", "-T=https://example.com/?a=%s"]),
            ),
            ("", None),
        ] {
            let made = words(line, url).map(|(program, mut arguments)| {
                arguments.insert(0, program);
                arguments
            });
            let words = expected.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(made, words, "{line}");
        }
    }
}
