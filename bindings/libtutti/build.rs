//! Writes the exported functions from the tables and from the bodies in `crates/mpi/src/api`, and names the
//! library.

use std::path::{Path, PathBuf};
use tutti_table::shmem::{self, Shmem};
use tutti_table::{Table, entries, exports, native};

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table_dir = here.join("../mpi");
    let api_dir = here.join("../../crates/mpi/src/api");
    for file in Table::FILES {
        println!("cargo::rerun-if-changed={}", table_dir.join(file).display());
    }
    println!("cargo::rerun-if-changed={}", api_dir.display());

    let table = Table::load(&table_dir).unwrap_or_else(|e| panic!("{e}"));
    let bodies =
        exports::written_bodies(&table, &api_dir).unwrap_or_else(|e| panic!("{}: {e}", api_dir.display()));
    let text = exports::generate(&table, &bodies).unwrap_or_else(|e| panic!("{e}"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("exports.rs");
    std::fs::write(&out, text).unwrap_or_else(|e| panic!("{}: {e}", out.display()));

    let entries_file = out.with_file_name("entries.rs");
    std::fs::write(&entries_file, entries::generate(&table))
        .unwrap_or_else(|e| panic!("{}: {e}", entries_file.display()));

    let shmem_dir = here.join("../shmem");
    println!("cargo::rerun-if-changed={}", shmem_dir.join(Shmem::FILE).display());
    let table = Shmem::load(&shmem_dir).unwrap_or_else(|e| panic!("{e}"));
    let out = out.with_file_name("shmem_exports.rs");
    std::fs::write(&out, shmem::exports::generate(&table))
        .unwrap_or_else(|e| panic!("{}: {e}", out.display()));

    let native_dir = here.join("../native");
    println!("cargo::rerun-if-changed={}", native_dir.display());
    for (module, text) in native::generate(&native_dir).unwrap_or_else(|e| panic!("{e}")) {
        let out = out.with_file_name(format!("{module}_exports.rs"));
        std::fs::write(&out, text).unwrap_or_else(|e| panic!("{}: {e}", out.display()));
    }

    // Threads and handlers of the library outlive a dlclose, hence nodelete. Its table of entries leads to
    // its own functions, whatever library in front has others of the same names; nothing else here names
    // them, so a tool that replaces MPI_X still sees every call of the program.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtutti.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
