//! Writes the manual pages of the MPI functions, for `share/man/man3`.
//!
//! A page says nothing of its own: prototypes and versions are those of the table, the description is the
//! comment above the function's body in `crates/mpi/src/api` or in a generated text, the arguments are
//! explained by `bindings/mpi/parameters.txt`.

use crate::exports::{returns_error_code, texts_of_bodies};
use crate::fortran::{Fortran, prototype};
use crate::parse::{read_lines, section};
use crate::{Function, Table, TableError};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Meaning of an argument: a line of `parameters.txt`.
#[derive(Debug)]
struct Explanation {
    name: String,
    /// Functions that are meant, without `MPI_`; a `*` stands for any text. None means all.
    functions: Vec<String>,
    is_inout: bool,
    text: String,
}

/// Names of functions without `MPI_`, as patterns; a `*` stands for any text.
#[derive(Debug)]
struct Functions {
    /// Patterns that are meant. None: all.
    included: Vec<String>,
    /// Patterns that are left out.
    excluded: Vec<String>,
}

/// An error that an argument can raise: a line of `errors.txt`.
#[derive(Debug)]
struct ArgumentError {
    /// Patterns of names; C types in `<>`; `-` is no argument.
    arguments: Vec<String>,
    functions: Functions,
    code: String,
    text: String,
}

/// Behaviour of this library where the standard leaves a choice: a line of `notes.txt`.
#[derive(Debug)]
struct Note {
    functions: Functions,
    text: String,
}

/// The texts that pages are made of.
#[derive(Debug)]
pub struct Manual {
    explanations: Vec<Explanation>,
    errors: Vec<ArgumentError>,
    notes: Vec<Note>,
    /// By name, what stands above each written function.
    comments: BTreeMap<String, String>,
    /// By name, the prototypes of Fortran.
    fortran: BTreeMap<String, String>,
}

impl Manual {
    /// Reads `parameters.txt`, `errors.txt` and `notes.txt` in the folder `facts`, and the comments in the
    /// Rust files below `api` and in generated bodies.
    pub fn load(table: &Table, facts: &Path, api: &Path) -> Result<Manual, TableError> {
        let mut explanations = Vec::new();
        read_lines(&facts.join("parameters.txt"), |line| {
            if section(line).is_none() {
                explanations.push(Explanation::parse(line)?);
            }
            Ok(())
        })?;
        let mut errors = Vec::new();
        read_lines(&facts.join("errors.txt"), |line| {
            if section(line).is_none() {
                errors.push(ArgumentError::parse(line)?);
            }
            Ok(())
        })?;
        let mut notes = Vec::new();
        read_lines(&facts.join("notes.txt"), |line| {
            notes.push(Note::parse(line)?);
            Ok(())
        })?;
        let comments = comments_below(table, api).map_err(|error| TableError {
            file: api.to_owned(),
            line: 0,
            what: error.to_string(),
        })?;
        let fortran = Fortran::load(facts)?;
        let fortran = prototype::all(table, &fortran).map_err(|what| TableError {
            file: facts.join(Fortran::FILE),
            line: 0,
            what,
        })?;
        Ok(Manual { explanations, errors, notes, comments, fortran })
    }

    /// The page of a function and, if there is one, of its large-count form. `others` are of the same
    /// section.
    fn page(&self, function: &Function, large: Option<&Function>, others: &[&str], version: &str) -> String {
        let name = &function.prototype.name;
        let comment = self.comments.get(name).map(String::as_str);
        let text = comment.unwrap_or("Not written yet: raises MPI_ERR_UNSUPPORTED_OPERATION.");
        let (title, _) = text.split_once(['.', ';', ':', '(']).unwrap_or((text, ""));
        let mut page = format!(
            ".TH {name} 3 \"\" \"Tutti {version}\" \"MPI\"\n.SH NAME\n{name} \\- {}\n.SH SYNOPSIS\n.nf\n#include <mpi.h>\n",
            escaped(title.trim())
        );
        for form in [Some(function), large].into_iter().flatten() {
            page += &format!(".PP\n{}\n", escaped(&c_prototype(form)));
        }
        for form in [Some(function), large].into_iter().flatten() {
            if let Some(prototypes) = self.fortran.get(&form.prototype.name) {
                page += &format!(".PP\n{}\n", escaped(prototypes));
            }
        }
        page += &format!(".fi\n.SH DESCRIPTION\n{}\n", escaped(text));
        page += &self.arguments(function);
        if returns_error_code(function) {
            page += ".SH RETURN VALUE\nMPI_SUCCESS, or an error code after the error handler has returned. \
                     Unless it is changed, the error handler names the function, the argument and its value, and ends the job.\n";
        }
        page += &self.errors(function);
        page += &self.notes(function);
        page += &format!(".SH STANDARD\nSince MPI-{}", function.since);
        if let Some(large) = large {
            page += &format!(", {} since MPI-{}", large.prototype.name, large.since);
        }
        if let Some(version) = &function.deprecated {
            page += &format!(", deprecated since MPI-{version}");
        }
        page += ". Numbers in parentheses are sections of the MPI standard, version 5.0.\n.SH SEE ALSO\n";
        let others = others.iter().copied().map(|name| format!("{name}(3)")).chain(["mpiexec(1)".to_owned()]);
        page += &others.collect::<Vec<_>>().join(", ");
        page + "\n"
    }

