//! `git` except its `mode`: repositories, the text of staged commits, and forge's credentials for
//! servers.
//!
//! An address is a directory here, or any text that the loading program can parse
//! ([`Sources::repository_check`]): exactly one module parses addresses, and it is not in this
//! crate. It returns the one spelling that rights are compared by.

use std::path::{Path, PathBuf};

use crate::grant::Grant;
use crate::grant::declaration::RepositoryRequest;
use crate::grant::git::Repository;
use crate::grant::mount::{Mode, Mount};
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::reserved_paths;
use crate::loading::trust_rules::{EXECUTABLE_CONFIG, GIT_CREDENTIAL, GIT_REPOSITORY};
use crate::mount_syntax::path_scope::{HostPath, PathScope, resolve_host_path};
use crate::provider::read::{project_part, variable, words};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{self, MappingFields, Reports};
use crate::syntax::key_table::KeyTable;
use crate::syntax::text::{ConfigOrigin, Layer, Span};
use crate::syntax::word::ConfigWord;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};

/// The text of staged commits, and forge's credentials for servers.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("user.yaml"), "
/// # git:
/// #   trailer: none
/// #   credentials: { 'https://github.com': { token_env: GITHUB_TOKEN } }
/// # ").unwrap();
/// use sandbox_config::{CredentialSource, Sources, load};
/// // git:
/// //   trailer: none
/// //   credentials: { "https://github.com": { token_env: GITHUB_TOKEN } }
/// let mut sources = Sources::new(dir.path());
/// sources.user_file = Some(dir.path().join("user.yaml"));
/// let project = load(&sources).unwrap();
/// let git = project.git();
/// assert_eq!((git.author(), git.trailer()), ("forge <forge@localhost>", None));
/// let credential = &git.credentials()[0];
/// assert_eq!(credential.server(), "https://github.com");
/// assert_eq!(credential.source(), &CredentialSource::Variable("GITHUB_TOKEN".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSettings {
    author: String,
    trailer: Option<String>,
    credentials: Vec<GitCredential>,
    /// Servers that the project names without the user's agreement.
    untrusted: Vec<String>,
}

impl Default for GitSettings {
    fn default() -> GitSettings {
        GitSettings {
            author: "forge <forge@localhost>".to_owned(),
            trailer: Some(ASSISTED_BY.to_owned()),
            credentials: Vec::new(),
            untrusted: Vec::new(),
        }
    }
}

impl GitSettings {
    sandbox_names::getters! {
        /// Returns the author of staged commits: `name <address>`.
        pub author: &str = &author;
        /// Returns the last line of their message, `Word: text`; `None` if nothing is added.
        pub trailer: Option<&str> = trailer.as_deref();
        /// Returns the credentials, each server once.
        pub credentials: &[GitCredential] = &credentials;
        /// The servers for which the project says it, and you have not agreed to that.
        pub untrusted: &[String] = &untrusted;
    }
}

/// The source of the credentials for one server. Never a secret itself.
///
/// See [`GitSettings`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitCredential {
    server: String,
    source: CredentialSource,
    origin: ConfigOrigin,
}

impl GitCredential {
    sandbox_names::getters! {
        /// The server: `https://github.com`, `ssh://git@example.com:22`.
        pub server: &str = &server;
        /// How.
        pub source: &CredentialSource = &source;
        /// Returns its location.
        pub origin: &ConfigOrigin = &origin;
    }
}

/// The source of a credential for a server.
///
/// ```
/// use sandbox_config::CredentialSource;
/// let source = CredentialSource::Variable("GITHUB_TOKEN".into());
/// assert_eq!(source.to_string(), "the token in GITHUB_TOKEN");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// This variable holds a token.
    Variable(String),
    /// This program speaks git's protocol of credential helpers. Only the person's own file can
    /// say that.
    Helper(Vec<String>),
    /// The person's ssh agent signs.
    Agent {
        /// The keys of hosts; `None`: ssh's own default.
        known_hosts: Option<PathBuf>,
    },
}

impl std::fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CredentialSource::Variable(name) => write!(f, "the token in {name}"),
            CredentialSource::Helper(words) => write!(f, "what `{}` answers", words.join(" ")),
            CredentialSource::Agent { known_hosts: None } => f.write_str("your ssh agent"),
            CredentialSource::Agent {
                known_hosts: Some(file),
            } => write!(f, "your ssh agent, hosts by {}", file.display()),
        }
    }
}

