//! One ssh server and one agent on loopback, for all tests of this process. They end when it does.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use forge_git::{Credential, Credentials};

pub(crate) struct Sshd {
    /// `ssh://user@127.0.0.1:port`
    pub(crate) origin: String,
    pub(crate) port: u16,
    dir: PathBuf,
    /// Its end ends the servers.
    _held: std::process::ChildStdin,
}

/// The server; says why where there is none.
#[expect(clippy::print_stderr, reason = "a skip is seen, with its reason")]
pub(crate) fn sshd() -> Option<&'static Sshd> {
    static ONE: OnceLock<Option<Sshd>> = OnceLock::new();
    let start = || {
        let started = start();
        if let Err(why) = &started {
            eprintln!("skipped: repositories over ssh: {why}");
        }
        started.ok()
    };
    ONE.get_or_init(start).as_ref()
}

impl Sshd {
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn credentials(&self) -> Credentials {
        self.credentials_with("agent", "known")
    }

    pub(crate) fn credentials_with(&self, agent: &str, known: &str) -> Credentials {
        let agent = Credential::agent(self.at(agent), self.at(known)).unwrap();
        Credentials::new().with(&self.origin, agent).unwrap()
    }
}

const SCRIPT: &str = r#"
dir=$1; sshd=$2; libraries=$3
if [ "$(id -u)" = 0 ]; then
  mount --bind "$dir/passwd" /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd
fi
ssh-agent -D -a "$dir/agent" > /dev/null & one=$!
ssh-agent -D -a "$dir/empty" > /dev/null & two=$!
LD_LIBRARY_PATH=$libraries "$sshd" -D -e -f "$dir/config" 2> "$dir/log" & three=$!
n=0
until SSH_AUTH_SOCK=$dir/agent ssh-add -q "$dir/key" 2> "$dir/added" || [ $n -gt 100 ]; do
  n=$((n + 1)); sleep 0.1
done
until grep -q listening "$dir/log" || [ $n -gt 100 ]; do n=$((n + 1)); sleep 0.1; done
[ $n -gt 100 ] && cat "$dir/log" "$dir/added" | head -1 || echo ready
read -r _
kill -9 $one $two $three
rm -rf "$dir"
"#;

fn find(program: &str) -> Option<PathBuf> {
    let places = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&places).map(|place| place.join(program));
    found.find(|path| path.is_file())
}

/// What `cargo xtask setup` has unpacked.
fn unpacked(package: &str) -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let place = cache
        .or_else(home)
        .ok_or("no place for the cache of tools")?;
    let there = place.join("forge-tools/debian").join(package);
    match there.is_dir() {
        true => Ok(there),
        false => Err(format!("no {package}; `cargo xtask setup` unpacks it")),
    }
}

fn start() -> Result<Sshd, String> {
    for program in ["ssh", "ssh-keygen", "ssh-agent", "ssh-add", "unshare"] {
        find(program).ok_or(format!("{program} is not installed"))?;
    }
    let usual = Some(PathBuf::from("/usr/sbin/sshd")).filter(|path| path.is_file());
    let (sshd, libraries) = match find("sshd").or(usual) {
        Some(sshd) => (sshd, PathBuf::new()),
        None => {
            let all = unpacked("libwrap0")?.join("usr/lib");
            let inner = std::fs::read_dir(&all).map_err(|error| error.to_string())?;
            let inner = inner.flatten().map(|entry| entry.path());
            let libraries = std::env::join_paths(inner.chain([all.clone()]));
            let libraries = libraries.map_err(|error| error.to_string())?;
            (
                unpacked("openssh-server")?.join("usr/sbin/sshd"),
                libraries.into(),
            )
        }
    };
    let dir = tempfile::tempdir().unwrap().keep();
    let at = |name: &str| dir.join(name);
    for key in ["host", "other", "key"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(at(key))
            .status();
        assert!(made.unwrap().success());
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for (file, key) in [("known", "host.pub"), ("changed", "other.pub")] {
        let key = std::fs::read_to_string(at(key)).unwrap();
        std::fs::write(at(file), format!("[127.0.0.1]:{port} {key}")).unwrap();
    }
    std::fs::write(at("unknown"), "").unwrap();
    std::fs::copy(at("key.pub"), at("authorized")).unwrap();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\n\
         PermitRootLogin yes\nPidFile none\nMaxStartups 100\nAcceptEnv GIT_PROTOCOL\n",
        at("host").display(),
        at("authorized").display(),
    );
    std::fs::write(at("config"), config).unwrap();
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let user = match users.contains("\nsshd:") {
        true => "",
        false => "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n",
    };
    std::fs::write(at("passwd"), format!("{users}{user}")).unwrap();
    let id = |what: &str| {
        let output = Command::new("id").arg(what).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let mut command = match id("-u").as_str() {
        // The user that it wants is made in a mount namespace of its own, not on the host.
        "0" => {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh"]);
            command
        }
        _ => Command::new("sh"),
    };
    let mut child = command
        .args(["-c", SCRIPT, "sh"])
        .arg(&dir)
        .arg(sshd)
        .arg(libraries)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let held = child.stdin.take().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    if line != "ready\n" {
        return Err(format!("sshd does not start: {line}"));
    }
    let user = id("-un");
    // Who may not log in at all has no such server.
    let output = Command::new("ssh")
        .args(["-F", "none", "-o", "BatchMode=yes", "-o"])
        .arg(format!("UserKnownHostsFile={}", at("known").display()))
        .args([
            "-p",
            &port.to_string(),
            &format!("{user}@127.0.0.1"),
            "git --version",
        ])
        .env("SSH_AUTH_SOCK", at("agent"))
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{user} is not let in: {}", why.trim()));
    }
    Ok(Sshd {
        origin: format!("ssh://{user}@127.0.0.1:{port}"),
        port,
        dir,
        _held: held,
    })
}