    fn arguments(&self, function: &Function) -> String {
        let mut text = String::new();
        for param in &function.prototype.params {
            let Some(found) = self.explanation(&function.prototype.name, &param.name) else { continue };
            let is_input = param.constant || param.stars == 0 && param.dims.is_empty();
            let direction = match (found.is_inout, is_input) {
                (true, _) => "in, out",
                (_, true) => "in",
                _ => "out",
            };
            text += &format!(".TP\n.BR {} \" ({direction})\"\n{}\n", param.name, escaped(&found.text));
        }
        if text.is_empty() { text } else { format!(".SH ARGUMENTS\n{text}") }
    }

    /// The section of errors: each code once, with all that raises it. Empty for a function without a code.
    fn errors(&self, function: &Function) -> String {
        let mut codes: Vec<(&str, Vec<String>)> = Vec::new();
        if returns_error_code(function) {
            for error in &self.errors {
                let Some(text) = error.of(function) else { continue };
                match codes.iter_mut().find(|(code, _)| *code == error.code) {
                    Some((_, texts)) => texts.push(text),
                    None => codes.push((&error.code, vec![text])),
                }
            }
        }
        if codes.is_empty() {
            return String::new();
        }
        let lines =
            codes.iter().map(|(code, texts)| format!(".TP\n.B {code}\n{}\n", escaped(&texts.join("; "))));
        format!(".SH ERRORS\n{}", lines.collect::<String>())
    }

    fn notes(&self, function: &Function) -> String {
        let name = short_name(function);
        let notes = self.notes.iter().filter(|note| note.functions.has(name));
        let lines: Vec<String> = notes.map(|note| escaped(&note.text)).collect();
        if lines.is_empty() { String::new() } else { format!(".SH NOTES\n{}\n", lines.join("\n.PP\n")) }
    }

    /// Chapter and section of the standard that the function's comment names, as `3.7`.
    fn section_of(&self, function: &str) -> Option<&str> {
        let comment = self.comments.get(function)?;
        let at = comment.find(|c: char| c.is_ascii_digit())?;
        let number = comment[at..].split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let end = number.match_indices('.').nth(1).map_or(number.len(), |(place, _)| place);
        Some(&number[..end])
    }

    fn explanation(&self, function: &str, argument: &str) -> Option<&Explanation> {
        let function = function.strip_prefix("MPI_").unwrap_or(function);
        self.explanations.iter().find(|e| e.name == argument && e.is_for(function))
    }
}

impl Functions {
    fn parse(text: &str) -> Functions {
        let patterns = text.split(',').filter(|pattern| !pattern.is_empty());
        let (excluded, included): (Vec<&str>, Vec<&str>) =
            patterns.partition(|pattern| pattern.starts_with('!'));
        Functions {
            included: included.into_iter().map(str::to_owned).collect(),
            excluded: excluded.into_iter().map(|pattern| pattern[1..].to_owned()).collect(),
        }
    }

    /// Whether the function of this name, without `MPI_`, is meant.
    fn has(&self, name: &str) -> bool {
        (self.included.is_empty() || self.included.iter().any(|pattern| fits(pattern, name)))
            && !self.excluded.iter().any(|pattern| fits(pattern, name))
    }
}

