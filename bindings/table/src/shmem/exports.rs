//! Writes the exported functions of OpenSHMEM, each under its name and its profiling name (`pshmem_X`).

use super::{Function, Shmem};
use crate::ctype::{Param, rust_base};
use std::fmt::Write;

/// The text of the Rust file: each function calls the body of its family for its type.
pub fn generate(table: &Shmem) -> String {
    let mut out = String::from(
        "use core::ffi::{c_char, c_int, c_long, c_void};\nuse tutti_shmem::api::{self, LongDouble, shmem_ctx_t, shmem_team_config_t, shmem_team_t};\n\n",
    );
    for function in table.functions().iter().filter(|function| !function.is_inline()) {
        for prefix in ["", "p"] {
            let body = &function.family.body;
            let takes_context =
                table.families.iter().any(|family| family.has_context && family.body == *body);
            write_function(&mut out, function, prefix, takes_context);
        }
    }
    out
}

fn write_function(out: &mut String, function: &Function<'_>, prefix: &str, takes_context: bool) {
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
    let mut params: Vec<String> =
        family.params.iter().map(|p| format!("{}: {}", p.rust_name(), rust(p))).collect();
    let is_cast = function.of_type.is_some() && family.has_void_pointers();
    let mut arguments: Vec<String> = family
        .params
        .iter()
        .map(|p| p.rust_name() + if is_cast && p.base == "void" { ".cast()" } else { "" })
        .collect();
    if takes_context {
        arguments.insert(0, if function.with_context { "ctx" } else { "api::SHMEM_CTX_DEFAULT" }.to_owned());
    }
    if function.with_context {
        params.insert(0, "ctx: shmem_ctx_t".to_owned());
    }
    let of_type = function.of_type.map_or(String::new(), |of_type| format!("::<{}>", of_type.rust));
    let returns = match rust(&family.returns) {
        returns if returns == "c_void" => String::new(),
        returns => format!(" -> {returns}"),
    };
    writeln!(
        out,
        "// SAFETY: the name is that of the standard, and this library is the only one that may define it.\n\
         #[unsafe(no_mangle)]\npub unsafe extern \"C-unwind\" fn {prefix}{}({}){returns} {{\n    \
         // SAFETY: the arguments are the caller's, who keeps the standard's rules for them.\n    \
         unsafe {{ api::{}{of_type}({}) }}\n}}\n",
        function.name,
        params.join(", "),
        family.body,
        arguments.join(", "),
    )
    .expect("a String takes everything");
}
