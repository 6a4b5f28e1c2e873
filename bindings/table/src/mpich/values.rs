//! Writes the tables of numbers: MPICH's constants, predefined handles in both directions, and a function in
//! both directions for each role.

use super::{Mpich, Role, number, slug};
use crate::{ConstantGroup, ConstantValue, Table, TypeKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Our predefined handles are below this, but for those that the standard has removed.
const PREDEFINED_END: usize = 0x300;
/// The top byte of MPICH's datatypes that are not pairs; the lowest byte tells them apart.
const BASIC: u32 = 0x4c;

/// MPICH's own datatypes, which our interface has no name for: its number, ours.
const EXTENSIONS: [(u32, usize); 1] = [
    // MPIX_C_FLOAT16; ours is in `crates/mpi/src/datatype/predefined.rs`.
    (0x4c00_0246, 0x24a),
];

/// The text of a Rust module that has the types of our interface.
///
/// # Errors
/// A constant that is needed and has no value in `mpich.txt`, or two that cannot be told apart.
pub fn generate(table: &Table, mpich: &Mpich) -> Result<String, String> {
    let mut out = String::new();
    write_constants(&mut out, table, mpich);
    write_handles(&mut out, table, mpich)?;
    for (role, _) in &mpich.roles {
        match role {
            Role::One(title) => write_one(&mut out, mpich, group(table, title), Otherwise::Argument),
            Role::Bits(title) => write_bits(&mut out, mpich, group(table, title)),
            Role::Number | Role::Rank | Role::Tag | Role::Error | Role::Key | Role::BlockSize => {}
        }
    }
    for title in ["Error classes", "Error classes of the tools interface"] {
        write_one(&mut out, mpich, group(table, title), Otherwise::Missing);
    }
    for title in ["Attribute keys of communicators", "Attribute keys of windows"] {
        write_one(&mut out, mpich, group(table, title), Otherwise::Itself);
    }
    for title in ["Window flavours", "Window memory models"] {
        write_one(&mut out, mpich, group(table, title), Otherwise::Missing);
    }
    Ok(out)
}

/// The number that one without a meaning becomes: none of the constants of either side.
const MISSING: &str = "ABSENT";

/// The number that one becomes that is none of the group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// [`MISSING`].
    Missing,
    /// The same.
    Itself,
    /// The same for ours, which names it in its error, unless it would have a meaning there; [`MISSING`] for
    /// theirs.
    Argument,
}

fn group<'a>(table: &'a Table, title: &str) -> &'a ConstantGroup {
    table.constants.iter().find(|group| group.title == title).expect("roles name groups that exist")
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}

/// MPICH's constants that are plain integers, in a module of their own.
fn write_constants(out: &mut String, table: &Table, mpich: &Mpich) {
    out.push_str("/// The constants of MPICH.\n#[allow(dead_code, reason = \"all of the table\")]\npub(crate) mod mpich {\n");
    for (name, value) in &mpich.values {
        let Some((_, constant)) = table.constant(name) else { continue };
        let (class, value) = match &constant.value {
            ConstantValue::Cast(class, _) if class == "MPI_Offset" => ("i64", value.to_string()),
            ConstantValue::Cast(class, _) if class.contains('*') => ("isize", value.to_string()),
            _ => ("i32", (*value as i32).to_string()),
        };
        put(out, format_args!("    pub(crate) const {name}: {class} = {value};\n"));
    }
    out.push_str("}\n\n");
}

/// A predefined handle: its name, our number, MPICH's.
type Predefined = (String, i64, i64);

/// The handle types, each with its constants.
fn handles(table: &Table, mpich: &Mpich) -> Result<BTreeMap<String, Vec<Predefined>>, String> {
    let mut handles = BTreeMap::new();
    for row in &table.types {
        if let TypeKind::Handle(name) = &row.kind {
            handles.insert(name.clone(), Vec::new());
        }
    }
    for constant in table.constants.iter().flat_map(|group| &group.constants) {
        let ConstantValue::Cast(class, text) = &constant.value else { continue };
        let Some(list) = handles.get_mut(class) else { continue };
        let theirs = mpich.value(&constant.name);
        let theirs = theirs.ok_or_else(|| format!("mpich.txt has no value of `{}`", constant.name))?;
        list.push((constant.name.clone(), number(text), theirs));
    }
    Ok(handles)
}

fn write_handles(out: &mut String, table: &Table, mpich: &Mpich) -> Result<(), String> {
    let handles = handles(table, mpich)?;
    let mut theirs = vec![0_u32; PREDEFINED_END];
    for (name, ours, value) in handles.values().flatten() {
        match theirs.get_mut(*ours as usize) {
            Some(place) => *place = *value as u32,
            None if matches!(name.as_str(), "MPI_LB" | "MPI_UB") => {}
            None => return Err(format!("`{name}` is beyond the table of predefined handles")),
        }
    }
    for (value, ours) in EXTENSIONS {
        theirs[ours] = value;
    }
    put(
        out,
        format_args!(
            "/// MPICH's predefined handles by our numbers; 0 where there is none.\n\
             pub(crate) static PREDEFINED: [c_int; {PREDEFINED_END}] = ["
        ),
    );
    for value in theirs {
        put(out, format_args!("{}, ", value as i32));
    }
    out.push_str("];\n\n");
    // A file is a pointer there; its only predefined value is null.
    for (class, list) in handles.iter().filter(|(class, _)| *class != "MPI_File") {
        write_predefined(out, class, list)?;
    }
    Ok(())
}

