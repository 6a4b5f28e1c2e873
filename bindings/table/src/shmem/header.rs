//! Writes `shmem.h`: what stands in `bindings/shmem/shmem.h`, with prototypes, C11 selections and C++
//! overloads put in where it asks for them.

use super::{Family, Shmem};
use std::fmt::Write;

/// The text of `shmem.h`; `frame` is the text of `bindings/shmem/shmem.h`.
pub fn generate(table: &Shmem, frame: &str, version: &str) -> String {
    frame
        .replace("@VERSION@", version)
        .replace("@PROTOTYPES@\n", &prototypes(table))
        .replace("@SELECTIONS@\n", &selections(table))
        .replace("@OVERLOADS@\n", &overloads(table))
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}

fn prototypes(table: &Shmem) -> String {
    let mut out = String::new();
    for prefix in ["", "p"] {
        let mut chapter = "";
        for function in table.functions() {
            if function.family.chapter != chapter {
                chapter = &function.family.chapter;
                let profiling = if prefix == "p" { ", profiling names" } else { "" };
                put(&mut out, format_args!("\n/* {chapter}{profiling} */\n"));
            }
            if !function.is_inline() {
                put(&mut out, format_args!("{};\n", function.c_prototype(prefix)));
            }
        }
    }
    // What takes or gives a long double by value.
    put(&mut out, format_args!("\n/* Inline */\n"));
    for prefix in ["", "p"] {
        for function in table.functions().iter().filter(|function| function.is_inline()) {
            let (ctx, argument) = if function.with_context { ("ctx_", "ctx, ") } else { ("", "") };
            let body = match function.family.body.as_str() {
                "p" => format!("{prefix}shmem_{ctx}longdouble_put({argument}dest, &value, 1, pe);"),
                "g" => format!(
                    "long double value; {prefix}shmem_{ctx}longdouble_get({argument}&value, source, 1, pe); return value;"
                ),
                other => panic!("`{other}` has no inline form"),
            };
            put(&mut out, format_args!("static inline {} {{ {body} }}\n", function.c_prototype(prefix)));
        }
    }
    out
}

/// `#define shmem_put(...)`: what the first pointer is decides, with a context before it or not.
fn selections(table: &Shmem) -> String {
    let mut out = String::new();
    for family in table.families.iter().filter(|family| family.is_generic) {
        let name = family.generic_name();
        if family.is_deprecated {
            // An older name takes what the newer one takes.
            put(&mut out, format_args!("#define {name}(...) shmem_{}(__VA_ARGS__)\n", family.body));
            continue;
        }
        let list = |with_context: bool| {
            let choices = table.distinct_types_of(family).into_iter().map(|of_type| {
                let function = family.name_for(Some(of_type), with_context);
                let c = of_type.basic_c();
                format!("    {c} *: {function}, const {c} *: {function}, volatile {c} *: {function}, const volatile {c} *: {function}")
            });
            choices.collect::<Vec<_>>().join(", \\\n")
        };
        let plain = list(false);
        if family.has_context {
            let inner = format!(
                "_Generic((TUTTI_SECOND(__VA_ARGS__, 0)), \\\n{}, \\\n    default: tutti_no_such_type)",
                list(true)
            );
            put(
                &mut out,
                format_args!(
                    "#define {name}(...) _Generic((TUTTI_FIRST(__VA_ARGS__, 0)), \\\n    shmem_ctx_t: {inner}, \\\n{plain})(__VA_ARGS__)\n"
                ),
            );
        } else {
            let chosen = if team_first(family) { "TUTTI_SECOND" } else { "TUTTI_FIRST" };
            put(
                &mut out,
                format_args!(
                    "#define {name}(...) _Generic(({chosen}(__VA_ARGS__, 0)), \\\n{plain})(__VA_ARGS__)\n"
                ),
            );
        }
    }
    out
}

fn team_first(family: &Family) -> bool {
    family.params.first().is_some_and(|param| param.base == "shmem_team_t")
}

/// The same names as C++ functions.
fn overloads(table: &Shmem) -> String {
    let mut out = String::new();
    for family in table.families.iter().filter(|family| family.is_generic) {
        for of_type in table.distinct_types_of(family) {
            for with_context in [false, true] {
                if with_context && !family.has_context {
                    continue;
                }
                let name = family.name_for(Some(of_type), with_context);
                let function = super::Function { family, of_type: Some(of_type), with_context, name };
                let prototype = function.c_prototype("").replacen(&function.name, &family.generic_name(), 1);
                let mut names: Vec<&str> = family.params.iter().map(|param| param.name.as_str()).collect();
                if with_context {
                    names.insert(0, "ctx");
                }
                put(
                    &mut out,
                    format_args!(
                        "static inline {prototype} {{ return {}({}); }}\n",
                        function.name,
                        names.join(", ")
                    ),
                );
            }
        }
    }
    out
}
