//! Writes the functions of `libmpifort_abi.so.1`: every binding under its names, each of which turns the
//! arguments into those of C and calls the function of C by its symbol, `mpi_x_` MPI_X and `pmpi_x_` PMPI_X.
//!
//! | name | arguments |
//! |---|---|
//! | `mpi_x_` | by address; lengths of strings at the end: `mpif.h` and module `mpi` |
//! | `mpi_x_f08_` | the same of `mpi_f08`, where the error code may be a null pointer |
//! | `tutti_f_x` | of `mpi_f08` where buffers are array descriptors |
//!
//! MPICH's Fortran library has the first two and others of its own ([`Face::Mpich`]):
//!
//! | name | arguments |
//! |---|---|
//! | `mpi_x`, `mpi_x__`, `MPI_X` | as of `mpi_x_`, for compilers that write names in another way |
//! | `mpi_x_f08ts_` | of `mpi_f08` where buffers are gfortran's array descriptors, and strings have lengths |
//! | `mpi_x_f08_large_`, `mpi_x_f08ts_large_` | the large-count form in MPICH 4.0 |
//! | `mpi_x_c_f08_`, `mpi_x_c_f08ts_` | the same in later ones |
//! | `pmpir_x_f08_` and so on | the twins of the profiling interface |
//!
//! The text is included by a module that has the types of the binary interface and what is named here.

use super::sources::operator_names;
use super::{Argument, Binding, Fortran, Kind, Section};
use crate::Table;
use crate::ctype::rust_base;
use std::fmt::Write;

/// A library of Fortran bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// `libmpifort_abi.so.1`.
    Ours,
    /// `libmpifort.so.12`.
    Mpich,
}

/// How buffers and strings of a function arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Both by address, with the lengths of strings at the end.
    Plain,
    /// Both as the descriptors that Fortran has for C.
    Bound,
    /// Buffers as gfortran's own descriptors, strings by address.
    Module,
}

/// The text.
///
/// # Errors
/// An argument that nothing is known about.
pub fn generate(table: &Table, fortran: &Fortran, face: Face) -> Result<String, String> {
    let bindings = fortran.bindings(table)?;
    let form = if face == Face::Ours { Form::Bound } else { Form::Module };
    let mut out = String::new();
    write_declarations(&mut out, table);
    write_arguments(&mut out, &bindings);
    for binding in &bindings {
        // Values instead of error codes, or no error code at all: their few names are written by hand, too.
        if binding.is_function() || binding.short() == "Pcontrol" {
            continue;
        }
        for prefix in ["", "P"] {
            let body = format!("{prefix}MPI_{}", binding.short());
            if !binding.is_large || !binding.has_choice() {
                write_body(&mut out, binding, prefix, &body, Form::Plain);
            }
            if !binding.is_large {
                write_export(&mut out, binding, &plain_name(binding, prefix), &body, Form::Plain);
            }
            let symbol = module_name(binding, prefix, face);
            if binding.has_choice() {
                let body = format!("{prefix}MPI_{}_sections", binding.short());
                write_body(&mut out, binding, prefix, &body, form);
                write_export(&mut out, binding, &symbol, &body, form);
            } else {
                write_export(&mut out, binding, &symbol, &body, Form::Plain);
            }
        }
    }
    match face {
        Face::Ours => write_operators(&mut out, table),
        Face::Mpich => write_other_names(&mut out, &bindings),
    }
    Ok(out)
}

fn plain_name(binding: &Binding<'_>, prefix: &str) -> String {
    format!("{}mpi_{}_", prefix.to_lowercase(), binding.short().to_lowercase())
}

