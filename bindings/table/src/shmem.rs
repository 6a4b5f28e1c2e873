//! The table of OpenSHMEM, `bindings/shmem/functions.txt`, and what is written from it: the exported
//! functions ([`exports`]), `shmem.h` ([`header`]) and manual pages ([`manual`]).
//!
//! A row is a family: one prototype for a set of types, maybe with a form for contexts, maybe with one
//! generic name. The head of the file says how rows are written.

pub mod exports;
pub mod header;
pub mod manual;

use crate::TableError;
use crate::ctype::Param;
use crate::parse::{read_lines, section};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The table.
#[derive(Debug, Default)]
pub struct Shmem {
    types: Vec<Type>,
    sets: Vec<(String, Vec<usize>)>,
    /// Families in the order of the file.
    pub families: Vec<Family>,
    /// Bodies that the table itself writes, by name.
    pub written: BTreeMap<String, Written>,
}

/// A body that stands in the table.
#[derive(Debug)]
pub struct Written {
    /// The text behind the function: `TYPE`, `NAME` and `CTX` are put in.
    pub expression: String,
    /// The text of its manual page, if the table has it.
    pub comment: Option<String>,
}

/// A type that functions are named for.
#[derive(Debug)]
pub struct Type {
    /// As in `shmem_float_put`.
    pub name: String,
    /// Rust's name.
    pub rust: String,
    /// C's name.
    pub c: String,
}

/// A row.
#[derive(Debug)]
pub struct Family {
    /// The chapter of the standard.
    pub chapter: String,
    /// The types, as indices; none if the function is one.
    types: Option<Vec<usize>>,
    /// Whether there is a form with a context.
    pub has_context: bool,
    /// Whether one name serves all types.
    pub is_generic: bool,
    /// Whether the standard advises against it.
    pub is_deprecated: bool,
    /// Whether it comes from version 1.6.
    pub is_new: bool,
    /// Result of the function: `TYPE` is the type of the function.
    returns: Param,
    /// With `{T}` for the name of the type.
    pub pattern: String,
    params: Vec<Param>,
    is_variadic: bool,
    /// The function in `crates/shmem/src/api`, or the body of the table.
    pub body: String,
}

/// One function of a family.
#[derive(Debug)]
pub struct Function<'a> {
    /// Where it comes from.
    pub family: &'a Family,
    /// Type of the function, if the family has some.
    pub of_type: Option<&'a Type>,
    /// Whether this is the form with a context.
    pub with_context: bool,
    /// Name of the function.
    pub name: String,
}

impl Shmem {
    /// The file in its folder.
    pub const FILE: &str = "functions.txt";

    /// Reads the table in folder `dir`.
    ///
    /// # Errors
    /// A line that is none of the file's kinds, a type or set that is not above it, a name that is there
    /// twice.
    pub fn load(dir: &Path) -> Result<Shmem, TableError> {
        let mut table = Shmem::default();
        let mut chapter = String::new();
        let mut seen = BTreeSet::new();
        read_lines(&dir.join(Self::FILE), |line| {
            if let Some((title, _)) = section(line) {
                chapter = title;
                return Ok(());
            }
            table.take(&chapter, line)?;
            let Some(family) = table.families.last() else { return Ok(()) };
            if line.contains('(') && !line.starts_with("body ") {
                for function in table.functions_of(family) {
                    if !seen.insert(function.name.clone()) {
                        return Err(format!("`{}` is here twice", function.name));
                    }
                }
            }
            Ok(())
        })?;
        let unused = table.written.keys().find(|body| table.families.iter().all(|row| row.body != **body));
        match unused {
            Some(body) => Err(TableError {
                file: dir.join(Self::FILE),
                line: 0,
                what: format!("no row has the body `{body}`"),
            }),
            None => Ok(table),
        }
    }

