//! Worker files: YAML front matter between `---` lines, then instructions in Markdown.

mod legacy_syntax;
mod sandbox;
pub(crate) mod schemas;
pub(crate) mod tools;
mod worker_metadata;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::grant::Grant;
use crate::grant::declaration::Declaration;
use crate::grant::limits::RunLimits;
use crate::grant::mount::Mount;
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust::PrivilegedSetting;
use crate::loading::worker_names::{Delegates, bad_name, is_name, stem};
use crate::settings::{confinement, git, network, sections};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{MappingFields, Reports};
use crate::syntax::text::{ConfigOrigin, SourceText, Span};
use crate::syntax::yaml::{self, YamlNode, YamlValue};

/// A worker as its file describes it. Its rights are another matter: they are a [`Grant`], made
/// from the caller's grant and [`Worker::declaration`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("workers")).unwrap();
/// # std::fs::write(dir.path().join("workers/fmt.worker"), "\
/// # ---
/// # name: fmt
/// # description: Formats data files
/// # sandbox:
/// #   zones:
/// #     - { name: workspace, mode: rw }
/// # tools: [read_file, write_file]
/// # ---
/// # Format every file.
/// # ".replace("\n# ", "\n")).unwrap();
/// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// use sandbox_config::Delegates;
/// let worker = project.worker("fmt").unwrap();
/// assert_eq!(worker.description(), Some("Formats data files"));
/// assert_eq!(worker.delegates(), &Delegates::None);
/// assert_eq!(worker.instructions(), "Format every file.\n");
/// assert!(project.worker("fnt").unwrap_err().to_string().contains("did you mean `fmt`?"));
/// ```
#[derive(Clone, Debug)]
pub struct Worker {
    name: String,
    description: Option<String>,
    model: Option<String>,
    instructions: String,
    declaration: Declaration,
    tools: Option<Vec<String>>,
    delegates: Delegates,
    properties: worker_metadata::WorkerMetadata,
    schemas: schemas::Schemas,
    /// Location of each listed name.
    delegates_at: Vec<ConfigOrigin>,
    /// Location of the model.
    model_at: Option<ConfigOrigin>,
    at: ConfigOrigin,
    file: PathBuf,
    digest: String,
    shown: String,
    warnings: Vec<Diagnostic>,
    privileged: Vec<PrivilegedSetting>,
    /// Old form: the program's mounts, if the program declares none itself.
    program: Option<Arc<[Mount]>>,
}

impl Worker {
    sandbox_names::getters! {
        /// The name: `^[a-z][a-z0-9_-]{0,63}$`.
        pub name: &str = &name;
        /// Returns its purpose; the description of its tool when it is called by others.
        pub description: Option<&str> = description.as_deref();
        /// Its own model.
        pub model: Option<&str> = model.as_deref();
        /// The text after the front matter (or the key `instructions`).
        pub instructions: &str = &instructions;
        /// Returns its declaration.
        pub declaration: &Declaration = &declaration;
        /// Returns the only tools it wants; `None`: all that its rights make possible.
        pub tools: Option<&[String]> = tools.as_deref();
        /// Returns the workers that it may call.
        pub delegates: &Delegates = &delegates;
        /// The first line of its file.
        pub origin: &ConfigOrigin = &at;
        /// Its file.
        pub file: &Path = &file;
        /// Returns the SHA-256 (hex) of its file when it was read.
        ///
        /// ```
        /// # let dir = tempfile::tempdir().unwrap();
        /// # std::fs::create_dir(dir.path().join("workers")).unwrap();
        /// let digest = |text: &str| {
        ///     std::fs::write(dir.path().join("workers/w.worker"), text).unwrap();
        ///     let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
        ///     project.worker("w").unwrap().digest().to_owned()
        /// };
        /// assert_ne!(digest("---\n---\nWork.\n"), digest("---\n---\nRest.\n"));
        /// ```
        pub digest: &str = &digest;
        /// Its file as messages show it.
        pub shown: &str = &shown;
        /// Returns the warnings about its file.
        pub warnings: &[Diagnostic] = &warnings;
        /// Its privileged settings, agreed to or not.
        pub privileged_settings: &[PrivilegedSetting] = &privileged;
        pub(crate) schemas: &schemas::Schemas = &schemas;
    }

