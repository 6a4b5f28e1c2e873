//! Programs whose stores are noted by the plugin of `tutticc` (docs/internals/dsm.md).

use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_tests::{Ran, Scratch, has_plugin, program, root, run};

use super::{LIMIT, PROGRAMS, digest, launch};

/// The optimisations, each left out, then all of them.
const SWITCHES: [&str; 5] =
    ["--rcop=all", "--rcop=no-ia", "--rcop=no-re", "--rcop=no-private", "--rcop=none"];

/// Compiles a program with options of `tutticc`.
#[track_caller]
pub(crate) fn compile(source: &str, options: &[&str], folder: &Path) -> PathBuf {
    let compiled = folder.join("program");
    let mut command = program("tutticc");
    command.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]).args(options);
    command.arg(root().join(source)).arg("-o").arg(&compiled);
    let ran = run(&mut command, LIMIT).expect_success();
    assert_eq!(ran.stderr, "", "{source} {options:?}");
    compiled
}

/// Counts of all ranks of a run on a node for each rank, and its result.
#[track_caller]
pub(crate) fn counted(compiled: &Path, ranks: u32, arguments: &[&str]) -> (Ran, Vec<serde_json::Value>) {
    counted_by(program("mpiexec"), compiled, ranks, arguments)
}

/// The same with an environment.
#[track_caller]
fn counted_by(
    mut command: Command,
    compiled: &Path,
    ranks: u32,
    arguments: &[&str],
) -> (Ran, Vec<serde_json::Value>) {
    command.args(["-n", &ranks.to_string(), "--virtual-nodes", &ranks.to_string()]);
    let ran = run(command.env("TUTTI_STATS", "json").arg(compiled).args(arguments), LIMIT).expect_success();
    let lines = ran.stderr.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let counts: Vec<_> = lines.filter(|line| line["shared_memory_of"].is_u64()).collect();
    assert_eq!(counts.len(), ranks as usize, "{ran}");
    (ran, counts)
}

pub(crate) fn sum(counts: &[serde_json::Value], name: &str) -> u64 {
    let of = |rank: &serde_json::Value| rank[name].as_u64().unwrap_or_else(|| panic!("no {name} in {rank}"));
    counts.iter().map(of).sum()
}

/// Arguments for so many processes.
pub(crate) fn arguments_for(arguments: &[&str], ranks: u32) -> Vec<String> {
    arguments.iter().map(|word| word.replace('%', &ranks.to_string())).collect()
}

/// In each interval the pages that were stored to are those that were noted: the kernel says by its faults
/// which were stored to.
#[track_caller]
fn pages_stored_are_those_noted(counts: &[serde_json::Value], what: &str) {
    assert!(sum(counts, "noted_stores") > 0, "{what} has noted nothing: {counts:?}");
    let wrong = ["unnoted_stores", "notes_without_store", "twins"].map(|name| sum(counts, name));
    assert_eq!(wrong, [0; 3], "{what}: {counts:?}");
}

// Paper: C19, C22
#[test]
fn rcop_programs_give_the_same_result_with_each_optimisation_left_out() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("rcop-switches");
    for (source, arguments) in PROGRAMS {
        let compiled = compile(source, &["--dsm=twin"], scratch.path());
        let alone = arguments_for(arguments, 1);
        let alone: Vec<_> = alone.iter().map(String::as_str).collect();
        let expected = digest(launch(&compiled, 1, 1, &alone));
        for options in SWITCHES {
            let compiled = compile(source, &["--dsm=adsm", options], scratch.path());
            // A node without a protocol makes no notes.
            assert_eq!(digest(launch(&compiled, 1, 1, &alone)), expected, "{source} {options} alone");
            for ranks in [2, 4] {
                let arguments = arguments_for(arguments, ranks);
                let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
                let (ran, counts) = counted(&compiled, ranks, &arguments);
                let what = format!("{source} {options} on {ranks} nodes");
                assert_eq!(digest(ran), expected, "{what}");
                pages_stored_are_those_noted(&counts, &what);
            }
        }
    }
}

#[test]
fn rcop_stores_without_notes_are_counted_and_not_lost() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("rcop-broken");
    let options = ["--dsm=adsm", "-mllvm", "-rcop-broken=true"];
    let compiled = compile("examples/shared/sor.c", &options, scratch.path());
    let expected = digest(launch(&compiled, 1, 1, &["100", "6", "1"]));
    let (ran, counts) = counted(&compiled, 2, &["100", "6", "2"]);
    assert_eq!(digest(ran), expected);
    assert!(sum(&counts, "unnoted_stores") > 0 && sum(&counts, "twins") > 0, "{counts:?}");
}

