//! Programs that people use reach a named host, by the proxy of the variables and without them. The
//! table is `fixtures/network-programs.tsv`; `docs/network-programs.md` is made from it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::servers::{Servers, find_program};
use super::{servers, skipped};

const FILE: &str = "fixtures/network-programs.tsv";
const CONTENTS: &str = include_str!("contents.py");
/// A program that uses either interface of the JDK.
const JAVA: &str = "\
import java.net.*;
import java.net.http.*;

class Fetch {
    public static void main(String[] words) throws Exception {
        URI uri = URI.create(words[1]);
        if (words[0].equals(\"client\")) {
            HttpRequest request = HttpRequest.newBuilder(uri).build();
            HttpClient client = HttpClient.newHttpClient();
            System.out.print(client.send(request, HttpResponse.BodyHandlers.ofString()).body());
        } else {
            uri.toURL().openStream().transferTo(System.out);
        }
    }
}
";
const HOSTS: [&str; 5] = [
    "one.example:22",
    "one.example:80",
    "one.example:443",
    "one.example:2200",
    "one.example:5432",
];
/// The result of a program that does its task.
const WORKS: &str = "works";
/// Not installed, or not run.
const ABSENT: &str = "-";

struct Row {
    program: String,
    task: String,
    needs: String,
    prints: String,
    version: String,
    proxied: String,
    direct: String,
    command: String,
}

impl Row {
    fn parse(line: &str) -> Row {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let [
            program,
            task,
            needs,
            prints,
            version,
            proxied,
            direct,
            command,
        ] = <[String; 8]>::try_from(cells).unwrap_or_else(|_| panic!("not eight cells: {line}"));
        Row {
            program,
            task,
            needs,
            prints,
            version,
            proxied,
            direct,
            command,
        }
    }

    fn line(&self) -> String {
        [
            &self.program,
            &self.task,
            &self.needs,
            &self.prints,
            &self.version,
            &self.proxied,
            &self.direct,
            &self.command,
        ]
        .map(String::as_str)
        .join("\t")
    }
}

#[test]
fn programs_reach_named_hosts_with_the_variables_and_without() {
    let Some(mut servers) = servers() else { return };
    let table = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(FILE);
    let text = std::fs::read_to_string(&table).unwrap();
    let bench = Bench::new(&mut servers);
    let mut fresh = String::new();
    let update = std::env::var_os("FORGE_UPDATE_FIXTURES").is_some();
    // The first task of each program in both ways in a sample, and its others by turns.
    let mut last = String::new();
    let (mut run, mut whole) = (0, 0);
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            fresh += &format!("{line}\n");
            continue;
        }
        let mut row = Row::parse(line);
        match bench.missing(&row) {
            Some(why) => {
                skipped(&format!("{}, {}: {why}", row.program, row.task));
                row.version = ABSENT.to_owned();
            }
            None => {
                row.version = bench.version(&row.program);
                let unset = "unset $(env | cut -d= -f1 | grep -i proxy); ";
                let doors = [("", &row.proxied), (unset, &row.direct)];
                let is_first = std::mem::replace(&mut last, row.program.clone()) != row.program;
                for (at, (door, expected)) in doors.into_iter().enumerate() {
                    if is_first || update || number % 2 == at || test_sample::is_full() {
                        bench.check(&row, door, expected);
                        run += 1;
                    }
                    whole += 1;
                }
            }
        }
        fresh += &format!("{}\n", row.line());
    }
    test_sample::count("programs and named hosts: tasks", run, whole);
    if update {
        std::fs::write(&table, fresh).unwrap();
    }
}

/// The servers with their contents, and the places of the programs.
struct Bench<'a> {
    servers: &'a Servers,
    sshd: Result<Sshd, String>,
    /// Commands that begin every script.
    setup: String,
    /// `sandbox.programs`.
    programs: String,
}

impl Bench<'_> {
    fn new(servers: &mut Servers) -> Bench<'_> {
        let world = &servers.world;
        world.write("Fetch.java", JAVA);
        let (script, files) = (
            world.outside().join("contents.py"),
            world.outside().join("files"),
        );
        std::fs::write(&script, CONTENTS).unwrap();
        let mut contents = world.command("python3".as_ref(), &[]);
        let made = contents.arg(script).arg(&files).status().unwrap();
        assert!(made.success());
        let mut programs = Vec::new();
        // Rust's programs are in a person's home.
        let cargo = std::env::var("PATH").ok();
        if let Some(cargo) = cargo.and_then(|path| find_program("cargo", &path)) {
            let bin = cargo.parent().unwrap();
            servers.path = format!("{}:{}", servers.path, bin.display());
            programs.push(bin.parent().unwrap().to_owned());
            programs.extend(rustup_home().filter(|home| home.is_dir()));
        }
        // Debian's Maven has its configuration there.
        programs.extend(
            [PathBuf::from("/etc/maven")]
                .into_iter()
                .filter(|dir| dir.is_dir()),
        );
        let servers = &*servers;
        let sshd = Sshd::start(servers);
        let project = servers.world.project();
        let mut setup = format!(
            "export CA={0}/ca.crt JAVA_SOURCE={0}/Fetch.java FILES={1} SSH_OPTIONS='-i /tmp/key \
             -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
             -o LogLevel=ERROR'\ncd $(mktemp -d)\n",
            project.display(),
            files.display(),
        );
        if let Ok(sshd) = &sshd {
            setup += &format!("(umask 77; cat > /tmp/key <<'END'\n{}END\n)\n", sshd.key);
        }
        Bench {
            servers,
            sshd,
            setup,
            programs: format!("sandbox.programs={}", serde_json::json!(programs)),
        }
    }

    /// Returns the reason for which a row is not run.
    fn missing(&self, row: &Row) -> Option<String> {
        row.needs.split(',').find_map(|program| match program {
            "sshd" => self.sshd.as_ref().err().cloned(),
            _ => match find_program(program, &self.servers.path) {
                Some(_) => None,
                None => Some(format!("{program} is not installed")),
            },
        })
    }

    fn check(&self, row: &Row, door: &str, expected: &str) {
        let script = format!("{}{door}{}", self.setup, row.command);
        let told = self.servers.exec(&HOSTS, &[&self.programs], &script);
        let works = told.code == Some(0) && told.output.contains(&row.prints);
        let all = format!(
            "{}, {}: {door}{}\n{:?}\n{}\n{:#?}",
            row.program,
            row.task,
            row.command,
            told.code,
            told.output,
            told.contacts()
        );
        assert_eq!(works, expected == WORKS, "{all}");
        // Of a JVM that was given options.
        assert!(!told.output.contains("Picked up"), "{all}");
        let contacts = told.contacts();
        let reached = |contact: &String| contact.starts_with("connected one.example:");
        assert!(
            !works || contacts.iter().all(reached) && !contacts.is_empty(),
            "{all}"
        );
    }

    fn version(&self, program: &str) -> String {
        let flags = ["--version", "-V", "version"].into_iter();
        let mut texts = flags.filter_map(|flag| {
            let mut command = self.servers.world.command(program.as_ref(), &[flag]);
            let output = command.env("PATH", &self.servers.path).env_remove("HOME");
            let output = output.envs(std::env::var_os("HOME").map(|home| ("HOME", home)));
            let output = output.output().ok()?;
            let all = [output.stdout, output.stderr].concat();
            find_version(&String::from_utf8_lossy(&all))
        });
        texts.next().unwrap_or_else(|| "installed".to_owned())
    }
}

