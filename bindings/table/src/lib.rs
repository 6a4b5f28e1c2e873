//! The table of the MPI interface and the generators that read it.
//!
//! `bindings/mpi/` holds six files of facts: `constants.txt`, `types.txt`, `functions.txt`, `nulls.txt`,
//! `collectives.txt`, `calls.txt`. [`Table::load`] reads them (what arguments are, `parameters.txt`, is for
//! [`manual`] alone); the generators write from them, each one text:
//!
//! | module | text | who includes or builds it |
//! |---|---|---|
//! | [`rust_abi`] | types and constants for Rust | `crates/mpi/build.rs` |
//! | [`bodies`] | bodies of functions that differ by pattern only | `crates/mpi/build.rs` |
//! | [`exports`] | one exported function per name, MPI_X and PMPI_X | `bindings/libtutti/build.rs` |
//! | [`filter`] | `libmpi_abi.so.1`, in C | `tutti-dist` |
//! | [`header`] | `mpi.h` | `tutti-dist` |
//! | [`manual`] | manual pages of the functions | `tutti-dist` |
//! | [`page_manual`] | that of `tutti.hpp`, from the page for users | `tutti-dist` |
//! | [`shmem`] | the same of OpenSHMEM, from `bindings/shmem` | `bindings/libtutti/build.rs`, `tutti-dist` |
//!
//! This crate has no dependencies, because build scripts of other crates use it. A mistake in the table is an
//! error that names file and line; a generator never guesses.

pub mod bodies;
pub mod ctype;
pub mod entries;
pub mod exports;
pub mod filter;
pub mod fortran;
pub mod header;
pub mod manual;
pub mod mpich;
pub mod native;
pub mod native_manual;
pub mod nulls;
pub mod page_manual;
mod parse;
pub mod rust_abi;
pub mod shmem;

use ctype::Param;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// Everything that the table says.
#[derive(Debug, Default)]
pub struct Table {
    /// Groups of constants, in the order of the file.
    pub constants: Vec<ConstantGroup>,
    /// Types, in the order of the file.
    pub types: Vec<TypeRow>,
    /// Functions, in the order of the file; a large-count function follows the one that it belongs to.
    pub functions: Vec<Function>,
    /// Which arguments may be null pointers; the first line that fits counts.
    pub nulls: Vec<nulls::NullRule>,
    /// How the arguments of collective operations become work.
    pub collectives: Vec<bodies::collectives::Operation>,
    /// How the arguments of other functions become a call of the library, and its results theirs.
    pub calls: Vec<bodies::calls::Rule>,
}

/// A section of `constants.txt`.
#[derive(Debug)]
pub struct ConstantGroup {
    /// Title of the section, without the `+`.
    pub title: String,
    /// False for what Tutti adds to the Standard ABI.
    pub in_abi: bool,
    /// Rows of the section.
    pub constants: Vec<Constant>,
}

/// One constant.
#[derive(Debug)]
pub struct Constant {
    /// Name of the constant in C.
    pub name: String,
    /// How it is defined.
    pub value: ConstantValue,
}

/// The type and value of a constant.
#[derive(Debug, PartialEq, Eq)]
pub enum ConstantValue {
    /// An integer for the preprocessor; the text is the value.
    Macro(String),
    /// An enumerator; of a named enumeration type or of none.
    Enumerator(Option<String>, String),
    /// Another name of an earlier constant.
    Alias(String),
    /// An integer cast to a C type.
    Cast(String, String),
}

/// Line of `types.txt`.
#[derive(Debug)]
pub struct TypeRow {
    /// False for what Tutti adds to the Standard ABI.
    pub in_abi: bool,
    /// Declaration of the line.
    pub kind: TypeKind,
}

/// The kinds of type.
#[derive(Debug)]
pub enum TypeKind {
    /// An opaque handle.
    Handle(String),
    /// An opaque handle of the tools interface.
    ToolsHandle(String),
    /// An enumeration type.
    Enumeration(String),
    /// A function type of the user.
    Callback(Prototype),
    /// New name, old name of a callback.
    CallbackAlias(String, String),
}