/// The linker name of a function of `mpi_f08`.
fn module_name(binding: &Binding<'_>, prefix: &str, face: Face) -> String {
    let short = binding.short().to_lowercase();
    match (face, binding.has_choice()) {
        (Face::Ours, true) => descriptor_name(binding, prefix),
        (Face::Ours, false) => format!("{}mpi_{short}_f08_", prefix.to_lowercase()),
        (Face::Mpich, has_choice) => {
            let start = if prefix.is_empty() { "mpi" } else { "pmpir" };
            format!("{start}_{short}_{}", if has_choice { "f08ts_" } else { "f08_" })
        }
    }
}

/// Names of MPICH that lead to another one.
fn write_other_names(out: &mut String, bindings: &[Binding<'_>]) {
    out.push_str("other_names! {\n");
    for binding in bindings {
        for prefix in ["", "P"] {
            let plain = plain_name(binding, prefix);
            if !binding.is_large {
                put(out, format_args!("{plain}: {} {plain}_ ", &plain[..plain.len() - 1]));
                put(out, format_args!("{};\n", plain[..plain.len() - 1].to_uppercase()));
            }
            if binding.is_function() || binding.short() == "Pcontrol" {
                if prefix == "P" {
                    put(out, format_args!("{plain}: pmpir{}f08_;\n", &plain["pmpi".len()..]));
                }
            } else if binding.is_large {
                let name = module_name(binding, prefix, Face::Mpich);
                put(out, format_args!("{name}: {}large_;\n", name.replacen("_c_f08", "_f08", 1)));
            }
        }
    }
    for name in BY_HAND {
        for prefix in ["", "p"] {
            let plain = format!("{prefix}mpi_{name}");
            put(out, format_args!("{plain}_: {plain} {plain}__ {};\n", plain.to_uppercase()));
            if prefix == "p" && name.ends_with("_fn") {
                put(out, format_args!("mpi_{name}_: pmpi_{name}_;\n"));
            }
        }
    }
    out.push_str("}\n");
}

/// Functions that are in none of the tables: removed ones, and predefined callbacks.
const BY_HAND: [&str; 22] = [
    "address",
    "type_extent",
    "type_lb",
    "type_ub",
    "type_hvector",
    "type_hindexed",
    "type_struct",
    "errhandler_create",
    "errhandler_get",
    "errhandler_set",
    "comm_null_copy_fn",
    "comm_dup_fn",
    "comm_null_delete_fn",
    "type_null_copy_fn",
    "type_dup_fn",
    "type_null_delete_fn",
    "win_null_copy_fn",
    "win_dup_fn",
    "win_null_delete_fn",
    "null_copy_fn",
    "dup_fn",
    "null_delete_fn",
];

fn write_operators(out: &mut String, table: &Table) {
    for (equal, differ) in operator_names(table) {
        for (name, operator) in [(equal, "=="), (differ, "!=")] {
            put(
                out,
                format_args!(
                    "// SAFETY: no other library may define the name.\n#[unsafe(no_mangle)]\n\
                 pub unsafe extern \"C-unwind\" fn {name}(a: *const c_int, b: *const c_int) -> c_int {{\n    \
                 {SAFETY}two handles of the caller.\n    unsafe {{ c_int::from(*a {operator} *b) }}\n}}\n\n"
                ),
            );
        }
    }
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
fn raw_type(argument: &Argument, form: Form) -> String {
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
        Kind::Choice(_) if form != Form::Plain => "*const Descriptor".into(),
        Kind::Text(_) | Kind::TextPlace(_) if form == Form::Bound => "*const Descriptor".into(),
        Kind::Text(_) | Kind::TextPlace(_) => "*mut u8".into(),
        Kind::Choice(_) | Kind::Base => "*mut c_void".into(),
        Kind::Procedure => "usize".into(),
    }
}

/// Names and types of the raw arguments.
fn raw(binding: &Binding<'_>, form: Form) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> =
        binding.arguments.iter().map(|a| (a.param.rust_name(), raw_type(a, form))).collect();
    list.push(("ierror".into(), "*mut c_int".into()));
    if form != Form::Bound {
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
        let fields: Vec<String> = raw(binding, Form::Plain).into_iter().map(field).collect();
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

fn write_export(out: &mut String, binding: &Binding<'_>, symbol: &str, body: &str, form: Form) {
    let raw = raw(binding, form);
    // `mpif.h` and `mpi` have a buffer of any type in this place, in which no address may be written.
    let is_left_out = |name: &str| name == "buffer_addr" && !symbol.ends_with("f08_");
    let is_section = |class: &str| form == Form::Module && class == "*const Descriptor";
    let param = |(name, class): &(String, String)| {
        let class = if is_section(class) { "*const gfortran::Array" } else { class };
        format!("{}{name}: {class}", if is_left_out(name) { "_" } else { "" })
    };
    let argument = |(name, class): &(String, String)| match () {
        () if is_left_out(name) => "core::ptr::null_mut()".to_owned(),
        () if is_section(class) => format!("gfortran::Section::of({name}).descriptor()"),
        () => name.clone(),
    };
    let params: Vec<String> = raw.iter().map(param).collect();
    let arguments: Vec<String> = raw.iter().map(argument).collect();
    put(
        out,
        format_args!(
            "// SAFETY: no other library may define the name.\n#[unsafe(no_mangle)]\n\
         pub unsafe extern \"C-unwind\" fn {symbol}({}) {{\n    \
         // SAFETY: the arguments are those of the caller, who keeps the standard's rules for them.\n    \
         unsafe {{ body_{body}({}) }}\n}}\n\n",
            params.join(", "),
            arguments.join(", "),
        ),
    );
}

/// A body: all arguments become those of C, C is called, results become those of Fortran.
fn write_body(out: &mut String, binding: &Binding<'_>, prefix: &str, name: &str, form: Form) {
    let params: Vec<String> =
        raw(binding, form).iter().map(|(name, class)| format!("{name}: {class}")).collect();
    let mut text = Body::default();
    if binding.is_by_hand {
        let names: Vec<String> = raw(binding, form).into_iter().map(|(name, _)| name).collect();
        let (profiling, short) = (prefix == "P", binding.short());
        put(
            &mut text.call,
            format_args!("by_hand::{short}::<{profiling}>(arguments::{short} {{ {} }})", names.join(", ")),
        );
    } else {
        let arguments: Vec<String> =
            binding.arguments.iter().map(|a| text.argument(binding, a, form)).collect();
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
    fn argument(&mut self, binding: &Binding<'_>, argument: &Argument, form: Form) -> String {
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
                let given = text_place(&name, &argument.param.name, form);
                put(&mut self.first, format_args!("let {name} = Text::new({given}, {strip});\n"));
                return format!("{name}.address()");
            }
            Kind::TextPlace(room) => {
                let given = text_place(&name, &argument.param.name, form);
                put(
                    &mut self.first,
                    format_args!("let mut {name} = TextPlace::new({given}, {room} as usize);\n"),
                );
                let length = binding.arguments.iter().any(|a| a.param.name == "resultlen");
                let resultlen = if length { "resultlen" } else { "core::ptr::null_mut()" };
                put(&mut self.after, format_args!("{name}.put(code, {resultlen});\n"));
                return format!("{name}.address()");
            }
            Kind::Choice(Section::Address) if form != Form::Plain => {
                put(&mut self.first, format_args!("let {name} = (*{name}).address;\n"));
                if binding.short() != "Get_address" {
                    put(&mut self.first, format_args!("let {name} = sentinels::buffer({name});\n"));
                }
            }
            Kind::Choice(_) if binding.short() == "Get_address" => {}
            Kind::Choice(_) if form == Form::Plain => {
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
fn text_place(name: &str, plain: &str, form: Form) -> String {
    if form == Form::Bound {
        format!("(*{name}).address.cast(), (*{name}).element_bytes")
    } else {
        format!("{name}, length_{plain}")
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}
