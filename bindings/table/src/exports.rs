//! Writes the exported functions of `libtutti.so.1`.
//!
//! Every function of the table comes out twice, as `MPI_X` and as `PMPI_X`, both strong symbols that hold the
//! same body, so that a profiling tool may define the first and call the second, linked in or preloaded. In
//! front of it stands the check for null pointers ([`crate::nulls`]). A body is written if a file below
//! `crates/mpi/src/api` or a generated text ([`bodies`]) has a line that begins with `pub unsafe fn MPI_X`;
//! [`written_bodies`] looks for those. All others raise MPI_ERR_UNSUPPORTED_OPERATION with their name; those
//! of the tool information interface, whose errors are never raised (15.3.9), return MPI_T_ERR_NOT_SUPPORTED.

use crate::{Function, Table, bodies, ctype::rust_base};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::path::Path;

/// The functions that have bodies: in the Rust files below `dir`, or generated. A missing folder holds none.
pub fn written_bodies(table: &Table, dir: &Path) -> io::Result<BTreeSet<String>> {
    Ok(texts_of_bodies(table, dir)?.iter().flat_map(|text| bodies_in(text)).collect())
}

/// The texts of all Rust files below `dir`, none if it is not there, and those of the generated bodies.
pub fn texts_of_bodies(table: &Table, dir: &Path) -> io::Result<Vec<String>> {
    let mut texts: Vec<String> = bodies::all(table).into_iter().map(|(_, text)| text).collect();
    if dir.is_dir() {
        collect(dir, &mut texts)?;
    }
    Ok(texts)
}

fn collect(dir: &Path, texts: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn bodies_in(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub unsafe fn ")?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        rest[..end].starts_with("MPI_").then(|| rest[..end].to_owned())
    })
}

/// The text of the Rust file, or what stops it: a body that the table does not know, or a function that
/// cannot return an error and therefore needs a body.
pub fn generate(table: &Table, bodies: &BTreeSet<String>) -> Result<String, String> {
    let known: BTreeSet<&str> = table.functions.iter().map(|f| f.prototype.name.as_str()).collect();
    if let Some(name) = bodies.iter().find(|name| !known.contains(name.as_str())) {
        return Err(format!(
            "crates/mpi/src/api has a body `{name}`, which bindings/mpi/functions.txt does not know"
        ));
    }
    let mut out = String::from("use core::ffi::{c_char, c_int, c_void};\nuse tutti_mpi::abi::*;\n\n");
    for function in &table.functions {
        let written = bodies.contains(&function.prototype.name);
        if !written && !returns_error_code(function) {
            return Err(format!("`{}` cannot report an error and needs a body", function.prototype.name));
        }
        for prefix in ["", "P", ENTRY] {
            write_export(&mut out, table, function, prefix, written);
        }
    }
    Ok(out)
}

/// Text before the name of the function that the table of entries leads to ([`crate::entries`]). The compiler
/// makes it one with the exported two, and the linker binds the table to it.
pub const ENTRY: &str = "entry_";

/// Whether the function's result is an error code. The exceptions stand in the standard one by one.
pub fn returns_error_code(function: &Function) -> bool {
    function.prototype.returns == "int" && !function.prototype.name.ends_with("_toint")
}

fn write_export(out: &mut String, table: &Table, function: &Function, prefix: &str, written: bool) {
    let prototype = &function.prototype;
    let name = &prototype.name;
    let params: Vec<String> = prototype
        .params
        .iter()
        .map(|p| {
            let unused = if written { "" } else { "_" };
            format!("{unused}{}: {}", p.rust_name(), p.to_rust(table.is_callback(&p.base)))
        })
        .collect();
    let arguments: Vec<String> = prototype.params.iter().map(|p| p.rust_name()).collect();
    let body = if written {
        format!(
            "{}// SAFETY: the arguments are the caller's, who keeps the standard's rules for them.\n    \
             unsafe {{ tutti_mpi::api::{name}({}) }}",
            table.null_checks(prototype),
            arguments.join(", ")
        )
    } else if name.starts_with("MPI_T_") {
        "MPI_T_ERR_NOT_SUPPORTED".to_owned()
    } else {
        format!("tutti_mpi::unsupported(c\"{name}\")")
    };
    let symbol = match prefix {
        ENTRY => "",
        _ => {
            "// SAFETY: the name is that of the standard, and this library is the only one that may define it.\n\
             #[unsafe(no_mangle)]\npub "
        }
    };
    writeln!(
        out,
        "{symbol}unsafe extern \"C-unwind\" fn {prefix}{name}({}) -> {} {{\n    {body}\n}}\n",
        params.join(", "),
        rust_base(&prototype.returns),
    )
    .expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::{bodies_in, generate};
    use crate::Table;
    use std::path::Path;

    fn table() -> Table {
        Table::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi")).unwrap()
    }

    fn bodies(names: &[&str]) -> std::collections::BTreeSet<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn table_has_664_functions_161_with_large_counts() {
        let table = table();
        let large = table.functions.iter().filter(|f| f.prototype.name.ends_with("_c")).count();
        assert_eq!((table.functions.len(), large), (664, 161));
    }

    #[test]
    fn exports_refuse_a_body_that_is_not_in_the_table() {
        let refused = generate(&table(), &bodies(&["MPI_Sned"])).unwrap_err();
        assert!(refused.contains("MPI_Sned"), "{refused}");
    }

    #[test]
    fn exports_require_a_body_where_no_error_can_be_returned() {
        let refused = generate(&table(), &bodies(&["MPI_Send"])).unwrap_err();
        assert!(refused.contains("needs a body"), "{refused}");
    }

    #[test]
    fn exports_find_bodies_at_the_start_of_a_line_only() {
        let text = "pub unsafe fn MPI_Send(\n    // pub unsafe fn MPI_No()\n  pub unsafe fn MPI_No2()\npub unsafe fn helper()\npub unsafe fn MPI_Wtime() -> f64 {";
        assert_eq!(bodies_in(text).collect::<Vec<_>>(), ["MPI_Send", "MPI_Wtime"]);
    }
}