const ASSISTED_BY: &str = "Assisted-by: forge";
/// More rows than a person reviews; every worker's list is compared with every row.
const MAX_REPOSITORIES: usize = 256;
const MAX_CREDENTIALS: usize = 64;
/// As long as a name in a commit may be.
const MAX_NAME: usize = 200;
const MAX_ADDRESS: usize = 1024;

/// Reads the section of a project file; rights of workers go into the ceiling.
pub(crate) fn read(
    context: &mut LoadContext<'_>,
    git: &MappingFields<'_>,
    ceiling: &mut Grant,
) -> GitSettings {
    let mut settings = GitSettings::default();
    if let Some(author) = author(context, git) {
        settings.author = author;
    }
    if let Some(trailer) = trailer(context, git) {
        settings.trailer = trailer;
    }
    const EXECUTABLE: &str = "allow_executable_config";
    ceiling.executable_config = git.boolean(&mut context.reports, EXECUTABLE) == Some(true)
        && context.agreed_key(&EXECUTABLE_CONFIG, git, EXECUTABLE, "true");
    if let Some(entry) = git.get("repositories") {
        ceiling.repositories = granted(context, entry, &ceiling.mounts).into();
    }
    if let Some(entry) = git.get("credentials") {
        credentials(context, &entry.node, &mut settings);
    }
    settings
}

fn author(context: &mut LoadContext<'_>, git: &MappingFields<'_>) -> Option<String> {
    let text = git.string(&mut context.reports, "author")?;
    let parts = text.split_once('<').and_then(|(name, rest)| {
        let address = rest.strip_suffix('>')?;
        Some((name.trim(), address.trim()))
    });
    let plain =
        |part: &str| !part.is_empty() && part.len() <= MAX_NAME && !part.contains(['<', '>']);
    let fits = parts.is_some_and(|(name, address)| plain(name) && plain(address));
    if !fits || text.contains(char::is_control) {
        let help = "write `\"name <address>\"`, such as \"forge <forge@localhost>\"";
        return context.refuse(bad(git, "author", "is not the author of a commit").help(help));
    }
    Some(text.to_owned())
}

/// Returns the line that is added; `None` if the key is absent or its mistake has been noted.
fn trailer(context: &mut LoadContext<'_>, git: &MappingFields<'_>) -> Option<Option<String>> {
    let text = git.string(&mut context.reports, "trailer")?;
    match text {
        "none" => return Some(None),
        "assisted-by" => return Some(Some(ASSISTED_BY.to_owned())),
        _ => {}
    }
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let line = text.split_once(": ");
    let fits = line.is_some_and(|(word, rest)| is_word(word) && !rest.is_empty())
        && text.len() <= MAX_NAME
        && !text.contains(char::is_control);
    if !fits {
        let help = "write `assisted-by`, `none`, or one line such as \"Reviewed-by: me\"";
        return context.refuse(bad(git, "trailer", "is not a trailer of a commit").help(help));
    }
    Some(Some(text.to_owned()))
}

fn bad(fields: &MappingFields<'_>, key: &'static str, what: &str) -> Diagnostic {
    let message = format!("`{}` {what}", fields.dotted(key));
    DiagnosticCode::BadValue.at(fields.span_of(key), message)
}

/// An item of `repositories`.
struct RepositoryItem<'n> {
    text: &'n str,
    /// Location of the address.
    span: &'n Span,
    located: RepositoryAddress,
    access: Mode,
    implied: bool,
    /// The whole item.
    node: &'n YamlNode,
}

/// Where a repository is.
pub(crate) struct RepositoryAddress {
    /// In its one spelling.
    pub(crate) address: String,
    /// The directory, if it is one of this machine.
    host: Option<HostPath>,
}

fn granted(context: &mut LoadContext<'_>, entry: &YamlEntry, mounts: &[Mount]) -> Vec<Repository> {
    let mut list = Vec::new();
    for item in items(context, &entry.node) {
        if let Some(host) = &item.located.host {
            place_is_odd(context, &item, host, mounts);
        }
        let near = |host: &HostPath| host.path.starts_with(context.dir) && !host.through_link;
        let agreed = item.located.host.as_ref().is_some_and(near) || {
            let key = format!("git.repositories[{}]", item.text);
            let value = format!("{} {}", item.located.address, item.access);
            context.agreed(&GIT_REPOSITORY, &key, &value, &item.node.span)
        };
        if agreed {
            list.push(Repository {
                address: item.located.address,
                name: item.text.to_owned(),
                access: item.access,
                origin: item.span.origin(),
            });
        }
    }
    list
}

