//! A command, in the shape of [`std::process::Command`]. It exists only in a [`Sandbox`].

use crate::backend::Starter;
use crate::error::{Error, ErrorKind};
use crate::host_proxy::HostProxy;
use crate::plan::Plan;
use crate::policy::NamedHosts;
use crate::policy::check_variable;
use crate::reports::ReportLevel;
use crate::sandbox::Sandbox;
use crate::streams::Stdio;
use nix::unistd::geteuid;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bound on one argument, the kernel's own (`MAX_ARG_STRLEN`).
const MAX_ARGUMENT_BYTES: usize = 128 << 10;
/// Bound on all arguments and variables together, the kernel's usual one.
const MAX_TOTAL_BYTES: usize = 2 << 20;

/// A program to run in a sandbox.
///
/// By default, standard input is empty and both outputs are captured. The working directory is
/// `/work`: the root mount, or a directory of links to the named ones. The program is looked up
/// inside, along the sandbox's own PATH.
///
/// ```
/// use os_sandbox::{Command, Directories, Exit, Plan, Policy, Requirement, Sandbox, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
/// let sandbox = Sandbox::open(plan, Directories::user());
/// assert_eq!(Command::new(&sandbox, "true").output()?.exit, Exit::Code(0));
/// assert_eq!(Command::new(&sandbox, "no-such-program").output().unwrap_err().exit_code(), 127);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Command {
    pub(crate) sandbox: Sandbox,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) cwd: Option<String>,
    pub(crate) stdio: [Stdio; 3],
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) session: Session,
    pub(crate) host_proxy: Option<Arc<dyn HostProxy>>,
    pub(crate) reports: ReportLevel,
}

/// The terminal session of a command.
///
/// ```
/// assert_eq!(os_sandbox::Session::default(), os_sandbox::Session::New);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// A session of its own, without a terminal: for every command that is not interactive.
    #[default]
    New,
    /// The broker's session, so that Ctrl-C and the window size work. The filter still refuses
    /// input pushed into the terminal.
    Inherit,
    /// A session of its own with a new pseudo-terminal (pty(7)) as its controlling terminal. It takes
    /// the place of each standard stream that is a terminal, with the size of the first of
    /// them, so that the command never holds the broker's. It has the modes of that one too, if they
    /// collect lines (`ICANON` of termios(3)), and those of a new terminal otherwise: a shell that starts
    /// a job in the background has modes of its own. [`Plan::makes_terminals`] must be `true`. The
    /// broker relays between both terminals by [`Child::terminal`](crate::Child#structfield.terminal).
    /// If it is killed, a process outside gives its terminal the modes from before the command, if they
    /// are raw.
    ///
    /// Unless standard input and output are terminals, the command begins in the background of its
    /// terminal: see [`Terminal::take_foreground`](crate::Terminal::take_foreground).
    ///
    /// With a mount layer the terminal is of the command's own devpts and has its name there
    /// (`/dev/pts/0`). Under Landlock alone it is of the host's, and the command can open no other.
    Terminal,
}

impl Command {
    /// Creates a command from a program name (looked up along PATH inside) or a path inside.
    pub fn new(sandbox: &Sandbox, program: impl Into<OsString>) -> Command {
        Command {
            sandbox: sandbox.clone(),
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            stdio: [Stdio::Null, Stdio::Piped, Stdio::Piped],
            timeout: None,
            grace: None,
            session: Session::New,
            host_proxy: None,
            reports: sandbox.plan().policy().reports(),
        }
    }

    sandbox_names::setters! {
        /// Sets the attempts that are reported ([`Child::denials`](crate::Child::denials));
        /// by default those of the policy. With reports, a call that changes a file by its path takes some
        /// microseconds longer, and programs that install a listener of their own
        /// (`SECCOMP_FILTER_FLAG_NEW_LISTENER`, seccomp_unotify(2)) fail with `EBUSY`.
        reports(level: ReportLevel) = level;
        /// Sets the working directory: a sandbox path as the policy names it, such as `/data/sub`, or a
        /// path relative to `/work`.
        cwd(sandbox_path: impl Into<String>) = Some(sandbox_path.into());
        /// Sets a time limit for this command. The policy's limit still applies if it is shorter.
        timeout(timeout: Duration) = Some(timeout);
        /// Sets the time between SIGTERM and the end of the tree when the time limit is reached. Without
        /// it, the tree is ended at once.
        grace(grace: Duration) = Some(grace);
        /// Sets the proxy that connects this command with named hosts; by default that of the sandbox
        /// ([`Sandbox::with_host_proxy`]).
        host_proxy(proxy: Arc<dyn HostProxy>) = Some(proxy);
        /// Sets the terminal session; [`Session::New`] by default.
        session(session: Session) = session;
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(mut self, args: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<OsString>,
    {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a variable for this command, on top of the policy's.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets standard input; [`Stdio::Null`] by default.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdio[0] = stdin.into();
        self
    }

    /// Sets standard output; [`Stdio::Piped`] by default.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdio[1] = stdout.into();
        self
    }

    /// Sets standard error; [`Stdio::Piped`] by default.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stdio[2] = stderr.into();
        self
    }

    /// Returns the proxy that connects this command with named hosts.
    pub(crate) fn proxy(&self) -> Option<&dyn HostProxy> {
        let own = self.host_proxy.as_deref();
        own.or_else(|| self.sandbox.host_proxy())
    }