/// The function that makes MPICH's predefined handles of a type ours.
fn write_predefined(out: &mut String, class: &str, list: &[Predefined]) -> Result<(), String> {
    let (basic, others): (Vec<_>, Vec<_>) =
        list.iter().partition(|(_, _, theirs)| class == "MPI_Datatype" && *theirs as u32 >> 24 == BASIC);
    put(
        out,
        format_args!(
            "/// Our number of a predefined handle of MPICH; [`NO_HANDLE`] if it is none.\n\
             pub(crate) fn predefined_{class}(handle: c_int) -> usize {{\n"
        ),
    );
    if !basic.is_empty() {
        let mut by_byte = vec![(0_u32, 0_usize); 256];
        for (name, ours, theirs) in basic {
            let place = &mut by_byte[*theirs as usize & 0xff];
            if place.0 != 0 {
                return Err(format!("`{name}` has the lowest byte of another datatype"));
            }
            *place = (*theirs as u32, *ours as usize);
        }
        put(
            out,
            format_args!(
                "    /// By the lowest byte: MPICH's handle, and ours.\n    static BASIC: [(c_int, usize); 256] = ["
            ),
        );
        for (theirs, ours) in by_byte {
            put(out, format_args!("({}, {ours}), ", theirs as i32));
        }
        out.push_str("];\n    let (known, ours) = BASIC[handle as usize & 0xff];\n    if known == handle && handle != 0 {\n        return ours;\n    }\n");
    }
    out.push_str("    match handle {\n");
    let mut seen = BTreeSet::new();
    for (name, ours, theirs) in others {
        if !seen.insert(*theirs as u32) {
            return Err(format!("`{name}` has the number of another {class}"));
        }
        put(out, format_args!("        {} => {ours},\n", *theirs as u32 as i32));
    }
    for (theirs, ours) in EXTENSIONS.iter().filter(|_| class == "MPI_Datatype") {
        put(out, format_args!("        {} => {ours},\n", *theirs as i32));
    }
    out.push_str("        _ => NO_HANDLE,\n    }\n}\n\n");
    Ok(())
}

/// Both directions of a group of which one constant is given.
fn write_one(out: &mut String, mpich: &Mpich, group: &ConstantGroup, otherwise: Otherwise) {
    let pairs: Vec<(i64, i64)> = pairs(mpich, group);
    let name = slug(&group.title);
    for (direction, from_theirs) in [("in", true), ("out", false)] {
        put(
            out,
            format_args!(
                "/// {}.\n#[allow(dead_code, reason = \"both directions of all\")]\n\
                 pub(crate) fn {direction}_{name}(value: c_int) -> c_int {{\n    match value {{\n",
                group.title
            ),
        );
        let mut seen = BTreeSet::new();
        for (ours, theirs) in &pairs {
            let (from, to) = if from_theirs { (theirs, ours) } else { (ours, theirs) };
            if seen.insert(*from) {
                put(out, format_args!("        {from} => {to},\n"));
            }
        }
        out.push_str("        MPI_UNDEFINED => MPI_UNDEFINED,\n");
        let is_argument = otherwise == Otherwise::Argument && from_theirs;
        for (ours, _) in pairs.iter().filter(|(ours, _)| is_argument && seen.insert(*ours)) {
            put(out, format_args!("        {ours} => {MISSING},\n"));
        }
        let rest = if is_argument || otherwise == Otherwise::Itself { "value" } else { MISSING };
        put(out, format_args!("        _ => {rest},\n    }}\n}}\n\n"));
    }
}

/// Both directions of a group of bits; a bit that the other side does not know makes the number meaningless.
fn write_bits(out: &mut String, mpich: &Mpich, group: &ConstantGroup) {
    let pairs = pairs(mpich, group);
    let name = slug(&group.title);
    for (direction, from_theirs) in [("in", true), ("out", false)] {
        put(
            out,
            format_args!(
                "/// {}.\n#[allow(dead_code, reason = \"both directions of all\")]\n\
                 pub(crate) fn {direction}_{name}(value: c_int) -> c_int {{\n    \
                 let (mut rest, mut bits) = (value, 0);\n    for (from, to) in [",
                group.title
            ),
        );
        for (ours, theirs) in &pairs {
            let (from, to) = if from_theirs { (theirs, ours) } else { (ours, theirs) };
            put(out, format_args!("({from}, {to}), "));
        }
        let known = pairs.iter().fold(0, |all, (ours, theirs)| all | if from_theirs { ours } else { theirs });
        // Ours names a bit that is none in its error, unless it would have a meaning there.
        put(
            out,
            format_args!(
                "] {{\n        if rest & from != 0 {{\n            rest &= !from;\n            bits |= to;\n        }}\n    }}\n    \
                 if rest & {known} == 0 {{ bits | rest }} else {{ ABSENT }}\n}}\n\n"
            ),
        );
    }
}

fn pairs(mpich: &Mpich, group: &ConstantGroup) -> Vec<(i64, i64)> {
    let known = group.constants.iter().filter_map(|c| Some((c.number()?, mpich.value(&c.name)?)));
    known.collect()
}