/// Returns the problem with a directory that workers write themselves, or that belongs to forge.
fn place_is_odd(
    context: &mut LoadContext<'_>,
    item: &RepositoryItem<'_>,
    host: &HostPath,
    mounts: &[Mount],
) {
    if let Some(own) = reserved_paths::lies_in(&host.path, &context.sources.out_of_reach) {
        let why = format!("it lies in {}, which no worker may reach", own.noun());
        let message = format!("`{}` cannot be a repository: {why}", item.text);
        let problem = DiagnosticCode::OwnDirectory.error(message);
        context.report(problem.at(item.span));
        return;
    }
    let writable =
        |mount: &&Mount| mount.mode == Mode::ReadWrite && host.path.starts_with(&mount.host);
    if let Some(mount) = mounts.iter().find(writable) {
        let message = format!(
            "`{}` lies in `{}`: who may write there changes it without a push",
            item.text, mount.name
        );
        context.report(
            DiagnosticCode::Overlap
                .warning(message)
                .at(item.span)
                .related_to(&mount.origin, "the directory")
                .help("keep repositories in a directory that no worker writes"),
        );
    }
}

/// Every command could read a key in one of its variables.
pub(crate) fn keep_from_commands(
    context: &mut LoadContext<'_>,
    git: &GitSettings,
    ceiling: &Grant,
) {
    for one in &git.credentials {
        let CredentialSource::Variable(name) = &one.source else {
            continue;
        };
        if ceiling.environment.pass.contains(name) {
            let message = format!(
                "`shell.env.pass` hands `{name}` to commands, and `git.credentials` says that it is a key"
            );
            context.report(
                DiagnosticCode::BadValue
                    .error(message)
                    .at_origin(&one.origin)
                    .help("take it out of one of them, or keep the key in a variable of its own"),
            );
        }
    }
}

/// `git` of a worker file.
pub(crate) fn worker_repositories(
    context: &mut LoadContext<'_>,
    entry: &YamlEntry,
) -> Option<Vec<RepositoryRequest>> {
    let git = context.open(&entry.node, "git", &keys::WORKER_GIT)?;
    let list = git.get("repositories")?;
    let items = items(context, &list.node).into_iter();
    Some(items.map(RepositoryItem::request).collect())
}

/// Returns the request of one item. Mistakes are not noted.
pub(crate) fn request(context: &mut LoadContext<'_>, node: &YamlNode) -> Option<RepositoryRequest> {
    let reports = std::mem::take(&mut context.reports);
    let request = item(context, node, "").map(RepositoryItem::request);
    context.reports = reports;
    request
}

impl RepositoryItem<'_> {
    fn request(self) -> RepositoryRequest {
        RepositoryRequest {
            address: self.located.address,
            name: self.text.to_owned(),
            access: self.access,
            at: Some(self.span.clone()),
            implied: self.implied,
        }
    }
}

/// Everything in the list that is right; the rest has been noted.
fn items<'n>(context: &mut LoadContext<'_>, node: &'n YamlNode) -> Vec<RepositoryItem<'n>> {
    const PATH: &str = "git.repositories";
    let all = fields::list(&mut context.reports, node, PATH).unwrap_or_default();
    let all = fields::at_most(&mut context.reports, node, PATH, all, MAX_REPOSITORIES);
    let mut list: Vec<RepositoryItem<'n>> = Vec::new();
    for (index, node) in all.iter().enumerate() {
        let Some(item) = item(context, node, &format!("{PATH}[{index}]")) else {
            continue;
        };
        let twin = list
            .iter()
            .find(|known| known.located.address == item.located.address);
        match twin {
            None => list.push(item),
            Some(twin) => {
                let twice = named_twice(item.text, item.span, &twin.span.origin());
                context.report(twice.help("remove one of them: one repository has one access"));
            }
        }
    }
    list
}

