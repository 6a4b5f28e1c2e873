//! MPICH's binary interface over ours: `libmpi.so.12`, from the C prototypes, the values in `mpich.txt` and
//! the meaning of integers in `roles.txt`.
//!
//! [`values`] writes the tables of numbers, [`exports`] the functions, each of which turns its arguments into
//! ours, calls ours through the table of entries ([`crate::entries`]), and turns results back.
//! [`fortran_values`] is for the Fortran library over it.

pub mod exports;
pub mod fortran_values;
pub mod values;

use crate::ctype::Param;
use crate::manual::fits;
use crate::parse::{integer, read_lines, section};
use crate::{Constant, ConstantGroup, ConstantValue, Table, TableError};
use std::collections::BTreeMap;
use std::path::Path;

/// Facts of `mpich.txt` and `roles.txt`.
#[derive(Debug, Default)]
pub struct Mpich {
    /// The value of each constant there.
    values: BTreeMap<String, i64>,
    /// Roles with the arguments that have them.
    roles: Vec<(Role, Vec<Pattern>)>,
}

/// The meaning of an integer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// A number that is the same in both.
    Number,
    /// A rank, or what may stand in its place.
    Rank,
    /// A tag, or MPI_ANY_TAG.
    Tag,
    /// An error class or code.
    Error,
    /// A key of attributes.
    Key,
    /// The size of a block of a distributed array, or its default.
    BlockSize,
    /// One constant of a group.
    One(String),
    /// Constants of a group, added up.
    Bits(String),
}

#[derive(Debug)]
struct Pattern {
    name: String,
    functions: Vec<String>,
}

impl Role {
    fn of_title(table: &Table, title: &str) -> Result<Role, String> {
        Ok(match title {
            "Plain numbers" => Role::Number,
            "Ranks" => Role::Rank,
            "Tags" => Role::Tag,
            "Error codes" => Role::Error,
            "Keys" => Role::Key,
            "Sizes of blocks" => Role::BlockSize,
            title if !table.constants.iter().any(|group| group.title == title) => {
                return Err(format!("`{title}` is no group of constants.txt"));
            }
            title if title.ends_with("to be added up") => Role::Bits(title.to_owned()),
            title => Role::One(title.to_owned()),
        })
    }

    /// The end of the names of the functions that translate it: `in_SLUG` makes it ours, `out_SLUG` MPICH's.
    pub fn slug(&self) -> String {
        match self {
            Role::Number => "number".into(),
            Role::Rank => "rank".into(),
            Role::Tag => "tag".into(),
            Role::Error => "error".into(),
            Role::Key => "key".into(),
            Role::BlockSize => "block_size".into(),
            Role::One(title) | Role::Bits(title) => slug(title),
        }
    }
}

