//! Writes the constants and types of the MPI interface, and bodies that differ by pattern only, from the
//! table in `bindings/mpi`.

use std::path::{Path, PathBuf};

fn main() {
    let table_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/mpi");
    for file in tutti_table::Table::FILES {
        println!("cargo::rerun-if-changed={}", table_dir.join(file).display());
    }
    let table = tutti_table::Table::load(&table_dir).unwrap_or_else(|e| panic!("{e}"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let constants = [("abi_constants.rs", tutti_table::rust_abi::generate(&table))];
    for (name, text) in constants.into_iter().chain(tutti_table::bodies::all(&table)) {
        let file = out.join(name);
        std::fs::write(&file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
}
