//! Writes the functions of `libmpifort_abi.so.1`: every binding under its names, each of which turns the
//! arguments into those of C and calls the function of C by its symbol, `mpi_x_` MPI_X and `pmpi_x_` PMPI_X.
//!
//! | name | arguments |
//! |---|---|
//! | `mpi_x_` | by address; lengths of strings at the end: `mpif.h` and module `mpi` |
//! | `mpi_x_f08_` | the same of `mpi_f08`, where the error code may be a null pointer |
//! | `tutti_f_x` | of `mpi_f08` where buffers are array descriptors |
//!
//! The text is included by a module that has the types of the binary interface and what is named here.

use super::sources::operator_names;
use super::{Argument, Binding, Fortran, Kind, Section};
use crate::Table;
use crate::ctype::rust_base;
use std::fmt::Write;

/// The text.
///
/// # Errors
/// An argument that nothing is known about.
pub fn generate(table: &Table, fortran: &Fortran) -> Result<String, String> {
    let bindings = fortran.bindings(table)?;
    let mut out = String::new();
    write_declarations(&mut out, table);
    write_arguments(&mut out, &bindings);
    for binding in &bindings {
        // Values instead of error codes, or no error code at all: their few names are written by hand, too.
        if binding.is_function() || binding.short() == "Pcontrol" {
            continue;
        }
        for prefix in ["", "P"] {
            let name = |form: &str| {
                format!("{}mpi_{}_{form}", prefix.to_lowercase(), binding.short().to_lowercase())
            };
            let body = format!("{prefix}MPI_{}", binding.short());
            if !binding.is_large || !binding.has_choice() {
                write_body(&mut out, binding, prefix, &body, false);
            }
            if !binding.is_large {
                write_export(&mut out, binding, &name(""), &body, false);
            }
            if binding.has_choice() {
                let body = format!("{prefix}MPI_{}_sections", binding.short());
                write_body(&mut out, binding, prefix, &body, true);
                write_export(&mut out, binding, &descriptor_name(binding, prefix), &body, true);
            } else {
                write_export(&mut out, binding, &name("f08_"), &body, false);
            }
        }
    }
    for (equal, differ) in operator_names(table) {
        for (name, operator) in [(equal, "=="), (differ, "!=")] {
            put(
                &mut out,
                format_args!(
                    "// SAFETY: no other library may define the name.\n#[unsafe(no_mangle)]\n\
                 pub unsafe extern \"C-unwind\" fn {name}(a: *const c_int, b: *const c_int) -> c_int {{\n    \
                 {SAFETY}two handles of the caller.\n    unsafe {{ c_int::from(*a {operator} *b) }}\n}}\n\n"
                ),
            );
        }
    }
    Ok(out)
}

/// The beginning of a comment on unsafe code.
const SAFETY: &str = "// SAFETY: ";

/// The linker name of the form with array descriptors.
pub fn descriptor_name(binding: &Binding<'_>, prefix: &str) -> String {
    format!("tutti_f{}_{}", prefix.to_lowercase(), binding.short().to_lowercase())
}

/// The functions of C that are called, under both names.
fn write_declarations(out: &mut String, table: &Table) {
    out.push_str("/// The functions of C.\n#[allow(dead_code, reason = \"all of the table\")]\npub(crate) mod c {\nuse super::*;\nunsafe extern \"C-unwind\" {\n");
    for function in table.functions.iter().map(|f| &f.prototype).filter(|f| !f.name.starts_with("MPI_T_")) {
        let params: Vec<String> = function
            .params
            .iter()
            .map(|p| format!("{}: {}", p.rust_name(), p.to_rust(table.is_callback(&p.base))))
            .collect();
        let variadic = if function.variadic { ", ..." } else { "" };
        for prefix in ["", "P"] {
            let returns = rust_base(&function.returns);
            put(
                out,
                format_args!(
                    "pub(crate) fn {prefix}{}({}{variadic}) -> {returns};\n",
                    function.name,
                    params.join(", ")
                ),
            );
        }
    }
    out.push_str("}\n}\n");
}

