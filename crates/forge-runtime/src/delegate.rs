//! Workers as tools: one for each worker that the caller may call, and
//! `call_worker` for naming one.
//!
//! What the child would hold is decided in `decide`, before anything of it exists:
//! a declaration that asks for more than the caller holds starts nothing.

use forge_tools::{
    Annotations, Arguments, BoxFuture, Caller, Code, Failure, Hands, Intent, Param, Params,
    PreferredRunner, Reply, Risk, Spec, Tool, View,
};
use sandbox_config::{Grant, Worker};
use serde_json::json;

use std::sync::Arc;

use crate::budget::Budget;
use crate::report::End;
use crate::session::{Conversation, Session};

/// The tool that names the worker to call.
pub(crate) const CALL_WORKER: &str = "call_worker";

/// The delegation tools of `worker`.
pub(crate) fn tools(
    session: &Session,
    worker: &Worker,
    grant: &Grant,
    caller: &Caller,
    budget: &Arc<Budget>,
) -> Vec<Box<dyn Tool>> {
    let callable: Vec<&Worker> = session
        .workers()
        .filter(|other| other.name() != worker.name() && worker.delegates().allows(other.name()))
        .collect();
    if callable.is_empty() {
        return Vec::new();
    }
    let delegation = |target: Target, spec: Spec| -> Box<dyn Tool> {
        Box::new(CallWorker {
            spec,
            target,
            session: session.clone(),
            from: worker.clone(),
            grant: grant.clone(),
            caller: caller.clone(),
            budget: Arc::clone(budget),
        })
    };
    let mut all = vec![delegation(Target::Named, general_spec(&callable))];
    for other in callable {
        all.push(delegation(
            Target::Fixed(other.name().to_owned()),
            worker_spec(other),
        ));
    }
    all
}

struct CallWorker {
    spec: Spec,
    target: Target,
    session: Session,
    from: Worker,
    grant: Grant,
    caller: Caller,
    /// The caller's own.
    budget: Arc<Budget>,
}

enum Target {
    /// The tool is the worker.
    Fixed(String),
    /// The call names it.
    Named,
}

impl CallWorker {
    fn target<'a>(&'a self, args: &'a Arguments) -> &'a str {
        match &self.target {
            Target::Fixed(name) => name,
            Target::Named => args.text("worker").unwrap_or_default(),
        }
    }

    /// The worker and what it would hold, or why it may not be called.
    fn child(&self, name: &str) -> Result<(Worker, Grant), Failure> {
        let shown = forge_tools::escape_controls(name);
        if self.caller.chain().iter().any(|above| above == name) {
            return Err(Failure::new(
                Code::Blocked,
                format!(
                    "Cannot call worker '{shown}': it is already at work above you ({}).",
                    self.caller
                ),
            ));
        }
        let Some(worker) = self
            .session
            .worker(name)
            .filter(|_| self.from.delegates().allows(name))
        else {
            let names: Vec<&str> = self
                .session
                .workers()
                .map(Worker::name)
                .filter(|other| *other != self.from.name() && self.from.delegates().allows(other))
                .collect();
            return Err(Failure::new(
                Code::Blocked,
                format!("Cannot call worker '{shown}': it is not among yours."),
            )
            .hint(format!("Workers you may call: {}", names.join(", "))));
        };
        // The entry worker is at depth 0, so the chain's length is the child's depth.
        let depth = u64::try_from(self.caller.chain().len()).unwrap_or(u64::MAX);
        if depth >= self.session.max_depth() {
            return Err(Failure::new(
                Code::Limit,
                format!(
                    "Cannot call worker '{shown}': that would be deeper than this project's \
                     limit of {} ({}).",
                    self.session.max_depth(),
                    self.caller.child(name)
                ),
            ));
        }
        let model = self.session.model_of(worker).map_err(|error| {
            Failure::new(
                Code::WorkerFailed,
                format!("Cannot call worker '{shown}': {error}"),
            )
        })?;
        if self.budget.limits_cost() && model.prices().is_none() {
            return Err(Failure::new(
                Code::WorkerFailed,
                format!(
                    "Cannot call worker '{shown}': the cost is limited, and no prices are known \
                     for the model `{}`.",
                    model.name()
                ),
            ));
        }
        let model = model.name();
        if !worker.runs_on(&model) {
            return Err(Failure::new(
                Code::WorkerFailed,
                format!("Cannot call worker '{shown}': it does not run on the model `{model}`."),
            ));
        }
        if self.budget.children() >= self.session.max_children() {
            return Err(self.too_many(&shown));
        }
        let grant = self
            .grant
            .child(worker.declaration())
            .map_err(|escalation| {
                Failure::new(
                    Code::Escalation,
                    format!("Cannot call worker '{shown}': {}", escalation.for_model()),
                )
                .hint(
                    "The worker was not started. Do the work with what you hold, or leave it out.",
                )
            })?;
        Ok((worker.clone(), grant))
    }

