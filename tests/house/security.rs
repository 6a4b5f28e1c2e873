//! The page about trust is true: each boundary and each promise that it names has a test that exists.

use std::collections::BTreeSet;

use tutti_testkit::papers::Sources;
use tutti_tests::root;

/// Words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn security_page_has_an_existing_test_for_each_boundary() {
    let page = std::fs::read_to_string(root().join("docs/user/security.md")).expect("the page");
    let (_, table) = page.split_once("| boundary | what is checked").expect("the table of boundaries");
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 20, "{} boundaries", rows.len());
    let tests: BTreeSet<String> = Sources::read(&root()).unwrap_or_else(|error| panic!("{error}")).tests;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{row}");
        let mut named = 0;
        for name in quoted(cells[2]) {
            let is_there = if name.contains('/') { root().join(name).exists() } else { tests.contains(name) };
            assert!(is_there, "`{name}` is no test: {row}");
            named += 1;
        }
        assert!(named > 0, "no test shows it: {row}");
    }
}