    /// Returns the location of its own model, or of its file.
    pub(crate) fn model_origin(&self) -> &ConfigOrigin {
        self.model_at.as_ref().unwrap_or(&self.at)
    }

    /// Returns the place in the file where the delegation list names a worker; `None` if the list
    /// has only `*` or lacks the name.
    #[must_use]
    pub fn delegate_origin(&self, name: &str) -> Option<&ConfigOrigin> {
        match &self.delegates {
            Delegates::None | Delegates::All => None,
            Delegates::Listed(names) => {
                let index = names.iter().position(|listed| listed == name)?;
                self.delegates_at.get(index)
            }
        }
    }

    /// The limits it asks for: each the smaller of its own and the default's.
    #[must_use]
    pub fn limits(&self) -> RunLimits {
        self.declaration.limits.meet(RunLimits::default())
    }

    /// Returns the ceiling of the worker: the project, or (old form) its own declaration, if the
    /// project has none.
    pub(crate) fn ceiling<'g>(&self, project: &'g Grant) -> Cow<'g, Grant> {
        match &self.program {
            Some(mounts) => Cow::Owned(project.with_mounts(Arc::clone(mounts))),
            None => Cow::Borrowed(project),
        }
    }

    pub(crate) fn schemas_mut(&mut self) -> &mut schemas::Schemas {
        &mut self.schemas
    }

    pub(crate) fn program_mut(&mut self) -> Option<&mut [Mount]> {
        self.program.as_mut().map(Arc::make_mut)
    }

    pub(crate) fn with_reports(
        self,
        warnings: Vec<Diagnostic>,
        privileged: Vec<PrivilegedSetting>,
    ) -> Worker {
        Worker {
            warnings,
            privileged,
            ..self
        }
    }
}

/// The keys of a worker's text, if it has the form of one.
pub(crate) fn front_matter(text: &str) -> Option<&str> {
    split(text).ok().map(|(front, _)| front)
}

/// A worker that names ten thousand zones has less.
const MAX_FRONT_BYTES: usize = 512 * 1024;

/// Reads one worker's text. `None` if a mistake has been noted.
pub(crate) fn parse(
    context: &mut LoadContext<'_>,
    text: &Arc<SourceText>,
    file: &Path,
    ceiling: &Grant,
) -> Option<Worker> {
    let (root, body) = front_root(context, text)?;
    let top = context.open(&root, "", &keys::WORKER)?;
    let stem = stem(file);
    let name = name(&mut context.reports, &top, stem);
    let description = top
        .string(&mut context.reports, "description")
        .map(str::to_owned);
    let model = top.string(&mut context.reports, "model").map(str::to_owned);
    let instructions = instructions(&mut context.reports, &top, body);
    let (mut declaration, program) = declaration(context, &top, ceiling, &name);
    let wanted = tools::wanted(context, &top);
    declaration.tools = wanted.tools;
    declaration.approval = top
        .get("approval")
        .and_then(|entry| sections::worker_approval(context, entry, &wanted.delegates));
    declaration.limits = sections::limits(
        &mut context.reports,
        top.get("limits"),
        RunLimits::UNLIMITED,
    );
    let properties = worker_metadata::properties(context, &top);
    let schemas = schemas::schemas(context, &top);
    Some(Worker {
        name,
        description,
        model,
        model_at: top.get("model").map(|entry| entry.node.span.origin()),
        instructions,
        tools: declaration.tools.clone(),
        declaration,
        delegates: wanted.delegates,
        delegates_at: wanted.delegates_at,
        properties,
        schemas,
        at: Span::start(text).origin(),
        file: file.to_path_buf(),
        digest: sha256(&text.text),
        shown: text.name.clone(),
        warnings: Vec::new(),
        privileged: Vec::new(),
        program,
    })
}