fn named_twice(name: &str, at: &Span, first: &ConfigOrigin) -> Diagnostic {
    let twice = DiagnosticCode::DuplicateKey.at(at, format!("`{name}` is named twice"));
    twice.related_to(first, "the first one")
}

fn item<'n>(
    context: &mut LoadContext<'_>,
    node: &'n YamlNode,
    path: &str,
) -> Option<RepositoryItem<'n>> {
    let (text, at, access) = match &node.value {
        YamlValue::Map(_) => {
            let table = &keys::GIT_REPOSITORY;
            let item = context.open(node, path, table)?;
            let access = item.word(&mut context.reports, "access", Mode::WORDS);
            // The mistake has been noted: the intended access may be less than the default.
            let access_is_bad = item.get("access").is_some() && access.is_none();
            let entry = item.get("repo")?;
            let text = item.string(&mut context.reports, "repo")?;
            if access_is_bad {
                return None;
            }
            (text, &entry.node, access)
        }
        YamlValue::Str(text) => (text.as_str(), node, None),
        _ => {
            let wrong = fields::wrong_type(node, path, "a repository");
            return context.refuse(
                wrong.help("write `octo/reports`, or `{ repo: octo/reports, access: ro }`"),
            );
        }
    };
    let located = locate(context, text);
    Some(RepositoryItem {
        text,
        span: &at.span,
        located: context.reports.take_at(located, &at.span)?,
        access: access.unwrap_or(Mode::ReadWrite),
        implied: access.is_none(),
        node,
    })
}

const SHAPES: &str =
    "write `owner/name` (at GitHub), `https://…`, `ssh://…`, or a path such as `./remotes/x.git`";

/// Where a text of a config file leads to.
pub(crate) fn locate(
    context: &LoadContext<'_>,
    text: &str,
) -> Result<RepositoryAddress, Box<Diagnostic>> {
    let refuse = |why: &str| {
        let message = format!("`{text}` is not the address of a repository: {why}");
        Box::new(DiagnosticCode::BadValue.error(message).help(SHAPES))
    };
    let expanded = context.expand(text);
    if [text, expanded.as_deref().unwrap_or(text)]
        .iter()
        .any(|text| holds_password(text))
    {
        let message = "not the address of a repository: it holds credentials";
        let bad = DiagnosticCode::BadValue.error(message).hiding();
        let help = "write the address without it, and name the variable of a token under `git.credentials`";
        return Err(Box::new(bad.help(help)));
    }
    let expanded = expanded.map_err(|problem| refuse(&problem))?;
    for text in [text, &expanded] {
        if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
            return Err(refuse(
                "it is empty, begins with `-` or holds control characters",
            ));
        }
    }
    if expanded.len() > MAX_ADDRESS {
        return Err(refuse("it is too long"));
    }
    let path = path_of(&expanded);
    // A variable of the person's in an address would be told to a server.
    if path.is_none() && expanded != text {
        return Err(refuse("variables stand in paths only"));
    }
    if let Some(path) = path {
        let host = resolve_host_path(context, path, PathScope::Anywhere, "repository")?;
        let path = host
            .path
            .to_str()
            .ok_or_else(|| refuse("it is not UTF-8"))?;
        let address = checked(context, &format!("file://{path}")).map_err(|why| refuse(&why))?;
        return Ok(RepositoryAddress {
            address,
            host: Some(host),
        });
    }
    let address = server_address(context, &expanded, &refuse)?;
    Ok(RepositoryAddress {
        address,
        host: None,
    })
}

/// Returns the one spelling of an address at a server.
fn server_address(
    context: &LoadContext<'_>,
    expanded: &str,
    refuse: &dyn Fn(&str) -> Box<Diagnostic>,
) -> Result<String, Box<Diagnostic>> {
    let address = checked(context, expanded).map_err(|why| {
        let refused = refuse(&why);
        match context.dir.join(expanded).is_dir() {
            true => Box::new(refused.help(format!("a directory is written `./{expanded}`"))),
            false => refused,
        }
    })?;
    // Another spelling of a directory would be another way to say where it is.
    if address.starts_with("file:") {
        return Err(refuse("not a path"));
    }
    Ok(address)
}

/// Returns `true` if the text has a name or a password before the host; for ssh a name belongs
/// there.
fn holds_password(text: &str) -> bool {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let authority = rest.split('/').next().unwrap_or(rest);
    match authority.rsplit_once('@') {
        Some((user, _)) => user.contains(':') || !matches!(scheme, "ssh" | ""),
        None => false,
    }
}

