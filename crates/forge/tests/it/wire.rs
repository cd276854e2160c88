//! `forge mcp` answers on whatever its streams are, and whoever else holds them does not notice.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl};

use crate::support::{World, forge_program};

const HELLO: &str = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\
                     \"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n";
/// Longer than what a pipe holds.
const LONG: usize = 200_000;

struct Ends {
    /// What the server gets.
    input: OwnedFd,
    output: OwnedFd,
    /// What the client has.
    to: OwnedFd,
    from: OwnedFd,
}

fn pipes() -> Ends {
    let (input, to) = std::io::pipe().unwrap();
    let (from, output) = std::io::pipe().unwrap();
    Ends {
        input: input.into(),
        output: output.into(),
        to: to.into(),
        from: from.into(),
    }
}

fn sockets() -> Ends {
    let (input, to) = UnixStream::pair().unwrap();
    let (output, from) = UnixStream::pair().unwrap();
    Ends {
        input: input.into(),
        output: output.into(),
        to: to.into(),
        from: from.into(),
    }
}

fn waits(end: &OwnedFd) -> bool {
    !fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK)
}

#[test]
fn pipes_and_sockets_are_answered_and_left_as_they_are() {
    for ends in [pipes(), sockets()] {
        let world = World::new(&[("data/long.txt", &"long ".repeat(LONG / 5))]);
        let also_theirs = [
            ends.input.try_clone().unwrap(),
            ends.output.try_clone().unwrap(),
        ];
        let mut server = world
            .command(forge_program(), &["mcp", "-c", "sandbox.root=./data"])
            .stdin(Stdio::from(ends.input))
            .stdout(Stdio::from(ends.output))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut to, from) = (File::from(ends.to), BufReader::new(File::from(ends.from)));
        let mut lines = from.lines().map(Result::unwrap);
        to.write_all(HELLO.as_bytes()).unwrap();
        assert!(lines.next().unwrap().contains("\"serverInfo\""));
        assert!(also_theirs.iter().all(waits));
        // In two parts, and an answer that does not fit into the pipe at once.
        let read = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\
                    \"read_file\",\"arguments\":{\"path\":\"/long.txt\"}}}\n";
        let (head, tail) = read.split_at(50);
        to.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        to.write_all(tail.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        let answer = lines.next().unwrap();
        assert!(answer.len() > LONG / 2, "{}", answer.len());
        drop((to, also_theirs));
        assert!(server.wait().unwrap().success());
    }
}

#[test]
fn files_will_do() {
    let world = World::new(&[("data/a.txt", "a")]);
    let file = |name: &str| {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(world.outside().join(name))
            .unwrap()
    };
    let (mut input, mut output) = (file("input"), file("output"));
    input.write_all(HELLO.as_bytes()).unwrap();
    input.rewind().unwrap();
    let status = world
        .command(forge_program(), &["mcp", "-c", "sandbox.root=./data"])
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output.try_clone().unwrap()))
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    assert!(text.contains("\"serverInfo\""), "{text}");
}
