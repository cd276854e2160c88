//! The models of a run. A model named by flag or environment is for every worker; otherwise each
//! worker has its own, and the project's if it names none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};
use std::sync::Arc;

use forge_runtime::{
    AttackAttempts, Model, ModelError, ModelEvent, ModelRequest, Playbook, ScriptedModel,
};
use sandbox_config::{DelegationNode, Project, Worker};
use tokio::sync::mpsc;

use crate::bounded::read_text;
use crate::cli::RunArgs;
use crate::commands::prelude::*;
use crate::setup::keys::ApiKeys;
use crate::setup::offered_tools;
use crate::setup::provider_client;

/// A playbook above this is refused when it is parsed; no need to read more.
const MAX_PLAYBOOK_BYTES: u64 = 5 * 1024 * 1024;

/// A model that a person may try first.
pub(crate) struct FirstModel {
    pub(crate) name: &'static str,
    /// The variable with the key.
    key: Option<&'static str>,
    preparation: &'static str,
}

/// Models that a person may try first.
pub(crate) const FIRST_MODELS: [FirstModel; 3] = [
    FirstModel {
        name: "anthropic:claude-haiku-4-5",
        key: Some("ANTHROPIC_API_KEY"),
        preparation: "export ANTHROPIC_API_KEY=…",
    },
    FirstModel {
        name: "openai:gpt-5-mini",
        key: Some("OPENAI_API_KEY"),
        preparation: "export OPENAI_API_KEY=…",
    },
    FirstModel {
        name: "ollama:qwen3",
        key: None,
        preparation: "ollama serve; ollama pull qwen3",
    },
];

/// Lists models to try, those with a known key first.
pub(crate) fn suggest_models(ambient: &Ambient) -> String {
    let mut rows: Vec<(bool, String)> = FIRST_MODELS
        .iter()
        .map(|model| {
            let has_key = model.key.is_some_and(|name| ambient.var(name).is_some());
            let flag = format!("--model {}", model.name);
            let row = match has_key {
                true => format!("  {flag}"),
                false => format!("  {flag:<36} before that: {}", model.preparation),
            };
            (!has_key, row)
        })
        .collect();
    rows.sort_by_key(|(without_key, _)| *without_key);
    let rows: Vec<String> = rows.into_iter().map(|(_, row)| row).collect();
    format!(
        "set `model:` in the project file or FORGE_MODEL, or pass one of\n{}",
        rows.join("\n")
    )
}

/// The models of a run.
pub(crate) struct RunModels {
    /// Of the entry worker.
    pub(crate) entry: Arc<dyn Model>,
    /// Of the workers that name none.
    pub(crate) others: Arc<dyn Model>,
    /// Of those that do.
    pub(crate) own: Option<BTreeMap<String, Arc<dyn Model>>>,
    /// The attempts of a hostile playbook.
    pub(crate) attempts: AttackAttempts,
    /// Keys, which no text may show.
    pub(crate) secrets: Vec<String>,
    /// Doubts about the playbooks that are played.
    pub(crate) warnings: Vec<String>,
}

/// The models of this run.
pub(crate) fn choose(
    args: &RunArgs,
    ambient: &Ambient,
    project: &Project,
    worker: &Worker,
    workers: &[Worker],
) -> Result<RunModels, CliError> {
    let replayed = args.replay.as_ref().map(|file| format!("scripted:{file}"));
    let typed = replayed.as_deref().or(args.model.as_deref());
    choose_typed(typed, ambient, project, worker, workers)
}

/// Chooses the models for a call of `called` that a person makes on behalf of `caller`: those of a
/// run of `caller`.
pub(crate) fn choose_for_call(
    typed: Option<&str>,
    ambient: &Ambient,
    project: &Project,
    [caller, called]: [&Worker; 2],
    workers: &[Worker],
) -> Result<RunModels, CliError> {
    let named = called.model().or(project.model());
    let entry = if named.is_some() { called } else { caller };
    choose_typed(typed, ambient, project, entry, workers)
}

fn choose_typed(
    typed: Option<&str>,
    ambient: &Ambient,
    project: &Project,
    worker: &Worker,
    workers: &[Worker],
) -> Result<RunModels, CliError> {
    let mut keys = ApiKeys::new(ambient, project);
    let typed = typed.or_else(|| ambient.var("FORGE_MODEL"));
    // A file named on the command line or in the environment is found from here, one named in a
    // project from the project.
    if let Some(named) = typed {
        let mut finder = ModelFactory::new(project, workers, Path::new("."), &mut keys);
        let entry = finder.find(named)?;
        return Ok(RunModels {
            others: Arc::clone(&entry),
            entry,
            own: None,
            attempts: finder.attempts,
            warnings: finder.warnings,
            secrets: keys.secrets(),
        });
    }
    let mut finder = ModelFactory::new(project, workers, project.dir(), &mut keys);
    let named = worker.model().or_else(|| project.model());
    let named = named.ok_or_else(|| {
        let missing = CliError::misuse("model.missing", "no model is configured");
        missing.hint(suggest_models(ambient))
    })?;
    let entry = finder.find(named)?;
    let attempts = finder.attempts.clone();
    let others = match project.model() {
        None => Arc::clone(&entry),
        Some(name) if name == named => Arc::clone(&entry),
        Some(name) => finder.find_for_others(name),
    };
    let called = callable_workers(project, worker);
    let mut own = BTreeMap::from([(named.to_owned(), Arc::clone(&entry))]);
    for name in workers
        .iter()
        .filter(|each| {
            called
                .as_ref()
                .is_none_or(|called| called.contains(each.name()))
        })
        .filter_map(Worker::model)
    {
        if !own.contains_key(name) {
            own.insert(name.to_owned(), finder.find_for_others(name));
        }
    }
    Ok(RunModels {
        entry,
        others,
        own: Some(own),
        attempts,
        warnings: finder.warnings,
        secrets: keys.secrets(),
    })
}

