//! Contents of the five papers, item by item: the list, the marks above the tests, and the page made of both.
//!
//! `docs/internals/checklist.toml` names each item, table and figure. A line `// Paper: M4, M16` directly
//! above a test's `#[test]` says which items that test shows. [`List::page`] makes the text of
//! docs/internals/checklist.md; a house test compares both, and asks for [`List::faults`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

use toml::de::{DeTable, DeValue};

#[cfg(test)]
mod tests;

/// The papers: the letter of their items, how many there are, the name of their tables, the heading.
const PAPERS: [(char, usize, &str, &str); 5] = [
    ('S', 24, "score-d", "SCore-D: gang scheduling by network preemption"),
    ('M', 18, "mbcf", "MPI/MBCF: message passing on memory-based communication"),
    ('R', 17, "sr8000", "SR8000: serial and parallel slots of a node"),
    ('D', 12, "dse", "DSE: shared memory on unmodified systems"),
    ('C', 32, "sss", "SSS-CORE: the scalable operating system"),
];
/// Tables and figures with results, of each paper.
const RESULTS: [(&str, &[usize], &[usize]); 5] = [
    ("score-d", &[2, 3], &[4, 5, 7, 8]),
    ("mbcf", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], &[7]),
    ("sr8000", &[], &[6, 7, 8]),
    ("dse", &[1, 2], &[5, 6]),
    ("sss", &[1, 2, 3, 4, 5, 6, 7, 8], &[3, 4, 5, 6]),
];
/// Items that may be left out for good, and those that may wait for their pieces.
const NOT_HERE: [&str; 5] = ["R1", "R4", "R9", "D8", "C31"];
const NEXT: [&str; 14] = [
    "C18",
    "C19",
    "C20",
    "C21",
    "C22",
    "C23",
    "C24",
    "C25",
    "C27",
    "C28",
    "sss/table7",
    "sss/table8",
    "sss/figure5",
    "sss/figure6",
];
/// Folders that have tests.
const FOLDERS: [&str; 4] = ["bench", "bindings", "crates", "tests"];
const MARK: &str = "// Paper: ";

/// How far an item is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Shown by its tests.
    Held,
    /// A part, and what is missing.
    Weak(String),
    /// Not yet, and what it comes with.
    Next(String),
    /// Left out for good, and why.
    NotHere(String),
}

/// An item of a paper, or one of its tables and figures.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `M4`, `mbcf/table5`.
    pub name: String,
    /// Contents of the paper.
    pub text: String,
    /// How far it is here.
    pub state: State,
    /// Tests whose files have no marks.
    tests: Vec<String>,
    /// Commands that redo it.
    commands: Vec<String>,
}

/// All items, tables and figures of the papers, in their order.
#[derive(Clone, Debug)]
pub struct List {
    /// S1 to C32.
    pub items: Vec<Entry>,
    /// `score-d/table2` to `sss/figure6`.
    pub tables: Vec<Entry>,
}

/// Tests of the sources, and the marks above them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Names of all tests.
    pub tests: BTreeSet<String>,
    /// Tests of each item, by name.
    marks: BTreeMap<String, BTreeSet<String>>,
    /// Marks that stand above no test.
    stray: Vec<String>,
}

