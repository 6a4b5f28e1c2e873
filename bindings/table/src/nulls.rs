//! Which pointer arguments may be null: the lines of `nulls.txt`, and the check that an exported function
//! makes.

use crate::ctype::Param;
use crate::manual::fits;
use crate::{Prototype, Table};

/// Meaning of a null pointer as an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Null {
    /// An error, which the exported function raises.
    Refused,
    /// Value that the standard allows.
    Allowed,
    /// An array without elements, when the argument of this name is 0 or less.
    Length(String),
    /// Left to the body of the function.
    Body,
}

/// A line of `nulls.txt`.
#[derive(Debug)]
pub struct NullRule {
    name: String,
    /// Functions that are meant, without `MPI_`; none means all.
    functions: Vec<String>,
    null: Null,
}

impl NullRule {
    /// Reads `array_of_requests@*some  length incount`.
    pub(crate) fn parse(line: &str) -> Result<NullRule, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (key, null) = match words[..] {
            [key, "required"] => (key, Null::Refused),
            [key, "allowed"] => (key, Null::Allowed),
            [key, "length", name] => (key, Null::Length(name.to_owned())),
            [key, "body"] => (key, Null::Body),
            _ => return Err(format!("expected `allowed`, `length NAME`, `body` or `required`: `{line}`")),
        };
        let (name, functions) = key.split_once('@').unwrap_or((key, ""));
        let functions = functions.split(',').filter(|f| !f.is_empty()).map(str::to_owned).collect();
        Ok(NullRule { name: name.to_owned(), functions, null })
    }

    fn is_for(&self, function: &str, argument: &str) -> bool {
        let function = function.strip_prefix("MPI_").unwrap_or(function);
        self.name == argument
            && (self.functions.is_empty() || self.functions.iter().any(|pattern| fits(pattern, function)))
    }
}

/// Whether an argument is an address: a pointer, an array or a function.
pub fn is_address(table: &Table, param: &Param) -> bool {
    param.stars > 0 || !param.dims.is_empty() || table.is_callback(&param.base)
}

impl Table {
    /// Meaning of a null pointer as this argument of this function; none when it is no address.
    pub fn null(&self, function: &str, param: &Param) -> Option<Null> {
        let rule = || self.nulls.iter().find(|rule| rule.is_for(function, &param.name));
        is_address(self, param).then(|| rule().map_or(Null::Refused, |rule| rule.null.clone()))
    }

    /// The argument that says how long an array is.
    pub(crate) fn length_of(&self, function: &str, param: &Param) -> Option<String> {
        match self.null(function, param) {
            Some(Null::Length(length)) => Some(length),
            _ => None,
        }
    }

    /// Each line must mean an argument of some function, and a length one of that function.
    pub(crate) fn check_nulls(&self) -> Result<(), String> {
        let mut used = vec![false; self.nulls.len()];
        for Prototype { name, params, .. } in self.functions.iter().map(|f| &f.prototype) {
            for param in params {
                let Some(place) = self.nulls.iter().position(|rule| rule.is_for(name, &param.name)) else {
                    continue;
                };
                used[place] = true;
                if let Null::Length(length) = &self.nulls[place].null
                    && is_address(self, param)
                    && !params.iter().any(|other| other.name == *length)
                {
                    return Err(format!(
                        "`{name}` has no argument `{length}`, the length of `{}`",
                        param.name
                    ));
                }
            }
        }
        match used.iter().position(|used| !used) {
            Some(place) => {
                Err(format!("nulls.txt names `{}`, which no function has", self.nulls[place].name))
            }
            None => Ok(()),
        }
    }

    /// The statements with which an exported function refuses null pointers.
    pub fn null_checks(&self, prototype: &Prototype) -> String {
        let name = &prototype.name;
        let by_value = |base: &str| {
            prototype.params.iter().find(|p| p.base == base && !is_address(self, p)).map(Param::rust_name)
        };
        let mut text = String::new();
        for param in &prototype.params {
            let argument = param.rust_name();
            let is_null = match self.null(name, param) {
                None | Some(Null::Allowed | Null::Body) => continue,
                _ if self.is_callback(&param.base) => format!("{argument} == 0"),
                Some(Null::Refused) => format!("{argument}.is_null()"),
                Some(Null::Length(length)) => format!("{argument}.is_null() && {length} > 0"),
            };
            let is_of_files = name.starts_with("MPI_File_") || name.starts_with("MPI_Register_datarep");
            let refusal = match (by_value("MPI_Comm"), by_value("MPI_Session")) {
                _ if name.starts_with("MPI_T_") => "MPI_T_ERR_INVALID".to_owned(),
                _ if is_of_files => {
                    let file = by_value("MPI_File").unwrap_or_else(|| "MPI_FILE_NULL".into());
                    format!("tutti_mpi::null_argument_of_file(c\"{name}\", {file}, \"{}\")", param.name)
                }
                (Some(comm), _) => {
                    format!("tutti_mpi::null_argument(c\"{name}\", {comm}, \"{}\")", param.name)
                }
                (None, Some(session)) => {
                    format!("tutti_mpi::null_argument_of_session(c\"{name}\", {session}, \"{}\")", param.name)
                }
                (None, None) => {
                    format!("tutti_mpi::null_argument(c\"{name}\", MPI_COMM_NULL, \"{}\")", param.name)
                }
            };
            text += &format!("if {is_null} {{\n        return {refusal};\n    }}\n    ");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Null, NullRule};
    use crate::Table;
    use std::path::Path;

    fn table() -> Table {
        Table::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi")).unwrap()
    }

    fn checks(function: &str) -> String {
        let table = table();
        let found = table.functions.iter().find(|f| f.prototype.name == function).unwrap();
        table.null_checks(&found.prototype)
    }

    #[test]
    fn null_checks_are_generated_for_results_and_for_arrays_with_a_length() {
        assert_eq!(checks("MPI_Send"), "");
        assert_eq!(checks("MPI_Recv"), "", "the status may be ignored");
        let isend = checks("MPI_Isend");
        assert!(isend.contains("null_argument(c\"MPI_Isend\", comm, \"request\")"), "{isend}");
        let waitall = checks("MPI_Waitall");
        assert!(waitall.contains("array_of_requests.is_null() && count > 0"), "{waitall}");
        assert!(!waitall.contains("statuses"), "{waitall}");
        assert!(checks("MPI_T_pvar_get_num").contains("MPI_T_ERR_INVALID"));
        assert!(checks("MPI_Op_create").contains("if user_fn == 0 {"));
        assert!(checks("MPI_Session_get_info").contains("null_argument_of_session"));
    }

    #[test]
    fn null_rules_are_parsed_and_bad_ones_refused() {
        let rule = NullRule::parse("ranks@Group_*  length n").unwrap();
        assert!(rule.is_for("MPI_Group_incl", "ranks") && !rule.is_for("MPI_Comm_rank", "ranks"));
        assert_eq!(rule.null, Null::Length("n".into()));
        for line in ["ranks", "ranks length", "ranks perhaps"] {
            assert!(NullRule::parse(line).is_err(), "{line}");
        }
        let mut table = table();
        table.nulls.push(NullRule::parse("nonsense allowed").unwrap());
        assert!(table.check_nulls().unwrap_err().contains("nonsense"));
    }
}
