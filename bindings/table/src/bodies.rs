//! Writes bodies of functions that differ by pattern only; one module for each kind of rule.
//!
//! The text is included by a module of `crates/mpi/src/api`, and reads like the bodies written there: a
//! comment, `#[inline]`, `pub unsafe fn MPI_X`. So exports and manual pages find a generated body as they
//! find a written one ([`crate::exports::written_bodies`]).

pub mod calls;
pub mod collectives;
mod expression;

use crate::{Prototype, Table};

/// All texts, each with the name of the file that includes it.
pub fn all(table: &Table) -> [(&'static str, String); 2] {
    [("collectives.rs", collectives::generate(table)), ("calls.rs", calls::generate(table))]
}

/// The parameters of a body; `unused` ones are marked.
fn parameters(table: &Table, prototype: &Prototype, unused: &[&str]) -> String {
    let parameter = |param: &crate::ctype::Param| {
        let mark = if unused.contains(&param.name.as_str()) { "_" } else { "" };
        format!("    {mark}{}: {},\n", param.rust_name(), param.to_rust(table.is_callback(&param.base)))
    };
    prototype.params.iter().map(parameter).collect()
}
