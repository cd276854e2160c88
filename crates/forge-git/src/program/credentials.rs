//! Credentials for servers. A worker receives none of them: only the process that talks to a server
//! asks for its credential and shows it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::helper::{self, Helper};
use super::login::Login;
use crate::address::ServerOrigin;
use crate::error::{GitError, GitErrorKind};

/// The user name of a token without one: services accept it for any token.
const ANYBODY: &str = "x-access-token";
/// A helper that had no answer, or a wrong one, is not asked again before this: some ask a person.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// The credential for one server. `Debug` shows none of it.
///
/// ```
/// use forge_git::Credential;
///
/// let token = Credential::token("t0ken-of-somebody")?;
/// assert_eq!(format!("{token:?}"), "Credential(token)");
/// assert!(Credential::token("two\nlines").is_err());
/// # Ok::<(), forge_git::GitError>(())
/// ```
#[derive(Clone)]
pub struct Credential(CredentialKind);

#[derive(Clone)]
enum CredentialKind {
    Token(Login),
    Helper(Helper),
    Agent {
        socket: PathBuf,
        known_hosts: PathBuf,
    },
    Absent(String),
}

impl Credential {
    /// A token.
    ///
    /// # Errors
    /// It cannot be one.
    pub fn token(token: &str) -> Result<Self, GitError> {
        Credential::token_of(ANYBODY, token)
    }

    /// A token, and the user it is of, for a server that wants to know.
    ///
    /// # Errors
    /// One of them cannot be one.
    pub fn token_of(user: &str, token: &str) -> Result<Self, GitError> {
        let login = Login::new(user, token).map_err(|why| cannot(&why))?;
        Ok(Credential(CredentialKind::Token(login)))
    }

    /// A program, by its absolute path, that speaks the protocol of git's credential helpers, and the variables it runs
    /// with, its `PATH` among them; it is given no others. [`HELPER_VARIABLES`](Self::HELPER_VARIABLES)
    /// are those that helpers need.
    ///
    /// It is the person's own program, so nothing confines it. It is asked before the first contact
    /// with its server, once, and has 30 seconds.
    ///
    /// # Errors
    /// The command does not begin with an absolute path: a name would be looked for in directories in
    /// which a worker may write.
    ///
    /// ```
    /// use forge_git::Credential;
    ///
    /// let variables = std::env::vars_os().filter(|(name, _)| {
    ///     let names = Credential::HELPER_VARIABLES;
    ///     name.to_str().is_some_and(|name| names.contains(&name))
    /// });
    /// let helper = Credential::helper(["/usr/bin/git-credential-libsecret"], variables)?;
    /// # let _ = helper;
    /// # Ok::<(), forge_git::GitError>(())
    /// ```
    pub fn helper<S: Into<OsString>>(
        command: impl IntoIterator<Item = S>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, GitError> {
        let mut command = command.into_iter().map(Into::into);
        let program = command
            .next()
            .filter(|program| std::path::Path::new(program).is_absolute());
        let program =
            program.ok_or_else(|| cannot("a credential helper is named by its absolute path"))?;
        Ok(Credential(CredentialKind::Helper(Helper {
            program,
            arguments: command.collect(),
            variables: variables.into_iter().collect(),
        })))
    }

    /// The keys of an ssh agent, by its socket, and the file of the host keys that are believed.
    ///
    /// # Errors
    /// One of them is not an absolute path.
    pub fn agent(
        socket: impl Into<PathBuf>,
        known_hosts: impl Into<PathBuf>,
    ) -> Result<Self, GitError> {
        let (socket, known_hosts) = (socket.into(), known_hosts.into());
        if !socket.is_absolute() || !known_hosts.is_absolute() {
            return Err(cannot(
                "an agent and its known hosts are given by absolute paths",
            ));
        }
        Ok(Credential(CredentialKind::Agent {
            socket,
            known_hosts,
        }))
    }

    /// A missing credential, with the reason, which is reported when the server asks.
    pub fn absent(why: impl Into<String>) -> Self {
        Credential(CredentialKind::Absent(why.into()))
    }

    /// The variables that credential helpers find their home, their keyring and their language by.
    #[rustfmt::skip]
    pub const HELPER_VARIABLES: &[&str] = &[
        "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "GNUPGHOME", "GPG_TTY", "HOME", "LANG", "LC_ALL",
        "LC_CTYPE", "LOGNAME", "PASSWORD_STORE_DIR", "PATH", "TMPDIR", "USER", "WAYLAND_DISPLAY",
        "XAUTHORITY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    ];
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            CredentialKind::Token(_) => "Credential(token)",
            CredentialKind::Helper(_) => "Credential(helper)",
            CredentialKind::Agent { .. } => "Credential(agent)",
            CredentialKind::Absent(_) => "Credential(absent)",
        })
    }
}

/// Credentials by server. Copies share the answers of helpers.
///
/// ```
/// use forge_git::{Credential, Credentials};
///
/// let socket = "/run/user/1000/agent";
/// let credentials = Credentials::new()
///     .with("https://github.com", Credential::token("t0ken-of-somebody")?)?
///     .with("ssh://git@git.example.com", Credential::agent(socket, "/home/me/.ssh/known_hosts")?)?;
/// assert_eq!(credentials.secrets(), ["t0ken-of-somebody"]);
/// // An agent has nothing to say to a web server.
/// let agent = Credential::agent(socket, "/home/me/.ssh/known_hosts")?;
/// assert!(credentials.with("https://github.com", agent).is_err());
/// # Ok::<(), forge_git::GitError>(())
/// ```
#[derive(Clone, Default)]
pub struct Credentials {
    of: BTreeMap<ServerOrigin, Credential>,
    answers: Arc<Mutex<BTreeMap<ServerOrigin, HelperAnswer>>>,
}

