//! Writes the functions of `libmpi.so.12`: each of the standard under both names, one body for both.

use super::{Mpich, Role, is_integer};
use crate::ctype::{Param, rust_base};
use crate::entries;
use crate::fortran::Fortran;
use crate::{Function, Prototype, Table};
use std::fmt::Write;

/// Bodies that `bindings/libmpich/src/by_hand.rs` has, since they differ by more than numbers.
const BY_HAND: [&str; 48] = [
    "Op_create",
    "Op_create_c",
    "Comm_create_keyval",
    "Type_create_keyval",
    "Win_create_keyval",
    "Keyval_create",
    "Comm_create_errhandler",
    "File_create_errhandler",
    "Session_create_errhandler",
    "Win_create_errhandler",
    "Errhandler_free",
    "Comm_set_errhandler",
    "Comm_get_errhandler",
    "Comm_call_errhandler",
    "File_set_errhandler",
    "File_get_errhandler",
    "File_call_errhandler",
    "Win_set_errhandler",
    "Win_get_errhandler",
    "Win_call_errhandler",
    "Grequest_start",
    "Register_datarep",
    "Register_datarep_c",
    "Comm_get_attr",
    "Attr_get",
    "Win_get_attr",
    "Type_get_contents",
    "Type_get_contents_c",
    "Get_processor_name",
    "Open_port",
    "Lookup_name",
    "Info_get_nthkey",
    "Abi_get_fortran_info",
    "Abi_get_version",
    "File_toint",
    "File_fromint",
    "Init",
    "Init_thread",
    "Session_init",
    "Comm_spawn",
    "Comm_spawn_multiple",
    "T_cvar_handle_alloc",
    "T_pvar_handle_alloc",
    "T_event_get_info",
    "T_event_handle_alloc",
    "T_event_handle_free",
    "T_event_register_callback",
    "T_event_set_dropped_handler",
];

/// Buffers that MPI_IN_PLACE may stand for.
const IN_PLACE: [&str; 4] = ["sendbuf", "recvbuf", "inbuf", "inoutbuf"];

/// The text, for a module that has the types of our interface and what is named here.
///
/// # Errors
/// An argument that nothing is known about.
pub fn generate(table: &Table, mpich: &Mpich, fortran: &Fortran) -> Result<String, String> {
    let mut out = String::new();
    write_entries(&mut out, table);
    for function in &table.functions {
        let prototype = &function.prototype;
        let short = &prototype.name["MPI_".len()..];
        if !BY_HAND.contains(&short) {
            write_body(&mut out, &Face { table, mpich, fortran, function })?;
        }
        write_exports(&mut out, table, prototype, BY_HAND.contains(&short));
    }
    Ok(out)
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}

/// Our functions, through the table of their addresses.
fn write_entries(out: &mut String, table: &Table) {
    put(
        out,
        format_args!(
            "/// Our functions.\n#[allow(dead_code, reason = \"all of the table\")]\npub(crate) mod c {{\n\
             use super::*;\nunsafe extern \"C\" {{\n#[link_name = \"{}\"]\nstatic ENTRIES: [usize; {}];\n}}\n",
            entries::symbol(table),
            table.functions.len()
        ),
    );
    for (at, function) in table.functions.iter().enumerate() {
        let prototype = &function.prototype;
        let types: Vec<String> =
            prototype.params.iter().map(|p| p.to_rust(table.is_callback(&p.base))).collect();
        let params: Vec<String> = prototype
            .params
            .iter()
            .zip(&types)
            .map(|(p, class)| format!("{}: {class}", p.rust_name()))
            .collect();
        let names: Vec<String> = prototype.params.iter().map(Param::rust_name).collect();
        let returns = rust_base(&prototype.returns);
        put(
            out,
            format_args!(
                "#[inline(always)]\npub(crate) unsafe fn P{}({}) -> {returns} {{\n\
                 // SAFETY: a function of this type is at this place; the caller keeps its rules.\n\
                 unsafe {{ core::mem::transmute::<usize, unsafe extern \"C-unwind\" fn({}) -> {returns}>(ENTRIES[{at}])({}) }}\n}}\n",
                prototype.name,
                params.join(", "),
                types.join(", "),
                names.join(", ")
            ),
        );
    }
    out.push_str("}\n\n");
}

/// The type in which an argument arrives.
fn raw_type(table: &Table, param: &Param) -> String {
    let base = match param.base.as_str() {
        "MPI_File" => "MpichFile",
        base if table.is_handle(base) => "c_int",
        "MPI_Status" => "Status",
        _ => return param.to_rust(table.is_callback(&param.base)),
    };
    let pointers = param.stars + usize::from(!param.dims.is_empty());
    let qualifier = if param.constant { "*const " } else { "*mut " };
    format!("{}{base}", qualifier.repeat(pointers))
}

