//! Fortran prototypes for the manual pages: those of `mpi_f08`, and those of `mpi` and `mpif.h`.

use super::sources::{Face, declaration, is_own_text};
use super::{Binding, Fortran, Kind};
use crate::Table;
use std::collections::BTreeMap;

/// Columns of a line.
const WIDTH: usize = 78;

/// By the name of each function that Fortran has, both prototypes as the standard writes them.
///
/// # Errors
/// An argument that nothing is known about.
pub fn all(table: &Table, fortran: &Fortran) -> Result<BTreeMap<String, String>, String> {
    let bindings = fortran.bindings(table)?;
    let written = bindings.iter().filter(|binding| !is_own_text(binding));
    Ok(written.map(|binding| (binding.function.prototype.name.clone(), of(binding))).collect())
}

fn of(binding: &Binding<'_>) -> String {
    let mut forms = Vec::new();
    // `mpi_f08` has nothing that MPI-2.0 deprecated.
    if binding.function.deprecated.as_deref() != Some("2.0") {
        forms.push(form(binding, Face::F08));
    }
    // Large counts are a form of `mpi_f08` alone.
    if !binding.is_large {
        forms.push(form(binding, Face::Mpi));
    }
    forms.join("\n")
}

fn form(binding: &Binding<'_>, face: Face) -> String {
    let cased = |text: &str| if face == Face::F08 { text.to_owned() } else { text.to_uppercase() };
    let names = binding.arguments.iter().map(|argument| argument.param.name.as_str()).chain(["ierror"]);
    let names: Vec<String> = names.map(cased).collect();
    let mut lines = vec![format!("{}({})", cased(binding.generic()), names.join(", "))];
    // Consecutive arguments of one type share a line.
    let mut last = String::new();
    let arguments = binding.arguments.iter().map(|argument| {
        let (class, shape) = declaration(binding, argument, face);
        let is_choice = matches!(argument.kind, Kind::Choice(_));
        let class = if is_choice && face == Face::Mpi { "<type>".to_owned() } else { class };
        (class, cased(&argument.param.name) + &shape)
    });
    let error = if face == Face::F08 { "INTEGER, OPTIONAL, INTENT(OUT)" } else { "INTEGER" };
    for (class, name) in arguments.chain([(error.to_owned(), cased("ierror"))]) {
        if class == last {
            let line = lines.last_mut().expect("the head is there");
            *line += &format!(", {name}");
        } else {
            let between = if face == Face::F08 { " :: " } else { " " };
            lines.push(format!("{class}{between}{name}"));
            last = class;
        }
    }
    let [head, rest @ ..] = &lines[..] else { unreachable!("the head is there") };
    let uses = if face == Face::F08 { "USE mpi_f08" } else { "USE mpi  ! or INCLUDE 'mpif.h'" };
    let rest: String = rest.iter().map(|line| wrapped(line, "    ")).collect();
    format!("{uses}\n{}{rest}", wrapped(head, ""))
}

/// A statement with spaces before it, on as many lines as it needs.
fn wrapped(statement: &str, indent: &str) -> String {
    let (mut out, mut line) = (String::new(), indent.to_owned());
    for word in statement.split_inclusive(", ") {
        if line.len() + word.len() > WIDTH && line.trim() != "" {
            out += &format!("{} &\n", line.trim_end());
            line = format!("{indent}        ");
        }
        line += word;
    }
    out + line.trim_end() + "\n"
}
