//! Terms that a user states of a job that runs already: it has no more of the machine by them than by those
//! of a job that it submits.

use serde_json::{Value, json};

use crate::Machine;

/// Enrols a job of a user's with these terms; gives the connection and the answer.
#[track_caller]
fn enrol(
    machine: &Machine,
    terms: &Value,
    batch: &[(&str, Value)],
) -> (std::os::unix::net::UnixStream, Value) {
    let mut request = machine.request(0, &["submit", "-n", "1", "true"]);
    let mut submit = request["Submit"].take();
    for (name, value) in terms.as_object().expect("an object") {
        submit["terms"][name] = value.clone();
    }
    for (name, value) in batch {
        submit["batch"][*name] = value.clone();
    }
    machine.ask(0, &json!({ "Enrol": submit }))
}

#[test]
fn enrolment_has_no_terms_that_keep_others_from_a_node() {
    let Some(machine) = Machine::up("hostile-terms", 1, 2, &[]) else { return };
    for (terms, option) in [
        (json!({ "exclusive": true }), "--exclusive"),
        (json!({ "memory_bytes": 1_u64 << 62 }), "--memory"),
        (json!({ "fill": true }), "--fill"),
    ] {
        let (_stream, answer) = enrol(&machine, &terms, &[]);
        let text = answer["Refused"].as_str().unwrap_or_else(|| panic!("{terms}: {answer}"));
        assert!(text.starts_with("the job takes no turns: ") && text.contains(option), "{text}");
        // Others have the node meanwhile.
        machine.tutti(1, &["run", "-n", "1", "true"]).expect_success();
    }
    for (name, value, option) in [
        ("time_ms", json!(1000), "--time"),
        ("queue", json!("night"), "--queue"),
        ("after", json!([{ "job": 1, "ok": false }]), "--after"),
    ] {
        let (_stream, answer) = enrol(&machine, &json!({}), &[(name, value)]);
        let text = answer["Refused"].as_str().unwrap_or_else(|| panic!("{name}: {answer}"));
        assert!(text.contains(option), "{text}");
    }
    let shown = machine.cluster.tutti(&["nodes"]).expect_success().stdout;
    assert!(!shown.contains("4194304T"), "{shown}");
    let name = "right\u{202e}tfel\u{200b}\u{2028}\u{1b}[31m";
    let (_stream, answer) = enrol(&machine, &json!({}), &[("name", json!(name))]);
    assert!(answer["Job"].is_u64(), "one that asks for nothing: {answer}");
    // What turns, hides or colours text is in no line of others.
    let number = answer["Job"].to_string();
    for words in [&["ps"][..], &["status", &number], &["why", &number]] {
        let shown = machine.tutti(1, words).stdout;
        assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{2028}', '\u{1b}']), "{words:?}: {shown:?}");
        assert!(words[0] == "why" || shown.contains("right"), "{words:?}: {shown}");
    }
}

#[test]
fn enrolment_has_no_greater_weight_than_its_user_may_have() {
    let config = tutti_tests::Scratch::new("hostile-terms-weight");
    let file = config.path().join("tutti.toml");
    std::fs::write(&file, "[limits]\nweight_max = 150\n").expect("a file");
    let more = ["--config", file.to_str().expect("a path")];
    let Some(machine) = Machine::up("hostile-terms-weight", 1, 1, &more) else { return };
    let (_stream, answer) = enrol(&machine, &json!({ "weight": 151 }), &[]);
    let text = answer["Refused"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(text.contains("a weight of 151 is more than the 150"), "{text}");
    let (_stream, answer) = enrol(&machine, &json!({ "weight": 150 }), &[]);
    assert!(answer["Job"].is_u64(), "{answer}");
}
