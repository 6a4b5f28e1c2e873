//! The house's own promises: what a fresh clone needs is named in one line, and programs of a test end in
//! time.

mod circles;
mod comments;
mod crates;
mod decisions;
mod demo;
mod install;
mod owners;
mod papers;
mod security;

use std::{process::Command, time::Duration};
use tutti_tests::{root, run};

const LIMIT: Duration = Duration::from_secs(20);

/// Text between the marks of a page about limits.
fn marked(text: &str) -> &str {
    let (_, behind) = text.split_once("<!-- limits: begin -->\n").expect("its first mark");
    behind.split_once("<!-- limits: end -->").expect("its last mark").0
}

#[test]
fn readme_names_the_limits_of_their_page() {
    let made = run(Command::new(root().join("mk/limits.sh")).arg(root()).arg("-"), LIMIT).expect_success();
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    assert_eq!(marked(&readme), made.stdout, "make limits writes them");
    let page = std::fs::read_to_string(root().join("docs/user/limits.md")).expect("the page");
    let rows = marked(&page).lines().filter(|line| line.starts_with("| ")).count() - 1;
    assert_eq!(made.stdout.lines().filter(|line| line.starts_with("- ")).count(), rows);
}

#[test]
fn setup_is_silent_when_nothing_is_missing() {
    let ran = run(Command::new(root().join("mk/setup.sh")).args(["bash", "sh"]), LIMIT).expect_success();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn setup_names_missing_debian_packages_in_one_line() {
    // A path without apt-get is what a user without root has: nothing can be installed.
    let scratch = tutti_tests::Scratch::new("setup");
    for tool in ["bash", "id", "echo"] {
        let from = ["/usr/bin", "/bin"]
            .iter()
            .map(|dir| format!("{dir}/{tool}"))
            .find(|path| std::path::Path::new(path).exists());
        std::os::unix::fs::symlink(from.expect("a Debian system"), scratch.path().join(tool)).expect("link");
    }
    let mut setup = Command::new(scratch.path().join("bash"));
    setup.arg(root().join("mk/setup.sh")).args(["gcc", "venv"]).env("PATH", scratch.path());
    let ran = run(&mut setup, LIMIT);
    assert_eq!(ran.code(), 1, "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    assert!(ran.stderr.contains("gcc libc6-dev python3-venv"), "{ran}");
}

#[test]
fn setup_says_how_rust_comes_in_one_line() {
    let mut setup = Command::new(root().join("mk/setup.sh"));
    let ran = run(setup.arg("rust").env("PATH", "/usr/bin:/bin").env("CARGO", "no-such-cargo"), LIMIT);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    assert!(ran.stderr.contains("needs Rust 1.") && ran.stderr.contains("rustup"), "{ran}");
}

/// Tools that are only wanted, and cannot be had, stop nothing and are named.
#[test]
fn setup_goes_on_without_what_only_some_tests_need() {
    let scratch = tutti_tests::Scratch::new("setup-wanted");
    for tool in ["bash", "id", "echo"] {
        let from = ["/usr/bin", "/bin"].iter().map(|dir| format!("{dir}/{tool}"));
        let from = from.into_iter().find(|path| std::path::Path::new(path).exists());
        std::os::unix::fs::symlink(from.expect("a Debian system"), scratch.path().join(tool)).expect("link");
    }
    let mut setup = Command::new(scratch.path().join("bash"));
    setup.arg(root().join("mk/setup.sh")).args(["bash", "--", "cmake", "ip"]).env("PATH", scratch.path());
    let ran = run(&mut setup, LIMIT).expect_success();
    assert_eq!(ran.stdout.lines().count(), 1, "{ran}");
    assert!(ran.stdout.contains("cmake iproute2"), "{ran}");
}

/// `mk/test.sh` runs tests without cargo-nextest, too.
#[test]
fn limits_of_simulations_are_the_same_with_and_without_nextest() {
    let text = |place: &str| std::fs::read_to_string(root().join(place)).expect("a file of the tree");
    let with = text(".config/nextest.toml");
    let filter = "filter = \"test(/simulation|sim::|rtr_model|remote_floods/)\"\n";
    let limit = "slow-timeout = { period = \"60s\", terminate-after = 2 }";
    assert!(with.contains(&[filter, limit].concat()), "{with}");
    let without = "*simulation* | *sim::* | *rtr_model* | *remote_floods*) limit=120 ;;";
    assert!(text("mk/test.sh").contains(without));
}

#[test]
#[should_panic(expected = "over its limit")]
fn time_limit_kills_the_process_group() {
    run(Command::new("sh").args(["-c", "sleep 1000 & sleep 1000"]), Duration::from_millis(300));
}

/// Names of environment variables of ours in the sources that are built into programs.
fn variables_in(folder: &std::path::Path, found: &mut std::collections::BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            variables_in(&path, found);
        } else if path.ends_with("protocol/src/variables.rs") {
            // The list that unknown names are looked up in; a test beside it compares it with the page.
        } else if path.extension().is_some_and(|end| end == "rs" || end == "sh") {
            let text = std::fs::read_to_string(&path).expect("text");
            let quoted = text.split(['"', '{', '$', ' ', ':', '}']).filter(|word| {
                let own = word.strip_prefix("TUTTI_").unwrap_or_default();
                !own.is_empty() && own.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            });
            found.extend(quoted.map(str::to_owned));
        }
    }
}