/// Intrinsics whose pointers the attributes of LLVM call read only, and which have no others.
const READING: [&str; 4] = [
    "llvm.coro.done",
    "llvm.aarch64.prefetch",
    "llvm.wasm.memory.atomic.wait32",
    "llvm.wasm.memory.atomic.wait64",
];
/// Intrinsics that are called writers, and write nothing that a program can load.
const MARKERS: [&str; 10] = [
    "llvm.debugtrap",
    "llvm.invariant.end",
    "llvm.invariant.start",
    "llvm.lifetime.end",
    "llvm.lifetime.start",
    "llvm.prefetch",
    "llvm.stackrestore",
    "llvm.stacksave",
    "llvm.ubsantrap",
    "llvm.va_end",
];

#[test]
fn rcop_notes_or_compares_what_each_intrinsic_may_write() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("rcop-intrinsics");
    let walk = scratch.path().join("intrinsics");
    let flags = |what: &str| {
        let ran = run(Command::new("llvm-config-19").arg(what), LIMIT).expect_success();
        ran.stdout.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let folder = root().join("compiler/rcop");
    let mut command = Command::new("g++");
    command.args(flags("--cxxflags")).args(["-std=c++17", "-O0", "-fno-rtti"]);
    command.args([folder.join("test/intrinsics.cpp"), folder.join("writers.cpp")]);
    command.arg("-o").arg(&walk).args(flags("--ldflags")).arg("-lLLVM-19");
    run(&mut command, LIMIT).expect_success();
    let ran = run(&mut Command::new(&walk), LIMIT).expect_success();
    let mut counts = [("noted", 0), ("arguments", 0), ("compared", 0), ("nothing", 0), ("private", 0)];
    for line in ran.stdout.lines().filter(|line| !line.starts_with("seen ")) {
        let (kind, rest) = line.split_once(' ').expect("a kind and a name");
        let (name, remark) = rest.split_once(' ').unwrap_or((rest, ""));
        let count = counts.iter_mut().find(|(known, _)| *known == kind).unwrap_or_else(|| panic!("{line}"));
        count.1 += 1;
        let is_right = match kind {
            "nothing" => MARKERS.contains(&name) || remark == "(no memory of the program)",
            "private" => READING.contains(&name),
            _ => true,
        };
        assert!(is_right, "{line}");
    }
    let least = counts.map(|(kind, count)| (kind, count >= if kind == "noted" { 8 } else { 4 }));
    assert!(least.iter().all(|(_, is_enough)| *is_enough), "{counts:?}: {}", ran.stdout);
}

#[test]
fn rcop_gathers_the_notes_of_a_block_into_few() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("rcop-gathered");
    let arguments = ["-n160", "-b16", "-p2"];
    let notes = [("--rcop=none", "examples/shared/lu.c.in"), ("--rcop=all", "examples/shared/lu.c.in")].map(
        |(options, source)| {
            let compiled = compile(source, &["--dsm=adsm", options], scratch.path());
            sum(&counted(&compiled, 2, &arguments).1, "notes")
        },
    );
    // Behind the n^2 stores of main, n^3/3 of the factorisation. Gathered, one for each update of a block,
    // and one for each row of a diagonal one. A few belong to locks.
    let (size, blocks, block) = (160_u64, 10, 16);
    let stores = (size.pow(3) - size) / 3;
    let gathered = (1..blocks).map(|side| side * side).sum::<u64>() + blocks * (blocks - 1) + blocks * block;
    // Main fills row by row: a note for each part of a block, whose places a loop finds that runs ahead.
    let filled = [size * size, size * size / block];
    for ((found, expected), filled) in notes.into_iter().zip([stores, gathered]).zip(filled) {
        let found = found - filled;
        assert!((expected..expected + 64).contains(&found), "{notes:?}: {found}, expected {expected}");
    }
}

#[test]
fn rcop_gathers_stores_through_an_index() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("rcop-indexed");
    let (keys, radix, ranks, passes) = (40_000_u64, 1024_u64, 2_u32, 2_u64);
    let arguments = ["-n40000", "-r1024", "-p2"];
    let [plain, gathered] = ["--rcop=none", "--rcop=all"].map(|options| {
        let compiled = compile("examples/shared/radix.c.in", &["--dsm=adsm", options], scratch.path());
        let (_, counts) = counted(&compiled, ranks, &arguments);
        pages_stored_are_those_noted(&counts, options);
        sum(&counts, "notes")
    });
    // Each key is stored once by main. In a pass it is counted, it moves, and the place behind it moves on.
    let stores = keys + passes * 3 * keys;
    // One note for what a process stores of each digit; lists of digits are few.
    let runs = passes * radix * u64::from(ranks);
    let lists = passes * u64::from(ranks) * 3 * radix;
    assert!((stores..stores + lists + 64).contains(&plain), "{plain} notes, {stores} stores");
    assert!((runs - 64..runs + 128).contains(&gathered), "{gathered} notes, {runs} runs of a digit");
}

