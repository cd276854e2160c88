//! What `tools/list` says.

use std::collections::HashMap;

use serde_json::json;

use super::*;

#[test]
fn the_list_states_every_hint_and_is_the_same_in_both_eras() {
    run(async {
        let (_world, toolbox) = files();
        let list = request(1, "tools/list", json!({}));
        let old = legacy_answers(toolbox.clone(), std::slice::from_ref(&list)).await;
        let new = exchange(toolbox.clone(), &[modern(list)]).await;
        let (old, new) = (&old[0]["result"], &new[0]["result"]);

        assert_eq!(old["tools"], new["tools"]);
        assert_eq!(old.as_object().unwrap().len(), 1);
        assert_eq!(new["resultType"], "complete");
        assert_eq!(new["ttlMs"], 0);
        assert_eq!(new["cacheScope"], "private");
        assert_eq!(new.get("nextCursor"), None);

        let tools = old["tools"].as_array().unwrap();
        for (tool, spec) in tools.iter().zip(toolbox.specs()) {
            assert_eq!(tool["inputSchema"], spec.params.to_json_schema());
            assert_eq!(tool["description"], spec.description.as_str());
            let has_schema = spec.output.is_some() && !LISTS.contains(&spec.name.as_str());
            assert_eq!(tool.get("outputSchema").is_some(), has_schema);
        }
        let rows: Vec<String> = tools
            .iter()
            .map(|tool| format!("{} {} {}", tool["name"], tool["annotations"], tool["_meta"]))
            .collect();
        insta::assert_snapshot!(rows.join("\n"), @r#"
        "read_file" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "write_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "append_file" {"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "edit_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "list_files" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "search_files" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "delete_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "move_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "copy_file" {"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "create_dir" {"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"writes_workspace"}
        "file_exists" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "file_info" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "hash_file" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "read_output" {"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false} {"dev.forge/risk":"read_only"}
        "#);
    });
}

/// Tools whose results are long lists: those are sent once, as text.
const LISTS: [&str; 2] = ["list_files", "search_files"];

/// The list is in the model's context from its first word on.
#[test]
fn the_whole_list_is_small() {
    run(async {
        let (_world, toolbox) = files();
        let list = request(1, "tools/list", json!({}));
        let answers = legacy_answers(toolbox, &[list]).await;
        let tools = answers[0]["result"]["tools"].to_string();
        assert!(tools.len() <= 14 * 1024, "{} bytes", tools.len());
    });
}

/// Clients check every structure against the schema that was advertised, that of a failure
/// as well.
#[test]
fn whatever_comes_of_a_call_is_what_the_schema_says() {
    run(async {
        let (_world, toolbox) = files();
        let list = request(0, "tools/list", json!({}));
        let tools = legacy_answers(toolbox.clone(), &[list]).await[0]["result"]["tools"].clone();
        let schemas: HashMap<String, jsonschema::Validator> = tools
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|tool| {
                let schema = tool.get("outputSchema")?;
                let name = tool["name"].as_str().unwrap().to_owned();
                Some((name, jsonschema::validator_for(schema).unwrap()))
            })
            .collect();
        assert!(
            !schemas.contains_key("read_file"),
            "its text is all there is"
        );

        for (name, schema) in &schemas {
            for failure in [
                json!({"code": "NOT_FOUND", "message": "m"}),
                json!({"code": "BLOCKED", "message": "m", "hint": "h"}),
                json!({"code": "READ_ONLY", "message": "m", "hint": "h", "path": "/a"}),
            ] {
                assert!(schema.is_valid(&failure), "{name} {failure}");
            }
            for nothing in [json!({}), json!({"code": 7, "message": "m"}), json!(null)] {
                assert!(!schema.is_valid(&nothing), "{name} {nothing}");
            }
        }

        let (new, old) = ("/out/new.md", "/data/readme.md");
        let rows = [
            ("write_file", json!({"path": new, "content": "hi"})),
            ("append_file", json!({"path": new, "content": "ho"})),
            (
                "edit_file",
                json!({"path": new, "old_text": "ho", "new_text": "hu"}),
            ),
            ("list_files", json!({})),
            ("list_files", json!({"path": "/data"})),
            ("search_files", json!({"pattern": "hello"})),
            ("search_files", json!({"pattern": "in no file at all"})),
            ("copy_file", json!({"from": old, "to": "/out/copy.md"})),
            (
                "move_file",
                json!({"from": "/out/copy.md", "to": "/out/c.md"}),
            ),
            ("create_dir", json!({"path": "/out/dir"})),
            ("file_exists", json!({"path": old})),
            ("file_exists", json!({"path": "/data/none"})),
            ("file_info", json!({"path": old})),
            ("file_info", json!({"path": "/data"})),
            ("hash_file", json!({"path": old})),
            ("delete_file", json!({"path": new})),
        ];
        let mut requests = Vec::new();
        for (name, arguments) in &rows {
            requests.push(call(1 + requests.len() as i64, name, arguments.clone()));
        }
        let succeeding = requests.len();
        for name in schemas.keys() {
            for path in [
                "/data/none",
                "/etc/passwd",
                "/data/readme.md/x",
                "",
                "/data",
            ] {
                for arguments in [
                    json!({"path": path}),
                    json!({"path": path, "content": "x"}),
                    json!({"path": path, "old_text": "x", "new_text": "y"}),
                    json!({"from": path, "to": path}),
                    json!({"path": path, "pattern": "("}),
                ] {
                    requests.push(call(1 + requests.len() as i64, name, arguments));
                }
            }
        }
        let mut client = Client::of(toolbox);
        client.ask(&initialize("2025-11-25")).await;
        for (index, request) in requests.iter().enumerate() {
            let answer = client.ask(request).await;
            let result = &answer["result"];
            let name = request["params"]["name"].as_str().unwrap();
            let structure = &result["structuredContent"];
            match schemas.get(name) {
                Some(schema) => assert!(schema.is_valid(structure), "{request} {answer}"),
                None => assert!(structure.is_null(), "{request} {answer}"),
            }
            if index < succeeding {
                assert_eq!(result["isError"], false, "{request} {answer}");
            }
        }
        client.hang_up().await;
    });
}