/// A name of Rust made of a title.
fn slug(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

impl Pattern {
    fn parse(line: &str) -> Pattern {
        let (name, functions) = line.split_once('@').unwrap_or((line, ""));
        let functions = functions.split(',').filter(|f| !f.is_empty()).map(str::to_owned).collect();
        Pattern { name: name.to_owned(), functions }
    }

    fn is_about(&self, function: &str, argument: &str) -> bool {
        fits(&self.name, argument)
            && (self.functions.is_empty() || self.functions.iter().any(|f| fits(f, function)))
    }
}

impl Mpich {
    /// The names of its files.
    pub const FILES: [&'static str; 2] = ["mpich.txt", "roles.txt"];

    /// Reads them from the folder `facts`.
    ///
    /// # Errors
    /// A line that is not understood; a constant or a group that `constants.txt` does not have.
    pub fn load(table: &Table, facts: &Path) -> Result<Mpich, TableError> {
        let mut mpich = Mpich::default();
        read_lines(&facts.join("mpich.txt"), |line| {
            if section(line).is_some() {
                return Ok(());
            }
            let [name, value] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                return Err(format!("expected name and value: `{line}`"));
            };
            if table.constant(name).is_none() {
                return Err(format!("`{name}` is no constant of constants.txt"));
            }
            let value = number(&integer(value)?);
            match mpich.values.insert(name.to_owned(), value) {
                None => Ok(()),
                Some(_) => Err(format!("`{name}` is here twice")),
            }
        })?;
        read_lines(&facts.join("roles.txt"), |line| {
            if let Some((title, _)) = section(line) {
                mpich.roles.push((Role::of_title(table, &title)?, Vec::new()));
                return Ok(());
            }
            let (_, patterns) = mpich.roles.last_mut().ok_or("a line before the first section")?;
            patterns.push(Pattern::parse(line));
            Ok(())
        })?;
        Ok(mpich)
    }

    /// The role of an argument. A pattern that names functions counts before one that does not.
    ///
    /// # Errors
    /// None, or more than one.
    pub fn role(&self, function: &str, argument: &str) -> Result<&Role, String> {
        for with_functions in [true, false] {
            let is_about = |pattern: &Pattern| {
                pattern.functions.is_empty() != with_functions && pattern.is_about(function, argument)
            };
            let found: Vec<&Role> = self
                .roles
                .iter()
                .filter(|(_, patterns)| patterns.iter().any(is_about))
                .map(|(role, _)| role)
                .collect();
            match found[..] {
                [] => continue,
                [role] => return Ok(role),
                _ => return Err(format!("roles.txt: `{argument}` of MPI_{function} has more than one role")),
            }
        }
        Err(format!("roles.txt: `{argument}` of MPI_{function} has no role"))
    }

    /// MPICH's value of a constant.
    fn value(&self, name: &str) -> Option<i64> {
        self.values.get(name).copied()
    }
}

impl Table {
    /// The constant of this name, with its group.
    fn constant(&self, name: &str) -> Option<(&ConstantGroup, &Constant)> {
        let all = self.constants.iter().flat_map(|group| group.constants.iter().map(move |c| (group, c)));
        all.into_iter().find(|(_, constant)| constant.name == name)
    }
}

impl Constant {
    /// The value, if it is a number of its own and no other name of one.
    fn number(&self) -> Option<i64> {
        match &self.value {
            ConstantValue::Macro(text)
            | ConstantValue::Enumerator(_, text)
            | ConstantValue::Cast(_, text) => Some(number(text)),
            ConstantValue::Alias(_) => None,
        }
    }
}

/// The value of an integer that was checked when it was read.
fn number(text: &str) -> i64 {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    sign * value.expect("an integer")
}

/// Whether the role of this argument is to be asked for.
fn is_integer(param: &Param) -> bool {
    matches!(param.base.as_str(), "int" | "MPI_T_cb_safety" | "MPI_T_source_order")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> (Table, Mpich) {
        let facts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi");
        let table = Table::load(&facts).unwrap();
        let mpich = Mpich::load(&table, &facts).unwrap();
        (table, mpich)
    }

    #[test]
    fn every_integer_argument_has_one_role() {
        let (table, mpich) = load();
        for function in table.functions.iter().map(|f| &f.prototype) {
            for param in function.params.iter().filter(|param| is_integer(param)) {
                mpich.role(&function.name["MPI_".len()..], &param.name).unwrap();
            }
        }
    }

    #[test]
    fn argument_without_a_role_is_named() {
        let (_, mpich) = load();
        let refused = mpich.role("Send", "colour").unwrap_err();
        assert_eq!(refused, "roles.txt: `colour` of MPI_Send has no role");
    }

    #[test]
    fn role_of_a_named_function_counts_first() {
        let (_, mpich) = load();
        assert_eq!(*mpich.role("Topo_test", "status").unwrap(), Role::One("Kinds of topology".into()));
        assert_eq!(*mpich.role("Comm_fromint", "comm").unwrap(), Role::Number);
    }
}
