//! Writes the exported functions of OpenSHMEM, each under its name and its profiling name (`pshmem_X`).

use super::{Function, Shmem};
use crate::ctype::{Param, rust_base};
use std::fmt::Write;

/// The text of the Rust file: each function calls the body of its family for its type.
pub fn generate(table: &Shmem) -> String {
    let mut out = String::from(
        "use core::ffi::{c_char, c_int, c_long, c_void};\nuse tutti_mpi::abi::*;\nuse tutti_shmem::api::{self, *};\nuse tutti_shmem::context::world_pe;\nuse tutti_shmem::{lock, memory, team};\n\n",
    );
    for function in table.functions().iter().filter(|function| !function.is_inline()) {
        for prefix in ["", "p"] {
            write_function(&mut out, table, function, prefix);
        }
    }
    out
}

fn write_function(out: &mut String, table: &Shmem, function: &Function<'_>, prefix: &str) {
    let family = function.family;
    let rust = |param: &Param| {
        let mut param = param.clone();
        if param.base == "TYPE" {
            param.base = function.of_type.map_or("c_void", |of_type| &of_type.rust).to_owned();
        }
        param.base = match param.base.as_str() {
            "size_t" => "usize",
            "ptrdiff_t" => "isize",
            "uint64_t" => "u64",
            "long" => "c_long",
            other => rust_base(other),
        }
        .to_owned();
        param.to_rust(false)
    };
    let written = table.written.get(&family.body).map(|written| written.expression.as_str());
    let is_unused = |p: &Param| written.is_some_and(|text| !words(text).any(|word| word == p.name));
    let param = |p: &Param| format!("{}{}: {}", if is_unused(p) { "_" } else { "" }, p.rust_name(), rust(p));
    let mut params: Vec<String> = family.params.iter().map(param).collect();
    if function.with_context {
        params.insert(0, "ctx: shmem_ctx_t".to_owned());
    }
    let context = if function.with_context { "ctx" } else { "api::SHMEM_CTX_DEFAULT" };
    let of_type = function.of_type.map(|of_type| of_type.rust.as_str());
    let is_cast = |p: &&Param| of_type.is_some() && p.base == "void";
    let returns = match rust(&family.returns) {
        returns if returns == "c_void" => String::new(),
        returns => format!(" -> {returns}"),
    };
    let call = match written {
        Some(expression) => {
            let cast =
                |p: &Param| format!("let {0} = {0}.cast::<{1}>(); ", p.name, of_type.unwrap_or_default());
            let casts: String = family.params.iter().filter(is_cast).map(cast).collect();
            let end = if returns.is_empty() { ";" } else { "" };
            let name = format!("\"{}\"", family.generic_name().trim_start_matches("shmem_"));
            let text = expression.replace("NAME", &name).replace("CTX", context);
            format!("{casts}{}{end}", text.replace("TYPE", of_type.unwrap_or_default()))
        }
        None => {
            let argument = |p: &Param| p.rust_name() + if is_cast(&p) { ".cast()" } else { "" };
            let mut arguments: Vec<String> = family.params.iter().map(argument).collect();
            if table.families.iter().any(|other| other.has_context && other.body == family.body) {
                arguments.insert(0, context.to_owned());
            }
            let of_type = of_type.map_or(String::new(), |of_type| format!("::<{of_type}>"));
            format!("api::{}{of_type}({})", family.body, arguments.join(", "))
        }
    };
    writeln!(
        out,
        "// SAFETY: the name is that of the standard, and this library is the only one that may define it.\n\
         #[unsafe(no_mangle)]\npub unsafe extern \"C-unwind\" fn {prefix}{}({}){returns} {{\n    \
         // SAFETY: the arguments are the caller's, who keeps the standard's rules for them.\n    \
         unsafe {{ {call} }}\n}}\n",
        function.name,
        params.join(", "),
    )
    .expect("a String takes everything");
}

/// The names in an expression.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}
