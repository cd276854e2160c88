//! The parameters that a model sees are the fields of the type that a tool reads its arguments into.

use forge_tools::tools;

use crate::argument_samples::are_read;

#[test]
fn of_every_tool_are_read() {
    let mut all = tools::file_tools();
    all.push(tools::read_output());
    all.push(tools::shell());
    are_read(&all);
}