fn path_of(text: &str) -> Option<&str> {
    if let Some(path) = text.strip_prefix("file://") {
        return Some(path);
    }
    let is_path = text.starts_with('/')
        || matches!(text, "." | "..")
        || text.starts_with("./")
        || text.starts_with("../");
    is_path.then_some(text)
}

fn checked(context: &LoadContext<'_>, address: &str) -> Result<String, String> {
    match context.sources.repository_check {
        Some(check) => check(address),
        None => Ok(address.to_owned()),
    }
}

fn credentials(context: &mut LoadContext<'_>, node: &YamlNode, settings: &mut GitSettings) {
    const PATH: &str = "git.credentials";
    // A scalar in place of all this may be a token.
    let mut found = Reports::default();
    let named = fields::free_mapping(&mut found, node, PATH).unwrap_or_default();
    let found = found.into_list().into_iter().map(Diagnostic::hiding);
    context.reports.extend(found);
    let named = fields::at_most(&mut context.reports, node, PATH, &named, MAX_CREDENTIALS);
    for entry in named {
        let before = context.reports.errors();
        let Some(credential) = credential(context, entry) else {
            continue;
        };
        let mut others = settings.credentials.iter();
        if let Some(twin) = others.find(|known| known.server == credential.server) {
            let twice = named_twice(&credential.server, &entry.key_span, &twin.origin);
            context.report(twice.help("remove one of them"));
            continue;
        }
        // Its own mistakes come first.
        let part = project_part(&entry.node).filter(|_| context.reports.errors() == before);
        let agreed = part.is_none_or(|span| {
            let key = format!("{PATH}.{}", entry.key);
            let value = format!("{} for {}", credential.source, credential.server);
            context.agreed(&GIT_CREDENTIAL, &key, &value, span)
        });
        if agreed {
            settings.credentials.push(credential);
        } else {
            settings.untrusted.push(credential.server);
        }
    }
}

fn credential(context: &mut LoadContext<'_>, entry: &YamlEntry) -> Option<GitCredential> {
    let path = format!("git.credentials.{}", entry.key);
    let server = server(context, &entry.key);
    let server = context.reports.take_at(server, &entry.key_span)?;
    if !matches!(entry.node.value, YamlValue::Map(_)) {
        let wrong = fields::wrong_type(&entry.node, &path, "a mapping");
        return context.refuse(
            wrong
                .hiding()
                .help("for example `{ token_env: GITHUB_TOKEN }`"),
        );
    }
    let before = context.reports.errors();
    let table = table(&entry.node);
    let fields = context.open(&entry.node, &path, table)?;
    if context.reports.errors() > before {
        return None;
    }
    let kind = credential_kind(context, entry, &fields, &server)?;
    let source = match kind.key.as_str() {
        "agent" => agent(context, &fields),
        "helper" => {
            let path = fields.dotted("helper");
            let example = "[git-credential-libsecret]";
            words(&mut context.reports, &kind.node, &path, example).map(CredentialSource::Helper)
        }
        _ => variable(&mut context.reports, &fields, "token_env", "GITHUB_TOKEN")
            .map(CredentialSource::Variable),
    }?;
    fits_server(context, &fields, kind, &source, &server).then(|| GitCredential {
        server,
        source,
        origin: entry.key_span.origin(),
    })
}

/// Returns the one key that names the source of a credential.
fn credential_kind<'n>(
    context: &mut LoadContext<'_>,
    entry: &YamlEntry,
    fields: &MappingFields<'n>,
    server: &str,
) -> Option<&'n YamlEntry> {
    let kinds = ["token_env", "helper", "agent"];
    let said: Vec<&'n YamlEntry> = kinds.iter().filter_map(|kind| fields.get(kind)).collect();
    let [kind] = said.as_slice() else {
        let message = match said.as_slice() {
            [] => format!("`{}` says nothing", fields.path),
            _ => format!("`{}` says it in more than one way", fields.path),
        };
        let help = match server.starts_with("ssh:") {
            true => "write `{ agent: true }`",
            false => "write `{ token_env: GITHUB_TOKEN }`",
        };
        let mistake = DiagnosticCode::NoEffect.at(&entry.key_span, message);
        return context.refuse(mistake.help(help));
    };
    Some(*kind)
}