impl ArgumentError {
    fn parse(line: &str) -> Result<ArgumentError, String> {
        let mut words = line.splitn(2, char::is_whitespace);
        let key = words.next().unwrap_or_default();
        let rest = words.next().unwrap_or_default().trim_start();
        let (code, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !code.starts_with("MPI_ERR_") || text.trim().is_empty() {
            return Err(format!("`{line}` is not ARGUMENT CODE text"));
        }
        let (arguments, functions) = key.split_once('@').unwrap_or((key, ""));
        Ok(ArgumentError {
            arguments: arguments.split(',').map(str::to_owned).collect(),
            functions: Functions::parse(functions),
            code: code.to_owned(),
            text: text.trim().to_owned(),
        })
    }

    /// The text for a function with such arguments.
    fn of(&self, function: &Function) -> Option<String> {
        if !self.functions.has(short_name(function)) {
            return None;
        }
        if self.arguments.iter().any(|argument| argument == "-") {
            return Some(self.text.clone());
        }
        let names: Vec<String> = function
            .prototype
            .params
            .iter()
            .filter(|param| {
                self.arguments.iter().any(|argument| match argument.strip_prefix('<') {
                    Some(of_type) => {
                        param.stars == 0
                            && param.dims.is_empty()
                            && of_type.strip_suffix('>') == Some(&param.base)
                    }
                    None => fits(argument, &param.name),
                })
            })
            .map(|param| format!("`{}`", param.name))
            .collect();
        (!names.is_empty()).then(|| format!("{}: {}", names.join(", "), self.text))
    }
}

impl Note {
    fn parse(line: &str) -> Result<Note, String> {
        let (functions, text) = line.split_once("  ").ok_or_else(|| format!("`{line}` has no text"))?;
        Ok(Note { functions: Functions::parse(functions), text: text.trim().to_owned() })
    }
}

/// The name of a function without `MPI_`.
fn short_name(function: &Function) -> &str {
    let name = &function.prototype.name;
    name.strip_prefix("MPI_").unwrap_or(name)
}

impl Explanation {
    fn parse(line: &str) -> Result<Explanation, String> {
        let (key, text) = line.split_once(' ').ok_or_else(|| format!("`{line}` explains nothing"))?;
        let (name, functions) = key.split_once('@').unwrap_or((key, ""));
        let (is_inout, text) = match text.trim_start().strip_prefix('~') {
            Some(text) => (true, text.trim_start()),
            None => (false, text.trim_start()),
        };
        let functions = functions.split(',').filter(|f| !f.is_empty()).map(str::to_owned).collect();
        Ok(Explanation { name: name.to_owned(), functions, is_inout, text: text.to_owned() })
    }

    fn is_for(&self, function: &str) -> bool {
        self.functions.is_empty() || self.functions.iter().any(|pattern| fits(pattern, function))
    }
}

/// All pages: name of the file, and its text. The large-count form of a function is on the function's page.
pub fn pages(table: &Table, manual: &Manual, version: &str) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for function in &table.functions {
        let name = &function.prototype.name;
        let find = |name: &str| table.functions.iter().find(|f| f.prototype.name == name);
        if let Some(small) = name.strip_suffix("_c").and_then(find) {
            pages.push((format!("{name}.3"), format!(".so man3/{}.3\n", small.prototype.name)));
            continue;
        }
        let others: Vec<&str> = table
            .functions
            .iter()
            .filter(|f| f.chapter == function.chapter && f.prototype.name != *name)
            .map(|f| f.prototype.name.as_str())
            .filter(|other| !other.ends_with("_c") && manual.section_of(other) == manual.section_of(name))
            .collect();
        let page = manual.page(function, find(&format!("{name}_c")), &others, version);
        pages.push((format!("{name}.3"), page));
    }
    pages
}

fn c_prototype(function: &Function) -> String {
    let p = &function.prototype;
    let mut params: Vec<String> = p.params.iter().map(|param| param.to_c()).collect();
    if p.variadic {
        params.push("...".to_owned());
    }
    if params.is_empty() {
        params.push("void".to_owned());
    }
    let head = format!("{} {}(", p.returns, p.name);
    let one_line = params.join(", ");
    let lines = if head.len() + one_line.len() < 76 { one_line } else { params.join(",\n    ") };
    format!("{head}{lines});")
}

/// Text for troff: no character of it is a command; what stands between backticks is bold.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut is_bold = false;
    for line in text.lines() {
        if line.starts_with(['.', '\'']) {
            out += "\\&";
        }
        for c in line.chars() {
            match c {
                '\\' => out += "\\e",
                '-' => out += "\\-",
                '`' => {
                    is_bold = !is_bold;
                    out += if is_bold { "\\fB" } else { "\\fR" };
                }
                c => out.push(c),
            }
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether the name is of the pattern, in which `*` stands for any text.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|tail| {
            (0..=tail.len()).any(|at| tail.is_char_boundary(at) && fits(rest, &tail[at..]))
        }),
    }
}

fn comments_below(table: &Table, api: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut comments = BTreeMap::new();
    for text in texts_of_bodies(table, api)? {
        let mut above = String::new();
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("///") {
                above = format!("{above} {}", comment.trim()).trim().to_owned();
            } else if let Some(rest) = line.strip_prefix("pub unsafe fn MPI_") {
                let end = rest.find('(').unwrap_or(rest.len());
                comments.insert(format!("MPI_{}", &rest[..end]), std::mem::take(&mut above));
            } else if !line.starts_with("#[") {
                above.clear();
            }
        }
    }
    Ok(comments)
}

#[cfg(test)]
mod tests {
    use super::{Manual, escaped, fits, pages};
    use crate::Table;
    use std::path::Path;

