//! Writes the table of all functions of MPI that `libtutti.so.1` exports for its other faces: one symbol, the
//! addresses in the order of `functions.txt`. A face that has functions of the same names reaches ours by it.
//!
//! The symbol's name carries a number made of all prototypes, so that a face and a library of different
//! builds do not come together: the dynamic loader names what is missing.

use crate::Table;
use crate::exports::ENTRY;
use std::fmt::Write;

/// Names that a face looks up beside the table, and the standard's interfaces do not have.
pub const BESIDE: [&str; 5] = [
    "tutti_attribute_language",
    "tutti_begin_as_mpich",
    "tutti_callback_state",
    "tutti_panic",
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
    let mut out = format!("void *const {}[{}] = {{ 0 }};\n", symbol(table), table.functions.len());
    for name in others {
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
