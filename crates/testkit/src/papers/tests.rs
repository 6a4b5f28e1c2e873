use super::*;

const FILE: &str = "/// What it shows.\n// Paper: S1, M2\n#[test]\n#[cfg(unix)]\nfn a_test_of_two() {}\n\n\
                    #[test]\nfn a_test_of_none() {}\n\nfn a_helper() {}\n";

fn sources(text: &str) -> Sources {
    let mut sources = Sources::default();
    sources.read_text("file.rs", text);
    sources
}

/// A list of all items and tables, each with these lines.
fn list(item: &str, table: &str) -> List {
    let items: String = item_names().iter().map(|name| format!("[items.{name}]\n{item}\n")).collect();
    let tables: String = table_names().iter().map(|name| format!("[tables.\"{name}\"]\n{table}\n")).collect();
    List::parse(&(items + &tables)).expect("a list")
}

#[test]
fn papers_have_103_items_and_38_results() {
    assert_eq!((item_names().len(), table_names().len()), (103, 38));
}

#[test]
fn papers_marks_belong_to_the_test_below() {
    let found = sources(FILE);
    assert_eq!(found.tests.iter().collect::<Vec<_>>(), ["a_test_of_none", "a_test_of_two"]);
    let of = |item: &str| found.marks.get(item).into_iter().flatten().cloned().collect::<Vec<_>>();
    assert_eq!([of("S1"), of("M2")], [["a_test_of_two"], ["a_test_of_two"]]);
    assert!(of("S2").is_empty() && found.stray.is_empty());
    let stray = sources("// Paper: S1\nfn a_helper() {}\n// Paper: S2\n\n#[test]\nfn a_test() {}\n").stray;
    let places: Vec<_> = stray.iter().map(|line| line.split(' ').next().expect("a place")).collect();
    assert_eq!(places, ["file.rs:1:", "file.rs:3:"], "{stray:?}");
}

#[test]
fn papers_faults_name_each_item_that_nothing_shows() {
    let all = list("text = \"it\"", "text = \"it\"");
    let faults = all.faults(&sources(FILE), &BTreeSet::new());
    let unshown = "no test has its mark, and no command redoes it";
    assert_eq!(faults.iter().filter(|fault| fault.ends_with(unshown)).count(), 101, "{faults:?}");
    assert_eq!(faults.len(), 101, "{faults:?}");
    let none = List::parse("[items]\n[tables]\n").expect("an empty list");
    assert_eq!(none.faults(&Sources::default(), &BTreeSet::new()).len(), 103 + 38);
}

#[test]
fn papers_faults_name_what_may_not_be_left_out_or_does_not_exist() {
    let faults = |item: &str, table: &str, targets: &[&str]| {
        let targets = targets.iter().map(|name| (*name).to_owned()).collect();
        list(item, table).faults(&sources(FILE), &targets)
    };
    assert_eq!(faults("not_here = \"why\"", "", &[]).len(), 103 - NOT_HERE.len());
    assert_eq!(faults("next = \"what\"", "next = \"what\"", &[]).len(), 103 + 38 - NEXT.len());
    assert_eq!(faults("tests = [\"a_test_of_none\"]", "", &[]), [""; 0]);
    assert_eq!(faults("tests = [\"a_helper\"]", "", &[]).len(), 103);
    assert_eq!(faults("commands = [\"make bench-dse\"]", "", &["bench-dse"]), [""; 0]);
    assert_eq!(faults("commands = [\"make bench-dse\"]", "", &["bench"]).len(), 103);
    assert_eq!(faults("commands = [\"make paper WHAT=mbcf/table5\"]", "", &["paper"]), [""; 0]);
    assert_eq!(faults("commands = [\"make paper WHAT=mbcf/table13\"]", "", &["paper"]).len(), 103);
    assert_eq!(faults("commands = [\"make paper WHAT=mbcf/table5\"]", "weak = \"x\"", &["paper"]).len(), 103);
    assert!(faults("", "", &[]).iter().all(|fault| !fault.contains("is no item")));
    let stranger = sources("// Paper: X9\n#[test]\nfn a_test() {}\n");
    let found = list("commands = [\"make x\"]", "").faults(&stranger, &["x".to_owned()].into());
    assert_eq!(found, ["a mark names X9, which is no item"]);
}

#[test]
fn papers_list_in_another_form_is_refused_by_name() {
    for (text, said) in [
        ("[items]\n", "[tables] is not there"),
        ("[items.S1]\ncolour = \"red\"\n[tables]\n", "S1: colour is no key of an item"),
        ("[items.S1]\ntests = \"one\"\n[tables]\n", "S1: tests has a value of another kind"),
        ("[items.S1]\ntests = [1]\n[tables]\n", "S1: tests has a value of another kind"),
        ("[items]\nS1 = 1\n[tables]\n", "S1 is no table"),
    ] {
        assert_eq!(List::parse(text).err().as_deref(), Some(said));
    }
}

#[test]
fn papers_page_has_a_row_for_everything() {
    let all = list("text = \"it\"\nweak = \"half\"", "next = \"later\"");
    let page = all.page(&sources(FILE));
    assert_eq!(page.lines().filter(|line| line.ends_with(" |")).count(), 103 + 38 + 5 * 2 + 3);
    assert!(page.contains("| S1 | it | weak: half | `a_test_of_two` |"), "{page}");
    assert!(page.contains("| items | 0 | 103 | 0 | 0 |\n| tables and figures | 0 | 0 | 38 | 0 |"), "{page}");
}
