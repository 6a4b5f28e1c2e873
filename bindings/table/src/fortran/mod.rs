//! The Fortran bindings (MPI chapter 19), from the C prototypes and the facts in `fortran.txt`.
//!
//! [`Argument`] says how an argument of Fortran becomes one of C; from the same list come the bodies of
//! `libmpifort_abi.so.1` ([`exports`]), `mpif.h` and the modules ([`sources`]), and the prototypes in the
//! manual pages ([`prototype`]). A function of `mpi_f08` whose buffers are array descriptors is called a
//! *descriptor form* here; all other functions have the same arguments in the three ways to use Fortran.

pub mod exports;
pub mod prototype;
pub mod sources;

use crate::ctype::Param;
use crate::manual::fits;
use crate::parse::{read_lines, section};
use crate::{Function, Table, TableError};
use std::path::Path;

/// Lines of `fortran.txt`, by section.
#[derive(Debug, Default)]
pub struct Fortran {
    lists: [Vec<Line>; TITLES.len()],
}

/// Line of a section: a name or pattern, functions that are meant (all if none), and what is behind.
#[derive(Debug)]
struct Line {
    name: String,
    functions: Vec<String>,
    text: String,
}

/// The sections of the file, in its order.
const TITLES: [&str; 13] = [
    "Functions that the standard gives no Fortran binding",
    "Bodies by hand",
    "Arguments that are LOGICAL",
    "Arguments that are read and written",
    "Arguments that are an index",
    "Lengths of arrays of handles and logicals",
    "Room that a string needs",
    "Strings without leading blanks",
    "Sections that are copied to one place and back",
    "Buffers that must be contiguous",
    "Buffers of which the address is enough",
    "Arguments that are read only",
    "Buffers of partitions",
];
const NO_BINDING: usize = 0;
const BY_HAND: usize = 1;
const LOGICAL: usize = 2;
const INOUT: usize = 3;
const INDEX: usize = 4;
const LENGTHS: usize = 5;
const ROOM: usize = 6;
const NO_BLANKS: usize = 7;
const STAGED: usize = 8;
const CONTIGUOUS: usize = 9;
const ADDRESS: usize = 10;
const READ_ONLY: usize = 11;
const PARTITIONS: usize = 12;

/// How an argument travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A number that C takes by value.
    Value,
    /// A number, or an array of numbers, that C takes by address as it is.
    Place,
    /// A handle that C takes by value.
    Handle,
    /// A handle that C writes, or reads and writes.
    HandlePlace,
    /// An array of handles; its length as an expression of Rust.
    Handles(String),
    /// LOGICAL by value.
    Logical,
    /// LOGICAL that C writes.
    LogicalPlace,
    /// An array of LOGICAL; its length.
    Logicals(String),
    /// An index that C writes.
    Index,
    /// An array of indices that C writes, and how many it has written.
    Indices(String),
    /// A status or an array of them.
    Status,
    /// Weights of edges, which may be left out.
    Weights,
    /// A string that C reads; whether leading blanks are no part of it.
    Text(bool),
    /// A string that C writes; the room that it needs.
    TextPlace(String),
    /// A buffer of any type.
    Choice(Section),
    /// Where C writes the address of memory.
    Base,
    /// A function of the user.
    Procedure,
}

/// Treatment of a buffer that is an array section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Handed over where it lies, by a datatype for it: count and datatype are the next two arguments.
    Mapped,
    /// Copied to one place and back.
    Staged,
    /// Mapped, with a number of partitions behind the buffer.
    Partitions,
    /// Refused.
    Contiguous,
    /// Used for its address alone.
    Address,
}

/// An argument of Fortran.
#[derive(Debug, Clone)]
pub struct Argument {
    /// Parameter of the function of C.
    pub param: Param,
    /// How it travels.
    pub kind: Kind,
    /// Whether the call reads it, and whether it writes it.
    pub is_read: bool,
    /// Whether the call writes it.
    pub is_written: bool,
}

