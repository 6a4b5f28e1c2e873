//! Writes `mpif.h` and the sources of the modules from the templates in `bindings/mpi/fortran`.
//!
//! The modules hold interfaces and constants only: what a program calls is in the library, so no object code
//! of a certain compiler is needed, and a compiler makes its own module files of these sources in a second.

use super::exports::descriptor_name;
use super::{Argument, Binding, Fortran, Kind};
use crate::{Constant, ConstantGroup, ConstantValue, Table, TypeKind};
use std::fmt::Write;

/// Ways to use the bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// `mpif.h`: lines that are valid in fixed and in free form.
    Include,
    /// Module `mpi`.
    Mpi,
    /// Module `mpi_f08`.
    F08,
}

/// The sources: name of the file, and its text. `template` gives the text of a template.
///
/// # Errors
/// A template that cannot be read, an argument that nothing is known about.
pub fn generate(
    table: &Table,
    fortran: &Fortran,
    version: &str,
    template: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<(&'static str, String)>, String> {
    let bindings = fortran.bindings(table)?;
    let text = |name: &str| template(name).map(|text| text.replace("@VERSION@", version));
    let include = text("mpif.h")?
        .replace("@KINDS@\n", &kinds(Face::Include))
        .replace("@CONSTANTS@\n", &include_constants(table))
        .replace("@INTERFACES@\n", &include_interfaces(&bindings));
    let base = text("tutti_mpi_base.f90")?.replace("@CONSTANTS@\n", &plain_constants(table));
    let mpi = text("mpi.f90")?
        .replace("@KINDS@\n", &kinds(Face::Mpi))
        .replace("@CONSTANTS@\n", &handle_constants(table, Face::Mpi))
        .replace("@INTERFACES@\n", &mpi_interfaces(&bindings));
    let f08 = text("mpi_f08.f90")?
        .replace("@KINDS@\n", &kinds(Face::F08))
        .replace("@TYPES@\n", &handle_types(table))
        .replace("@CONSTANTS@\n", &handle_constants(table, Face::F08))
        .replace("@OPERATORS@\n", &operators(table))
        .replace("@INTERFACES@\n", &f08_interfaces(&bindings));
    Ok(vec![("mpif.h", include), ("tutti_mpi_base.f90", base), ("mpi.f90", mpi), ("mpi_f08.f90", f08)])
}

/// Declarations of an argument, without its name: type and attributes, and what stands behind the name.
pub(super) fn declaration(binding: &Binding<'_>, argument: &Argument, face: Face) -> (String, String) {
    let param = &argument.param;
    let is_array =
        !param.dims.is_empty() || argument.kind == Kind::Weights || param.name.starts_with("array_of_");
    let number = |base: &str| match (base, face) {
        ("int", _) => "INTEGER".to_owned(),
        ("void", _) if matches!(binding.short(), "Attr_get" | "Attr_put" | "Keyval_create") => {
            "INTEGER".to_owned()
        }
        (_, Face::Include) => "INTEGER(KIND=8)".to_owned(),
        ("MPI_Count", _) => "INTEGER(KIND=MPI_COUNT_KIND)".to_owned(),
        ("MPI_Offset", _) => "INTEGER(KIND=MPI_OFFSET_KIND)".to_owned(),
        _ => "INTEGER(KIND=MPI_ADDRESS_KIND)".to_owned(),
    };
    let handle = || match face {
        Face::F08 => format!("TYPE({})", param.base),
        _ => "INTEGER".to_owned(),
    };
    let mut shape = if is_array { "(*)" } else { "" }.to_owned();
    if param.dims.len() > 1 && face != Face::Include {
        shape = "(3,*)".into();
    }
    let mut has_intent = face == Face::F08;
    let class = match &argument.kind {
        Kind::Place if param.base == "char" => {
            shape = if param.stars > 1 { "(count,*)" } else { "(*)" }.into();
            "CHARACTER(LEN=*)".into()
        }
        Kind::Place
            if param.base.starts_with("MPI_") && !["Aint", "Count", "Offset"].contains(&&param.base[4..]) =>
        {
            handle()
        }
        Kind::Value | Kind::Place => number(&param.base),
        Kind::Handle | Kind::HandlePlace | Kind::Handles(_) => handle(),
        Kind::Logical | Kind::LogicalPlace | Kind::Logicals(_) => "LOGICAL".into(),
        Kind::Index | Kind::Indices(_) => "INTEGER".into(),
        Kind::Weights => {
            has_intent = false;
            "INTEGER".into()
        }
        Kind::Status => {
            has_intent &= param.constant;
            match (face, is_array) {
                (Face::F08, _) => {}
                // Where arguments are not compared, nothing else is allowed.
                (Face::Include, _) => shape = "(*)".into(),
                (Face::Mpi, true) => shape = "(MPI_STATUS_SIZE,*)".into(),
                (Face::Mpi, false) => shape = "(MPI_STATUS_SIZE)".into(),
            }
            if face == Face::F08 { "TYPE(MPI_Status)".into() } else { "INTEGER".into() }
        }
        Kind::Text(_) | Kind::TextPlace(_) => {
            shape.clear();
            "CHARACTER(LEN=*)".into()
        }
        Kind::Base if face == Face::F08 => "TYPE(C_PTR)".into(),
        Kind::Base if param.name == "baseptr" => number("MPI_Aint"),
        Kind::Choice(_) | Kind::Base => {
            has_intent &= param.constant;
            if face == Face::F08 {
                let asynchronous = if is_asynchronous(binding) { ", ASYNCHRONOUS" } else { "" };
                format!("TYPE(*), DIMENSION(..){asynchronous}")
            } else {
                shape = "(*)".into();
                "TYPE(*)".into()
            }
        }
        Kind::Procedure => {
            has_intent = false;
            if face == Face::F08 { format!("PROCEDURE({})", param.base) } else { "EXTERNAL".into() }
        }
    };
    let intent = match (argument.is_read, argument.is_written) {
        (true, false) => ", INTENT(IN)",
        (false, true) if shape.is_empty() => ", INTENT(OUT)",
        (true, true) if shape.is_empty() => ", INTENT(INOUT)",
        _ => "",
    };
    (format!("{class}{}", if has_intent { intent } else { "" }), shape)
}

/// Whether a buffer may be used after the call's end.
fn is_asynchronous(binding: &Binding<'_>) -> bool {
    let name = binding.short();
    binding.is_nonblocking()
        || ["Put", "Get", "ccumulate", "Win_", "ttach", "_begin", "_end", "Fetch_", "Compare_", "Free_mem"]
            .iter()
            .any(|part| name.contains(part))
}

/// A procedure's interface body; `symbol` is the linker name of a form with descriptors.
fn body(binding: &Binding<'_>, name: &str, symbol: Option<&str>, face: Face) -> Vec<String> {
    let names: Vec<&str> =
        binding.arguments.iter().map(|a| a.param.name.as_str()).chain(["ierror"]).collect();
    let bind = symbol.map(|symbol| format!(" BIND(C, name=\"{symbol}\")")).unwrap_or_default();
    let mut lines = vec![format!("SUBROUTINE {name}({}){bind}", names.join(", "))];
    if face != Face::Include {
        lines.push("IMPORT".into());
    }
    for argument in &binding.arguments {
        let (class, shape) = declaration(binding, argument, face);
        let name = &argument.param.name;
        let is_free = face == Face::Include && !class.starts_with("CHARACTER") || class == "TYPE(*)";
        if class == "EXTERNAL" {
            lines.push(format!("EXTERNAL {name}"));
            continue;
        }
        lines.push(format!("{class} :: {name}{shape}"));
        if is_free {
            lines.push(format!("!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}"));
            lines.push(format!("!DIR$ IGNORE_TKR {name}"));
        }
    }
    lines.push(
        if face == Face::F08 { "INTEGER, OPTIONAL, INTENT(OUT) :: ierror" } else { "INTEGER ierror" }.into(),
    );
    lines.push("END SUBROUTINE".into());
    lines
}

fn include_interfaces(bindings: &[Binding<'_>]) -> String {
    let mut out = String::new();
    for binding in bindings.iter().filter(|b| b.has_choice() && !b.is_large) {
        for prefix in ["", "P"] {
            let name = format!("{prefix}{}", binding.generic()).to_uppercase();
            for line in body(binding, &name, None, Face::Include) {
                put(&mut out, format_args!("{}", fixed(&line)));
            }
        }
    }
    out
}

/// Procedures of `mpi` that give an address as a number or as TYPE(C_PTR).
const WITH_POINTER: [&str; 4] = ["Alloc_mem", "Win_allocate", "Win_allocate_shared", "Win_shared_query"];

fn mpi_interfaces(bindings: &[Binding<'_>]) -> String {
    let mut out = String::new();
    for binding in bindings.iter().filter(|b| !b.is_large && !is_own_text(b)) {
        for prefix in ["", "P"] {
            let name = format!("{prefix}{}", binding.generic());
            if WITH_POINTER.contains(&binding.short()) {
                let pointer: Vec<String> = body(binding, &format!("{name}_f08"), None, Face::Mpi)
                    .into_iter()
                    .map(|line| match line.ends_with(":: baseptr") {
                        true => "TYPE(C_PTR) :: baseptr".to_owned(),
                        false => line,
                    })
                    .collect();
                let number = body(binding, &name, None, Face::Mpi);
                write_interface(&mut out, &name, &[number, pointer]);
            } else {
                write_interface(&mut out, "", &[body(binding, &name, None, Face::Mpi)]);
            }
        }
    }
    out
}

/// Values instead of error codes: the templates have them.
pub(super) fn is_own_text(binding: &Binding<'_>) -> bool {
    binding.is_function() || binding.short() == "Pcontrol"
}

fn f08_interfaces(bindings: &[Binding<'_>]) -> String {
    let mut out = String::new();
    for binding in bindings.iter().filter(|b| !b.is_large && !is_own_text(b)) {
        if binding.function.deprecated.as_deref() == Some("2.0") {
            continue;
        }
        let large = bindings.iter().find(|b| b.is_large && b.generic() == binding.generic());
        // Two names, not two forms of one (19.2).
        let is_two_names = matches!(binding.short(), "Op_create" | "Register_datarep");
        for prefix in ["", "P"] {
            let forms = [Some(binding), large.filter(|l| is_two_names || types(l) != types(binding))];
            let bodies: Vec<Vec<String>> = forms
                .into_iter()
                .flatten()
                .map(|form| {
                    let symbol = form.has_choice().then(|| descriptor_name(form, prefix));
                    let end = if form.has_choice() { "_f08ts" } else { "_f08" };
                    body(form, &format!("{prefix}MPI_{}{end}", form.short()), symbol.as_deref(), Face::F08)
                })
                .collect();
            let name = format!("{prefix}{}", binding.generic());
            match &bodies[..] {
                [small, large] if is_two_names => {
                    write_interface(&mut out, &name, std::slice::from_ref(small));
                    write_interface(&mut out, &format!("{name}_c"), std::slice::from_ref(large));
                }
                bodies => write_interface(&mut out, &name, bodies),
            }
        }
    }
    out
}

/// The types of the arguments as a compiler distinguishes them: all large kinds are one.
fn types(binding: &Binding<'_>) -> Vec<String> {
    let class = |a| declaration(binding, a, Face::F08).0;
    let one =
        |class: String| class.replace("COUNT_KIND", "ADDRESS_KIND").replace("OFFSET_KIND", "ADDRESS_KIND");
    binding.arguments.iter().map(class).map(one).collect()
}

fn write_interface(out: &mut String, name: &str, bodies: &[Vec<String>]) {
    put(out, format_args!("INTERFACE {name}\n"));
    for line in bodies.iter().flatten() {
        put(out, format_args!("{}", free(line)));
    }
    put(out, format_args!("END INTERFACE\n"));
}

/// A statement in free form, at most 110 characters a line.
fn free(statement: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in statement.split(' ') {
        if line.len() + word.len() > 105 {
            put(&mut out, format_args!("{line}&\n  "));
            line.clear();
        }
        line += word;
        line.push(' ');
    }
    out + line.trim_end() + "\n"
}

/// A statement valid in both forms: columns 7 to 72, `&` in column 73 and in column 6 of the next line.
fn fixed(statement: &str) -> String {
    if statement.starts_with('!') {
        return format!("{statement}\n");
    }
    let mut out = String::new();
    let mut line = "      ".to_owned();
    for word in statement.split_inclusive([' ', ',']) {
        if line.len() + word.trim_end().len() > 72 {
            put(&mut out, format_args!("{:72}&\n", line.trim_end()));
            line = "     &".into();
        }
        line += word;
    }
    out + line.trim_end() + "\n"
}

/// The constants that Fortran has, with their groups.
fn constants(table: &Table) -> impl Iterator<Item = (&ConstantGroup, &Constant)> {
    let is_of_c =
        |name: &str| name.starts_with("MPI_T_") || name.starts_with("MPI_F_") || name.starts_with("MPIX_");
    let all = table.constants.iter().flat_map(|group| group.constants.iter().map(move |c| (group, c)));
    all.filter(move |(_, constant)| !is_of_c(&constant.name))
}

/// Constants that are integers in all ways: name, type and value. Strings have no zero at their end.
fn numbers(table: &Table) -> Vec<(&str, &'static str, String)> {
    constants(table)
        .filter_map(|(group, constant)| match &constant.value {
            ConstantValue::Macro(value) | ConstantValue::Enumerator(None, value) => {
                let mut value = decimal(value);
                if group.title.starts_with("Room that a string needs") {
                    value -= 1;
                }
                Some((constant.name.as_str(), "INTEGER", value.to_string()))
            }
            ConstantValue::Cast(class, value) if class == "MPI_Offset" => {
                Some((constant.name.as_str(), "INTEGER(KIND=8)", format!("{value}_8")))
            }
            _ => None,
        })
        .collect()
}

/// Constants that are handles: name, type and value.
fn handles(table: &Table) -> Vec<(&str, &str, i64)> {
    let find = |name: &str| constants(table).find(|(_, c)| c.name == name).map(|(_, c)| &c.value);
    constants(table)
        .filter_map(|(_, constant)| {
            let value = match &constant.value {
                ConstantValue::Alias(of) => find(of)?,
                value => value,
            };
            match value {
                ConstantValue::Cast(class, value) if table.is_handle(class) => {
                    Some((constant.name.as_str(), class.as_str(), decimal(value)))
                }
                _ => None,
            }
        })
        .collect()
}

/// The number that the table writes in one way or the other.
fn decimal(value: &str) -> i64 {
    let number = match value.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => value.parse(),
    };
    number.expect("the table's reader has looked at it")
}

/// Reals whose kind the options of a compiler may change (`-fdefault-real-8`): a letter, and one of them.
const REALS: [(&str, &str); 4] = [("R", "0.0"), ("D", "0D0"), ("S", "0.0_4"), ("E", "0.0_8")];
/// Kinds that they may have.
const KINDS: [u8; 4] = [4, 8, 10, 16];

/// Datatypes of such reals: name, letter, and the one that has each of the kinds.
const OF_REALS: [(&str, &str, [&str; KINDS.len()]); 8] = [
    ("MPI_REAL", "R", ["MPI_REAL", "MPI_DOUBLE", "MPI_LONG_DOUBLE", "MPI_REAL16"]),
    (
        "MPI_COMPLEX",
        "R",
        ["MPI_COMPLEX", "MPI_C_DOUBLE_COMPLEX", "MPI_C_LONG_DOUBLE_COMPLEX", "MPI_COMPLEX32"],
    ),
    ("MPI_2REAL", "R", ["MPI_2REAL", "MPI_2DOUBLE_PRECISION", "2 long double", "2 REAL16"]),
    ("MPI_DOUBLE_PRECISION", "D", ["MPI_FLOAT", "MPI_DOUBLE_PRECISION", "MPI_LONG_DOUBLE", "MPI_REAL16"]),
    (
        "MPI_DOUBLE_COMPLEX",
        "D",
        ["MPI_C_FLOAT_COMPLEX", "MPI_DOUBLE_COMPLEX", "MPI_C_LONG_DOUBLE_COMPLEX", "MPI_COMPLEX32"],
    ),
    ("MPI_2DOUBLE_PRECISION", "D", ["MPI_2REAL", "MPI_2DOUBLE_PRECISION", "2 long double", "2 REAL16"]),
    ("MPI_REAL4", "S", ["MPI_REAL4", "MPI_DOUBLE", "MPI_LONG_DOUBLE", "MPI_REAL16"]),
    (
        "MPI_COMPLEX8",
        "S",
        ["MPI_COMPLEX8", "MPI_C_DOUBLE_COMPLEX", "MPI_C_LONG_DOUBLE_COMPLEX", "MPI_COMPLEX32"],
    ),
];
/// Pairs that the binary interface has no names for, and the library all the same.
const UNNAMED: [(&str, i64); 2] = [("2 long double", 0x236), ("2 REAL16", 0x237)];

/// Numbers that are 1 if a real has a kind and 0 if not, and errors of compilation where it has none that is
/// known. REAL(8) must stay what it is: MPI_Wtime gives one.
fn kinds(face: Face) -> String {
    let mut out = String::new();
    let mut define = |name: &str, value: String| match face {
        Face::Include => {
            put(&mut out, format_args!("{}", fixed(&format!("INTEGER {name}"))));
            put(&mut out, format_args!("{}", fixed(&format!("PARAMETER ({name}={value})"))));
        }
        _ => put(
            &mut out,
            format_args!("{}", free(&format!("INTEGER, PARAMETER, PRIVATE :: {name} = {value}"))),
        ),
    };
    for (letter, real) in REALS {
        let name = |kind: &u8| format!("TUTTI_{letter}{kind}");
        for kind in KINDS {
            define(&name(&kind), format!("1-MIN(1,ABS(KIND({real})-{kind}))"));
        }
        define(&format!("TUTTI_KNOWS_{letter}"), format!("1/({})", KINDS.each_ref().map(name).join(" + ")));
    }
    define("TUTTI_NEEDS_REAL_8", "1/TUTTI_E8".into());
    out
}

/// The value of a handle: a number, or what the compiler finds by the kind of a real.
fn handle_value(handles: &[(&str, &str, i64)], name: &str, value: i64) -> String {
    let Some((_, letter, by_kind)) = OF_REALS.iter().find(|row| row.0 == name) else {
        return value.to_string();
    };
    let number = |of: &str| {
        let named = handles.iter().find(|handle| handle.0 == of).map(|handle| handle.2);
        let unnamed = || UNNAMED.iter().find(|pair| pair.0 == of).map(|pair| pair.1);
        named.or_else(unnamed).expect("a row of constants.txt, or a pair without a name")
    };
    let terms: Vec<String> =
        KINDS.iter().zip(by_kind).map(|(kind, of)| format!("{}*TUTTI_{letter}{kind}", number(of))).collect();
    terms.join(" + ")
}

fn include_constants(table: &Table) -> String {
    let mut out = String::new();
    let all = handles(table);
    let handles = all.iter().map(|(name, _, value)| (*name, "INTEGER", handle_value(&all, name, *value)));
    for (name, class, value) in numbers(table).into_iter().chain(handles) {
        put(&mut out, format_args!("{}", fixed(&format!("{class} {name}"))));
        put(&mut out, format_args!("{}", fixed(&format!("PARAMETER ({name}={value})"))));
    }
    out
}

fn plain_constants(table: &Table) -> String {
    let mut out = String::new();
    for (name, class, value) in numbers(table) {
        put(&mut out, format_args!("{class}, PARAMETER :: {name} = {value}\n"));
    }
    out
}

fn handle_constants(table: &Table, face: Face) -> String {
    let mut out = String::new();
    let all = handles(table);
    for (name, class, value) in &all {
        let value = handle_value(&all, name, *value);
        let line = match face {
            Face::F08 => format!("TYPE({class}), PARAMETER :: {name} = {class}({value})"),
            _ => format!("INTEGER, PARAMETER :: {name} = {value}"),
        };
        put(&mut out, format_args!("{}", free(&line)));
    }
    out
}

fn handle_names(table: &Table) -> impl Iterator<Item = &str> {
    table.types.iter().filter_map(|row| match &row.kind {
        TypeKind::Handle(name) => Some(name.as_str()),
        _ => None,
    })
}

fn handle_types(table: &Table) -> String {
    let mut out = String::new();
    for name in handle_names(table) {
        put(&mut out, format_args!("TYPE, BIND(C) :: {name}\n  INTEGER(C_INT) :: MPI_VAL\nEND TYPE\n"));
    }
    out
}

/// `==` and `/=` of handles. A result that is LOGICAL may not be bound to C, so each type has names of its
/// own.
fn operators(table: &Table) -> String {
    let mut out = String::new();
    for (operator, end) in [("==", "eq"), ("/=", "ne")] {
        put(&mut out, format_args!("INTERFACE OPERATOR({operator})\n"));
        for name in handle_names(table) {
            put(
                &mut out,
                format_args!(
                    "PURE LOGICAL FUNCTION {}_{end}(a, b)\nIMPORT\nTYPE({name}), INTENT(IN) :: a, b\nEND FUNCTION\n",
                    operator_function(name)
                ),
            );
        }
        put(&mut out, format_args!("END INTERFACE\n"));
    }
    out
}

fn operator_function(handle: &str) -> String {
    format!("tutti{}", &handle["MPI".len()..]).to_lowercase()
}

/// The linker names of the operators.
pub fn operator_names(table: &Table) -> Vec<(String, String)> {
    handle_names(table)
        .map(operator_function)
        .map(|name| (format!("{name}_eq_"), format!("{name}_ne_")))
        .collect()
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}
