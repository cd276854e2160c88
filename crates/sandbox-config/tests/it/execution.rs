//! `execution`, `docker` and limits of runs: what is read, what is refused, what needs a yes.

use sandbox_config::{ContainerNetwork, ExecutionMode, Layer, TrustedSettings, load};

use crate::support::{CONFIG, Scratch, codes};

fn said(text: &str, trust: TrustedSettings) -> Result<sandbox_config::Project, Vec<String>> {
    let scratch = Scratch::new().file(CONFIG, text);
    let mut sources = scratch.sources();
    sources.trust = trust;
    load(&sources).map_err(|mistakes| codes(&mistakes).into_iter().map(str::to_owned).collect())
}

#[test]
fn mistakes_have_codes() {
    for (text, code) in [
        ("execution: { mode: docker }\n", "config.bad_value"),
        ("execution: { mod: local_only }\n", "config.unknown_key"),
        ("execution: { runners: [kubernetes] }\n", "config.not_yet"),
        ("execution: { runners: [podman] }\n", "config.bad_value"),
        ("execution: { runners: [] }\n", "config.bad_value"),
        (
            "execution: { mode: local_only, runners: [docker] }\n",
            "config.bad_value",
        ),
        (
            "execution: { mode: docker_required, runners: [os] }\n",
            "config.bad_value",
        ),
        (
            "execution: { mode: local_only }\nexecution_mode: local_only\n",
            "config.duplicate_key",
        ),
        ("docker: { image: --privileged }\n", "config.bad_value"),
        ("docker: { image: \"a b\" }\n", "config.bad_value"),
        ("docker: { image: \"\" }\n", "config.bad_value"),
        ("docker: { host: /run/docker.sock }\n", "config.bad_value"),
        ("docker: { host: \"tcp://\" }\n", "config.bad_value"),
        ("docker: { cpu_limit: 0 }\n", "config.bad_value"),
        ("docker: { cpu_limit: -1 }\n", "config.bad_value"),
        ("docker: { cpu_limit: .nan }\n", "config.bad_value"),
        ("docker: { cpu_limit: .inf }\n", "config.bad_value"),
        ("docker: { cpu_limit: many }\n", "config.bad_value"),
        ("docker: { mem_limit_mb: 0 }\n", "config.bad_value"),
        ("docker: { privileged: true }\n", "config.foreign_key"),
    ] {
        assert_eq!(
            said(text, TrustedSettings::Given).unwrap_err(),
            [code],
            "{text}"
        );
    }
}

#[test]
fn what_a_repository_says_of_image_host_and_network_needs_a_yes() {
    let text = "docker: { image: evil, host: \"tcp://evil\", network_default: bridge }\n";
    let docker = |trust| {
        let project = said(text, trust).unwrap();
        (
            project.ceiling().execution().docker().clone(),
            project.privileged_settings().len(),
        )
    };
    let (plain, asked) = docker(TrustedSettings::Store([].into()));
    assert_eq!(plain, sandbox_config::DockerSettings::default());
    assert_eq!(asked, 3);
    let (agreed, _) = docker(TrustedSettings::Given);
    assert_eq!(agreed.image(), "evil");
    assert_eq!(agreed.host(), Some("tcp://evil"));
    assert_eq!(agreed.network(), ContainerNetwork::Bridge);
}

#[test]
fn the_stronger_layer_wins_in_either_spelling() {
    for (file, flag) in [
        ("execution: { mode: local_only }\n", "execution_mode"),
        ("execution_mode: local_only\n", "execution.mode"),
    ] {
        let scratch = Scratch::new().file(CONFIG, file);
        let mut sources = scratch.sources();
        sources
            .overrides
            .push((flag.to_owned(), "docker_required".to_owned()));
        let project = load(&sources).unwrap();
        let execution = project.ceiling().execution();
        assert_eq!(execution.mode(), ExecutionMode::DockerRequired, "{file}");
        assert_eq!(execution.origin().layer(), Layer::CommandLine);
    }
}

#[test]
fn what_lifts_a_limit_does_not_lift_the_persons_own() {
    let scratch = Scratch::new()
        .file(
            "p/golem-forge.config.yaml",
            "limits: { max_tokens: null }\n",
        )
        .file("user.yaml", "limits: { max_tokens: 100 }\n");
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    let limit =
        |sources: &sandbox_config::Sources| load(sources).unwrap().ceiling().limits().max_tokens();
    assert_eq!(limit(&sources), None);
    sources.user_file = Some(scratch.path().join("user.yaml"));
    assert_eq!(limit(&sources), Some(100));
}