#[test]
fn environment_page_has_every_variable() {
    let mut found = std::collections::BTreeSet::new();
    for folder in ["crates", "mk", "bindings/mpi"] {
        variables_in(&root().join(folder), &mut found);
    }
    let page = std::fs::read_to_string(root().join("docs/user/environment.md")).expect("the page");
    let missing: Vec<_> = found.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(
        found.len() > 20 && missing.is_empty(),
        "docs/user/environment.md lacks {missing:?} of {}",
        found.len()
    );
}

#[test]
fn specification_names_existing_tests() {
    let tests = tutti_testkit::papers::Sources::read(&root()).expect("the sources").tests;
    let page = std::fs::read_to_string(root().join("SPECIFICATION.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit());
    let (mut promises, mut missing) = (0, Vec::new());
    for row in rows {
        let last = row.trim_end_matches('|').rsplit(" | ").next().expect("a column");
        let names: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        promises += 1;
        assert_eq!(row.split(" | ").next(), Some(format!("| {promises}").as_str()), "promises are numbered");
        assert!(!names.is_empty(), "no test holds: {row}");
        missing.extend(names.into_iter().filter(|name| !name.starts_with("make ") && !tests.contains(*name)));
    }
    assert!((40..=80).contains(&promises), "{promises} promises");
    assert!(missing.is_empty(), "SPECIFICATION.md names tests that do not exist: {missing:?}");
}

/// Faults on purpose are in the second build of the library only, which is not installed.
#[test]
fn installed_programs_have_no_faults_on_purpose() {
    let faults = ["TUTTI_FAULTS", "TUTTI_FORGE"];
    let has = |path: &std::path::Path, word: &str| {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        bytes.windows(word.len()).any(|part| part == word.as_bytes())
    };
    // `tutti` knows the names, as those of variables that may be set.
    for file in ["lib/libtutti.so.1", "bin/tuttid", "libexec/tutti/tutti-starter"] {
        let path = tutti_tests::dist().join(file);
        assert!(!faults.iter().any(|word| has(&path, word)), "{} makes faults on purpose", path.display());
    }
    let testing = tutti_tests::testing_library();
    assert!(faults.iter().all(|word| has(&testing, word)), "{} makes none", testing.display());
}

/// Markdown files of the tree.
fn documents_in(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && !name.as_encoded_bytes().starts_with(b".") {
            documents_in(&path, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
}

/// Lines that are neither code nor tables, headings or pictures; an empty one stands for those.
fn prose(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let is_other = line.starts_with("```") || line.starts_with("    ") || line.starts_with(['|', '#']);
        lines.push(if is_code || is_other || line.starts_with("![") { "" } else { line });
    }
    lines
}

#[test]
fn document_links_lead_to_files() {
    let (mut documents, mut broken) = (Vec::new(), Vec::new());
    documents_in(&root(), &mut documents);
    for path in &documents {
        let text = std::fs::read_to_string(path).expect("text");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let is_file = !target.is_empty() && !target.contains("://") && !target.contains(' ');
            if is_file && !path.parent().expect("a folder").join(target).exists() {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(documents.len() > 30 && broken.is_empty(), "{broken:#?}");
}

/// Paths of sources in documents and comments, as `daemon/src/core.rs`; folders in between may be left out.
/// In documents the path of a crate's file begins at the root, so that it can be pasted.
#[test]
fn paths_of_sources_lead_to_files() {
    let (mut documents, mut sources, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    documents_in(&root(), &mut documents);
    for folder in ["bench", "bindings", "crates", "examples", "mk", "tests"] {
        comments::sources_in(&root().join(folder), &mut sources);
    }
    let sources: Vec<Vec<&std::ffi::OsStr>> = sources.iter().map(|path| path.iter().collect()).collect();
    let is_there = |named: &str| {
        sources.iter().any(|path| {
            let mut parts = path.iter();
            let has_all = named.split('/').all(|part| parts.any(|of_path| *of_path == part));
            has_all
                && path.last().is_some_and(|last| named.rsplit('/').next().is_some_and(|name| *last == name))
        })
    };
    let of_rust = sources.iter().map(|path| path.iter().collect::<std::path::PathBuf>());
    let mut named = 0;
    for path in documents.into_iter().chain(of_rust) {
        let is_document = path.extension().is_some_and(|end| end == "md");
        if path.ends_with("CHANGELOG.md") || path.components().any(|part| part.as_os_str() == "benchmarks") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let is_read = |line: &&str| is_document || line.trim_start().starts_with("//");
        for word in text.lines().filter(is_read).flat_map(|line| line.split('`').skip(1).step_by(2)) {
            if word.ends_with(".rs") && word.contains('/') && !word.contains([' ', '*']) {
                named += 1;
                let first = word.split('/').next().unwrap_or_default();
                if !is_there(word) || is_document && root().join("crates").join(first).is_dir() {
                    broken.push(format!("{}: {word}", path.display()));
                }
            }
        }
    }
    assert!(named > 100 && broken.is_empty(), "{named} paths: {broken:#?}");
}

#[test]
fn document_lines_are_at_most_110_columns() {
    let mut documents = Vec::new();
    documents_in(&root(), &mut documents);
    for path in documents {
        let text = std::fs::read_to_string(&path).expect("text");
        for (number, line) in prose(&text).into_iter().enumerate() {
            let columns = line.chars().count();
            assert!(columns <= 110, "{}:{}: {columns} columns", path.display(), number + 1);
        }
    }
}

/// Words of each sentence. It ends with a full stop, question mark, exclamation mark or colon, with its
/// paragraph, or with its item of a list.
fn sentence_lengths(text: &str) -> Vec<usize> {
    let (mut lengths, mut words) = (Vec::new(), 0);
    for line in prose(text) {
        if line.trim().is_empty() || line.trim_start().starts_with(['-', '*']) {
            lengths.push(std::mem::take(&mut words));
        }
        for word in line.split_whitespace() {
            words += 1;
            if word.ends_with(['.', '!', '?', ':']) {
                lengths.push(std::mem::take(&mut words));
            }
        }
    }
    lengths.push(words);
    lengths.retain(|words| *words > 0);
    lengths
}

#[test]
fn document_sentences_are_short() {
    let (mut documents, mut lengths) = (Vec::new(), Vec::new());
    documents_in(&root(), &mut documents);
    for path in documents {
        lengths.extend(sentence_lengths(&std::fs::read_to_string(&path).expect("text")));
    }
    let long = lengths.iter().filter(|words| **words >= 30).count();
    assert!(10 * long < lengths.len(), "{long} of {} sentences have 30 words or more", lengths.len());
}
