//! `forge schema` prints what is published.

use crate::support::World;

#[test]
fn the_published_schemas_are_those_that_are_printed() {
    let world = World::new(&[]);
    for which in ["audit", "config", "worker"] {
        let printed = world.forge(&["schema", which]);
        printed.code(0);
        let published = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../schemas")
            .join(format!("forge-{which}.schema.json"));
        let published = std::fs::read_to_string(published).unwrap();
        assert!(
            printed.stdout == published,
            "schemas/ is out of date: run `cargo xtask docs`"
        );
    }
}