/// A function and its arguments, without `ierror`.
#[derive(Debug)]
pub struct Binding<'a> {
    /// The function of C.
    pub function: &'a Function,
    /// In order.
    pub arguments: Vec<Argument>,
    /// Whether its bodies are written by hand.
    pub is_by_hand: bool,
    /// Whether it is the large-count form of another function.
    pub is_large: bool,
}

impl Fortran {
    /// The name of the file.
    pub const FILE: &'static str = "fortran.txt";

    /// Reads it from the folder `facts`.
    pub fn load(facts: &Path) -> Result<Fortran, TableError> {
        let mut fortran = Fortran::default();
        let mut at = None;
        read_lines(&facts.join(Fortran::FILE), |line| {
            if let Some((title, _)) = section(line) {
                let place = TITLES.iter().position(|known| *known == title);
                at = Some(place.ok_or_else(|| format!("`{title}` is no section of this file"))?);
                return Ok(());
            }
            let (key, text) = line.split_once(' ').unwrap_or((line, ""));
            let (name, functions) = key.split_once('@').unwrap_or((key, ""));
            let functions = functions.split(',').filter(|f| !f.is_empty()).map(str::to_owned).collect();
            let line = Line { name: name.to_owned(), functions, text: text.trim().to_owned() };
            fortran.lists[at.ok_or("a line before the first section")?].push(line);
            Ok(())
        })?;
        Ok(fortran)
    }

    /// Whether a call reads what the argument leads to, and whether it writes it.
    pub fn direction(&self, function: &str, param: &Param) -> (bool, bool) {
        let is_place = param.stars > 0 || !param.dims.is_empty();
        let is_read_only = self.of(READ_ONLY, function, &param.name).is_some();
        let is_inout = self.of(INOUT, function, &param.name).is_some();
        (
            is_read_only || !is_place || param.constant || is_inout,
            !is_read_only && is_place && !param.constant,
        )
    }

    /// The length of an array of handles or logicals, as an expression of Rust over the arguments.
    pub fn length(&self, function: &str, argument: &str) -> Option<&str> {
        self.of(LENGTHS, function, argument)
    }

    fn has_function(&self, list: usize, function: &str) -> bool {
        self.lists[list].iter().any(|line| fits(&line.name, function))
    }

    /// The text of the first line about an argument.
    fn of(&self, list: usize, function: &str, argument: &str) -> Option<&str> {
        let found = self.lists[list].iter().find(|line| {
            fits(&line.name, argument)
                && (line.functions.is_empty() || line.functions.iter().any(|f| fits(f, function)))
        })?;
        Some(&found.text)
    }