fn raw_result(table: &Table, prototype: &Prototype) -> String {
    match prototype.returns.as_str() {
        "MPI_File" => "MpichFile".into(),
        base if table.is_handle(base) => "c_int".into(),
        base => rust_base(base).into(),
    }
}

fn write_exports(out: &mut String, table: &Table, prototype: &Prototype, by_hand: bool) {
    let (name, returns) = (&prototype.name, raw_result(table, prototype));
    let params: Vec<String> =
        prototype.params.iter().map(|p| format!("{}: {}", p.rust_name(), raw_type(table, p))).collect();
    let names: Vec<String> = prototype.params.iter().map(Param::rust_name).collect();
    let body = match by_hand {
        true => format!("by_hand::{}", &name["MPI_".len()..]),
        false => format!("body_{name}"),
    };
    for prefix in ["", "P"] {
        put(
            out,
            format_args!(
                "// SAFETY: the name is that of the standard, and this library stands for the one that has it.\n\
                 #[unsafe(no_mangle)]\npub unsafe extern \"C-unwind\" fn {prefix}{name}({}) -> {returns} {{\n    \
                 // SAFETY: the caller keeps the standard's rules for the arguments.\n    \
                 unsafe {{ {body}({}) }}\n}}\n\n",
                params.join(", "),
                names.join(", ")
            ),
        );
    }
}

struct Face<'a> {
    table: &'a Table,
    mpich: &'a Mpich,
    fortran: &'a Fortran,
    function: &'a Function,
}

/// The parts of a body.
#[derive(Default)]
struct Body {
    /// Statements that need no other argument.
    first: String,
    /// Statements that may need them.
    then: String,
    after: String,
}

fn write_body(out: &mut String, face: &Face<'_>) -> Result<(), String> {
    let prototype = &face.function.prototype;
    let params: Vec<String> =
        prototype.params.iter().map(|p| format!("{}: {}", p.rust_name(), raw_type(face.table, p))).collect();
    let returns = raw_result(face.table, prototype);
    let is_number = prototype.name.ends_with("_toint") || prototype.name.ends_with("_fromint");
    let inside = if is_number {
        // A handle is the same number in C and in Fortran there.
        prototype.params[0].rust_name()
    } else {
        let mut body = Body::default();
        let arguments = prototype
            .params
            .iter()
            .map(|param| face.argument(&mut body, param))
            .collect::<Result<Vec<String>, String>>()?;
        let Body { first, then, after } = body;
        let call = format!("c::P{}({})", prototype.name, arguments.join(", "));
        match crate::exports::returns_error_code(face.function) {
            true => format!("{first}{then}let code = {call};\n{after}roles::out_error(code)"),
            false => format!("{first}{then}{call}"),
        }
    };
    put(
        out,
        format_args!(
            "#[inline]\nunsafe fn body_{}({}) -> {returns} {{\n\
             // SAFETY: as the standard says of the arguments.\n\
             #[allow(unused_unsafe, reason = \"some call nothing\")]\n\
             unsafe {{\n{inside}\n}}\n}}\n\n",
            prototype.name,
            params.join(", ")
        ),
    );
    Ok(())
}

