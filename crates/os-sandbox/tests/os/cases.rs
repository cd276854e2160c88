//! The table: what is tried, and what must come of it. One check function for all.

use crate::fixture::{Mechanism, World};
use crate::report::Report;
use nix::libc::{self, EACCES, EAFNOSUPPORT, ENETUNREACH, ENOSYS, EPERM, EPROTONOSUPPORT};
use os_sandbox::{Command, Network, Plan};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// What must come of an operation.
#[derive(Clone, Copy)]
enum Want {
    /// It works.
    Works,
    /// It works and says this.
    Says(&'static str),
    /// It is refused, with whatever error.
    Refused,
    /// It is refused with this error.
    Errno(i32),
}

use Want::{Errno, Refused, Says, Works};

fn check(world: &World, plan: &Plan, report: &mut Report, name: &str, op: &str, want: Want) {
    let words: Vec<String> = op.split_whitespace().map(str::to_owned).collect();
    let said = world.probe(plan, &words);
    let good = match want {
        Works => said == "ok" || said.starts_with("ok "),
        Says(text) => said == format!("ok {text}"),
        Refused => said.starts_with("errno "),
        Errno(errno) => said == format!("errno {errno}"),
    };
    let outcome = if good {
        world.unharmed()
    } else {
        Err(format!("{op}: {said}"))
    };
    report.case(name, outcome);
}

/// Files.
pub(crate) fn access(mechanism: Mechanism, report: &mut Report) {
    let world = World::new(mechanism);
    let plan = world.plan();
    for (name, op, want) in [
        ("read outside", "read {outside}/file", Refused),
        ("list outside", "list {outside}", Refused),
        ("create outside", "write {outside}/new", Refused),
        ("overwrite outside", "write {outside}/file", Refused),
        ("append outside", "append {outside}/file", Refused),
        ("truncate outside", "truncate {outside}/file", Refused),
        (
            "truncate outside by path",
            "truncate-path {outside}/file",
            Refused,
        ),
        ("delete outside", "delete {outside}/file", Refused),
        ("mkdir outside", "mkdir {outside}/dir", Refused),
        ("symlink outside", "symlink x {outside}/link", Refused),
        ("move out", "rename {rw}/file {outside}/stolen", Refused),
        ("move in", "rename {outside}/file {rw}/stolen", Refused),
        ("hard link in", "link {outside}/file {rw}/hard", Refused),
        ("hard link out", "link {rw}/file {outside}/hard", Refused),
        ("read through a planted link", "read {rw}/link", Refused),
        ("write through a planted link", "write {rw}/link", Refused),
        ("read /etc/shadow", "read /etc/shadow", Refused),
        ("list the home of root", "list /root", Refused),
        ("list /run", "list /run", Refused),
        ("read the master disk", "read /dev/vda", Refused),
        ("read read-only", "read {ro}/file", Says("ro content")),
        ("list read-only", "list {ro}", Says("2")),
        ("write read-only", "write {ro}/file", Refused),
        ("create in read-only", "write {ro}/new", Refused),
        ("append read-only", "append {ro}/file", Refused),
        (
            "truncate read-only by path",
            "truncate-path {ro}/file",
            Refused,
        ),
        ("delete in read-only", "delete {ro}/file", Refused),
        (
            "rename in read-only",
            "rename {ro}/file {ro}/other",
            Refused,
        ),
        ("read writable", "read {rw}/file", Says("rw content")),
        ("create in writable", "write {rw}/new", Works),
        ("append writable", "append {rw}/file", Works),
        ("rename in writable", "rename {rw}/new {rw}/newer", Works),
        ("mkdir in writable", "mkdir {rw}/dir", Works),
        (
            "move between directories",
            "rename {rw}/newer {rw}/dir/newer",
            Works,
        ),
        ("hard link in writable", "link {rw}/file {rw}/hard", Works),
        ("delete in writable", "delete {rw}/dir/newer", Works),
        (
            "write a system file",
            "write /usr/bin/os-sandbox-test",
            Refused,
        ),
        ("write /etc", "write /etc/os-sandbox-test", Refused),
        ("write /dev/null", "append /dev/null", Works),
        ("write /dev/full", "append /dev/full", Errno(libc::ENOSPC)),
        ("create in /dev", "write /dev/os-sandbox-test", Refused),
        ("create in the root", "write /os-sandbox-test", Refused),
        (
            "write core_pattern",
            "append /proc/sys/kernel/core_pattern",
            Refused,
        ),
        ("write sysrq-trigger", "append /proc/sysrq-trigger", Refused),
        (
            "write overcommit",
            "append /proc/sys/vm/overcommit_memory",
            Refused,
        ),
        (
            "write oom_score_adj",
            "append /proc/self/oom_score_adj",
            want_oom(mechanism),
        ),
        (
            "write cgroup",
            "append /sys/fs/cgroup/cgroup.procs",
            Refused,
        ),
        ("set-user-id by chmod", "mode {rw}/file 4755", Errno(EPERM)),
        ("set-group-id by chmod", "mode {rw}/file 2755", Errno(EPERM)),
        (
            "set-user-id by open",
            "create-mode {rw}/suid 4755",
            Errno(EPERM),
        ),
        ("ordinary chmod", "mode {rw}/file 0640", Works),
        (
            "start what is readable only",
            "exec {ro}/script",
            want_exec(mechanism),
        ),
    ] {
        check(&world, &plan, report, name, op, want);
    }
    let script = world.host("rw").join("script");
    std::fs::copy(world.host("ro").join("script"), &script).expect("a copy");
    check(
        &world,
        &plan,
        report,
        "start what is executable",
        "exec {rw}/script",
        Says("ran"),
    );
}

/// Without Landlock a read-only bind is executable: the plan says so.
fn want_exec(mechanism: Mechanism) -> Want {
    match mechanism {
        Mechanism::Bubblewrap | Mechanism::Landlock => Errno(EACCES),
        Mechanism::BubblewrapAlone => Says("ran"),
    }
}

/// Its own entry in its own /proc is all that a target without Landlock can write there.
fn want_oom(mechanism: Mechanism) -> Want {
    match mechanism {
        Mechanism::Bubblewrap | Mechanism::Landlock => Errno(EACCES),
        Mechanism::BubblewrapAlone => Errno(libc::EINVAL),
    }
}

/// Network, processes, kernel interfaces, descriptors, environment.
pub(crate) fn surface(mechanism: Mechanism, report: &mut Report) {
    let world = World::new(mechanism);
    let plan = world.plan();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = tcp.local_addr().expect("an address").port();
    let udp_port = udp.local_addr().expect("an address").port();
    let path = world.host("rw").join("socket");
    let _unix = UnixListener::bind(&path).expect("a listener");
    let name = format!("os-sandbox-test-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
    let _abstract = UnixListener::bind_addr(&abstract_name).expect("a listener");
    let mut victim = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .expect("a victim");
    let pid = victim.id();
    let me = std::process::id();

    let socket = |family: i32, kind: i32, protocol: i32| {
        format!("call {} {family} {kind} {protocol}", libc::SYS_socket)
    };
    let call = |number: i64, args: &str| format!("call {number} {args}");
    let pair = |kind: i32| {
        format!(
            "call {} {} {kind} 0 DATA",
            libc::SYS_socketpair,
            libc::AF_UNIX
        )
    };
    let stream = libc::SOCK_STREAM;
    let gone = if mechanism.has_mount_layer() {
        libc::ESRCH
    } else {
        EPERM
    };
    let rows: Vec<(&str, String, Want)> = vec![
        ("connect TCP", format!("tcp {port}"), Errno(ENETUNREACH)),
        (
            "connect TCP over IPv6",
            format!("tcp6 {port}"),
            Errno(ENETUNREACH),
        ),
        ("listen", "listen".to_owned(), Errno(ENETUNREACH)),
        ("send UDP", format!("udp {udp_port}"), Errno(ENETUNREACH)),
        (
            "MPTCP",
            socket(libc::AF_INET, stream, 262),
            Errno(ENETUNREACH),
        ),
        (
            "SCTP",
            socket(libc::AF_INET, stream, 132),
            Errno(ENETUNREACH),
        ),
        (
            "raw",
            socket(libc::AF_INET, libc::SOCK_RAW, 1),
            Errno(ENETUNREACH),
        ),
        (
            "VSOCK",
            socket(libc::AF_VSOCK, stream, 0),
            Errno(EAFNOSUPPORT),
        ),
        (
            "packet",
            socket(libc::AF_PACKET, libc::SOCK_RAW, 0),
            Errno(EAFNOSUPPORT),
        ),
        (
            "AF_ALG",
            socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
            Errno(EAFNOSUPPORT),
        ),
        (
            "netlink audit",
            socket(libc::AF_NETLINK, libc::SOCK_RAW, 9),
            Errno(EAFNOSUPPORT),
        ),
        (
            "netlink route",
            socket(libc::AF_NETLINK, libc::SOCK_RAW, 0),
            Works,
        ),
        ("local socket", "unix {rw}/socket".to_owned(), Errno(EACCES)),
        ("abstract socket", format!("abstract {name}"), Errno(EACCES)),
        ("socket pair", "pair".to_owned(), Works),
        ("datagram pair", pair(libc::SOCK_DGRAM), Errno(EACCES)),
        ("raw pair", pair(libc::SOCK_RAW), Errno(EACCES)),
        ("message pair", pair(libc::SOCK_SEQPACKET), Works),
        (
            "priority of a process outside",
            call(libc::SYS_setpriority, &format!("0 {pid} 0")),
            Errno(gone),
        ),
        (
            "processors of a process outside",
            call(libc::SYS_sched_setaffinity, &format!("{pid} 8 DATA")),
            Errno(gone),
        ),
        (
            "its own priority",
            call(libc::SYS_setpriority, "0 0 5"),
            Works,
        ),
        (
            "signal a process outside",
            call(libc::SYS_kill, &format!("{pid} 15")),
            Errno(gone),
        ),
        (
            "signal the broker",
            call(libc::SYS_kill, &format!("{me} 0")),
            Errno(gone),
        ),
        (
            "pidfd of a process outside",
            call(libc::SYS_pidfd_open, &format!("{pid} 0")),
            pidfd(mechanism),
        ),
        (
            "environment of the broker",
            format!("read /proc/{me}/environ"),
            Refused,
        ),
        (
            "memory of the victim",
            format!("read /proc/{pid}/mem"),
            Refused,
        ),
        (
            "root of the broker",
            format!("read /proc/{me}/root/etc/hostname"),
            Refused,
        ),
        (
            "ptrace",
            call(libc::SYS_ptrace, &format!("16 {pid} 0 0")),
            Errno(EPERM),
        ),
        (
            "process_vm_readv",
            call(
                libc::SYS_process_vm_readv,
                &format!("{pid} DATA 1 DATA 1 0"),
            ),
            Errno(EPERM),
        ),
        (
            "TIOCSTI",
            call(libc::SYS_ioctl, "0 21522 DATA"),
            Errno(EPERM),
        ),
        (
            "TIOCSTI with high bits",
            call(libc::SYS_ioctl, "0 4294988818 DATA"),
            Errno(EPERM),
        ),
        (
            "io_uring",
            call(libc::SYS_io_uring_setup, "1 DATA"),
            Errno(ENOSYS),
        ),
        ("bpf", call(libc::SYS_bpf, "0 DATA 64"), Errno(EPERM)),
        (
            "userfaultfd",
            call(libc::SYS_userfaultfd, "0"),
            Errno(EPERM),
        ),
        (
            "perf",
            call(libc::SYS_perf_event_open, "DATA 0 0 0 0"),
            Errno(EPERM),
        ),
        ("keyring", call(libc::SYS_keyctl, "0 0"), Errno(EPERM)),
        (
            "user namespace",
            call(libc::SYS_unshare, &libc::CLONE_NEWUSER.to_string()),
            Errno(EPERM),
        ),
        (
            "mount namespace",
            call(libc::SYS_unshare, &libc::CLONE_NEWNS.to_string()),
            Errno(EPERM),
        ),
        ("clone3", call(libc::SYS_clone3, "DATA 88"), Errno(ENOSYS)),
        (
            "mount",
            call(libc::SYS_mount, "DATA DATA DATA 0 0"),
            Errno(EPERM),
        ),
        (
            "open_tree",
            call(libc::SYS_open_tree, "0 DATA 1"),
            Errno(EPERM),
        ),
        (
            "open by handle",
            call(libc::SYS_open_by_handle_at, "0 DATA 0"),
            Errno(EPERM),
        ),
        (
            "openat2",
            call(libc::SYS_openat2, "0 DATA DATA 24"),
            Errno(ENOSYS),
        ),
        (
            "host name",
            call(libc::SYS_sethostname, "DATA 1"),
            Errno(EPERM),
        ),
        (
            "shared memory of the host",
            call(libc::SYS_shmget, "77 4096 896"),
            own_ipc(mechanism),
        ),
        (
            "limits of a process outside",
            call(libc::SYS_prlimit64, &format!("{pid} 0 DATA 0")),
            Refused,
        ),
        (
            "its own limits",
            call(libc::SYS_prlimit64, "0 7 0 DATA"),
            Works,
        ),
        (
            "personality",
            call(libc::SYS_personality, "4194304"),
            Errno(EPERM),
        ),
        ("descriptors", "fds".to_owned(), Says("0 1 2")),
        (
            "environment",
            "env".to_owned(),
            Says("HOME LANG OS_SANDBOX PATH TERM TMPDIR"),
        ),
        (
            "capabilities",
            "status CapEff".to_owned(),
            Says("0000000000000000"),
        ),
        ("capabilities to come", "status CapBnd".to_owned(), Works),
        (
            "no new privileges",
            "status NoNewPrivs".to_owned(),
            Says("1"),
        ),
        ("filter", "status Seccomp".to_owned(), Says("2")),
        ("traced by nobody", "status TracerPid".to_owned(), Says("0")),
    ];
    // Open in the broker, also high ones and directories, and not marked close-on-exec.
    let secret = std::fs::File::open(world.host("outside")).expect("a directory");
    let leaked: Vec<i32> = [20, 700]
        .into_iter()
        .map(|at| nix::fcntl::fcntl(&secret, nix::fcntl::FcntlArg::F_DUPFD(at)).expect("a copy"))
        .collect();
    for (name, op, want) in rows {
        check(&world, &plan, report, name, &op, want);
    }
    for fd in leaked {
        assert_ne!(fd, secret.as_raw_fd());
        nix::unistd::close(fd).expect("a close");
    }
    report.case(
        "the victim lives",
        match victim.try_wait() {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );
    victim.kill().expect("a kill");
    victim.wait().expect("a wait");
    tcp.set_nonblocking(true).expect("a flag");
    udp.set_nonblocking(true).expect("a flag");
    report.case(
        "nothing arrived",
        match (tcp.accept().is_err(), udp.recv(&mut [0; 8]).is_err()) {
            (true, true) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );
    networks(&world, report);
}

/// With an IPC namespace it is the target's own; it goes away with it.
fn own_ipc(mechanism: Mechanism) -> Want {
    if mechanism.has_mount_layer() {
        Works
    } else {
        Errno(ENOSYS)
    }
}

/// In a pid namespace the number means nobody; under Landlock a pidfd can be had, not used.
fn pidfd(mechanism: Mechanism) -> Want {
    if mechanism.has_mount_layer() {
        Errno(libc::ESRCH)
    } else {
        Works
    }
}

/// Networks that are not off.
fn networks(world: &World, report: &mut Report) {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = tcp.local_addr().expect("an address").port();
    let policy = world
        .policy()
        .network(Network::Unrestricted)
        .build()
        .expect("a policy");
    let plan = world.mechanism.plan(&policy);
    check(
        world,
        &plan,
        report,
        "unrestricted: TCP",
        &format!("tcp {port}"),
        Works,
    );
    let mptcp = format!(
        "call {} {} {} 262",
        libc::SYS_socket,
        libc::AF_INET,
        libc::SOCK_STREAM
    );
    check(
        world,
        &plan,
        report,
        "unrestricted: MPTCP",
        &mptcp,
        Errno(EPROTONOSUPPORT),
    );
    let vsock = format!(
        "call {} {} {} 0",
        libc::SYS_socket,
        libc::AF_VSOCK,
        libc::SOCK_STREAM
    );
    check(
        world,
        &plan,
        report,
        "unrestricted: VSOCK",
        &vsock,
        Errno(EAFNOSUPPORT),
    );
    if world.mechanism.has_mount_layer() {
        let policy = world
            .policy()
            .network(Network::Loopback)
            .build()
            .expect("a policy");
        let plan = world.mechanism.plan(&policy);
        check(
            world,
            &plan,
            report,
            "loopback: its own",
            "own-loopback",
            Works,
        );
        check(
            world,
            &plan,
            report,
            "loopback: the host's",
            &format!("tcp {port}"),
            Refused,
        );
    }
    let plan = world.plan();
    let output = Command::new(&plan, "sh")
        .args(["-c", "echo hello | cat; echo $OS_SANDBOX"])
        .output();
    let said = output.map(|output| output.stdout.text().into_owned());
    let want = if world.mechanism.has_mount_layer() {
        "bubblewrap"
    } else {
        "landlock"
    };
    report.case(
        "the marker",
        match said {
            Ok(text) if text == format!("hello\n{want}\n") => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );
}