/// Checks the source of a credential against the scheme of its server.
fn fits_server(
    context: &mut LoadContext<'_>,
    fields: &MappingFields<'_>,
    kind: &YamlEntry,
    source: &CredentialSource,
    server: &str,
) -> bool {
    let path = &fields.path;
    let over_ssh = matches!(source, CredentialSource::Agent { .. });
    if over_ssh != server.starts_with("ssh:") {
        let (message, help) = match over_ssh {
            true => (
                "an ssh agent is for `ssh://` only",
                "name the variable of a token: `token_env:`",
            ),
            false => ("ssh takes no tokens", "write `agent: true`"),
        };
        context.report(
            DiagnosticCode::NoEffect
                .at(&kind.key_span, format!("`{path}`: {message}"))
                .help(help),
        );
        return false;
    }
    if !over_ssh && let Some(file) = fields.get("known_hosts") {
        let message = format!("`{path}`: `known_hosts` is for ssh");
        let mistake = DiagnosticCode::NoEffect.at(&file.key_span, message);
        context.report(mistake.help("remove it"));
        return false;
    }
    true
}

fn agent(context: &mut LoadContext<'_>, fields: &MappingFields<'_>) -> Option<CredentialSource> {
    let entry = fields.get("agent")?;
    if !fields.boolean(&mut context.reports, "agent")? {
        let message = format!("`{}: false` says nothing", fields.dotted("agent"));
        let mistake = DiagnosticCode::BadValue.at(&entry.node.span, message);
        return context.refuse(mistake.help("remove it"));
    }
    let Some(file) = fields.get("known_hosts") else {
        return Some(CredentialSource::Agent { known_hosts: None });
    };
    let text = fields.string(&mut context.reports, "known_hosts")?;
    let expanded = context
        .expand(text)
        .ok()
        .filter(|path| !path.is_empty() && !path.contains(char::is_control));
    let Some(expanded) = expanded else {
        let message = format!(
            "`{}` is not the path of a file",
            fields.dotted("known_hosts")
        );
        let mistake = DiagnosticCode::HostPath.at(&file.node.span, message);
        return context.refuse(mistake.help("for example ~/.ssh/known_hosts"));
    };
    Some(CredentialSource::Agent {
        known_hosts: Some(context.dir.join(Path::new(&expanded))),
    })
}

/// A program that prints a key runs outside of every sandbox: only the person's own file names it.
fn table(node: &YamlNode) -> &'static KeyTable {
    match node.entry("helper").map(|entry| entry.node.span.layer()) {
        Some(Layer::User) => &keys::USER_GIT_CREDENTIAL,
        Some(Layer::Default | Layer::Project | Layer::Environment | Layer::CommandLine) | None => {
            &keys::GIT_CREDENTIAL
        }
    }
}

/// `scheme://host`, in the spelling that addresses of its repositories begin with.
fn server(context: &LoadContext<'_>, text: &str) -> Result<String, Box<Diagnostic>> {
    let refuse = |why: &str| {
        let message = format!("`{text}` is not an origin: {why}");
        let bad = DiagnosticCode::BadValue.error(message);
        Box::new(bad.help("write `\"https://github.com\"` or `\"ssh://git@example.com\"`"))
    };
    let parts = text.split_once("://");
    let known = parts.filter(|(scheme, _)| matches!(*scheme, "https" | "http" | "ssh"));
    let Some((scheme, authority)) = known else {
        return Err(refuse("it begins with `https://` or `ssh://`"));
    };
    let (user, host) = match authority.split_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let of_host = |c: char| c.is_ascii_alphanumeric() || ".:[]-".contains(c);
    let begins = |c: char| c.is_ascii_alphanumeric() || c == '[';
    let user_fits =
        user.is_none_or(|user| scheme == "ssh" && !user.is_empty() && user.chars().all(of_name));
    if !user_fits || !host.starts_with(begins) || !host.chars().all(of_host) {
        return Err(refuse(
            "nothing but a host stands in it, and for ssh a name before it",
        ));
    }
    let address = checked(context, &format!("{text}/x")).map_err(|why| refuse(&why))?;
    match address.strip_suffix("/x") {
        Some(server) => Ok(server.to_owned()),
        None => Err(refuse("not a server")),
    }
}