/// The type in which an argument arrives.
fn raw_type(argument: &Argument, sections: bool) -> String {
    match &argument.kind {
        Kind::Value => format!("*const {}", rust_base(&argument.param.base)),
        Kind::Place if argument.param.base == "char" => "*mut u8".into(),
        Kind::Place if argument.param.base == "void" => "*mut c_void".into(),
        Kind::Place => format!(
            "*mut {}",
            match rust_base(&argument.param.base) {
                base if base.starts_with("MPI_")
                    && !matches!(base, "MPI_Aint" | "MPI_Count" | "MPI_Offset") =>
                    "c_int",
                base => base,
            }
        ),
        Kind::Handle
        | Kind::HandlePlace
        | Kind::Handles(_)
        | Kind::Logical
        | Kind::LogicalPlace
        | Kind::Logicals(_)
        | Kind::Index
        | Kind::Indices(_)
        | Kind::Weights => "*mut c_int".into(),
        Kind::Status => "*mut MPI_Status".into(),
        Kind::Text(_) | Kind::TextPlace(_) | Kind::Choice(_) if sections => "*const Descriptor".into(),
        Kind::Text(_) | Kind::TextPlace(_) => "*mut u8".into(),
        Kind::Choice(_) | Kind::Base => "*mut c_void".into(),
        Kind::Procedure => "usize".into(),
    }
}

/// Names and types of the raw arguments.
fn raw(binding: &Binding<'_>, sections: bool) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> =
        binding.arguments.iter().map(|a| (a.param.rust_name(), raw_type(a, sections))).collect();
    list.push(("ierror".into(), "*mut c_int".into()));
    if !sections {
        let texts = binding.arguments.iter().filter(|a| {
            matches!(a.kind, Kind::Text(_) | Kind::TextPlace(_))
                || a.kind == Kind::Place && a.param.base == "char"
        });
        list.extend(texts.map(|a| (format!("length_{}", a.param.name), "usize".into())));
    }
    list
}

