//! Writes the C text of `libmpi_abi.so.1` and `libsma.so.1`, the libraries that programs are linked with.
//!
//! Each is a filter (DT_FILTER) on `libtutti.so.1`: the linker finds every name in it, the dynamic loader
//! looks each of them up in `libtutti.so.1` first. All state is in that one library, whichever interface a
//! program uses.

use crate::Table;
use crate::shmem::Shmem;

/// Functions that the Fortran bindings look up by name, beyond those of C.
pub const FOR_FORTRAN: [&str; 6] = [
    "tutti_attribute_language",
    "tutti_section_type_of",
    "tutti_section_refused",
    "tutti_sections_stage",
    "tutti_sections_attach",
    "tutti_section_of_partitions",
];

/// The text. Each body traps: a loader that knows no filters must not go on silently.
pub fn generate(table: &Table) -> String {
    let own: String = FOR_FORTRAN.iter().map(|name| body(name)).collect();
    text(table.functions.iter().map(|function| function.prototype.name.as_str()), "P") + &own
}

/// The same for `libsma.so.1`.
pub fn generate_shmem(table: &Shmem) -> String {
    let functions = table.functions();
    let symbols = functions.iter().filter(|function| !function.is_inline());
    text(symbols.map(|function| function.name.as_str()), "p")
}

fn text<'a>(names: impl Iterator<Item = &'a str>, profiling: &str) -> String {
    let mut out = String::from("/* Generated: names that the dynamic loader resolves in libtutti.so.1. */\n");
    for name in names {
        for prefix in ["", profiling] {
            out += &body(&format!("{prefix}{name}"));
        }
    }
    out
}

fn body(name: &str) -> String {
    format!("void {name}(void) {{ __builtin_trap(); }}\n")
}

/// The arguments of the C compiler that builds the library `output` from the text in the file `source`.
pub fn compiler_arguments(source: &str, output: &str) -> Vec<String> {
    let fixed = [
        "-shared",
        "-fPIC",
        "-Os",
        "-nostdlib",
        "-Wl,--filter,libtutti.so.1",
        // The library that it filters stands beside it.
        "-Wl,-rpath,$ORIGIN",
        "-Wl,--enable-new-dtags",
        "-o",
    ];
    let own = [output.to_owned(), source.to_owned(), format!("-Wl,-soname,{output}")];
    fixed.iter().map(|s| s.to_string()).chain(own).collect()
}
