//! `shell.session`: what one command of a worker leaves to the next, and to nobody else.

use std::sync::Arc;

use forge_tools::AutoApprove;

use crate::support::World;

const PLAYBOOK: &str = "version: 1
workers:
  main:
    - calls: [{tool: shell, args: {command: cd workspace && A=b}}]
    - calls: [{tool: shell, args: {command: 'echo main; ls; echo \"$A\"'}}]
    - calls: [{tool: child, args: {input: x}}]
    - calls: [{tool: child, args: {input: x}}]
    - calls: [{tool: shell, args: {command: 'echo main; ls; echo \"$A\"'}}]
    - say: done
  child:
    - calls: [{tool: shell, args: {command: 'echo child; ls; echo \"$A\"; cd workspace; A=c'}}]
    - say: finished
";

const SHELL: &str = "sandbox: {zones: [{name: workspace}]}\nshell: {}\n";

/// What each call of the shell gave, in one line each.
fn results(session: &str) -> Vec<String> {
    let config = format!(
        "sandbox: {{mode: direct, zones: {{workspace: {{path: ./workspace}}}}}}\n\
         shell: {{default: ask{session}}}\n"
    );
    let main = format!("{SHELL}workers: [child]\n");
    let mut world = World::new(&config, &[("main", &main), ("child", SHELL)]);
    std::fs::create_dir_all(world.dir.path().join("workspace/sub")).unwrap();
    world.approver = Arc::new(AutoApprove::confined());
    world.run(PLAYBOOK);
    let all = world.log.results.lock().unwrap();
    let of_shell = all
        .iter()
        .filter_map(|(_, one)| one.strip_prefix("✓ shell: "));
    of_shell.map(|one| one.replace('\n', "|")).collect()
}

#[test]
fn it_is_the_projects_to_offer_and_of_one_worker() {
    let child = "child|workspace||";
    assert_eq!(
        results(", session: worker"),
        ["[exit code 0]", "main|sub|b|", child, child, "main|sub|b|"]
    );
    let main = "main|workspace||";
    let without = ["[exit code 0]", main, child, child, main];
    assert_eq!(results(""), without);
    assert_eq!(results(", session: call"), without);
}