impl Face<'_> {
    fn short(&self) -> &str {
        &self.function.prototype.name["MPI_".len()..]
    }

    /// Writes what an argument needs, and gives the expression that our function gets.
    fn argument(&self, body: &mut Body, param: &Param) -> Result<String, String> {
        let name = param.rust_name();
        let (is_place, is_array) = (param.stars > 0, !param.dims.is_empty());
        let base = param.base.as_str();
        if self.table.is_handle(base) {
            return self.handle(body, param);
        }
        if base == "MPI_Status" {
            return self.status(body, param);
        }
        if is_integer(param) {
            let role = self.mpich.role(self.short(), &param.name)?;
            return if *role == Role::Number { Ok(name) } else { self.integer(body, param, role) };
        }
        match base {
            "void" if IN_PLACE.contains(&param.name.as_str()) => {
                put(&mut body.first, format_args!("let {name} = buffers::in_place({name});\n"));
            }
            "void" if param.name == "buffer" && self.short().contains("ttach") => {
                put(&mut body.first, format_args!("let {name} = buffers::automatic({name});\n"));
            }
            "void" if param.name == "buffer_addr" => {
                put(&mut body.after, format_args!("buffers::put_automatic({name}, code);\n"));
            }
            "MPI_Offset" if self.short() == "File_set_view" && !is_place && !is_array => {
                put(&mut body.first, format_args!("let {name} = buffers::displacement({name});\n"));
            }
            _ => {}
        }
        Ok(name)
    }

    fn handle(&self, body: &mut Body, param: &Param) -> Result<String, String> {
        let (name, base) = (param.rust_name(), &param.base);
        let (reads, writes) = self.fortran.direction(self.short(), param);
        if !param.dims.is_empty() {
            let length = self.fortran.length(self.short(), &param.name).ok_or_else(|| {
                format!("fortran.txt: the length of `{}` of MPI_{} is not known", param.name, self.short())
            })?;
            let to_mut = if param.constant { ".cast_mut()" } else { "" };
            put(
                &mut body.then,
                format_args!(
                    "let mut {name} = Handles::<{base}>::new({name}{to_mut}, {length} as i64, {reads});\n"
                ),
            );
            if writes {
                put(&mut body.after, format_args!("{name}.put();\n"));
            }
            return Ok(format!("{name}.address()"));
        }
        if param.stars > 0 {
            put(
                &mut body.first,
                format_args!("let mut {name} = handle::Place::<{base}>::new({name}, {reads});\n"),
            );
            put(&mut body.after, format_args!("{name}.put();\n"));
            return Ok(format!("{name}.address()"));
        }
        put(&mut body.first, format_args!("let {name}: {base} = handle::ours({name});\n"));
        Ok(name)
    }

    fn status(&self, body: &mut Body, param: &Param) -> Result<String, String> {
        let name = param.rust_name();
        if param.name == "array_of_statuses" {
            let some = self.short().ends_with("some");
            let (room, written) = if some { ("incount", "*outcount") } else { ("count", "count") };
            put(&mut body.first, format_args!("let mut {name} = Statuses::new({name}, {room});\n"));
            put(&mut body.after, format_args!("{name}.put({written});\n"));
        } else if param.constant {
            put(&mut body.first, format_args!("let {name} = status::Given::new({name});\n"));
        } else {
            let changes = self.short().starts_with("Status_set");
            put(&mut body.first, format_args!("let mut {name} = status::Place::new({name}, {changes});\n"));
            put(&mut body.after, format_args!("{name}.put();\n"));
        }
        Ok(format!("{name}.address()"))
    }

    fn integer(&self, body: &mut Body, param: &Param, role: &Role) -> Result<String, String> {
        let (name, slug) = (param.rust_name(), role.slug());
        let is_place = param.stars > 0;
        if param.dims.is_empty() && !is_place {
            put(&mut body.first, format_args!("let {name} = roles::in_{slug}({name});\n"));
            return Ok(name);
        }
        if is_place {
            let (reads, _) = self.fortran.direction(self.short(), param);
            if reads {
                put(
                    &mut body.first,
                    format_args!(
                        "let place_{name} = {name};\nlet mut {name} = if {name}.is_null() {{ 0 }} else {{ roles::in_{slug}(*{name}) }};\n"
                    ),
                );
                put(
                    &mut body.after,
                    format_args!(
                        "if !place_{name}.is_null() {{ *place_{name} = roles::out_{slug}({name}); }}\n"
                    ),
                );
                return Ok(format!("if place_{name}.is_null() {{ place_{name} }} else {{ &mut {name} }}"));
            }
            put(
                &mut body.after,
                format_args!(
                    "if code == MPI_SUCCESS && !{name}.is_null() {{ *{name} = roles::out_{slug}(*{name}); }}\n"
                ),
            );
            return Ok(name);
        }
        // Only the ranks that are translated may be none; elsewhere what is no rank is wrong in both faces.
        let translates = self.short() == "Group_translate_ranks";
        match (role, param.constant) {
            (Role::Rank, _) if !translates => Ok(name),
            (_, true) => {
                let length = self.table.length_of(self.short(), param).ok_or_else(|| {
                    format!("nulls.txt: the length of `{}` of MPI_{} is not known", param.name, self.short())
                })?;
                put(
                    &mut body.first,
                    format_args!("let {name} = Integers::new({name}, {length}, roles::in_{slug});\n"),
                );
                Ok(format!("{name}.address()"))
            }
            (_, false) => {
                let length = self.table.length_of(self.short(), param).ok_or_else(|| {
                    format!("nulls.txt: the length of `{}` of MPI_{} is not known", param.name, self.short())
                })?;
                put(
                    &mut body.after,
                    format_args!(
                        "if code == MPI_SUCCESS {{ roles::put_all({name}, {length}, roles::out_{slug}); }}\n"
                    ),
                );
                Ok(name)
            }
        }
    }
}