    fn take(&mut self, chapter: &str, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let mut word = || words.next().ok_or_else(|| format!("`{line}` is too short"));
        match word()? {
            "type" => {
                let (name, rust) = (word()?.to_owned(), word()?.to_owned());
                let c = words.collect::<Vec<_>>().join(" ");
                self.types.push(Type { name, rust, c });
            }
            "set" => {
                let name = word()?.to_owned();
                let mut members = Vec::new();
                for word in words {
                    match self.set(word) {
                        Ok(set) => members.extend(set),
                        Err(_) => members.push(self.type_index(word)?),
                    }
                }
                self.sets.push((name, members));
            }
            "body" => {
                let name = word()?.to_owned();
                let rest = words.collect::<Vec<_>>().join(" ");
                let (expression, comment) = match rest.split_once(" | ") {
                    Some((expression, comment)) => (expression, Some(comment.to_owned())),
                    None => (&*rest, None),
                };
                let written = Written { expression: expression.to_owned(), comment };
                if self.written.insert(name.clone(), written).is_some() {
                    return Err(format!("the body `{name}` is here twice"));
                }
            }
            set => {
                let types = if set == "-" { None } else { Some(self.set(set)?) };
                let options = word()?;
                let rest = words.collect::<Vec<_>>().join(" ");
                self.families.push(Family::parse(chapter, types, options, &rest)?);
            }
        }
        Ok(())
    }

    fn set(&self, name: &str) -> Result<Vec<usize>, String> {
        let found = self.sets.iter().find(|(set, _)| set == name);
        Ok(found.ok_or_else(|| format!("the set `{name}` is not above"))?.1.clone())
    }

    fn type_index(&self, name: &str) -> Result<usize, String> {
        let found = self.types.iter().position(|of_type| of_type.name == name);
        found.ok_or_else(|| format!("`{name}` is neither a type nor a set above"))
    }

    /// All functions, in the order of the file; each form with a context behind the one without.
    pub fn functions(&self) -> Vec<Function<'_>> {
        self.families.iter().flat_map(|family| self.functions_of(family)).collect()
    }

    fn functions_of<'a>(&'a self, family: &'a Family) -> Vec<Function<'a>> {
        let mut functions = Vec::new();
        for of_type in self.types_of(family) {
            for with_context in [false, true] {
                if !with_context || family.has_context {
                    let name = family.name_for(of_type, with_context);
                    functions.push(Function { family, of_type, with_context, name });
                }
            }
        }
        functions
    }

    /// The types of a family; one `None` if it has none.
    fn types_of<'a>(&'a self, family: &'a Family) -> Vec<Option<&'a Type>> {
        match &family.types {
            None => vec![None],
            Some(types) => types.iter().map(|&index| Some(&self.types[index])).collect(),
        }
    }

    /// Types of a family that a compiler tells apart: `int32_t` is `int`.
    fn distinct_types_of<'a>(&'a self, family: &'a Family) -> Vec<&'a Type> {
        let mut seen = BTreeSet::new();
        let types = self.types_of(family).into_iter().flatten();
        types.filter(|of_type| seen.insert(of_type.basic_c())).collect()
    }
}

impl Type {
    /// The type that a name of `stdint.h` stands for where `long` has 64 bits.
    fn basic_c(&self) -> &str {
        match self.c.as_str() {
            "int8_t" => "signed char",
            "int16_t" => "short",
            "int32_t" => "int",
            "int64_t" | "ptrdiff_t" => "long",
            "uint8_t" => "unsigned char",
            "uint16_t" => "unsigned short",
            "uint32_t" => "unsigned int",
            "uint64_t" | "size_t" => "unsigned long",
            other => other,
        }
    }

    /// Whether C passes it in a way that Rust does not know, so that what takes or gives it by value is
    /// written in the header.
    fn is_foreign(&self) -> bool {
        self.rust == "LongDouble"
    }
}

