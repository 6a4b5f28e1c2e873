//! The table and the picture of ARCHITECTURE.md are those of the manifests. `TUTTI_DRAW=1` draws the picture
//! anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use tutti_svg::{Anchor, GREY, INK, Svg};
use tutti_tests::root;

/// Crates that are in no picture: tests and their tools use them, or nothing does.
const APART: [&str; 2] = ["testkit", "svg"];
const PICTURE: &str = "docs/pictures/crates.svg";
const BOX: [f64; 2] = [128.0, 46.0];
const ROW: f64 = 92.0;
const WIDTH: f64 = 980.0;

/// By crate, the crates that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Crates of the folder `crates`, as their manifests say.
fn manifests() -> Uses {
    let folder = std::fs::read_dir(root().join("crates")).expect("the folder of crates");
    let named = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        let text = std::fs::read_to_string(entry.path().join("Cargo.toml")).expect("a manifest");
        (entry.file_name().into_string().expect("a name"), used(&text))
    };
    folder.map(named).collect()
}

/// Crates of ours under `[dependencies]`; one for tests alone, behind a feature, does not count.
fn used(manifest: &str) -> BTreeSet<String> {
    let is_head = |line: &&str| !line.starts_with('[');
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1).take_while(is_head);
    let ours = lines.filter(|line| !line.contains("optional = true"));
    ours.filter_map(|line| line.strip_prefix("tutti-")?.split(['.', ' ', '=']).next().map(str::to_owned))
        .collect()
}

/// By crate, what the table says that it is and may use.
fn table() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `crates/"));
    let row = |row: &str| {
        let (name, rest) = row.split_once("` | ").expect("a folder");
        let (what, uses) = rest.trim_end_matches(" |").rsplit_once(" | ").expect("two further columns");
        let uses = uses.split([',', ' ']).filter(|word| !word.is_empty() && *word != "-").map(str::to_owned);
        (name.to_owned(), (what.to_owned(), uses.collect()))
    };
    rows.map(row).collect()
}

/// Crates that one uses and cannot reach by another one that it uses.
fn near(uses: &Uses, name: &str) -> BTreeSet<String> {
    let direct = &uses[name];
    let reached = |by: &String| {
        let mut found = BTreeSet::new();
        let mut open: Vec<&String> = uses[by].iter().collect();
        while let Some(next) = open.pop() {
            if found.insert(next.clone()) {
                open.extend(&uses[next]);
            }
        }
        found
    };
    let by_others: BTreeSet<String> = direct.iter().flat_map(reached).collect();
    direct.difference(&by_others).cloned().collect()
}

/// By crate, how many crates stand below it at most.
fn storey(uses: &Uses, name: &str) -> usize {
    uses[name].iter().map(|below| storey(uses, below) + 1).max().unwrap_or(0)
}

/// Crates by storey, the lowest first; each storey in the order of those that it uses.
fn storeys(uses: &Uses) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for name in uses.keys() {
        let at = storey(uses, name);
        rows.resize_with(rows.len().max(at + 1), Vec::new);
        rows[at].push(name.clone());
    }
    let mut places: BTreeMap<String, f64> = BTreeMap::new();
    for row in &mut rows {
        let wished = |name: &String| {
            let below: Vec<f64> =
                near(uses, name).iter().filter_map(|below| places.get(below)).copied().collect();
            if below.is_empty() { 0.5 } else { below.iter().sum::<f64>() / below.len() as f64 }
        };
        row.sort_by(|a, b| wished(a).total_cmp(&wished(b)).then_with(|| a.cmp(b)));
        let count = row.len() as f64;
        places.extend(row.iter().enumerate().map(|(at, name)| (name.clone(), (at as f64 + 0.5) / count)));
    }
    rows
}

/// First words of a row, up to a sign.
fn short(what: &str) -> String {
    let plain: String = what.chars().filter(|letter| !matches!(letter, '`' | '[' | ']')).collect();
    plain.split([':', ';', ',', '(', '.']).next().unwrap_or_default().trim().to_owned()
}

