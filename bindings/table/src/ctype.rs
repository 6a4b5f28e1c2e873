//! C parameters as the MPI prototypes write them, and their Rust form.
//!
//! The subset is what the standard needs: `const`, one word for the base type, stars, a name, and `[]` or
//! `[][3]` behind it. A base type `int|MPI_Count` is two types at once: the second is that of the large-count
//! function.

/// One parameter of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Whether what it points to is constant.
    pub constant: bool,
    /// The base type, one word.
    pub base: String,
    /// The base type in the large-count function, where it differs.
    pub large_base: Option<String>,
    /// The number of stars.
    pub stars: usize,
    /// Name of the parameter.
    pub name: String,
    /// Dimensions behind the name; `None` for an open one, which can only be the first.
    pub dims: Vec<Option<usize>>,
}

impl Param {
    /// Reads `const void *buf`, `int|MPI_Count counts[]`, `int ranges[][3]`.
    pub fn parse(text: &str) -> Result<Param, String> {
        let text = text.trim();
        let (constant, rest) = match text.strip_prefix("const ") {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let base_end = rest.find([' ', '*']).ok_or_else(|| format!("`{text}` has no name"))?;
        let (base, rest) = rest.split_at(base_end);
        let rest = rest.trim_start();
        let stars = rest.len() - rest.trim_start_matches('*').len();
        let rest = rest[stars..].trim_start();
        let (name, mut brackets) = rest.split_at(rest.find('[').unwrap_or(rest.len()));
        let mut dims = Vec::new();
        while let Some(inside) = brackets.strip_prefix('[') {
            let end = inside.find(']').ok_or_else(|| format!("`{text}`: a bracket stays open"))?;
            let dim = &inside[..end];
            dims.push(if dim.is_empty() {
                None
            } else {
                Some(dim.parse().map_err(|_| format!("`{text}`: dimension `{dim}`"))?)
            });
            brackets = &inside[end + 1..];
        }
        if !brackets.is_empty() || !is_identifier(name) || dims.iter().skip(1).any(Option::is_none) {
            return Err(format!("`{text}` is not a parameter"));
        }
        let (base, large_base) = match base.split_once('|') {
            Some((small, large)) => (small, Some(large.to_owned())),
            None => (base, None),
        };
        if !is_identifier(base) || large_base.as_deref().is_some_and(|large| !is_identifier(large)) {
            return Err(format!("`{text}`: type `{base}`"));
        }
        Ok(Param { constant, base: base.to_owned(), large_base, stars, name: name.to_owned(), dims })
    }

    /// The parameter of the large-count function.
    pub fn to_large(&self) -> Param {
        let mut large = self.clone();
        if let Some(base) = large.large_base.take() {
            large.base = base;
        }
        large
    }

    /// The C declaration.
    pub fn to_c(&self) -> String {
        let dims: String =
            self.dims.iter().map(|dim| dim.map_or_else(|| "[]".to_owned(), |n| format!("[{n}]"))).collect();
        let constant = if self.constant { "const " } else { "" };
        format!("{constant}{} {}{}{dims}", self.base, "*".repeat(self.stars), self.name)
    }

    /// The Rust type. `is_callback` says which base types are functions of the user, whose addresses travel
    /// as integers.
    pub fn to_rust(&self, is_callback: bool) -> String {
        if is_callback {
            // A parameter of function type is a pointer to it, with or without the star.
            let pointers = self.stars.saturating_sub(1) + self.dims.len();
            return format!("{}{}", "*mut ".repeat(pointers), self.base);
        }
        let mut rust = rust_base(&self.base).to_owned();
        for dim in self.dims.iter().skip(1).rev().flatten() {
            rust = format!("[{rust}; {dim}]");
        }
        let pointers = self.stars + usize::from(!self.dims.is_empty());
        for depth in 0..pointers {
            let qualifier = if depth == 0 && self.constant { "const" } else { "mut" };
            rust = format!("*{qualifier} {rust}");
        }
        rust
    }

    /// The name as a Rust identifier.
    pub fn rust_name(&self) -> String {
        const KEYWORDS: [&str; 7] = ["type", "in", "ref", "match", "mod", "move", "fn"];
        if KEYWORDS.contains(&self.name.as_str()) { format!("r#{}", self.name) } else { self.name.clone() }
    }
}

/// The Rust name of a C type of one word.
pub fn rust_base(c: &str) -> &str {
    match c {
        "int" => "c_int",
        "char" => "c_char",
        "double" => "f64",
        "void" => "c_void",
        other => other,
    }
}

/// Whether `text` is a C identifier.
pub fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::Param;

    fn rust(text: &str) -> String {
        Param::parse(text).unwrap().to_rust(false)
    }

    #[test]
    fn c_types_become_rust_types() {
        assert_eq!(rust("const void *buf"), "*const c_void");
        assert_eq!(rust("int ranges[][3]"), "*mut [c_int; 3]");
        assert_eq!(rust("char ***argv"), "*mut *mut *mut c_char");
        assert_eq!(rust("char **argv[]"), "*mut *mut *mut c_char");
        assert_eq!(rust("const MPI_Datatype types[]"), "*const MPI_Datatype");
        assert_eq!(Param::parse("MPI_User_function *f").unwrap().to_rust(true), "MPI_User_function");
    }

    #[test]
    fn what_is_read_is_written_back() {
        for text in ["const void *buf", "int ranges[][3]", "char **array_of_argv[]", "MPI_Comm comm"] {
            assert_eq!(Param::parse(text).unwrap().to_c(), text);
        }
        let both = Param::parse("const int|MPI_Count counts[]").unwrap();
        assert_eq!(
            (both.to_c(), both.to_large().to_c()),
            ("const int counts[]".into(), "const MPI_Count counts[]".into())
        );
    }

    #[test]
    fn c_type_of_any_other_text_is_refused() {
        for text in ["", "int", "int 3x", "int a[][]", "int a[", "a|b|c x"] {
            assert!(Param::parse(text).is_err(), "{text}");
        }
    }
}
