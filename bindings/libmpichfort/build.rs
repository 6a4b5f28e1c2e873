//! Writes the bindings from the tables, and names the libraries.

use std::path::{Path, PathBuf};
use std::process::Command;
use tutti_table::fortran::{Fortran, exports};
use tutti_table::mpich::{Mpich, fortran_values};
use tutti_table::{Table, entries};

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
    let bindings =
        exports::generate(&table, &fortran, exports::Face::Mpich).unwrap_or_else(|e| panic!("{e}"));
    let constants = fortran_values::generate(&table, &mpich);
    let modules = fortran_values::modules(&table, &mpich);
    for (name, text) in [("abi_constants.rs", constants), ("bindings.rs", bindings), ("modules.rs", modules)]
    {
        let file = out.join(name);
        std::fs::write(&file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
    link_with_the_c_library(&table, &out);
    // The longer of its two names; the installation has a copy under the shorter one, too.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpichfort.so.12");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--enable-new-dtags");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN/..");
}

/// The functions of C are in `libmpich.so.12`, whose own build comes later: its names are enough to link.
fn link_with_the_c_library(table: &Table, out: &Path) {
    let (source, library) = (out.join("mpich.c"), "libmpich.so.12");
    std::fs::write(&source, entries::stub_of_mpich(table))
        .unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut words = compiler.split_whitespace();
    let status = Command::new(words.next().unwrap_or("cc"))
        .args(words)
        .args(["-shared", "-fPIC", "-nostdlib", "-o", library, "mpich.c", "-Wl,-soname,libmpich.so.12"])
        .current_dir(out)
        .status()
        .unwrap_or_else(|e| panic!("the C compiler `{compiler}` cannot be started: {e}"));
    assert!(status.success(), "`{compiler}` could not build {library}: {status}");
    println!("cargo::rustc-cdylib-link-arg={}", out.join(library).display());
}
