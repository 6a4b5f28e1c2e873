//! Writes the functions from the tables, and names the library.

use std::path::{Path, PathBuf};
use std::process::Command;
use tutti_table::fortran::Fortran;
use tutti_table::mpich::{Mpich, exports, values};
use tutti_table::{Table, entries, rust_abi};

fn main() {
    let facts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi");
    for file in Table::FILES.into_iter().chain([Fortran::FILE]).chain(Mpich::FILES) {
        println!("cargo::rerun-if-changed={}", facts.join(file).display());
    }
    println!("cargo::rerun-if-env-changed=CC");
    let table = Table::load(&facts).unwrap_or_else(|e| panic!("{e}"));
    let fortran = Fortran::load(&facts).unwrap_or_else(|e| panic!("{e}"));
    let mpich = Mpich::load(&table, &facts).unwrap_or_else(|e| panic!("{e}"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let values = values::generate(&table, &mpich).unwrap_or_else(|e| panic!("{e}"));
    let functions = exports::generate(&table, &mpich, &fortran).unwrap_or_else(|e| panic!("{e}"));
    let texts = [
        ("abi_constants.rs", rust_abi::generate(&table)),
        ("values.rs", values),
        ("functions.rs", functions),
    ];
    for (name, text) in texts {
        let file = out.join(name);
        std::fs::write(&file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
    link_with_our_library(&table, &out);
    // The longer of its two names; the installation has a copy under the shorter one, too.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpich.so.12");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--enable-new-dtags");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN/../..");
}

/// `libtutti.so.1` comes from another build: its names are enough to link.
fn link_with_our_library(table: &Table, out: &Path) {
    let (source, library) = (out.join("tutti.c"), "libtutti.so.1");
    std::fs::write(&source, entries::stub(table, &entries::BESIDE))
        .unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut words = compiler.split_whitespace();
    let status = Command::new(words.next().unwrap_or("cc"))
        .args(words)
        .args(["-shared", "-fPIC", "-nostdlib", "-o", library, "tutti.c", "-Wl,-soname,libtutti.so.1"])
        .current_dir(out)
        .status()
        .unwrap_or_else(|e| panic!("the C compiler `{compiler}` cannot be started: {e}"));
    assert!(status.success(), "`{compiler}` could not build {library}: {status}");
    println!("cargo::rustc-cdylib-link-arg={}", out.join(library).display());
}