/// Lines of at most so many letters.
fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("one");
        if !last.is_empty() && last.len() + 1 + word.len() > most {
            lines.push(word.to_owned());
        } else {
            _ = write!(last, "{}{word}", if last.is_empty() { "" } else { " " });
        }
    }
    lines
}

/// The crates in their storeys, each with an arrow to what it uses.
fn drawn(uses: &Uses, table: &BTreeMap<String, (String, BTreeSet<String>)>) -> String {
    let rows = storeys(uses);
    let height = rows.len() as f64 * ROW + 50.0;
    let mut places = BTreeMap::new();
    for (storey, row) in rows.iter().enumerate() {
        let gap = (WIDTH - row.len() as f64 * BOX[0]) / (row.len() as f64 + 1.0);
        for (at, name) in row.iter().enumerate() {
            let x = gap + at as f64 * (BOX[0] + gap);
            places.insert(name.as_str(), [x, (rows.len() - 1 - storey) as f64 * ROW + 12.0]);
        }
    }
    let mut svg = Svg::new();
    for name in uses.keys() {
        for below in near(uses, name) {
            let ([x, y], [u, v]) = (places[name.as_str()], places[below.as_str()]);
            let (x, y, u) = (x + BOX[0] / 2.0, y + BOX[1], u + BOX[0] / 2.0);
            let bend = (v - y) / 2.0;
            let path = format!("M{x:.1},{y:.1} C{x:.1},{:.1} {u:.1},{:.1} {u:.1},{v:.1}", y + bend, v - bend);
            svg.path(
                &path,
                "fill=\"none\" stroke=\"#8a97a8\" stroke-width=\"1.3\"",
                &format!("{name} uses {below}"),
            );
        }
    }
    for (name, [x, y]) in &places {
        let what = &table[*name].0;
        let is_pure = what.ends_with("; pure") || what.contains("; pure,");
        let (fill, edge) = if is_pure { ("#eaf7ea", "#4c8a4c") } else { ("#eef3fb", "#4a6fa5") };
        svg.rect([*x, *y, BOX[0], BOX[1]], fill, &format!("rx=\"5\" stroke=\"{edge}\""));
        let middle = x + BOX[0] / 2.0;
        let bold = format!("fill=\"{INK}\" font-weight=\"bold\" font-size=\"12\"");
        svg.text(middle, y + 15.0, Anchor::Middle, name, &bold);
        for (at, line) in lines(&short(what), 23).iter().take(2).enumerate() {
            let grey = format!("fill=\"{GREY}\" font-size=\"9.5\"");
            svg.text(middle, y + 28.0 + 11.0 * at as f64, Anchor::Middle, line, &grey);
        }
    }
    let grey = format!("fill=\"{GREY}\" font-size=\"11\"");
    let note = "Each may use what a line leads down to. Green: no system calls, no clock, no threads.";
    svg.text(WIDTH / 2.0, height - 14.0, Anchor::Middle, note, &grey);
    svg.finish(WIDTH, height)
}

#[test]
fn table_and_picture_of_crates_are_those_of_the_manifests() {
    let (mut uses, table) = (manifests(), table());
    for (name, used) in &uses {
        let (_, said) =
            table.get(name).unwrap_or_else(|| panic!("ARCHITECTURE.md has no row of crates/{name}"));
        let outside = ["libc", "for", "the", "lab"];
        let said: BTreeSet<String> =
            said.iter().filter(|word| !outside.contains(&word.as_str())).cloned().collect();
        if name != "testkit" {
            assert_eq!(&said, used, "ARCHITECTURE.md, the last column of crates/{name}, and its manifest");
        }
    }
    assert_eq!(table.len(), uses.len(), "ARCHITECTURE.md has rows of crates that are not there");
    uses.retain(|name, _| !APART.contains(&name.as_str()));
    for used in uses.values_mut() {
        used.retain(|name| !APART.contains(&name.as_str()));
    }
    let drawn = drawn(&uses, &table);
    let place = root().join(PICTURE);
    if std::env::var_os("TUTTI_DRAW").is_some() {
        std::fs::write(&place, &drawn).expect("the picture");
    }
    let found = std::fs::read_to_string(&place).expect("the picture");
    assert!(found == drawn, "{PICTURE} is not of these manifests: make pictures draws it");
}
