//! The table of the MPI interface and the generators that read it.
//!
//! `bindings/mpi/` holds three files of facts: `constants.txt`, `types.txt`, `functions.txt`. [`Table::load`] reads them; the
//! generators write from them, each one text:
//!
//! | module | text | who includes or builds it |
//! |---|---|---|
//! | [`rust_abi`] | types and constants for Rust | `crates/mpi/build.rs` |
//!
//! This crate has no dependencies, because build scripts of other crates use it. A mistake in the table is an error that names
//! file and line; a generator never guesses.

pub mod ctype;
mod parse;
pub mod rust_abi;

use ctype::Param;
use std::fmt;
use std::path::{Path, PathBuf};

/// Everything that the table says.
#[derive(Debug, Default)]
pub struct Table {
    /// Groups of constants, in the order of the file.
    pub constants: Vec<ConstantGroup>,
    /// Types, in the order of the file.
    pub types: Vec<TypeRow>,
}

/// A section of `constants.txt`.
#[derive(Debug)]
pub struct ConstantGroup {
    /// Its title, without the `+`.
    pub title: String,
    /// False for what Tutti adds to the Standard ABI.
    pub in_abi: bool,
    /// Its rows.
    pub constants: Vec<Constant>,
}

/// One constant.
#[derive(Debug)]
pub struct Constant {
    /// Its C name.
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

/// One line of `types.txt`.
#[derive(Debug)]
pub struct TypeRow {
    /// False for what Tutti adds to the Standard ABI.
    pub in_abi: bool,
    /// What the line declares.
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
    /// Its C name.
    pub name: String,
    /// Its parameters; empty means `void`.
    pub params: Vec<Param>,
    /// Whether `...` follows the parameters.
    pub variadic: bool,
}

/// A mistake in a file of the table.
#[derive(Debug)]
pub struct TableError {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong.
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
    pub const FILES: [&str; 2] = ["constants.txt", "types.txt"];

    /// Reads the table in folder `dir`.
    pub fn load(dir: &Path) -> Result<Table, TableError> {
        let mut table = Table::default();
        parse::read_lines(&dir.join("types.txt"), |line| parse::type_line(&mut table.types, line))?;
        parse::read_lines(&dir.join("constants.txt"), |line| {
            parse::constant_line(&mut table.constants, &table.types, line)
        })?;
        Ok(table)
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