    /// All functions that have a Fortran binding.
    ///
    /// # Errors
    /// An argument that nothing is known about.
    pub fn bindings<'a>(&self, table: &'a Table) -> Result<Vec<Binding<'a>>, String> {
        let mut bindings = Vec::new();
        for function in &table.functions {
            let name = &function.prototype.name["MPI_".len()..];
            if self.has_function(NO_BINDING, name) {
                continue;
            }
            let small = name.strip_suffix("_c").map(|small| format!("MPI_{small}"));
            bindings.push(Binding {
                function,
                arguments: self.arguments(table, function)?,
                is_by_hand: self.has_function(BY_HAND, name),
                is_large: small.is_some_and(|s| table.functions.iter().any(|f| f.prototype.name == s)),
            });
        }
        Ok(bindings)
    }

    fn arguments(&self, table: &Table, function: &Function) -> Result<Vec<Argument>, String> {
        let name = &function.prototype.name["MPI_".len()..];
        let params = &function.prototype.params;
        let params = params
            .iter()
            .enumerate()
            .filter(|(_, p)| !matches!(p.name.as_str(), "argc" | "argv") || name.starts_with("Comm_spawn"));
        params
            .map(|(at, param)| {
                let behind = &function.prototype.params[at + 1..];
                let kind = self.kind(table, name, param, behind).ok_or_else(|| {
                    format!("fortran.txt: `{}` of MPI_{name} is not understood", param.name)
                })?;
                let (is_read, is_written) = self.direction(name, param);
                let is_procedure = kind == Kind::Procedure;
                Ok(Argument {
                    param: param.clone(),
                    is_read: is_read || is_procedure,
                    is_written: is_written && !is_procedure,
                    kind,
                })
            })
            .collect()
    }

    fn kind(&self, table: &Table, function: &str, param: &Param, behind: &[Param]) -> Option<Kind> {
        let is_place = param.stars > 0 || !param.dims.is_empty();
        let is_array = !param.dims.is_empty();
        let about = |list| self.of(list, function, &param.name);
        let length = || about(LENGTHS).map(str::to_owned);
        Some(match param.base.as_str() {
            base if table.is_callback(base) => Kind::Procedure,
            "void" if matches!(param.name.as_str(), "baseptr" | "buffer_addr") => Kind::Base,
            "void" if matches!(param.name.as_str(), "attribute_val" | "extra_state") => Kind::Place,
            "void" => Kind::Choice(self.section(function, behind)),
            "char" if param.constant => Kind::Text(about(NO_BLANKS).is_some()),
            "char" if param.stars == 1 && !is_array => match about(ROOM) {
                Some(room) => Kind::TextPlace(room.to_owned()),
                None => Kind::TextPlace(String::new()),
            },
            "char" => Kind::Place,
            "MPI_Status" => Kind::Status,
            "int" if about(LOGICAL).is_some() => match (is_array, is_place) {
                (true, _) => Kind::Logicals(length()?),
                (_, true) => Kind::LogicalPlace,
                _ => Kind::Logical,
            },
            "int" if about(INDEX).is_some() => match is_array {
                true => Kind::Indices(length()?),
                false => Kind::Index,
            },
            "int" if param.stars == 1 && param.name.ends_with("weights") => Kind::Weights,
            "int" | "MPI_Aint" | "MPI_Count" | "MPI_Offset" => {
                if is_place {
                    Kind::Place
                } else {
                    Kind::Value
                }
            }
            base if table.is_handle(base) => match (is_array, is_place) {
                (true, _) => match length() {
                    Some(length) => Kind::Handles(length),
                    None => Kind::Place,
                },
                (_, true) => Kind::HandlePlace,
                _ => Kind::Handle,
            },
            _ => return None,
        })
    }

    fn section(&self, function: &str, behind: &[Param]) -> Section {
        let is_triple = matches!(behind, [count, datatype, ..]
            if matches!(count.base.as_str(), "int" | "MPI_Count") && count.dims.is_empty() && count.stars == 0
                && datatype.base == "MPI_Datatype" && datatype.dims.is_empty() && datatype.stars == 0);
        if self.has_function(ADDRESS, function) {
            Section::Address
        } else if self.has_function(CONTIGUOUS, function) {
            Section::Contiguous
        } else if self.has_function(PARTITIONS, function) {
            Section::Partitions
        } else if is_triple && !self.has_function(STAGED, function) {
            Section::Mapped
        } else {
            Section::Staged
        }
    }
}

impl Binding<'_> {
    /// The name without `MPI_`.
    pub fn short(&self) -> &str {
        &self.function.prototype.name["MPI_".len()..]
    }

    /// The name that a user writes.
    pub fn generic(&self) -> &str {
        let name = self.function.prototype.name.as_str();
        if self.is_large { &name[..name.len() - 2] } else { name }
    }

    /// Whether it has buffers of any type.
    pub fn has_choice(&self) -> bool {
        self.arguments.iter().any(|a| matches!(a.kind, Kind::Choice(_)))
    }

    /// Whether the operation is at its end only when a request is.
    pub fn is_nonblocking(&self) -> bool {
        self.arguments.iter().any(|a| a.param.base == "MPI_Request" && a.is_written)
    }

    /// Whether the C function gives a value that is no error code.
    pub fn is_function(&self) -> bool {
        self.function.prototype.returns != "int"
    }
}
