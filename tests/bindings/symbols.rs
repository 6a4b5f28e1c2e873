//! The libraries export what the table says and nothing else, under the names that programs record.

use super::{library, output};
use std::collections::BTreeSet;
use std::process::Command;
use tutti_table::filter::FOR_FORTRAN;
use tutti_table::shmem::Shmem;
use tutti_table::{Table, entries};
use tutti_tests::{dist, root};

/// The dynamic symbols that `library` defines, with the letter of their kind.
fn symbols(name: &str) -> BTreeSet<(String, String)> {
    let list = output(Command::new("nm").args(["-D", "--defined-only"]).arg(library(name)));
    list.lines()
        .map(|line| {
            let [_address, kind, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("nm prints `{line}`");
            };
            (name.to_owned(), kind.to_owned())
        })
        .collect()
}

/// Both names of every function of the table, as strong functions.
fn wanted() -> BTreeSet<(String, String)> {
    let table = Table::load(&root().join("bindings/mpi")).unwrap_or_else(|error| panic!("{error}"));
    let names = table.functions.iter().map(|function| function.prototype.name.as_str());
    names.flat_map(|name| ["", "P"].map(|prefix| (format!("{prefix}{name}"), "T".to_owned()))).collect()
}

/// Both names of every OpenSHMEM function that is no inline function of the header.
fn wanted_of_shmem() -> BTreeSet<(String, String)> {
    let table = Shmem::load(&root().join("bindings/shmem")).unwrap_or_else(|error| panic!("{error}"));
    let functions = table.functions();
    let names = functions.iter().filter(|function| !function.is_inline());
    let both = |name: &str| ["", "p"].map(|prefix| (format!("{prefix}{name}"), "T".to_owned()));
    names.flat_map(|function| both(&function.name)).collect()
}

/// Functions by which `tutticc` has the linker replace those of the C library.
fn wrapped() -> BTreeSet<(String, String)> {
    let list = std::fs::read_to_string(dist().join("lib/tutti/parmacs_wrapped")).expect("a list");
    let names = list.lines().filter_map(|line| line.strip_prefix("--wrap="));
    let wrapped: BTreeSet<_> = names.map(|name| (format!("__wrap_{name}"), "T".to_owned())).collect();
    assert!(wrapped.len() >= 9, "{wrapped:?}");
    wrapped
}

/// The native interface: what its headers declare.
fn wanted_of_native() -> BTreeSet<(String, String)> {
    declared(&[
        "native/tutti.h",
        "native/tutti_board.h",
        "native/tutti_call.h",
        "native/tutti_dse.h",
        "native/tutti_move.h",
    ])
}

/// Functions that files of `bindings` declare.
fn declared(files: &[&str]) -> BTreeSet<(String, String)> {
    let mut names = BTreeSet::new();
    for header in files {
        let text = std::fs::read_to_string(root().join("bindings").join(header)).expect("a header");
        // A declaration may have a second line; a definition has a brace at the end of its first.
        let begins = |line: &str| line.contains('(') && (line.ends_with(");") || line.ends_with(','));
        let is_other = |line: &str| line.starts_with([' ', '#', '/']) || line.starts_with("typedef ");
        let declared = text.lines().filter(|line| begins(line) && !is_other(line));
        for line in declared {
            let before = line.split('(').next().unwrap_or_default();
            let name = before.rsplit([' ', '*']).next().unwrap_or_default();
            names.insert((name.to_owned(), "T".to_owned()));
        }
    }
    names
}

#[test]
fn symbols_are_exactly_those_of_the_tables() {
    let (mut mpi, shmem) = (wanted(), wanted_of_shmem());
    assert_eq!((mpi.len(), shmem.len()), (1328, 3626));
    mpi.extend(FOR_FORTRAN.map(|name| (name.to_owned(), "T".to_owned())));
    let mut all: BTreeSet<_> = mpi.union(&shmem).chain(&wanted_of_native()).cloned().collect();
    // Behind the macros of PARMACS, which have a page of their own.
    all.extend(declared(&["dsm/parmacs.h", "dsm/parmacs_start.c"]));
    all.extend(wrapped());
    // For the face of MPICH alone.
    let table = Table::load(&root().join("bindings/mpi")).unwrap_or_else(|error| panic!("{error}"));
    all.insert((entries::symbol(&table), "D".to_owned()));
    all.extend(entries::BESIDE.map(|name| (name.to_owned(), "T".to_owned())));
    for (name, wanted) in [("libtutti.so.1", &all), ("libmpi_abi.so.1", &mpi), ("libsma.so.1", &shmem)] {
        let defined = symbols(name);
        let missing: Vec<_> = wanted.difference(&defined).collect();
        let foreign: Vec<_> = defined.difference(wanted).collect();
        assert!(missing.is_empty() && foreign.is_empty(), "{name}: missing {missing:?}, foreign {foreign:?}");
    }
}

