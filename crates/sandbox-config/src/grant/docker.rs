//! `docker`: properties of the container of a call.

use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{self, Reports};
use crate::syntax::key_table::MeetRule;
use crate::syntax::key_table::shape::{ENGINE, IMAGE, ValueShape};
use crate::syntax::section::{Amount, BuiltIn, Flag, KeyKind, Word, section};
use crate::syntax::word::words;
use crate::syntax::yaml::{YamlNode, YamlValue};

section! {
    /// `docker`: properties of the container of a call.
    ///
    /// ```
    /// let docker = sandbox_config::DockerSettings::default();
    /// assert_eq!((docker.is_enabled(), docker.pids_limit()), (false, 256));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DockerSettings, DOCKER = "docker", "`docker` has";
    keys {
        /// Allows forge to use containers.
        enabled: Flag = false => is_enabled() -> bool, user_limit(MeetRule::FALSE);
        /// Image of containers. The engine must have it; forge never fetches one.
        image: Image = "forge-sandbox:1" => image() -> &str, trust("always"),
            project_only("say it for a run: `-c docker.image=…`, or `FORGE__DOCKER__IMAGE`");
        /// Address of the engine, in the form of `DOCKER_HOST`. `null`, or left out: that variable,
        /// else the local engine.
        host: Engine => host() -> Option<&str>, trust("always"),
            project_only("say it for a run: `-c docker.host=…`, or `FORGE__DOCKER__HOST`");
        /// Network of containers whose commands may use the network (`network: true`). `bridge` is
        /// the engine's default network. Without `network: true`, containers have none.
        network_default: Word<ContainerNetwork> = "none" => network() -> ContainerNetwork,
            trust("when it is `bridge`"), stricter(&["bridge", "none"]);
        /// Processors that a container may use, such as `1.5`; at most those of the engine.
        cpu_limit: Processors = 1.0 => cpu_limit_milli() -> u64;
        /// MiB of memory that a container may use, swap included.
        mem_limit_mb: Amount<{ 1024 * 1024 }> = 512 => mem_limit_bytes() -> u64;
        /// Processes and threads that a container may have at one time.
        pids_limit: Amount = 256 => pids_limit() -> u64;
        /// Makes the files of the image read-only.
        read_only_root: Flag = true => read_only_root() -> bool, user_limit(MeetRule::TRUE);
        /// Lifetime of a container. `call`: one call. `session`: all calls of a worker.
        reuse: Word<Reuse> = "call" => reuse() -> Reuse, stricter(&["session", "call"]);
    }
    foreign {
        "network" => "did you mean `network_default:`?",
        "memory" => "did you mean `mem_limit_mb:`?",
        "cpus" => "did you mean `cpu_limit:`?",
        "privileged" => "a container of forge is never privileged; there is no key for it",
        "volumes" => "a container shows the mounts of its worker and nothing else",
    }
}

words! {
    /// `docker.network_default`.
    ///
    /// ```
    /// let docker = sandbox_config::DockerSettings::default();
    /// assert_eq!(docker.network(), sandbox_config::ContainerNetwork::None);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ContainerNetwork {
        /// `none`.
        None = "none",
        /// `bridge`: the engine's default network.
        Bridge = "bridge",
    }
}

words! {
    /// `docker.reuse`.
    ///
    /// ```
    /// let docker = sandbox_config::DockerSettings::default();
    /// assert_eq!(docker.reuse(), sandbox_config::Reuse::Call);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Reuse {
        /// `call`: a container for each call.
        Call = "call",
        /// `session`: one for all calls of a worker.
        Session = "session",
    }
}

/// The name of an image.
pub(crate) struct Image;

impl KeyKind for Image {
    type Value = String;
    type Got<'v> = &'v str;
    const SHAPE: ValueShape = ValueShape::Like(&IMAGE);

    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<String> {
        let image = fields::string(reports, node, path)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        if !image.chars().all(is_plain)
            || !image.starts_with(|c: char| c.is_ascii_alphanumeric())
            || image.len() > 512
        {
            let message = format!("`{path}: {image}` is not an image");
            let bad = DiagnosticCode::BadValue.at(&node.span, message);
            return reports.refuse(bad.help("for example forge-sandbox:1"));
        }
        Some(image.to_owned())
    }

    fn get(value: &String) -> &str {
        value
    }
}

impl BuiltIn<&str> for Image {
    fn built_in(written: &str) -> String {
        written.to_owned()
    }
}

/// The address of an engine, or `null` for the local one.
pub(crate) struct Engine;

impl KeyKind for Engine {
    type Value = Option<String>;
    type Got<'v> = Option<&'v str>;
    const SHAPE: ValueShape = ValueShape::OneOf(&[ValueShape::Like(&ENGINE), ValueShape::Null]);

    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<Option<String>> {
        if let YamlValue::Null = node.value {
            return Some(None);
        }
        let host = fields::string(reports, node, path)?;
        let address = ["unix://", "tcp://", "ssh://"]
            .iter()
            .find_map(|scheme| host.strip_prefix(scheme));
        let is_plain = |c: char| c.is_ascii_graphic();
        if !address.is_some_and(|rest| !rest.is_empty() && rest.chars().all(is_plain)) {
            let message = format!("`{path}: {host}` is not an engine's address");
            let bad = DiagnosticCode::BadValue.at(&node.span, message);
            return reports
                .refuse(bad.help("for example unix:///run/docker.sock, tcp://… or ssh://…"));
        }
        Some(Some(host.to_owned()))
    }

    fn get(value: &Option<String>) -> Option<&str> {
        value.as_deref()
    }
}

/// `1.5` processors, kept in thousandths.
pub(crate) struct Processors;

impl KeyKind for Processors {
    type Value = u64;
    type Got<'v> = u64;
    const SHAPE: ValueShape = ValueShape::Number;

    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<u64> {
        /// More processors than any engine has.
        const MOST: f64 = 4_096.0;
        let number = match node.value {
            YamlValue::Int(number) => Some(number as f64),
            YamlValue::Float(number) => Some(number),
            _ => None,
        };
        let number = number.filter(|number| (0.001..=MOST).contains(number));
        if number.is_none() {
            let message = format!("`{path}` must be a number of processors above 0, such as 1.5");
            reports.add(DiagnosticCode::BadValue.at(&node.span, message));
        }
        number.map(Processors::built_in)
    }

    fn get(value: &u64) -> u64 {
        *value
    }
}

impl BuiltIn<f64> for Processors {
    fn built_in(written: f64) -> u64 {
        (written * 1_000.0).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::fields::MappingFields;
    use crate::syntax::text::{Layer, SourceText};
    use crate::syntax::yaml;

    #[test]
    fn the_defaults_are_what_the_rows_say() {
        let rows = DOCKER.list.iter().filter(|key| !key.default.is_empty());
        let text: String = rows
            .map(|key| format!("{}: {}\n", key.name, key.default))
            .collect();
        let text = SourceText::inline("t".into(), Layer::Project, text);
        let node = yaml::parse(&text).unwrap().unwrap();
        let mut reports = Reports::default();
        let section = MappingFields::open(&mut reports, &node, "docker", &DOCKER).unwrap();
        let mut docker = DockerSettings {
            enabled: true,
            image: String::new(),
            host: None,
            network_default: ContainerNetwork::Bridge,
            cpu_limit: 0,
            mem_limit_mb: 0,
            pids_limit: 0,
            read_only_root: false,
            reuse: Reuse::Session,
        };
        docker.read(&mut reports, &section);
        assert_eq!(docker, DockerSettings::default());
        assert_eq!(reports.errors(), 0);
    }
}
