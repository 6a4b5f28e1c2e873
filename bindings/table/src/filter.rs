//! Writes the C text of `libmpi_abi.so.1`, the library that programs are linked with.
//!
//! It is a filter (DT_FILTER) on `libtutti.so.1`: the linker finds every name in it, the dynamic loader looks
//! each of them up in `libtutti.so.1` first. All state is in that one library, whichever interface a program
//! uses.

use crate::Table;
use std::fmt::Write;

/// The text. Each body traps: a loader that knows no filters must not go on silently.
pub fn generate(table: &Table) -> String {
    let mut out = String::from("/* Generated: names that the dynamic loader resolves in libtutti.so.1. */\n");
    for function in &table.functions {
        let name = &function.prototype.name;
        for prefix in ["", "P"] {
            writeln!(out, "void {prefix}{name}(void) {{ __builtin_trap(); }}")
                .expect("a String takes everything");
        }
    }
    out
}

/// The arguments of the C compiler that builds the library `output` from the text in the file `source`.
pub fn compiler_arguments(source: &str, output: &str) -> Vec<String> {
    let fixed = [
        "-shared",
        "-fPIC",
        "-Os",
        "-nostdlib",
        "-Wl,-soname,libmpi_abi.so.1",
        "-Wl,--filter,libtutti.so.1",
        // The library that it filters stands beside it.
        "-Wl,-rpath,$ORIGIN",
        "-Wl,--enable-new-dtags",
        "-o",
    ];
    fixed.iter().map(|s| s.to_string()).chain([output.to_owned(), source.to_owned()]).collect()
}
