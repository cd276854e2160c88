//! `sandbox.zones`: named directories. `sandboxed`: below the sandbox root; `direct`: below the
//! project, or elsewhere if a person agrees.

use std::path::{Path, PathBuf};

use crate::grant::mount::{Mode, Mount};
use crate::grant::verdict::MountApproval;
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::location::ProjectLocation;
use crate::mount_syntax::named::{self, NamedMountSyntax};
use crate::mount_syntax::path_scope::{
    BaseDir, OWN_ROOT, PathScope, ScopeMessages, climbs, is_outside, resolve_host_path,
};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::MappingFields;
use crate::syntax::text::{ConfigOrigin, Span};
use crate::syntax::yaml::YamlNode;

/// `sandbox.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Zone paths are below the sandbox root and cannot leave it.
    Sandboxed,
    /// Zone paths are below the project directory, or absolute.
    Direct,
}

pub(crate) const PLACEMENTS: [(&str, Placement); 2] = [
    ("sandboxed", Placement::Sandboxed),
    ("direct", Placement::Direct),
];

static FORM: NamedMountSyntax = NamedMountSyntax {
    noun: "zone",
    section: "sandbox.zones",
    keys: &keys::ZONE,
    path_key: "path",
    mode: Mode::ReadWrite,
    approval: MountApproval::ASKING,
};

static BOUNDS: ScopeMessages = ScopeMessages {
    leaves: "the sandbox root",
    leaves_help: "in sandboxed mode zone paths are below `sandbox.root`; other places need `mode: direct`",
    link_help: "below the sandbox root there are no links on the way to a zone",
};

/// Where zones are put.
#[derive(Clone, Debug)]
pub(crate) struct Placing {
    placement: Placement,
    /// `sandbox.root`, for sandboxed zones.
    root: BaseDir,
    /// Location of `mode`.
    mode_at: Option<Span>,
}

impl Placing {
    /// Returns the directory that contains every zone, and nothing of the user's own.
    pub(crate) fn ephemeral_root(&self) -> Option<PathBuf> {
        match self.placement {
            Placement::Sandboxed => Some(self.root.dir.clone()),
            Placement::Direct => None,
        }
    }

    /// Returns the default.
    pub(crate) fn unstated(found: &ProjectLocation) -> Placing {
        Placing {
            placement: Placement::Sandboxed,
            root: BaseDir {
                dir: found.dir.join(OWN_ROOT),
                at: None,
                bounds: &BOUNDS,
            },
            mode_at: None,
        }
    }

    /// `sandbox.mode` and `sandbox.root`.
    pub(crate) fn read(
        context: &mut LoadContext<'_>,
        section: &MappingFields<'_>,
        found: &ProjectLocation,
    ) -> Placing {
        let unstated = Placing {
            mode_at: section.get("mode").map(|entry| entry.node.span.clone()),
            ..Placing::unstated(found)
        };
        let placement = section.word(&mut context.reports, "mode", &PLACEMENTS);
        let (Some(entry), Some(text)) = (
            section.get("root"),
            section.string(&mut context.reports, "root"),
        ) else {
            return Placing {
                placement: placement.unwrap_or(unstated.placement),
                ..unstated
            };
        };
        let path = Path::new(text);
        if text.is_empty() || text.contains('\0') || path.is_absolute() || climbs(path) {
            let message = format!("`sandbox.root: {text}` is not a directory below the project");
            context.report(DiagnosticCode::HostPath.at(&entry.node.span, message));
            return unstated;
        }
        if placement == Some(Placement::Direct) {
            let message = "`sandbox.root` has no effect in direct mode";
            context.report(
                DiagnosticCode::NoEffect
                    .warning(message)
                    .at(&entry.node.span),
            );
        }
        Placing {
            placement: placement.unwrap_or(unstated.placement),
            root: BaseDir {
                dir: found.dir.join(path.components().collect::<PathBuf>()),
                at: Some(entry.node.span.clone()),
                bounds: &BOUNDS,
            },
            ..unstated
        }
    }

    /// Returns the location that sets where the default zones are; `None` if no key does.
    fn said_by(&self) -> Option<&Span> {
        match self.placement {
            Placement::Direct => self.mode_at.as_ref(),
            Placement::Sandboxed => self.root.at.as_ref(),
        }
    }

    fn reach(&self) -> PathScope<'_> {
        match self.placement {
            Placement::Direct => PathScope::Anywhere,
            Placement::Sandboxed => PathScope::Below(&self.root),
        }
    }
}

/// Read `sandbox.zones`.
pub(crate) fn read(
    context: &mut LoadContext<'_>,
    node: &YamlNode,
    placing: &Placing,
) -> Vec<Mount> {
    named::read(context, node, &FORM, placing.reach())
}

/// The zones that hold without any `zones` key: `cache` and `workspace`, read-write.
pub(crate) fn default_zones(context: &mut LoadContext<'_>, placing: &Placing) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for name in ["cache", "workspace"] {
        match resolve_host_path(context, name, placing.reach(), FORM.noun) {
            Err(problem) => {
                let message = format!("the default zone `{name}`: {}", problem.message());
                context.report(DiagnosticCode::HostPath.error(message));
            }
            Ok(host) => {
                if let Some(at) = placing.said_by() {
                    let key = format!("sandbox.zones.{name}.path");
                    is_outside(context, &host, FORM.mode, &key, at);
                }
                mounts.push(Mount {
                    create: true,
                    approval: FORM.approval,
                    ..host.mount(format!("/{name}"), FORM.mode, ConfigOrigin::built_in())
                });
            }
        }
    }
    mounts
}