/// The last answer of a helper.
#[derive(Clone)]
enum HelperAnswer {
    Login(Login),
    None { why: String, at: Instant },
}

/// The credential for a web server.
pub(super) enum WebCredential {
    Login(Login),
    /// Nothing, and perhaps why.
    Nothing(Option<String>),
}

impl Credentials {
    /// None.
    pub fn new() -> Self {
        Credentials::default()
    }

    /// And this one, for all repositories of that server ([`ServerOrigin::parse`]).
    ///
    /// # Errors
    /// The origin is none, has one already, or is not reached in a way that this serves: an agent is
    /// for ssh, a token and a helper are for https.
    pub fn with(mut self, origin: &str, credential: Credential) -> Result<Self, GitError> {
        let origin = ServerOrigin::parse(origin)?;
        let fits = match &credential.0 {
            CredentialKind::Token(_) | CredentialKind::Helper(_) => !origin.is_ssh(),
            CredentialKind::Agent { .. } => origin.is_ssh(),
            CredentialKind::Absent(_) => true,
        };
        if !fits {
            return Err(cannot(&format!(
                "{origin} wants {}",
                if origin.is_ssh() {
                    "an ssh agent: tokens and helpers are for https"
                } else {
                    "a token or a helper: an agent is for ssh"
                }
            )));
        }
        if self.of.contains_key(&origin) {
            return Err(cannot(&format!("{origin} is named twice")));
        }
        self.of.insert(origin, credential);
        Ok(self)
    }

    /// Every password that is known by now: the tokens, and the answers of helpers so far. For
    /// redaction.
    pub fn secrets(&self) -> Vec<String> {
        let tokens = self.of.values().filter_map(|one| match &one.0 {
            CredentialKind::Token(login) => Some(login.password().to_owned()),
            CredentialKind::Helper(_)
            | CredentialKind::Agent { .. }
            | CredentialKind::Absent(_) => None,
        });
        let answers = self.answers();
        let answered = answers.values().filter_map(|answer| match answer {
            HelperAnswer::Login(login) => Some(login.password().to_owned()),
            HelperAnswer::None { .. } => None,
        });
        tokens.chain(answered).collect()
    }

    /// Returns the credential for a web server. Its helper is asked here, once: the server is
    /// identified by the person's configuration, so that a server's words never decide which host
    /// receives a password.
    pub(super) fn login(&self, origin: &ServerOrigin) -> WebCredential {
        match self.of.get(origin).map(|one| &one.0) {
            None | Some(CredentialKind::Agent { .. }) => WebCredential::Nothing(None),
            Some(CredentialKind::Absent(why)) => WebCredential::Nothing(Some(why.clone())),
            Some(CredentialKind::Token(login)) => WebCredential::Login(login.clone()),
            Some(CredentialKind::Helper(helper)) => {
                // Locked while it is asked: later callers have this question too.
                let mut answers = self.answers();
                let known = answers.get(origin).filter(|answer| match answer {
                    HelperAnswer::Login(login) => !login.has_expired(),
                    HelperAnswer::None { at, .. } => at.elapsed() < ASK_AGAIN,
                });
                let answer = match known {
                    Some(known) => known.clone(),
                    None => match helper::ask(helper, origin) {
                        Ok(login) => HelperAnswer::Login(login),
                        Err(why) => HelperAnswer::None {
                            why,
                            at: Instant::now(),
                        },
                    },
                };
                answers.insert(origin.clone(), answer.clone());
                match answer {
                    HelperAnswer::Login(login) => WebCredential::Login(login),
                    HelperAnswer::None { why, .. } => WebCredential::Nothing(Some(why)),
                }
            }
        }
    }

    /// The server does not know this login: its helper is told, and asked again later.
    pub(super) fn refused(&self, origin: &ServerOrigin, login: &Login) {
        let Some(CredentialKind::Helper(helper)) = self.of.get(origin).map(|one| &one.0) else {
            return;
        };
        let mut answers = self.answers();
        let is_it =
            |answer: &HelperAnswer| matches!(answer, HelperAnswer::Login(known) if known == login);
        if answers.get(origin).is_some_and(is_it) {
            helper::erase(helper, origin, login);
            let why = "the server did not take what its credential helper answered".to_owned();
            let at = Instant::now();
            answers.insert(origin.clone(), HelperAnswer::None { why, at });
        }
    }

    /// The agent for an ssh server, and the file of host keys.
    pub(super) fn agent(&self, origin: &ServerOrigin) -> Result<(&Path, &Path), Option<&str>> {
        match self.of.get(origin).map(|one| &one.0) {
            Some(CredentialKind::Agent {
                socket,
                known_hosts,
            }) => Ok((socket, known_hosts)),
            Some(CredentialKind::Absent(why)) => Err(Some(why)),
            None | Some(CredentialKind::Token(_) | CredentialKind::Helper(_)) => Err(None),
        }
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<ServerOrigin, HelperAnswer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.of).finish()
    }
}

fn cannot(why: &str) -> GitError {
    GitErrorKind::Invalid.error(format!("Not a credential: {why}."))
}
