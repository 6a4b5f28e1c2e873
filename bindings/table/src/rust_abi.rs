//! Writes the types and constants of the MPI interface as Rust, under their C names.
//!
//! Handles are integers in a transparent structure: C passes them as pointers, which have the same size and
//! registers. A callback type `MPI_X_function` is an integer too, the address of a C function, because
//! predefined callbacks are small numbers and no addresses; `MPI_X_function_fn` is the function pointer type
//! that an address other than those stands for.

use crate::{ConstantValue, Prototype, Table, TypeKind, ctype::rust_base};
use std::fmt::Write;

/// The text of the Rust module, to be included by one that allows names that are not camel case.
pub fn generate(table: &Table) -> String {
    let mut out = String::from("use core::ffi::{c_char, c_int, c_void};\n\n");
    for row in &table.types {
        write_type(&mut out, table, &row.kind);
    }
    for group in &table.constants {
        for constant in &group.constants {
            write_constant(&mut out, table, &group.title, &constant.name, &constant.value);
        }
    }
    out
}

fn write_type(out: &mut String, table: &Table, kind: &TypeKind) {
    match kind {
        TypeKind::Handle(name) | TypeKind::ToolsHandle(name) => writeln!(
            out,
            "/// An opaque handle of C, as an integer.\n#[repr(transparent)]\n\
             #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]\npub struct {name}(pub usize);"
        ),
        TypeKind::Enumeration(name) => writeln!(out, "/// An enumeration of C.\npub type {name} = c_int;"),
        TypeKind::Callback(prototype) => writeln!(
            out,
            "/// The address of a C function, or a predefined number.\npub type {0} = usize;\n\
             /// What the address points to.\npub type {0}_fn = {1};",
            prototype.name,
            function_type(table, prototype)
        ),
        TypeKind::CallbackAlias(new, old) => writeln!(out, "/// Another name.\npub type {new} = {old};"),
    }
    .expect("a String takes everything");
}

fn function_type(table: &Table, prototype: &Prototype) -> String {
    let mut params: Vec<String> = prototype
        .params
        .iter()
        .map(|p| format!("{}: {}", p.rust_name(), p.to_rust(table.is_callback(&p.base))))
        .collect();
    if prototype.variadic {
        params.push("...".to_owned());
    }
    let returns = match prototype.returns.as_str() {
        "void" => String::new(),
        other => format!(" -> {}", rust_base(other)),
    };
    format!("unsafe extern \"C-unwind\" fn({}){returns}", params.join(", "))
}

fn write_constant(out: &mut String, table: &Table, title: &str, name: &str, value: &ConstantValue) {
    let (rust_type, rust_value) = match value {
        ConstantValue::Macro(value) | ConstantValue::Enumerator(None, value) => {
            ("c_int".to_owned(), value.clone())
        }
        ConstantValue::Enumerator(Some(class), value) => (class.clone(), value.clone()),
        ConstantValue::Alias(of) => (rust_type_of(table, of), of.clone()),
        ConstantValue::Cast(class, value) => (cast_type(table, class), cast_value(table, class, value)),
    };
    writeln!(out, "/// {title}.\npub const {name}: {rust_type} = {rust_value};")
        .expect("a String takes everything");
}

/// The Rust type of the constant `name`.
fn rust_type_of(table: &Table, name: &str) -> String {
    let constant = table.constants.iter().flat_map(|g| &g.constants).find(|c| c.name == name);
    match constant.map(|c| &c.value) {
        Some(ConstantValue::Cast(class, _)) => cast_type(table, class),
        Some(ConstantValue::Alias(of)) => rust_type_of(table, of),
        _ => "c_int".to_owned(),
    }
}

fn cast_type(table: &Table, class: &str) -> String {
    let base = class.trim_end_matches('*');
    if table.is_callback(base) {
        return base.to_owned();
    }
    format!("{}{}", "*mut ".repeat(class.len() - base.len()), rust_base(base))
}

fn cast_value(table: &Table, class: &str, value: &str) -> String {
    let base = class.trim_end_matches('*');
    if base != class && !table.is_callback(base) {
        // A pointer that is never followed: only its number matters.
        return format!("core::ptr::without_provenance_mut({value})");
    }
    let is_handle = table
        .types
        .iter()
        .any(|row| matches!(&row.kind, TypeKind::Handle(n) | TypeKind::ToolsHandle(n) if n == class));
    if is_handle { format!("{class}({value})") } else { value.to_owned() }
}
