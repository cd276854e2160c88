//! The place of the tests: a node, which is a process of its own that runs this program once more.
//! No engine is needed for it. Tests that do not ask for [`everywhere`] run in this process.

use std::cell::Cell;
use std::path::Path;

use file_sandbox::FileSandbox;
use forge_tools::ToolboxBuilder;

thread_local! {
    static ELSEWHERE: Cell<bool> = const { Cell::new(false) };
}

/// Label of nodes in these tests.
pub(crate) const ELSEWHERE_NAME: &str = "elsewhere";

/// Commands are confined on Linux only, so far.
pub(crate) const HAS_COMMANDS: bool = cfg!(target_os = "linux");

/// Runs the check with the work in nodes; in this process it runs in forge-tools.
pub(crate) fn everywhere(check: impl Fn()) {
    ELSEWHERE.set(true);
    insta::allow_duplicates!(check());
    ELSEWHERE.set(false);
}

/// `true` if the work of these tests is done in nodes.
pub(crate) fn is_elsewhere() -> bool {
    ELSEWHERE.get()
}

/// With these files, and what works on them where it is now.
pub(crate) fn with_files(builder: ToolboxBuilder, files: FileSandbox) -> ToolboxBuilder {
    if is_elsewhere() {
        let node = node::of_files(&files);
        return builder
            .files(files)
            .runner(forge_node::NodeRunner::new(node));
    }
    builder.files(files)
}

/// With commands that see this directory, where commands are confined.
pub(crate) fn with_commands(builder: ToolboxBuilder, directory: &Path) -> ToolboxBuilder {
    #[cfg(target_os = "linux")]
    let builder = builder.processes(crate::commands::processes(directory));
    let _ = directory;
    builder
}

/// Commands under this plan, where it is now.
pub(crate) fn processes(plan: os_sandbox::Plan) -> forge_tools::Processes {
    if is_elsewhere() {
        return node::processes(&plan, &[]);
    }
    forge_tools::Processes::new(plan)
}

pub(crate) mod node {
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command, Stdio};
    use std::sync::{Mutex, OnceLock};

    use file_sandbox::FileSandbox;
    use forge_node::{
        NodeClient, NodeCommandRunner, NodeConnectOptions, PathMapping, ServeOptions, Setup, serve,
    };
    use forge_tools::{Processes, ProgramList};
    use os_sandbox::{Plan, Requirement};
    use tokio::net::UnixStream;
    use tokio::runtime::Runtime;

    use super::ELSEWHERE_NAME;

    /// Tells the program that it is a node, and where its broker listens.
    pub(crate) const SOCKET: &str = "FORGE_TEST_NODE_SOCKET";

    /// Returns the runtime of the connections of all tests.
    pub(crate) fn runtime() -> &'static Runtime {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        RUNTIME.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2).enable_all().build().unwrap()
        })
    }

    /// A process of a test; ended with it.
    pub(crate) struct Ended(pub(crate) Mutex<Child>);

    impl Drop for Ended {
        fn drop(&mut self) {
            let child = self.0.get_mut().unwrap();
            let _ended_already = child.kill();
            child.wait().unwrap();
        }
    }

    /// This program as a node, and what it speaks over.
    pub(crate) fn process() -> (UnixStream, Ended) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "place::node::as_a_node",
                "--ignored",
                "--nocapture",
            ])
            .env(SOCKET, &socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let _runtime = runtime().enter();
        let stream = UnixStream::from_std(stream).unwrap();
        (stream, Ended(Mutex::new(child)))
    }

    /// Not a test: what [`process`] runs.
    #[test]
    #[ignore = "started by other tests"]
    fn as_a_node() {
        let Some(socket) = std::env::var_os(SOCKET) else {
            return;
        };
        runtime()
            .block_on(async {
                let (reader, writer) = UnixStream::connect(socket).await.unwrap().into_split();
                let inside = ServeOptions::new(cap_std::ambient_authority());
                serve(reader, writer, inside).await
            })
            .unwrap();
        std::process::exit(0);
    }

    pub(crate) fn connect(setup: Setup) -> NodeClient {
        let (stream, child) = process();
        runtime().block_on(async {
            let (reader, writer) = stream.into_split();
            let connect = NodeConnectOptions::new(ELSEWHERE_NAME);
            let node = NodeClient::connect_keeping(reader, writer, setup, connect, child).await;
            node.unwrap()
        })
    }

    pub(crate) fn of_files(files: &FileSandbox) -> NodeClient {
        connect(Setup::new().files(files, &PathMapping::Same).unwrap())
    }

    pub(crate) fn processes(plan: &Plan, programs: &[ProgramList]) -> Processes {
        let policy = plan.policy();
        let setup = Setup::new()
            .commands(policy, Requirement::Enforce, &PathMapping::Same)
            .unwrap()
            .programs(programs);
        Processes::started_by(NodeCommandRunner::new(connect(setup)), policy.clone())
    }
}
