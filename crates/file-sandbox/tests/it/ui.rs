//! What must not compile.

#[test]
fn authority_needs_the_right_types() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
