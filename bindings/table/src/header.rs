//! Writes `mpi.h`: the MPI-5.0 Standard ABI, and behind it what older programs need.
//!
//! The additions are macros, types and inline functions over functions of the ABI, so a program that uses
//! them still needs nothing but the symbols of `libmpi_abi.so.1`. `TUTTI_ABI_ONLY`, defined before the
//! header, leaves them out.

use crate::{Constant, ConstantGroup, ConstantValue, Prototype, Table, TypeKind, TypeRow};
use std::fmt::Write;

/// The text of `mpi.h`; `additions` is the text of `bindings/mpi/additions.h`, `version` that of Tutti.
pub fn generate(table: &Table, additions: &str, version: &str) -> String {
    let mut out = String::from(OPENING);
    write_types(&mut out, table, true);
    for group in table.constants.iter().filter(|group| group.in_abi) {
        write_group(&mut out, group);
    }
    let mut chapter = "";
    for prefix in ["", "P"] {
        for function in &table.functions {
            if function.chapter != chapter {
                chapter = &function.chapter;
                let profiling = if prefix == "P" { ", profiling names" } else { "" };
                put(&mut out, format_args!("\n/* {chapter}{profiling} */\n"));
            }
            put(&mut out, format_args!("{};\n", c_prototype(&function.prototype, prefix)));
        }
    }
    out.push_str("\n#ifndef TUTTI_ABI_ONLY\n\n/* Not part of the Standard ABI from here on */\n\n");
    write_types(&mut out, table, false);
    for group in table.constants.iter().filter(|group| !group.in_abi) {
        write_group(&mut out, group);
    }
    // What stands above the first line of code in that file tells its editor something, not the user.
    let code = additions.find("\n\n").map_or(additions, |end| &additions[end..]);
    out.push_str(&code.replace("@VERSION@", version));
    out.push_str(CLOSING);
    out
}

const OPENING: &str = "\
/* mpi.h of Tutti: the MPI-5.0 Standard ABI. Generated; define TUTTI_ABI_ONLY to have the ABI and nothing else. */

#ifndef MPI_H_ABI
#define MPI_H_ABI

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;

typedef struct {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;

";

const CLOSING: &str = "
#endif /* TUTTI_ABI_ONLY */

#ifdef __cplusplus
}
#endif

#endif /* MPI_H_ABI */
";

/// The C declaration of a function, without the semicolon.
pub fn c_prototype(prototype: &Prototype, prefix: &str) -> String {
    format!("{} {prefix}{}({})", prototype.returns, prototype.name, c_params(prototype))
}

fn c_params(prototype: &Prototype) -> String {
    let mut params: Vec<String> = prototype.params.iter().map(|p| p.to_c()).collect();
    if prototype.variadic {
        params.push("...".to_owned());
    }
    if params.is_empty() { "void".to_owned() } else { params.join(", ") }
}

fn write_types(out: &mut String, table: &Table, in_abi: bool) {
    for TypeRow { kind, .. } in table.types.iter().filter(|row| row.in_abi == in_abi) {
        match kind {
            TypeKind::Handle(name) | TypeKind::ToolsHandle(name) => {
                // The standard names the structures, so that all its implementations agree.
                put(out, format_args!("typedef struct {} *{name};\n", name.replacen("MPI_", "MPI_ABI_", 1)));
            }
            TypeKind::Enumeration(name) => write_enumeration(out, table, name),
            TypeKind::Callback(prototype) => {
                let (returns, name) = (&prototype.returns, &prototype.name);
                put(out, format_args!("typedef {returns} ({name})({});\n", c_params(prototype)));
            }
            TypeKind::CallbackAlias(new, old) => put(out, format_args!("typedef {old} {new};\n")),
        }
    }
}

/// An enumeration with a name stands among the types, because callbacks use it.
fn write_enumeration(out: &mut String, table: &Table, name: &str) {
    let members: Vec<String> = table
        .constants
        .iter()
        .flat_map(|group| &group.constants)
        .filter_map(|constant| match &constant.value {
            ConstantValue::Enumerator(Some(class), value) if class == name => {
                Some(format!("    {} = {value}", constant.name))
            }
            _ => None,
        })
        .collect();
    put(out, format_args!("typedef enum {name} {{\n{}\n}} {name};\n", members.join(",\n")));
}

fn write_group(out: &mut String, group: &ConstantGroup) {
    let mut enumerators = Vec::new();
    let mut macros = String::new();
    for Constant { name, value } in &group.constants {
        match value {
            ConstantValue::Enumerator(None, value) => enumerators.push(format!("    {name} = {value}")),
            ConstantValue::Enumerator(Some(_), _) => {}
            ConstantValue::Macro(value) => put(&mut macros, format_args!("#define {name} {value}\n")),
            ConstantValue::Alias(of) => put(&mut macros, format_args!("#define {name} {of}\n")),
            ConstantValue::Cast(class, value) => {
                put(&mut macros, format_args!("#define {name} (({class}){value})\n"))
            }
        }
    }
    if macros.is_empty() && enumerators.is_empty() {
        return;
    }
    put(out, format_args!("\n/* {} */\n{macros}", group.title));
    if !enumerators.is_empty() {
        put(out, format_args!("enum {{\n{}\n}};\n", enumerators.join(",\n")));
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}