impl Family {
    fn parse(chapter: &str, types: Option<Vec<usize>>, options: &str, text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a prototype");
        let (prototype, body) = match text.split_once(" = ") {
            Some((prototype, body)) => (prototype, Some(body.to_owned())),
            None => (text, None),
        };
        let (head, params) = prototype.split_once('(').ok_or_else(bad)?;
        let params = params.strip_suffix(')').ok_or_else(bad)?;
        let begin = head.rfind([' ', '*']).ok_or_else(bad)? + 1;
        let (returns, pattern) = head.split_at(begin);
        let returns = Param::parse(&format!("{returns} result"))?;
        let mut list: Vec<&str> = params.split(',').map(str::trim).filter(|p| *p != "void").collect();
        let is_variadic = list.pop_if(|last| *last == "...").is_some();
        let mut family = Family {
            chapter: chapter.to_owned(),
            body: body.unwrap_or_else(|| plain(pattern).trim_start_matches("shmem_").to_owned()),
            types,
            has_context: false,
            is_generic: false,
            is_deprecated: false,
            is_new: false,
            returns,
            pattern: pattern.to_owned(),
            params: list.into_iter().map(Param::parse).collect::<Result<_, _>>()?,
            is_variadic,
        };
        for option in options.split(',') {
            match option {
                "-" => {}
                "ctx" => family.has_context = true,
                "generic" => family.is_generic = true,
                "old" => family.is_deprecated = true,
                "new" => family.is_new = true,
                other => return Err(format!("`{other}` is not an option")),
            }
        }
        Ok(family)
    }

    /// The name for all types, or the only name.
    pub fn generic_name(&self) -> String {
        plain(&self.pattern)
    }

    fn name_for(&self, of_type: Option<&Type>, with_context: bool) -> String {
        let name = self.pattern.replace("{T}", of_type.map_or("", |of_type| &of_type.name));
        if with_context { name.replacen("shmem_", "shmem_ctx_", 1) } else { name }
    }

    /// Whether a value of the type is given or taken, not by address.
    fn has_value(&self) -> bool {
        self.params.iter().chain([&self.returns]).any(|p| p.base == "TYPE" && p.stars == 0)
    }
}

/// A pattern without its type.
fn plain(pattern: &str) -> String {
    pattern.replace("_{T}_", "_").replace("{T}", "")
}

impl Function<'_> {
    /// The C prototype under a prefix (`p` for the profiling name), without the semicolon.
    pub fn c_prototype(&self, prefix: &str) -> String {
        let c = |param: &Param| {
            let mut param = param.clone();
            if param.base == "TYPE" {
                param.base = self.of_type.map_or("void", |of_type| &of_type.c).to_owned();
            }
            param.to_c()
        };
        let mut params: Vec<String> =
            self.with_context.then(|| "shmem_ctx_t ctx".to_owned()).into_iter().collect();
        params.extend(self.family.params.iter().map(c));
        if self.family.is_variadic {
            params.push("...".to_owned());
        }
        if params.is_empty() {
            params.push("void".to_owned());
        }
        let returns = c(&self.family.returns);
        let returns = returns.trim_end_matches("result");
        format!("{returns}{prefix}{}({})", self.name, params.join(", "))
    }

    /// Whether it is an inline function of the header, not a symbol.
    pub fn is_inline(&self) -> bool {
        self.family.has_value() && self.of_type.is_some_and(Type::is_foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::Shmem;
    use std::path::Path;

    fn table() -> Shmem {
        Shmem::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../shmem")).unwrap()
    }

    #[test]
    fn shmem_table_has_the_standards_functions() {
        let table = table();
        let functions = table.functions();
        let new = functions.iter().filter(|function| function.family.is_new).count();
        assert_eq!((table.families.len(), functions.len() - new, new), (158, 1643, 174));
    }

    #[test]
    fn shmem_prototypes_are_those_of_the_standard() {
        let table = table();
        let prototype = |name: &str| {
            let functions = table.functions();
            functions.iter().find(|function| function.name == name).expect(name).c_prototype("")
        };
        let expected = [
            "void shmem_ctx_longdouble_put(shmem_ctx_t ctx, long double *dest, const long double *source, size_t nelems, int pe)",
            "void shmem_putmem_signal(void *dest, const void *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)",
            "size_t shmem_size_atomic_fetch_inc(size_t *dest, int pe)",
            "void *shmem_malloc(size_t size)",
            "void shmem_init(void)",
            "void shmem_pcontrol(int level, ...)",
        ];
        for line in expected {
            let name = line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap();
            assert_eq!(prototype(name), line);
        }
    }

    #[test]
    fn shmem_rows_refuse_unknown_sets_and_options() {
        for line in
            ["NONE - void shmem_x(void)", "- odd void shmem_x(void)", "- - void shmem_x", "set A nothing"]
        {
            assert!(Shmem::default().take("", line).is_err(), "{line}");
        }
    }
}
