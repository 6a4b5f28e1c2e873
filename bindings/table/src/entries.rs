//! Writes the table of all functions of MPI that `libtutti.so.1` exports for its other faces: one symbol, the
//! addresses in the order of `functions.txt`. A face that has functions of the same names reaches ours by it.
//!
//! The symbol's name carries a number made of all prototypes, so that a face and a library of different
//! builds do not come together: the dynamic loader names what is missing.

use crate::Table;
use crate::exports::ENTRY;
use std::fmt::Write;

/// Names that a face looks up beside the table, and the standard's interfaces do not have.
pub const BESIDE: [&str; 9] = [
    "tutti_attribute_language",
    "tutti_begin_as_mpich",
    "tutti_callback_state",
    "tutti_panic",
    "tutti_section_of_partitions",
    "tutti_section_refused",
    "tutti_section_type_of",
    "tutti_sections_attach",
    "tutti_unsupported",
];

/// The name of the symbol.
pub fn symbol(table: &Table) -> String {
    // FNV-1a, 64 bits.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for function in &table.functions {
        let prototype = &function.prototype;
        let params = prototype.params.iter().map(|param| param.to_c());
        for text in [prototype.returns.clone(), prototype.name.clone()].into_iter().chain(params) {
            for byte in text.bytes().chain([b'\n']) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    format!("tutti_entries_{hash:016x}")
}

/// The definition, for `libtutti.so.1`.
pub fn generate(table: &Table) -> String {
    let symbol = symbol(table);
    let mut out = format!(
        "/// The address of a function.\n#[repr(transparent)]\npub struct Entry(*const ());\n\
         // SAFETY: an address of code is the same for all threads.\nunsafe impl Sync for Entry {{}}\n\n\
         // SAFETY: no other library may define the name.\n#[unsafe(no_mangle)]\n\
         #[allow(non_upper_case_globals, reason = \"a symbol\")]\n\
         pub static {symbol}: [Entry; {}] = [\n",
        table.functions.len()
    );
    for function in &table.functions {
        writeln!(out, "    Entry({ENTRY}{} as *const ()),", function.prototype.name)
            .expect("a String takes everything");
    }
    out + "];\n"
}

/// C text of a library that has this symbol and `others` alone, to link a face with.
pub fn stub(table: &Table, others: &[&str]) -> String {
    let out = format!("void *const {}[{}] = {{ 0 }};\n", symbol(table), table.functions.len());
    out + &traps(others.iter().copied())
}

/// C text of a library that has the names of MPICH's C interface which its Fortran library needs, to link
/// that with.
pub fn stub_of_mpich(table: &Table) -> String {
    const VARIABLES: &str = "int MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE;\n\
        int MPIR_F08_MPI_STATUS_IGNORE_OBJ[5], MPIR_F08_MPI_STATUSES_IGNORE_OBJ[5];\n\
        int *MPI_UNWEIGHTED, *MPI_WEIGHTS_EMPTY;\n";
    let functions = table.functions.iter().map(|function| function.prototype.name.as_str());
    let extensions = EXTENSIONS_OF_FORTRAN.map(|name| format!("MPIX_{name}"));
    let names = functions.chain(extensions.iter().map(String::as_str));
    let both: Vec<String> = names.flat_map(|name| [name.to_owned(), format!("P{name}")]).collect();
    VARIABLES.to_owned() + &traps(both.iter().map(String::as_str).chain(["MPIR_Dup_fn"]))
}

/// Functions of MPICH beyond the standard that its Fortran library calls, without `MPIX_`.
pub const EXTENSIONS_OF_FORTRAN: [&str; 9] = [
    "Comm_agree",
    "Comm_failure_ack",
    "Comm_failure_get_acked",
    "Comm_revoke",
    "Comm_shrink",
    "GPU_query_support",
    "Query_cuda_support",
    "Query_hip_support",
    "Query_ze_support",
];

/// Functions that must not be called.
fn traps<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for name in names {
        writeln!(out, "void {name}(void) {{ __builtin_trap(); }}").expect("a String takes everything");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{generate, symbol};
    use crate::Table;
    use std::path::Path;

    #[test]
    fn entries_have_another_name_when_a_prototype_changes() {
        let mut table = Table::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi")).unwrap();
        let before = symbol(&table);
        assert!(generate(&table).contains(&format!("pub static {before}: [Entry; 664]")));
        table.functions[0].prototype.params[0].constant ^= true;
        assert_ne!(symbol(&table), before);
    }
}