/// Parses the front matter, and returns it with the body.
fn front_root<'t>(
    context: &mut LoadContext<'_>,
    text: &'t Arc<SourceText>,
) -> Option<(YamlNode, &'t str)> {
    let (front, body) = match split(&text.text) {
        Ok(parts) => parts,
        Err(problem) => {
            let mistake = DiagnosticCode::FrontMatter.at(&Span::start(text), problem);
            context
                .report(mistake.help("a worker file is `---`, keys, `---`, then the instructions"));
            return None;
        }
    };
    if front.len() > MAX_FRONT_BYTES {
        let message = format!("the front matter is longer than {MAX_FRONT_BYTES} bytes");
        let mistake = DiagnosticCode::TooComplex.at(&Span::start(text), message);
        return context.refuse(mistake.help("what a worker is told stands below the second `---`"));
    }
    let root = context.reports.take(yaml::parse_part(text, front))?;
    let root = root.unwrap_or_else(|| YamlNode {
        value: YamlValue::Map(Vec::new()),
        span: Span::start(text),
    });
    Some((root, body))
}

/// Reads the rights that a worker declares, and the mounts of an old form.
fn declaration(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
    ceiling: &Grant,
    name: &str,
) -> (Declaration, Option<Arc<[Mount]>>) {
    let mut program = None;
    let mut declaration = match top.get("sandbox") {
        None => Declaration::undeclared(),
        Some(entry) => {
            let old = sandbox::read(context, entry, ceiling, name);
            program = old.program.map(Into::into);
            Declaration {
                sandbox: Some(entry.key_span.clone()),
                ..old.declaration
            }
        }
    };
    declaration.unix_sockets =
        confinement::worker_sockets(context, top.get("sandbox")).map(|(wish, at)| (wish, Some(at)));
    if let Some(entry) = top.get("network")
        && let Some(setting) = network::network(&mut context.reports, entry)
    {
        declaration.network = Some((setting.access, Some(entry.node.span.clone())));
        declaration.published_ports = setting.published_ports;
        declaration.network_lines = setting.lines;
    }
    if let Some(entry) = top.get("shell") {
        let own = sections::worker_shell(&mut context.reports, entry);
        declaration.shell = Some((own, Some(entry.key_span.clone())));
    }
    if let Some(entry) = top.get("git") {
        declaration.repositories = git::worker_repositories(context, entry);
    }
    (declaration, program)
}

/// In hex, as `sha256sum` prints it.
fn sha256(text: &str) -> String {
    sandbox_names::hex(Sha256::digest(text.as_bytes()))
}

/// Front matter from the opening `---` on (so that lines keep their numbers), and the body.
fn split(text: &str) -> Result<(&str, &str), &'static str> {
    let is_fence = |line: &str| line.trim_end() == "---";
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut at = start;
    for (index, line) in text[start..].split_inclusive('\n').enumerate() {
        match (index, is_fence(line)) {
            (0, false) => return Err("the file does not begin with `---`"),
            (0, true) | (_, false) => {}
            (_, true) => return Ok((&text[..at], &text[at + line.len()..])),
        }
        at += line.len();
    }
    if text[start..].is_empty() {
        Err("the file is empty")
    } else {
        Err("the front matter has no closing `---`")
    }
}

fn name(reports: &mut Reports, top: &MappingFields<'_>, stem: &str) -> String {
    let written = top.string(reports, "name");
    let at = top.span_of("name");
    let name = written.unwrap_or(stem);
    if !is_name(name) && (written.is_some() || top.get("name").is_none()) {
        reports.add(bad_name(name).at(at));
    } else if name != stem {
        let message = format!("`{name}` stands in a file named `{stem}.worker`");
        let mistake = DiagnosticCode::FileName.warning(message).at(at);
        reports.add(mistake.help(format!("rename the file to `{name}.worker`, or the worker")));
    }
    name.to_owned()
}

fn instructions(reports: &mut Reports, top: &MappingFields<'_>, body: &str) -> String {
    let body = body.trim_start_matches(['\r', '\n']);
    let key = top.string(reports, "instructions");
    match (top.get("instructions"), body.trim().is_empty()) {
        (Some(entry), false) => {
            let message = "instructions stand in the front matter and in the body";
            let mistake = DiagnosticCode::FrontMatter.at(&entry.key_span, message);
            reports.add(mistake.help("keep one of them"));
            body.to_owned()
        }
        (Some(_), true) => key.unwrap_or_default().to_owned(),
        (None, _) => body.to_owned(),
    }
}
