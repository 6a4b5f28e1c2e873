//! Writes the constants and types of the MPI interface from the table in `bindings/mpi`.

use std::path::{Path, PathBuf};

fn main() {
    let table_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/mpi");
    for file in tutti_table::Table::FILES {
        println!("cargo::rerun-if-changed={}", table_dir.join(file).display());
    }
    let table = tutti_table::Table::load(&table_dir).unwrap_or_else(|e| panic!("{e}"));
    let out =
        PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("abi_constants.rs");
    std::fs::write(&out, tutti_table::rust_abi::generate(&table))
        .unwrap_or_else(|e| panic!("{}: {e}", out.display()));
}