/// Arguments of the functions that are written by hand, a type for each.
fn write_arguments(out: &mut String, bindings: &[Binding<'_>]) {
    out.push_str(
        "/// Arguments of functions that are written by hand.\npub(crate) mod arguments {\nuse super::*;\n",
    );
    for binding in bindings.iter().filter(|binding| binding.is_by_hand) {
        let field = |(name, class): (String, String)| format!("pub(crate) {name}: {class}");
        let fields: Vec<String> = raw(binding, false).into_iter().map(field).collect();
        put(
            out,
            format_args!(
                "#[allow(dead_code, reason = \"all of the table\")]\npub(crate) struct {} {{ {} }}\n",
                binding.short(),
                fields.join(", ")
            ),
        );
    }
    out.push_str("}\n");
}

fn write_export(out: &mut String, binding: &Binding<'_>, symbol: &str, body: &str, sections: bool) {
    let raw = raw(binding, sections);
    let params: Vec<String> = raw
        .iter()
        .map(|(name, class)| {
            format!(
                "{}{name}: {class}",
                if name == "buffer_addr" && !symbol.ends_with("f08_") { "_" } else { "" }
            )
        })
        .collect();
    // `mpif.h` and `mpi` have a buffer of any type in this place, in which no address may be written.
    let is_left_out = |name: &str| name == "buffer_addr" && !symbol.ends_with("f08_");
    let names = raw.iter().map(|(name, _)| if is_left_out(name) { "core::ptr::null_mut()" } else { name });
    let names: Vec<&str> = names.collect();
    put(
        out,
        format_args!(
            "// SAFETY: no other library may define the name.\n#[unsafe(no_mangle)]\n\
         pub unsafe extern \"C-unwind\" fn {symbol}({}) {{\n    \
         // SAFETY: the arguments are those of the caller, who keeps the standard's rules for them.\n    \
         unsafe {{ body_{body}({}) }}\n}}\n\n",
            params.join(", "),
            names.join(", "),
        ),
    );
}

/// A body: all arguments become those of C, C is called, results become those of Fortran.
fn write_body(out: &mut String, binding: &Binding<'_>, prefix: &str, name: &str, sections: bool) {
    let params: Vec<String> =
        raw(binding, sections).iter().map(|(name, class)| format!("{name}: {class}")).collect();
    let mut text = Body::default();
    if binding.is_by_hand {
        let names: Vec<String> = raw(binding, sections).into_iter().map(|(name, _)| name).collect();
        let (profiling, short) = (prefix == "P", binding.short());
        put(
            &mut text.call,
            format_args!("by_hand::{short}::<{profiling}>(arguments::{short} {{ {} }})", names.join(", ")),
        );
    } else {
        let arguments: Vec<String> =
            binding.arguments.iter().map(|a| text.argument(binding, a, sections)).collect();
        text.stage_for_later(binding);
        put(&mut text.call, format_args!("c::{prefix}MPI_{}({})", binding.short(), arguments.join(", ")));
    }
    let Body { first, then, call, end, after, .. } = text;
    put(
        out,
        format_args!(
            "#[inline]\nunsafe fn body_{name}({}) {{\n// SAFETY: as the standard says of the arguments.\nunsafe {{\n\
         {first}{then}let code = {call};\n{end}{after}put_code(ierror, code);\n}}\n}}\n\n",
            params.join(", ")
        ),
    );
}

#[derive(Default)]
struct Body {
    /// Statements that need no other argument.
    first: String,
    /// Statements that may need the other arguments.
    then: String,
    call: String,
    /// Statements that may change the code.
    end: String,
    after: String,
    /// Buffers that are copied for longer than the call, and whether it writes them.
    later: Vec<(String, bool)>,
}

impl Body {
    /// Writes what an argument needs, and gives the expression that C gets.
    fn argument(&mut self, binding: &Binding<'_>, argument: &Argument, sections: bool) -> String {
        let name = argument.param.rust_name();
        let (base, reads) = (&argument.param.base, argument.is_read);
        match &argument.kind {
            Kind::Value => put(&mut self.first, format_args!("let {name} = *{name};\n")),
            Kind::Handle => put(&mut self.first, format_args!("let {name}: {base} = handle(*{name});\n")),
            Kind::Logical => put(&mut self.first, format_args!("let {name} = c_int::from(*{name} != 0);\n")),
            Kind::Place | Kind::Base => return format!("{name}.cast()"),
            Kind::Procedure => {}
            Kind::HandlePlace => {
                let value = if reads { format!("handle(*{name})") } else { "handle::absent()".to_owned() };
                put(
                    &mut self.first,
                    format_args!("let place_{name} = {name};\nlet mut {name}: {base} = {value};\n"),
                );
                put(&mut self.after, format_args!("handle::put(place_{name}, {name});\n"));
                return format!("&mut {name}");
            }
            Kind::LogicalPlace | Kind::Index => {
                put(
                    &mut self.first,
                    format_args!("let place_{name} = {name};\nlet mut {name}: c_int = 0;\n"),
                );
                let put_as = if argument.kind == Kind::Index { "put_index" } else { "put_logical" };
                put(&mut self.after, format_args!("{put_as}(place_{name}, {name});\n"));
                return format!("&mut {name}");
            }
            Kind::Handles(length) => {
                put(
                    &mut self.then,
                    format_args!(
                        "let mut {name} = Handles::<{base}>::new({name}, {length} as i64, {reads});\n"
                    ),
                );
                if argument.is_written {
                    put(&mut self.after, format_args!("{name}.put();\n"));
                }
                return format!("{name}.address()");
            }
            Kind::Logicals(length) => {
                put(
                    &mut self.then,
                    format_args!("let mut {name} = Logicals::new({name}, {length} as i64, {reads});\n"),
                );
                if argument.is_written {
                    put(&mut self.after, format_args!("{name}.put(code);\n"));
                }
                return format!("{name}.address()");
            }
            Kind::Indices(length) => {
                put(&mut self.after, format_args!("put_indices({name}, {length}, code);\n"));
            }
            Kind::Status => put(&mut self.first, format_args!("let {name} = sentinels::status({name});\n")),
            Kind::Weights => put(&mut self.first, format_args!("let {name} = sentinels::weights({name});\n")),
            Kind::Text(strip) => {
                let given = text_place(&name, &argument.param.name, sections);
                put(&mut self.first, format_args!("let {name} = Text::new({given}, {strip});\n"));
                return format!("{name}.address()");
            }
            Kind::TextPlace(room) => {
                let given = text_place(&name, &argument.param.name, sections);
                put(
                    &mut self.first,
                    format_args!("let mut {name} = TextPlace::new({given}, {room} as usize);\n"),
                );
                let length = binding.arguments.iter().any(|a| a.param.name == "resultlen");
                let resultlen = if length { "resultlen" } else { "core::ptr::null_mut()" };
                put(&mut self.after, format_args!("{name}.put(code, {resultlen});\n"));
                return format!("{name}.address()");
            }
            Kind::Choice(Section::Address) if sections => {
                put(&mut self.first, format_args!("let {name} = (*{name}).address;\n"));
                if binding.short() != "Get_address" {
                    put(&mut self.first, format_args!("let {name} = sentinels::buffer({name});\n"));
                }
            }
            Kind::Choice(_) if binding.short() == "Get_address" => {}
            Kind::Choice(_) if !sections => {
                put(&mut self.first, format_args!("let {name} = sentinels::buffer({name});\n"));
            }
            Kind::Choice(section) => self.section(binding, argument, *section),
        }
        name
    }

    /// Copies of sections for an operation that ends after its call.
    fn stage_for_later(&mut self, binding: &Binding<'_>) {
        if self.later.is_empty() {
            return;
        }
        let names: Vec<&str> = self.later.iter().map(|(name, _)| name.as_str()).collect();
        let pairs: Vec<String> =
            self.later.iter().map(|(name, is_written)| format!("({name}, {is_written})")).collect();
        let (names, pairs) = (names.join(", "), pairs.join(", "));
        put(
            &mut self.first,
            format_args!(
                "let caller = {};\n\
                 let (later, [{names}]) = match section::later(caller, [{pairs}]) {{ \
                 Ok(found) => found, Err(code) => {{ put_code(ierror, code); return; }} }};\n",
                caller(binding)
            ),
        );
        put(&mut self.end, format_args!("let code = later.attach(caller, code, request);\n"));
    }

    fn section(&mut self, binding: &Binding<'_>, argument: &Argument, section: Section) {
        let name = argument.param.rust_name();
        let caller = caller(binding);
        let failed = "Err(code) => { put_code(ierror, code); return; }";
        match section {
            Section::Mapped => {
                let at = binding.arguments.iter().position(|a| a.param == argument.param).expect("its own");
                let [count, datatype] = [1, 2].map(|behind| binding.arguments[at + behind].param.rust_name());
                put(
                    &mut self.then,
                    format_args!(
                        "let ({name}, type_{name}) = match section::map({caller}, {name}, {count} as MPI_Count, {datatype}) {{ \
                     Ok(mapped) => mapped, {failed} }};\n\
                     let ({count}, {datatype}) = type_{name}.instead({count}, {datatype});\n"
                    ),
                );
            }
            Section::Staged if !binding.is_nonblocking() => {
                put(
                    &mut self.first,
                    format_args!(
                        "let (mut stage_{name}, {name}) = section::stage({name}, {});\n",
                        !argument.param.constant
                    ),
                );
                let keep = if argument.param.constant { "drop" } else { "section::unstage" };
                put(&mut self.after, format_args!("{keep}(stage_{name}.take());\n"));
            }
            Section::Staged => self.later.push((name, !argument.param.constant)),
            Section::Partitions => {
                put(
                    &mut self.first,
                    format_args!(
                        "let descriptor = {name};\nlet {name} = sentinels::buffer((*descriptor).address);\n"
                    ),
                );
                put(
                    &mut self.end,
                    format_args!(
                        "let code = section::partitions({caller}, descriptor, \
                         (partitions, count as MPI_Count), datatype, code, request);\n"
                    ),
                );
            }
            _ => put(
                &mut self.then,
                format_args!(
                    "let {name} = match section::contiguous({caller}, {name}, c\"{}\") {{ \
                 Ok(address) => address, {failed} }};\n",
                    argument.param.name
                ),
            ),
        }
    }
}

/// Function and object of a call, for errors of the bindings themselves.
fn caller(binding: &Binding<'_>) -> String {
    let function = binding.short();
    let objects =
        [("MPI_Comm", "comm"), ("MPI_Win", "win"), ("MPI_File", "file"), ("MPI_Session", "session")];
    let found =
        binding.arguments.iter().filter(|argument| argument.kind == Kind::Handle).find_map(|argument| {
            let (_, kind) = objects.iter().find(|(base, _)| *base == argument.param.base)?;
            Some(format!("section::Caller::on_{kind}(c\"MPI_{function}\", {})", argument.param.rust_name()))
        });
    found.unwrap_or_else(|| format!("section::Caller::on_nothing(c\"MPI_{function}\")"))
}

/// Address and length of a string.
fn text_place(name: &str, plain: &str, sections: bool) -> String {
    if sections {
        format!("(*{name}).address.cast(), (*{name}).element_bytes")
    } else {
        format!("{name}, length_{plain}")
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}
