//! The papers' list is true: each item has a line, each line a test or a command that exists, and the page is
//! made of both.

use std::collections::BTreeSet;

use tutti_testkit::papers::{List, Sources};
use tutti_tests::root;

fn read() -> (List, Sources) {
    let list = List::read(&root()).unwrap_or_else(|error| panic!("{error}"));
    (list, Sources::read(&root()).unwrap_or_else(|error| panic!("{error}")))
}

/// Names of the targets that `make help` lists.
fn targets() -> BTreeSet<String> {
    let mut targets = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("mk")).expect("a folder").flatten() {
        if entry.path().extension().is_some_and(|end| end == "mk") {
            let text = std::fs::read_to_string(entry.path()).expect("text");
            let heads = text.lines().filter_map(|line| line.split_once(':'));
            targets.extend(heads.map(|(name, _)| name.to_owned()).filter(|name| !name.contains([' ', '.'])));
        }
    }
    targets
}

#[test]
fn checklist_has_a_line_for_every_item_that_a_test_or_a_command_shows() {
    let (list, sources) = read();
    let faults = list.faults(&sources, &targets());
    assert!(faults.is_empty(), "{faults:#?}");
}

/// With CHECKLIST=write in the environment, which `make checklist` sets, the page is written first.
#[test]
fn checklist_page_is_made_from_the_list_and_the_marks() {
    let (list, sources) = read();
    let (path, made) = (root().join("docs/internals/checklist.md"), list.page(&sources));
    if std::env::var("CHECKLIST").is_ok_and(|value| value == "write") {
        std::fs::write(&path, &made).expect("the page is written");
    }
    let page = std::fs::read_to_string(&path).expect("the page");
    let different = page.lines().zip(made.lines()).find(|(one, other)| one != other);
    assert_eq!(page, made, "`make checklist` writes it; the first difference: {different:#?}");
}

/// Names of tests begin with a subject: words of a page with three underscores and more are names of tests.
#[test]
fn pages_of_the_papers_name_existing_tests() {
    let (_, sources) = read();
    let mut pages = vec![root().join("docs/internals/phases.md"), root().join("docs/internals/checklist.md")];
    let papers = std::fs::read_dir(root().join("docs/papers")).expect("a folder").flatten();
    pages.extend(papers.map(|page| page.path()));
    let is_name = |word: &&str| word.matches('_').count() >= 3 && !word.contains([' ', '/']);
    let mut count = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("the page");
        for name in text.split('`').skip(1).step_by(2).filter(is_name) {
            assert!(sources.tests.contains(name), "{}: `{name}` is no test", page.display());
            count += 1;
        }
    }
    assert!(count >= 100, "{count} names");
}

/// A page that nobody would read to its end is two pages.
#[test]
fn pages_of_the_papers_are_there_and_short() {
    for paper in ["score-d", "mbcf", "sr8000", "dse", "sss-core"] {
        let path = root().join("docs/papers").join(paper).with_extension("md");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let words = text.split_whitespace().count();
        assert!((300..=700).contains(&words), "{}: {words} words", path.display());
        for part in ["What it has", "What is kept", "What is replaced, and why", "What was measured"] {
            assert!(text.contains(&format!("\n## {part}\n")), "{}: {part}", path.display());
        }
    }
}
