//! Writes what MPICH's Fortran library has besides functions: the types and constants of MPICH's C interface
//! as its bodies need them, and the symbols of its modules, which object code of gfortran refers to.

use super::{Mpich, number};
use crate::{ConstantValue, Table, TypeKind};
use std::fmt::Write;

/// The text of a Rust module with the types and constants under their C names. What is no constant there is
/// left out, but for predefined functions.
pub fn generate(table: &Table, mpich: &Mpich) -> String {
    let mut out = String::new();
    for row in &table.types {
        write_type(&mut out, &row.kind);
    }
    let all = table.constants.iter().flat_map(|group| &group.constants);
    for constant in all {
        let name = &constant.name;
        match (&constant.value, mpich.value(name)) {
            (ConstantValue::Cast(class, _), Some(value)) if class == "MPI_File" => {
                write_constant(&mut out, name, class, &format!("MPI_File({value})"));
            }
            (ConstantValue::Cast(class, _), Some(value)) if table.is_handle(class) => {
                write_constant(&mut out, name, class, &format!("{class}({})", value as u32 as i32));
            }
            (ConstantValue::Cast(class, _), Some(value)) if class.ends_with('*') => {
                let base = crate::ctype::rust_base(class.trim_end_matches('*'));
                let pointers = "*mut ".repeat(class.matches('*').count());
                let value = format!("core::ptr::without_provenance_mut({value}_isize as usize)");
                write_constant(&mut out, name, &format!("{pointers}{}", of_c(base)), &value);
            }
            (ConstantValue::Cast(class, value), None) if table.is_callback(class.trim_end_matches('*')) => {
                write_constant(&mut out, name, "usize", &number(value).to_string());
            }
            (ConstantValue::Cast(class, _), Some(value)) if !class.starts_with("MPI_T_") => {
                write_constant(&mut out, name, class, &value.to_string());
            }
            (ConstantValue::Macro(_) | ConstantValue::Enumerator(..), Some(value)) => {
                write_constant(&mut out, name, "c_int", &(value as i32).to_string());
            }
            _ => {}
        }
    }
    out
}

fn of_c(base: &str) -> &str {
    if base == "c_char" { "core::ffi::c_char" } else { base }
}

fn write_type(out: &mut String, kind: &TypeKind) {
    let (name, class) = match kind {
        TypeKind::Handle(name) if name == "MPI_File" => (name, "usize"),
        TypeKind::Handle(name) => (name, "c_int"),
        TypeKind::ToolsHandle(name) => (name, "usize"),
        TypeKind::Enumeration(name) => return put(out, format_args!("pub type {name} = c_int;\n")),
        TypeKind::Callback(prototype) => {
            return put(out, format_args!("pub type {} = usize;\n", prototype.name));
        }
        TypeKind::CallbackAlias(new, old) => return put(out, format_args!("pub type {new} = {old};\n")),
    };
    put(
        out,
        format_args!(
            "#[repr(transparent)]\n#[derive(Clone, Copy, PartialEq, Eq, Debug)]\npub struct {name}(pub {class});\n"
        ),
    );
}

fn write_constant(out: &mut String, name: &str, class: &str, value: &str) {
    put(out, format_args!("pub const {name}: {class} = {value};\n"));
}

/// Handles of `mpi_f08`, as the names of its procedures have them.
const HANDLES: [&str; 11] =
    ["comm", "datatype", "errhandler", "file", "group", "info", "message", "op", "request", "session", "win"];

/// The text of a Rust module with the symbols of MPICH's modules: handles that are constants, comparisons and
/// conversions of handles.
pub fn modules(table: &Table, mpich: &Mpich) -> String {
    let mut out = String::new();
    for (name, value) in handles(table, mpich) {
        put(
            &mut out,
            format_args!(
                "// SAFETY: the name is that of MPICH's library.\n#[unsafe(no_mangle)]\n\
                 pub static __mpi_f08_compile_constants_MOD_{}: c_int = {};\n",
                name.to_lowercase(),
                value as u32 as i32
            ),
        );
    }
    let (types, constants) = ("__mpi_f08_types_MOD_mpi_", "__mpi_constants_MOD_");
    out.push_str("crate::other_names! {\n");
    for (of, ends, old) in [
        ("are_same", ["eq", "f08_eq_f", "f_eq_f08"], "eq"),
        ("differ", ["neq", "f08_neq_f", "f_neq_f08"], "neq"),
    ] {
        let names = HANDLES.iter().flat_map(|handle| ends.map(|end| format!("{types}{handle}_{end}")));
        let names = names.chain(HANDLES.map(|handle| format!("{constants}{handle}{old}")));
        put(&mut out, format_args!("tutti_mpich_{of}: {};\n", names.collect::<Vec<_>>().join(" ")));
    }
    let converted = HANDLES.iter().filter(|handle| **handle != "file");
    let names: Vec<String> =
        converted.flat_map(|handle| ["c2f", "f2c"].map(|end| format!("{types}{handle}_{end}"))).collect();
    put(&mut out, format_args!("tutti_mpich_itself: {};\n}}\n", names.join(" ")));
    out
}

/// Handles that are constants, with MPICH's numbers.
fn handles<'a>(table: &'a Table, mpich: &Mpich) -> Vec<(&'a str, i64)> {
    let all = || table.constants.iter().flat_map(|group| &group.constants);
    let class_of = |name: &str| all().find(|constant| constant.name == name).map(|found| &found.value);
    all()
        .filter_map(|constant| {
            let (of, value) = match &constant.value {
                ConstantValue::Alias(of) => (of, class_of(of)?),
                value => (&constant.name, value),
            };
            match value {
                ConstantValue::Cast(class, _) if table.is_handle(class) => {
                    Some((constant.name.as_str(), mpich.value(of)?))
                }
                _ => None,
            }
        })
        .collect()
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}