    sandbox_names::getters! {
        /// Returns the plan that the command starts under.
        pub plan: &Plan = sandbox.plan();
        /// Returns the program as the caller named it.
        pub program: &OsStr = &program;
        /// Returns the arguments.
        pub arguments: &[OsString] = &args;
        /// Returns the working directory as the caller named it.
        pub working_directory: Option<&str> = cwd.as_deref();
        /// Returns the standard streams.
        pub stdio: &[Stdio; 3] = &stdio;
        /// Returns the state directory. `None` if it is the user's own.
        pub state_dir: Option<&Path> = sandbox.directories().state();
    }

    /// Returns the standard streams by value.
    #[must_use]
    pub fn into_stdio(self) -> [Stdio; 3] {
        self.stdio
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.session == Session::Terminal {
            self.check_terminal()?;
        }
        let mut total = 0usize;
        if self.program.is_empty() {
            return Err(Error::invalid("the program has no name"));
        }
        for arg in std::iter::once(&self.program).chain(&self.args) {
            let bytes = arg.as_encoded_bytes();
            if bytes.contains(&0) {
                return Err(Error::invalid("an argument with a NUL byte"));
            }
            if bytes.len() >= MAX_ARGUMENT_BYTES {
                return Err(ErrorKind::Limit.error(format!(
                    "an argument of {} bytes, at most {MAX_ARGUMENT_BYTES}",
                    bytes.len()
                )));
            }
            total += bytes.len() + 9;
        }
        for (name, value) in &self.env {
            check_variable(name, value)?;
            total += name.len() + value.len() + 10;
        }
        if total > MAX_TOTAL_BYTES {
            return Err(ErrorKind::Limit.error(format!(
                "arguments of {total} bytes together, at most {MAX_TOTAL_BYTES}"
            )));
        }
        if let Some(cwd) = &self.cwd
            && (cwd.contains('\0') || cwd.split('/').any(|name| name == ".."))
        {
            return Err(Error::invalid(format!("not a working directory: {cwd:?}")));
        }
        Ok(())
    }

    fn check_terminal(&self) -> Result<(), Error> {
        if !self.plan().makes_terminals() {
            let message = format!("no terminals are made under {}", self.plan().backend());
            return Err(ErrorKind::Unsupported
                .error(message)
                .with_hint("let the command inherit the terminal: Session::Inherit"));
        }
        Ok(())
    }

    /// Returns the variables as the target gets them.
    #[must_use]
    pub fn variables(&self, home: &OsStr, tmp: &OsStr) -> BTreeMap<OsString, OsString> {
        self.variables_with_proxy(home, tmp, None)
    }

    /// Returns the variables of a target that has another proxy for named hosts than that of its
    /// network namespace: its URL.
    pub(crate) fn variables_with_proxy(
        &self,
        home: &OsStr,
        tmp: &OsStr,
        proxy: Option<&str>,
    ) -> BTreeMap<OsString, OsString> {
        let mut out = self
            .plan()
            .policy()
            .environment()
            .resolve(home, tmp, std::env::vars_os());
        if let Some(user) = user_name(self.plan()) {
            for name in ["LOGNAME", "USER"] {
                out.entry(name.into()).or_insert_with(|| user.clone());
            }
        }
        if self.plan().has_host_proxy() {
            for (name, value) in proxy_variables(proxy) {
                out.entry(name.into()).or_insert(value.into());
            }
        }
        out.insert(
            "OS_SANDBOX".into(),
            self.plan().backend().to_string().into(),
        );
        out.extend(self.env.clone());
        out
    }

    /// Returns the shorter of the policy's and the command's own time limit.
    #[must_use]
    pub fn wall(&self) -> Option<Duration> {
        match (self.timeout, self.plan().policy().limits().wall) {
            (Some(own), Some(policy)) => Some(own.min(policy)),
            (own, policy) => own.or(policy),
        }
    }
}

/// Returns the user's name as `id -un` says it inside. `None` if it has none, or an image decides.
fn user_name(plan: &Plan) -> Option<OsString> {
    let backend = plan.backend();
    if backend.has_own_root() {
        return Some(plan.policy().shown_user().into());
    }
    if backend.properties().starter == Starter::Engine {
        return None;
    }
    let uid = geteuid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut users = users.lines().map(|line| line.split(':'));
    users.find_map(|mut user| Some(user.next()?.into()).filter(|_| user.nth(1) == Some(&uid)))
}

/// Returns the variables that lead programs to the proxy for named hosts, in both spellings. Programs
/// that know none of them ask the resolver of the command's network namespace. `url`: the proxy of a
/// command without that.
fn proxy_variables(url: Option<&str>) -> impl Iterator<Item = (&'static str, String)> {
    const PROXIES: [&str; 8] = [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        // Yarn 2 and later read no other variables.
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
    ];
    let own = "localhost,127.0.0.1,::1";
    // Each Node 22 prints a warning about it, so only where Node's fetch has no resolver to ask.
    let node = url.map(|_| ("NODE_USE_ENV_PROXY", "1".to_owned()));
    let in_namespace = || format!("http://{}", NamedHosts::PROXY);
    let proxy = url.map_or_else(in_namespace, str::to_owned);
    let exceptions = ["no_proxy", "NO_PROXY"].map(|name| (name, own.to_owned()));
    PROXIES
        .into_iter()
        .map(move |name| (name, proxy.clone()))
        .chain(exceptions)
        .chain(node)
}