// Paper: C22
#[test]
fn rcop_notes_leave_one_by_one_where_they_are_not_combined() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("rcop-singles");
    let arguments = ["-n160", "-b16", "-p2"];
    let compiled = compile("examples/shared/lu.c.in", &["--dsm=adsm", "--rcop=none"], scratch.path());
    let expected = digest(launch(&compiled, 2, 2, &arguments));
    let [combined, singles] = ["on", "off"].map(|switch| {
        let mut command = program("mpiexec");
        // Homes would move to the only writer, which sends nothing then.
        command.env("TUTTI_DSM_COMBINE", switch).env("TUTTI_DSM_MIGRATE", "off");
        let (ran, counts) = counted_by(command, &compiled, 2, &arguments);
        assert_eq!(digest(ran), expected, "combined: {switch}");
        pages_stored_are_those_noted(&counts, switch);
        [sum(&counts, "difference_records"), sum(&counts, "notes")]
    });
    // About half of the stores are to the other's memory.
    let [records, notes] = singles;
    assert_eq!(notes, combined[1]);
    assert!((notes / 4..notes).contains(&records), "{records} records of {notes} notes");
    assert!(combined[0] < records / 100, "{combined:?}, {records} one by one");
}

/// Stores that code without notes does, through the run time's net.
#[test]
fn rcop_loses_no_store_of_code_that_makes_no_notes() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("rcop-foreign");
    let folder = scratch.path();
    let object = folder.join("foreign.o");
    let mut command = program("tutticc");
    command.args(["--dsm=twin", "-O2", "-c"]).arg(root().join("tests/dsm/programs/foreign_stores.c"));
    run(command.arg("-o").arg(&object), LIMIT).expect_success();
    // In a library, about whose functions nothing is known, and as an object, for which pages are compared.
    let library = folder.join("libforeign.so");
    let mut command = Command::new("cc");
    command.args(["-O2", "-fPIC", "-shared"]).arg(root().join("tests/dsm/programs/foreign_stores.c"));
    run(command.arg("-o").arg(&library), LIMIT).expect_success();
    for (is_library, link) in [(true, &library), (false, &object)] {
        let compiled = folder.join("foreign");
        let mut command = program("tutticc");
        command.args(["-O2"]).arg(root().join("tests/dsm/programs/foreign.c")).arg(link);
        command.arg(format!("-Wl,-rpath,{}", folder.display())).arg("-o").arg(&compiled);
        let said = run(&mut command, LIMIT).expect_success().stderr;
        assert_eq!(said.contains("foreign.o makes no notes of its stores"), !is_library, "{said}");
        let (ran, counts) = counted(&compiled, 2, &[]);
        assert_eq!(ran.stdout, "foreign: 2 processes, 0 wrong\n", "{ran}");
        assert_eq!(sum(&counts, "noted_stores") > 0, is_library, "{counts:?}");
        assert!(sum(&counts, "twins") > 0, "{counts:?}");
    }
}

#[test]
fn tutticc_refuses_what_would_make_no_notes() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("rcop-refused");
    let source = root().join("examples/shared/sor.c");
    let object = scratch.path().join("x.o");
    for (options, expected) in [
        (&["-flto=thin"][..], "tutticc: -flto=thin: no notes would be made at the link"),
        (&["--dsm=odsm"], "tutticc: --dsm=odsm: adsm, udsm and twin are known"),
        (&["--rcop=all,fast"], "tutticc: --rcop=all,fast: fast is not known"),
        (&["--dsm=adsm", "-cc=gcc"], "tutticc: --dsm=adsm needs clang-19 and its plugin"),
    ] {
        let mut command = program("tutticc");
        command.args(options).arg("-c").arg(&source).arg("-o").arg(&object);
        let ran = run(&mut command, LIMIT);
        assert!(!ran.status.success() && ran.stderr.starts_with(expected), "{options:?}: {ran}");
        assert!(!object.exists(), "{options:?} has left an object");
    }
    let mut command = program("tutticc");
    let ran =
        run(command.args(["-cc=gcc", "-c"]).arg(&source).arg("-o").arg(&object), LIMIT).expect_success();
    assert!(ran.stderr.contains("pages are compared (--dsm=twin)"), "{ran}");
}