impl List {
    /// Reads the list of the tree at `root`.
    ///
    /// # Errors
    /// When the file cannot be read or is not in its form: one line that says where.
    pub fn read(root: &Path) -> Result<List, String> {
        let path = root.join("docs/internals/checklist.toml");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        List::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads a list from its text.
    ///
    /// # Errors
    /// When it is not in its form.
    pub fn parse(text: &str) -> Result<List, String> {
        let document = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
        let section = |name: &str| -> Result<Vec<Entry>, String> {
            let Some(DeValue::Table(table)) = document.get_ref().get(name).map(|value| value.get_ref())
            else {
                return Err(format!("[{name}] is not there"));
            };
            table.iter().map(|(name, value)| entry(name.get_ref(), value.get_ref())).collect()
        };
        let (mut items, mut tables) = (section("items")?, section("tables")?);
        let place = |names: &[String], entry: &Entry| {
            names.iter().position(|name| *name == entry.name).unwrap_or(names.len())
        };
        items.sort_by_key(|entry| place(&item_names(), entry));
        tables.sort_by_key(|entry| place(&table_names(), entry));
        Ok(List { items, tables })
    }

    /// Mistakes of the list and the marks: a line each.
    #[must_use]
    pub fn faults(&self, sources: &Sources, targets: &BTreeSet<String>) -> Vec<String> {
        let mut faults = sources.stray.clone();
        for (expected, entries) in [(item_names(), &self.items), (table_names(), &self.tables)] {
            let found: Vec<&String> = entries.iter().map(|entry| &entry.name).collect();
            let lacking = expected.iter().filter(|name| !found.contains(name));
            faults.extend(lacking.map(|name| format!("{name} has no line")));
            let unknown = found.iter().filter(|name| !expected.contains(name));
            faults.extend(unknown.map(|name| format!("{name} is in no paper")));
        }
        let known: BTreeSet<&str> = self.items.iter().map(|item| item.name.as_str()).collect();
        let unknown = sources.marks.keys().filter(|name| !known.contains(name.as_str()));
        faults.extend(unknown.map(|name| format!("a mark names {name}, which is no item")));
        for item in &self.items {
            let is_claimed = matches!(item.state, State::Held | State::Weak(_));
            if is_claimed && sources.tests_of(item).is_empty() && item.commands.is_empty() {
                faults.push(format!("{}: no test has its mark, and no command redoes it", item.name));
            }
        }
        for entry in self.items.iter().chain(&self.tables) {
            faults.extend(self.faults_of(entry, sources, targets));
        }
        faults
    }

    fn faults_of(&self, entry: &Entry, sources: &Sources, targets: &BTreeSet<String>) -> Vec<String> {
        let name = &entry.name;
        let mut faults = Vec::new();
        match &entry.state {
            State::NotHere(_) if !NOT_HERE.contains(&name.as_str()) => {
                faults.push(format!("{name} may not be left out"));
            }
            State::Next(_) if !NEXT.contains(&name.as_str()) => {
                faults.push(format!("{name} may not be put off"));
            }
            _ => {}
        }
        let no_tests = entry.tests.iter().filter(|test| !sources.tests.contains(*test));
        faults.extend(no_tests.map(|test| format!("{name}: {test} is no test")));
        for command in &entry.commands {
            let words: Vec<&str> = command.split(' ').collect();
            let is_there = match words[..] {
                ["make", "paper", what] => {
                    let what = what.strip_prefix("WHAT=").unwrap_or_default();
                    self.tables.iter().any(|table| table.name == what && table.state == State::Held)
                }
                ["make", target, ..] => targets.contains(target),
                _ => false,
            };
            if !is_there {
                faults.push(format!("{name}: `{command}` is no command"));
            }
        }
        faults
    }

    /// The text of docs/internals/checklist.md.
    #[must_use]
    pub fn page(&self, sources: &Sources) -> String {
        let mut text = String::from(
            "# The papers, item by item\n\n\
             Each item of the five papers with the test or the command that shows it here. Made by `make \
             checklist` from\nchecklist.toml and the marks above the tests; CONTRIBUTING.md has the rule. *Weak* \
             says what is missing of an\nitem, *next* what it waits for, *not here* why it is left out.\n\
             Each paper has [a page](../papers/README.md).\n\n",
        );
        text += &self.summary();
        for (letter, _, paper, heading) in PAPERS {
            _ = write!(
                text,
                "\n## {heading}\n\n| item | the paper has | here | shown by |\n|---|---|---|---|\n"
            );
            for item in self.items.iter().filter(|item| item.name.starts_with(letter)) {
                let commands = item.commands.iter().cloned();
                let shown: Vec<String> = sources.tests_of(item).into_iter().chain(commands).collect();
                text += &row(item, &shown);
            }
            text += "\n| result | the paper has | here | redone by |\n|---|---|---|---|\n";
            for table in self.tables.iter().filter(|table| table.name.split('/').next() == Some(paper)) {
                let is_redone = matches!(table.state, State::Held);
                let command = is_redone.then(|| format!("make paper WHAT={}", table.name));
                text += &row(table, &command.into_iter().collect::<Vec<_>>());
            }
        }
        text
    }

    fn summary(&self) -> String {
        let count = |entries: &[Entry], is: fn(&State) -> bool| {
            entries.iter().filter(|entry| is(&entry.state)).count()
        };
        let mut text = String::from("| | held | weak | next | not here |\n|---|---|---|---|---|\n");
        for (name, entries) in [("items", &self.items), ("tables and figures", &self.tables)] {
            let counts = [
                count(entries, |state| *state == State::Held),
                count(entries, |state| matches!(state, State::Weak(_))),
                count(entries, |state| matches!(state, State::Next(_))),
                count(entries, |state| matches!(state, State::NotHere(_))),
            ];
            _ = writeln!(text, "| {name} | {} |", counts.map(|count| count.to_string()).join(" | "));
        }
        text
    }
}

impl Sources {
    /// Reads the tests and marks of the tree at `root`.
    ///
    /// # Errors
    /// When a file or folder cannot be read.
    pub fn read(root: &Path) -> Result<Sources, String> {
        let mut sources = Sources::default();
        for folder in FOLDERS {
            let path = root.join(folder);
            sources.read_folder(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(sources)
    }

    fn read_folder(&mut self, folder: &Path) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() && entry.file_name() != "target" {
                self.read_folder(&path)?;
            } else if path.extension().is_some_and(|end| end == "rs") {
                self.read_text(&path.display().to_string(), &fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    /// Reads the tests and marks of one file.
    pub fn read_text(&mut self, file: &str, text: &str) {
        let (mut mark, mut is_test) = (None, false);
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if let Some(items) = line.strip_prefix(MARK) {
                mark = Some((number + 1, items));
                continue;
            }
            is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
            if line.starts_with("#[") {
                continue;
            }
            let line = line.strip_prefix("async ").unwrap_or(line);
            let name = line.strip_prefix("fn ").and_then(|rest| rest.split_once('(')).map(|(name, _)| name);
            if let Some(name) = name.filter(|_| is_test) {
                self.tests.insert(name.to_owned());
                for item in mark.take().into_iter().flat_map(|(_, items)| items.split(", ")) {
                    self.marks.entry(item.to_owned()).or_default().insert(name.to_owned());
                }
            }
            if let Some((number, items)) = mark.take() {
                self.stray.push(format!("{file}:{number}: `{MARK}{items}` stands above no test"));
            }
            is_test = false;
        }
    }

    /// Names of the tests that show an item: by their marks, or by its line of the list.
    fn tests_of(&self, item: &Entry) -> Vec<String> {
        let marked = self.marks.get(&item.name).into_iter().flatten();
        marked.chain(&item.tests).cloned().collect()
    }
}

/// A row of the page.
fn row(entry: &Entry, shown: &[String]) -> String {
    let here = match &entry.state {
        State::Held => "held".to_owned(),
        State::Weak(what) => format!("weak: {what}"),
        State::Next(what) => format!("next: {what}"),
        State::NotHere(why) => format!("not here: {why}"),
    };
    let shown: Vec<String> = shown.iter().map(|name| format!("`{name}`")).collect();
    format!("| {} | {} | {here} | {} |\n", entry.name, entry.text, shown.join(", "))
}

/// S1 to C32.
#[must_use]
pub fn item_names() -> Vec<String> {
    let names = |(letter, count, ..): (char, usize, _, _)| (1..=count).map(move |n| format!("{letter}{n}"));
    PAPERS.into_iter().flat_map(names).collect()
}

/// Names of the tables and figures with results.
#[must_use]
pub fn table_names() -> Vec<String> {
    let mut names = Vec::new();
    for (paper, tables, figures) in RESULTS {
        names.extend(tables.iter().map(|number| format!("{paper}/table{number}")));
        names.extend(figures.iter().map(|number| format!("{paper}/figure{number}")));
    }
    names
}

fn entry(name: &str, value: &DeValue<'_>) -> Result<Entry, String> {
    let DeValue::Table(table) = value else { return Err(format!("{name} is no table")) };
    let mut entry = Entry {
        name: name.to_owned(),
        text: String::new(),
        state: State::Held,
        tests: Vec::new(),
        commands: Vec::new(),
    };
    for (key, value) in table {
        let wrong = || format!("{name}: {} has a value of another kind", key.get_ref());
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("text", DeValue::String(text)) => entry.text = text.to_string(),
            ("weak", DeValue::String(text)) => entry.state = State::Weak(text.to_string()),
            ("next", DeValue::String(text)) => entry.state = State::Next(text.to_string()),
            ("not_here", DeValue::String(text)) => entry.state = State::NotHere(text.to_string()),
            (list @ ("tests" | "commands"), DeValue::Array(values)) => {
                for value in values {
                    let DeValue::String(text) = value.get_ref() else { return Err(wrong()) };
                    let to = if list == "tests" { &mut entry.tests } else { &mut entry.commands };
                    to.push(text.to_string());
                }
            }
            ("text" | "weak" | "next" | "not_here" | "tests" | "commands", _) => return Err(wrong()),
            (other, _) => return Err(format!("{name}: {other} is no key of an item")),
        }
    }
    Ok(entry)
}