/// Returns the first number with a point in it.
fn find_version(text: &str) -> Option<String> {
    let mut words = text.split(|one: char| !one.is_ascii_alphanumeric() && one != '.');
    let found = words.find_map(|word| {
        let word = word.trim_start_matches('v').trim_end_matches('.');
        let (major, minor) = word.split_once('.')?;
        let is_number = |text: &str| text.starts_with(|one: char| one.is_ascii_digit());
        (is_number(major) && is_number(minor)).then_some(word)
    });
    found.map(str::to_owned)
}

fn rustup_home() -> impl Iterator<Item = PathBuf> {
    let own = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let usual = std::env::var_os("HOME").map(|home| Path::new(&home).join(".rustup"));
    own.or(usual).into_iter()
}

/// An ssh server at one.example, port 22. It ends when this is dropped.
struct Sshd {
    child: std::process::Child,
    /// The private key of its user.
    key: String,
}

/// The server wants a user of its own, whom the mount namespace has.
const SSHD: &str = r#"
dir=$1; sshd=$2
mount --bind "$dir/passwd" /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd &&
LD_LIBRARY_PATH=$3 "$sshd" -D -e -f "$dir/config" 2> "$dir/log" & server=$!
n=0
until grep -q listening "$dir/log" 2> /dev/null || [ $n -gt 100 ]; do n=$((n + 1)); sleep 0.1; done
[ $n -gt 100 ] && cat "$dir/log" || echo ready
read -r _
kill -9 $server
"#;

impl Sshd {
    /// Starts the server; only root can, whose users are those of the host.
    fn start(servers: &Servers) -> Result<Sshd, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("sshd needs root".to_owned());
        }
        let (program, libraries) = sshd_program(&servers.path)?;
        let dir = servers.world.outside().join("sshd");
        std::fs::create_dir(&dir).unwrap();
        let at = |name: &str| dir.join(name);
        for key in ["host", "key"] {
            let mut make = servers.world.command(
                "ssh-keygen".as_ref(),
                &["-q", "-t", "ed25519", "-N", "", "-f"],
            );
            let made = make.arg(at(key)).status();
            if !made.is_ok_and(|made| made.success()) {
                return Err("ssh-keygen is not installed".to_owned());
            }
        }
        let config = format!(
            "Port 22\nHostKey {}\nAuthorizedKeysFile {}\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n\
             PidFile none\n",
            at("host").display(),
            at("key.pub").display(),
        );
        std::fs::write(at("config"), config).unwrap();
        let users = std::fs::read_to_string("/etc/passwd").unwrap();
        let user = "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n";
        std::fs::write(at("passwd"), users + user).unwrap();
        let mut child = Command::new("nsenter")
            .args(["--target", servers.others(), "--net", "unshare", "--mount"])
            .args(["sh", "-c", SSHD, "sh"])
            .args([&dir, &program, &libraries])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let key = std::fs::read_to_string(at("key")).unwrap();
        let sshd = Sshd { child, key };
        match line.trim() {
            "ready" => Ok(sshd),
            why => Err(format!("sshd does not start: {why}")),
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Returns sshd and a directory of its libraries: the host's, or what `cargo xtask setup` unpacks.
fn sshd_program(path: &str) -> Result<(PathBuf, PathBuf), String> {
    if let Some(sshd) = find_program("sshd", path) {
        return Ok((sshd, PathBuf::new()));
    }
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or(home).unwrap_or_default();
    let unpacked = cache.join("forge-tools/debian");
    let sshd = unpacked.join("openssh-server/usr/sbin/sshd");
    let libraries = std::fs::read_dir(unpacked.join("libwrap0/usr/lib"));
    let libraries = libraries.into_iter().flatten().flatten().next();
    match libraries.filter(|_| sshd.is_file()) {
        Some(libraries) => Ok((sshd, libraries.path())),
        None => Err("sshd is not installed; `cargo xtask setup` unpacks it".to_owned()),
    }
}