    fn too_many(&self, shown: &str) -> Failure {
        Failure::new(
            Code::Limit,
            format!(
                "Cannot call worker '{shown}': you have called {} workers, this project's limit.",
                self.session.max_children()
            ),
        )
    }
}

impl Tool for CallWorker {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn decide(&self, args: &Arguments, _: &View<'_>) -> Result<Vec<Intent>, Failure> {
        let name = self.target(args);
        let (worker, _) = self.child(name)?;
        let input = args.text("input").unwrap_or_default();
        if input.trim().is_empty() && !worker.allows_empty_input() {
            return Err(Failure::new(
                Code::InvalidArguments,
                format!("Cannot call worker '{name}': `input` is empty."),
            )
            .hint("Say in `input` what the worker is to do."));
        }
        Ok(vec![Intent::Delegate(name.to_owned())])
    }

    fn run<'a>(&'a self, args: Arguments, _: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        Box::pin(async move {
            let name = self.target(&args).to_owned();
            let (worker, grant) = self.child(&name)?;
            let input = args.text("input").unwrap_or_default().to_owned();
            let caller = self.caller.child(&name);
            if !self.budget.start_child(self.session.max_children()) {
                return Err(self.too_many(&name));
            }
            let above = Some(Arc::clone(&self.budget));
            let asked = Conversation::asked(input);
            let run = self.session.run_worker(worker, grant, caller, asked, above);
            match run.await {
                End::Answered { answer } => Ok(Reply::text(answer.clone()).structured(json!({
                    "success": true,
                    "worker": name,
                    "answer": answer,
                }))),
                end => {
                    let end = for_caller(end);
                    Err(Failure::new(
                        Code::WorkerFailed,
                        format!("Worker '{name}' did not finish: {end}"),
                    )
                    .structured(json!({ "success": false, "worker": name, "error": end })))
                }
            }
        })
    }
}

/// The end of a worker as the model that called it may know it: why a worker could not
/// be equipped names directories and programs of the host.
fn for_caller(end: End) -> End {
    let End::NotEquipped { isolation, .. } = end else {
        return end;
    };
    let what = if isolation {
        "the isolation"
    } else {
        "a directory"
    };
    End::NotEquipped {
        reason: format!("{what} that it needs is not available"),
        hint: None,
        isolation,
    }
}

fn worker_spec(worker: &Worker) -> Spec {
    spec(
        worker.name(),
        worker.description().map_or_else(
            || format!("Calls the worker {}.", worker.name()),
            str::to_owned,
        ),
        Params::new([if worker.allows_empty_input() {
            Param::text(
                "input",
                "What the worker is to do, if there is more to say.",
            )
        } else {
            Param::text("input", "What the worker is to do.").required()
        }]),
    )
}

fn general_spec(callable: &[&Worker]) -> Spec {
    let names: Vec<&str> = callable.iter().map(|worker| worker.name()).collect();
    spec(
        CALL_WORKER,
        format!("Call another worker by name: {}.", names.join(", ")),
        Params::new([
            Param::text("worker", "Name of the worker.").required(),
            // Some may be called without.
            Param::text("input", "What the worker is to do."),
        ]),
    )
}

fn spec(name: &str, description: String, params: Params) -> Spec {
    Spec {
        output: None,
        name: name.to_owned(),
        aliases: &[],
        description,
        params,
        risk: Risk::Exec,
        preferred_runner: PreferredRunner::Local,
        needs_network: false,
        requires_permission: false,
        annotations: Annotations::RUN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_hears_of_a_worker_names_no_place_of_the_host() {
        for isolation in [true, false] {
            let end = for_caller(End::NotEquipped {
                reason: "cannot open /home/me/data".into(),
                hint: Some("see /usr/bin/bwrap".into()),
                isolation,
            });
            let text = json!(end).to_string();
            assert!(!text.contains("/home") && !text.contains("/usr"), "{text}");
            assert!(end.to_string().ends_with("is not available"), "{end}");
        }
        assert_eq!(for_caller(End::OutOfTokens), End::OutOfTokens);
    }
}