/// Returns the workers that may be called; `None` if it could be any.
fn callable_workers(project: &Project, worker: &Worker) -> Option<BTreeSet<String>> {
    fn add(branch: &DelegationNode, names: &mut BTreeSet<String>) -> Option<()> {
        if branch.calls_any() {
            return None;
        }
        names.insert(branch.worker().to_owned());
        branch
            .calls()
            .iter()
            .try_for_each(|below| add(below, names))
    }
    let mut names = BTreeSet::new();
    add(&project.branch(worker.name())?, &mut names)?;
    Some(names)
}

/// Makes models of names.
struct ModelFactory<'a, 'k> {
    project: &'a Project,
    workers: &'a [Worker],
    /// The directory of playbooks.
    base: &'a Path,
    keys: &'a mut ApiKeys<'k>,
    attempts: AttackAttempts,
    warnings: Vec<String>,
}

impl<'a, 'k> ModelFactory<'a, 'k> {
    fn new(
        project: &'a Project,
        workers: &'a [Worker],
        base: &'a Path,
        keys: &'a mut ApiKeys<'k>,
    ) -> Self {
        ModelFactory {
            project,
            workers,
            base,
            keys,
            attempts: AttackAttempts::default(),
            warnings: Vec::new(),
        }
    }

    fn find(&mut self, named: &str) -> Result<Arc<dyn Model>, CliError> {
        match named.strip_prefix("scripted:") {
            None => provider_client::model(named, self.project, self.keys),
            Some(file) => {
                let played = self.play(file)?;
                self.attempts = played.attempts();
                Ok(Arc::new(played))
            }
        }
    }

    /// Returns the model of a worker that may never be called: its error is reported by the first
    /// call.
    fn find_for_others(&mut self, named: &str) -> Arc<dyn Model> {
        self.find(named).unwrap_or_else(|failure| {
            let message = failure.message().to_owned();
            Arc::new(UnavailableModel {
                name: named.to_owned(),
                why: match failure.code() {
                    "model.credentials" => ModelError::Credentials(message),
                    _ => ModelError::Rejected {
                        status: None,
                        message,
                    },
                },
            })
        })
    }

    fn play(&mut self, file: &str) -> Result<ScriptedModel, CliError> {
        let unusable = |why: String| CliError::misuse("model.playbook", why);
        // A file that came with a repository does not point forge at the person's others.
        let climbs = Path::new(file)
            .components()
            .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir));
        if self.base != Path::new(".") && climbs {
            return Err(unusable(format!(
                "the project's playbook `{file}` is not inside the project"
            ))
            .hint("name it yourself with --model if you want it"));
        }
        let path = self.base.join(file);
        let text = read_text(&path, MAX_PLAYBOOK_BYTES).map_err(|error| {
            unusable(format!(
                "cannot read the playbook {}: {error}",
                path.display()
            ))
        })?;
        let playbook = Playbook::parse(&text)
            .map_err(|error| unusable(format!("{}: {error}", path.display())))?;
        let tools = offered_tools::all_tools()?;
        for complaint in playbook.unknown_arguments(&tools) {
            let at = escape_path(&path);
            self.warnings.push(format!("{at}: {}", escape(&complaint)));
        }
        let known: Vec<&str> = self.workers.iter().map(Worker::name).collect();
        for worker in playbook.workers().filter(|name| !known.contains(name)) {
            let near = sandbox_config::nearest(worker, known.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            self.warnings.push(format!(
                "{}: turns for the unknown worker `{}`{near}",
                escape_path(&path),
                escape(worker)
            ));
        }
        Ok(ScriptedModel::new(file, playbook))
    }
}

/// Returns a model for a session in which no worker is to run: each turn of it fails.
pub(crate) fn missing() -> Arc<dyn Model> {
    Arc::new(UnavailableModel {
        name: "none".to_owned(),
        why: ModelError::Credentials("no model is configured".to_owned()),
    })
}

/// A model that cannot be had.
struct UnavailableModel {
    name: String,
    why: ModelError,
}

impl Model for UnavailableModel {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn turn(&self, _request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        let (events, turn) = mpsc::channel(1);
        let _room = events.try_send(ModelEvent::Failed(self.why.clone()));
        turn
    }
}