    fn all() -> (Table, Manual) {
        let facts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi");
        let api = facts.join("../../crates/mpi/src/api");
        let table = Table::load(&facts).unwrap();
        let manual = Manual::load(&table, &facts, &api).unwrap();
        (table, manual)
    }

    #[test]
    fn man_pages_explain_every_argument() {
        let (table, manual) = all();
        let mut used = vec![false; manual.explanations.len()];
        for function in &table.functions {
            let name = &function.prototype.name;
            for param in &function.prototype.params {
                match manual.explanation(name, &param.name) {
                    Some(found) => {
                        let place = manual.explanations.iter().position(|e| std::ptr::eq(e, found)).unwrap();
                        used[place] = true;
                    }
                    None => assert!(
                        !manual.comments.contains_key(name),
                        "parameters.txt says nothing of `{}` of {name}",
                        param.name
                    ),
                }
            }
        }
        for (explanation, used) in manual.explanations.iter().zip(used) {
            assert!(
                used,
                "parameters.txt explains `{}`, which nobody has: {explanation:?}",
                explanation.name
            );
        }
    }

    #[test]
    fn man_page_errors_are_codes_that_some_function_raises() {
        let (table, manual) = all();
        let codes =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi/constants.txt"));
        let codes = codes.unwrap();
        for error in &manual.errors {
            assert!(codes.contains(&format!("\n{} ", error.code)), "errors.txt: there is no {}", error.code);
            let fits = table.functions.iter().any(|function| error.of(function).is_some());
            assert!(fits, "errors.txt: no function has {error:?}");
        }
        for note in &manual.notes {
            let fits = table.functions.iter().any(|function| note.functions.has(super::short_name(function)));
            assert!(fits, "notes.txt: no function has {note:?}");
        }
        let pages = pages(&table, &manual, "9.9");
        let page = |name: &str| &pages.iter().find(|(file, _)| file == name).unwrap().1;
        let recv = page("MPI_Recv.3");
        for part in [
            ".B MPI_ERR_TRUNCATE\n",
            ".B MPI_ERR_RANK\n\\fBsource\\fR: it is no rank",
            ".SH NOTES\nA receive above",
        ] {
            assert!(recv.contains(part), "{part} is not in\n{recv}");
        }
        assert!(!page("MPI_Wtime.3").contains(".SH ERRORS"));
    }

    #[test]
    fn man_page_has_both_prototypes_and_every_argument() {
        let (table, manual) = all();
        let pages = pages(&table, &manual, "9.9");
        let page = |name: &str| &pages.iter().find(|(file, _)| file == name).unwrap().1;
        let recv = page("MPI_Recv.3");
        for part in [
            "int MPI_Recv(void *buf,\n",
            "int MPI_Recv_c(void *buf,\n    MPI_Count count,",
            ".BR buf \" (out)\"",
            ".BR source \" (in)\"\nrank of the sender, MPI_ANY_SOURCE",
            "Receives (3.2.4).",
            "Since MPI\\-1.1, MPI_Recv_c since MPI\\-4.0.".replace("\\-", "-").as_str(),
        ] {
            assert!(recv.contains(part), "{part} is not in\n{recv}");
        }
        for part in [
            "USE mpi_f08\nMPI_Recv(buf, count, datatype, source, tag, comm, status, ierror)\n",
            "    TYPE(*), DIMENSION(..) :: buf\n    INTEGER, INTENT(IN) :: count\n",
            "    INTEGER(KIND=MPI_COUNT_KIND), INTENT(IN) :: count\n",
            "    <type> BUF(*)\n    INTEGER COUNT, DATATYPE, SOURCE, TAG, COMM, STATUS(MPI_STATUS_SIZE), &\n",
        ] {
            assert!(recv.contains(part), "{part} is not in\n{recv}");
        }
        assert!(!page("MPI_T_init_thread.3").contains("mpi_f08"));
        assert_eq!(page("MPI_Recv_c.3"), ".so man3/MPI_Recv.3\n");
        assert!(page("MPI_Wait.3").contains(".BR request \" (in, out)\""));
        assert!(page("MPI_Attr_get.3").contains("deprecated since MPI-2.0"));
        assert_eq!(pages.len(), table.functions.len());
    }

    #[test]
    fn man_page_text_is_escaped_for_troff() {
        assert_eq!(escaped(".so x\n'a' `b` c\\d"), "\\&.so x\n\\&'a' \\fBb\\fR c\\ed");
    }

    #[test]
    fn man_page_patterns_match_any_text() {
        for (pattern, name, is) in [
            ("Recv", "Recv", true),
            ("Recv", "Recv_c", false),
            ("*ecv*", "Irecv", true),
            ("T_*_free", "T_free", false),
        ] {
            assert_eq!(fits(pattern, name), is, "{pattern} {name}");
        }
    }
}