/// Return type, name and parameters of a function.
#[derive(Debug, Clone)]
pub struct Prototype {
    /// The C type that it returns.
    pub returns: String,
    /// Name of the function in C.
    pub name: String,
    /// Parameters of the function; empty means `void`.
    pub params: Vec<Param>,
    /// Whether `...` follows the parameters.
    pub variadic: bool,
}

/// One function of the standard.
#[derive(Debug, Clone)]
pub struct Function {
    /// Prototype of the function.
    pub prototype: Prototype,
    /// The chapter of the standard.
    pub chapter: String,
    /// The version of the standard that brought it.
    pub since: String,
    /// The version that deprecated it.
    pub deprecated: Option<String>,
}

/// A mistake in a file of the table.
#[derive(Debug)]
pub struct TableError {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; 0 when the whole file is meant.
    pub line: usize,
    /// Text that says what is wrong.
    pub what: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

impl std::error::Error for TableError {}

impl Table {
    /// The names of the files of a table.
    pub const FILES: [&str; 6] =
        ["constants.txt", "types.txt", "functions.txt", "nulls.txt", "collectives.txt", "calls.txt"];

    /// Reads the table in folder `dir`.
    pub fn load(dir: &Path) -> Result<Table, TableError> {
        let mut table = Table::default();
        parse::read_lines(&dir.join("types.txt"), |line| parse::type_line(&mut table.types, line))?;
        parse::read_lines(&dir.join("constants.txt"), |line| {
            parse::constant_line(&mut table.constants, &table.types, line)
        })?;
        let mut chapter = String::new();
        parse::read_lines(&dir.join("functions.txt"), |line| {
            parse::function_line(&mut table.functions, &mut chapter, line)
        })?;
        parse::read_lines(&dir.join("nulls.txt"), |line| {
            table.nulls.push(nulls::NullRule::parse(line)?);
            Ok(())
        })?;
        let mut comment = String::new();
        parse::read_lines(&dir.join("collectives.txt"), |line| {
            let Table { collectives, functions, .. } = &mut table;
            bodies::collectives::line(collectives, &mut comment, functions, line)
        })?;
        comment.clear();
        parse::read_lines(&dir.join("calls.txt"), |line| {
            bodies::calls::line(&mut table, &mut comment, line)
        })?;
        table.check().and_then(|()| table.check_nulls()).map_err(|what| TableError {
            file: dir.to_owned(),
            line: 0,
            what,
        })?;
        Ok(table)
    }

    /// Every type that a function names must be known, and no name may stand twice.
    fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for Prototype { name, params, returns, .. } in self.functions.iter().map(|f| &f.prototype) {
            if !names.insert(name) {
                return Err(format!("`{name}` is here twice"));
            }
            for base in params.iter().map(|p| &p.base).chain([returns]) {
                if !self.is_type(base) {
                    return Err(format!("`{name}` uses the type `{base}`, which is in no line of types.txt"));
                }
            }
        }
        Ok(())
    }

    fn is_type(&self, name: &str) -> bool {
        const KNOWN: [&str; 8] =
            ["int", "char", "double", "void", "MPI_Aint", "MPI_Offset", "MPI_Count", "MPI_Status"];
        KNOWN.contains(&name)
            || self.is_callback(name)
            || self.types.iter().any(|row| match &row.kind {
                TypeKind::Handle(n) | TypeKind::ToolsHandle(n) | TypeKind::Enumeration(n) => n == name,
                _ => false,
            })
    }

    /// Whether it is an opaque handle.
    pub fn is_handle(&self, name: &str) -> bool {
        self.types.iter().any(|row| matches!(&row.kind, TypeKind::Handle(handle) if handle == name))
    }

    /// The names of callback types, aliases included: arguments of these types are addresses of functions.
    pub fn is_callback(&self, name: &str) -> bool {
        self.types.iter().any(|row| match &row.kind {
            TypeKind::Callback(prototype) => prototype.name == name,
            TypeKind::CallbackAlias(new, _) => new == name,
            _ => false,
        })
    }
}