/// A program in Fortran has no header in which they are inline.
#[test]
fn symbols_of_conversions_are_in_the_library_of_fortran() {
    let header = std::fs::read_to_string(root().join("bindings/mpi/additions.h")).expect("a header");
    let names =
        header.lines().filter_map(|line| line.strip_prefix("TUTTI_INLINE ")?.split(['(', ' ']).nth(1));
    let is_conversion = |name: &&str| {
        ["_c2f", "_f2c", "_c2f08", "_f082c", "_f2f08", "_f082f"].iter().any(|end| name.ends_with(end))
    };
    let wanted: BTreeSet<_> =
        names.filter(is_conversion).map(|name| (name.to_owned(), "T".to_owned())).collect();
    assert_eq!(wanted.len(), 2 * (2 * 11 + 6), "{wanted:?}");
    let defined = symbols("libmpifort_abi.so.1");
    let missing: Vec<_> = wanted.difference(&defined).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Names of a function of MPICH's Fortran library, as `mpich_fortran.txt` writes them.
fn names_of_mpich(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, forms) = match words[..] {
        ["=", name] => return vec![name.to_owned()],
        [name, ref forms @ ..] => (name, forms),
        [] => return Vec::new(),
    };
    let (mpi, name) = name.strip_prefix("x_").map_or(("mpi", name), |name| ("mpix", name));
    let mut names = Vec::new();
    if forms.first() != Some(&"-") {
        for plain in [format!("{mpi}_{name}"), format!("p{mpi}_{name}")] {
            names.extend([format!("{plain}_"), format!("{plain}__"), plain.to_uppercase(), plain]);
        }
    }
    for form in forms.iter().filter(|form| **form != "-") {
        let end = match form.strip_suffix("_c") {
            Some(form) => format!("{name}_c_{form}_"),
            None => format!("{name}_{form}_"),
        };
        names.extend([format!("{mpi}_{end}"), format!("p{mpi}r_{end}")]);
    }
    names
}

#[test]
fn mpich_fortran_library_exports_every_name_of_the_real_one() {
    let facts = std::fs::read_to_string(root().join("tests/bindings/mpich_fortran.txt")).expect("a list");
    let lines = facts.lines().filter(|line| !line.starts_with('#'));
    let wanted: BTreeSet<String> = lines.flat_map(names_of_mpich).collect();
    assert!(wanted.len() > 5300, "{}", wanted.len());
    let of = |name: &str| symbols(&format!("tutti/mpich/{name}")).into_iter().map(|(name, _)| name);
    // A program has both; some variables are in the second one.
    for (folder, c) in [("mpifort", "libmpi.so.12"), ("mpichfort", "libmpich.so.12")] {
        let fortran = &format!("lib{folder}.so.12");
        let defined: BTreeSet<String> = of(&format!("{folder}/{fortran}")).chain(of(c)).collect();
        let missing: Vec<_> = wanted.difference(&defined).collect();
        assert!(missing.is_empty(), "{fortran}: {missing:?}");
        let dynamic = output(
            Command::new("readelf").arg("-dW").arg(library(&format!("tutti/mpich/{folder}/{fortran}"))),
        );
        for part in [format!("soname: [{fortran}]"), format!("(NEEDED)             Shared library: [{c}]")] {
            assert!(dynamic.contains(&part), "{fortran}: {dynamic}");
        }
        assert!(!dynamic.contains("gfortran"), "{dynamic}");
    }
}

#[test]
fn symbols_soname_and_nodelete_are_set() {
    let dynamic = |name| output(Command::new("readelf").arg("-dW").arg(library(name)));
    let state = dynamic("libtutti.so.1");
    assert!(state.contains("soname: [libtutti.so.1]"), "{state}");
    assert!(state.contains("NODELETE"), "{state}");
    assert!(!state.contains("SYMBOLIC"), "a profiling tool could not replace MPI_X: {state}");
    let face = dynamic("libmpi_abi.so.1");
    assert!(face.contains("soname: [libmpi_abi.so.1]"), "{face}");
    assert!(face.contains("Filter library: [libtutti.so.1]"), "{face}");
    assert!(face.contains("runpath: [$ORIGIN]"), "{face}");
    assert!(!face.contains("(NEEDED)"), "{face}");
}

#[test]
fn symbols_library_never_calls_mpi_names() {
    let relocations = output(Command::new("readelf").arg("-rW").arg(library("libtutti.so.1")));
    assert!(relocations.contains("R_"), "readelf shows no relocation at all: {relocations}");
    let through_names: Vec<&str> = relocations.lines().filter(|line| line.contains("MPI_")).collect();
    assert!(through_names.is_empty(), "a profiling tool would see these calls: {through_names:?}");
}

#[test]
fn native_functions_have_man_pages() {
    let names = wanted_of_native();
    assert!(names.len() > 40, "{names:?}");
    let has_page = |name: &str| dist().join(format!("share/man/man3/{name}.3")).is_file();
    let missing: Vec<_> = names.iter().filter(|(name, _)| !has_page(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
