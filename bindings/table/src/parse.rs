//! Reads the lines of the table's files.

use crate::ctype::{Param, is_identifier};
use crate::{Constant, ConstantGroup, ConstantValue, Function, Prototype, TableError, TypeKind, TypeRow};
use std::path::Path;

/// Gives every line of `file` that says something to `take`; comments begin with `#`.
pub(crate) fn read_lines(
    file: &Path,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), TableError> {
    let error = |line, what| TableError { file: file.to_owned(), line, what };
    let text = std::fs::read_to_string(file).map_err(|e| error(0, e.to_string()))?;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            take(line).map_err(|what| error(index + 1, what))?;
        }
    }
    Ok(())
}

/// `[title]` or `[+ title]`: the title, and whether it belongs to the ABI.
pub(crate) fn section(line: &str) -> Option<(String, bool)> {
    let inside = line.strip_prefix('[')?.strip_suffix(']')?;
    Some(match inside.strip_prefix('+') {
        Some(title) => (title.trim().to_owned(), false),
        None => (inside.trim().to_owned(), true),
    })
}

/// A line of `constants.txt`.
pub(crate) fn constant_line(
    groups: &mut Vec<ConstantGroup>,
    types: &[TypeRow],
    line: &str,
) -> Result<(), String> {
    if let Some((title, in_abi)) = section(line) {
        groups.push(ConstantGroup { title, in_abi, constants: Vec::new() });
        return Ok(());
    }
    let [name, class, value] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(format!("expected name, type, value: `{line}`"));
    };
    if groups.iter().flat_map(|g| &g.constants).any(|c| c.name == name) {
        return Err(format!("`{name}` is here twice"));
    }
    let is_enumeration =
        |class| types.iter().any(|row| matches!(&row.kind, TypeKind::Enumeration(name) if name == class));
    let parsed = match class {
        "alias" => {
            if !groups.iter().flat_map(|g| &g.constants).any(|c| c.name == value) {
                return Err(format!("`{name}` is an alias of `{value}`, which is not above it"));
            }
            ConstantValue::Alias(value.to_owned())
        }
        "macro" => ConstantValue::Macro(integer(value)?),
        "enum" => ConstantValue::Enumerator(None, integer(value)?),
        class if is_enumeration(class) => ConstantValue::Enumerator(Some(class.to_owned()), integer(value)?),
        class => ConstantValue::Cast(class.to_owned(), integer(value)?),
    };
    let group = groups.last_mut().ok_or("a constant stands before the first section")?;
    group.constants.push(Constant { name: name.to_owned(), value: parsed });
    Ok(())
}

/// A line of `types.txt`.
pub(crate) fn type_line(types: &mut Vec<TypeRow>, line: &str) -> Result<(), String> {
    let (in_abi, line) = match line.strip_prefix('+') {
        Some(rest) => (false, rest.trim_start()),
        None => (true, line),
    };
    let (word, rest) = line.split_once(' ').ok_or_else(|| format!("expected a kind and a name: `{line}`"))?;
    let name =
        || if is_identifier(rest) { Ok(rest.to_owned()) } else { Err(format!("`{rest}` is not a name")) };
    let kind = match word {
        "handle" => TypeKind::Handle(name()?),
        "tools_handle" => TypeKind::ToolsHandle(name()?),
        "enumeration" => TypeKind::Enumeration(name()?),
        "callback" => TypeKind::Callback(prototype(rest)?),
        "callback_alias" => {
            let (new, old) = rest.split_once(' ').ok_or("expected the new and the old name")?;
            TypeKind::CallbackAlias(new.to_owned(), old.trim().to_owned())
        }
        other => return Err(format!("`{other}` is not a kind of type")),
    };
    types.push(TypeRow { in_abi, kind });
    Ok(())
}

/// `int MPI_Send(const void *buf, ...)`.
pub(crate) fn prototype(text: &str) -> Result<Prototype, String> {
    let bad = || format!("`{text}` is not a prototype");
    let (head, params) = text.split_once('(').ok_or_else(bad)?;
    let params = params.strip_suffix(')').ok_or_else(bad)?;
    let (returns, name) = head.trim().split_once(' ').ok_or_else(bad)?;
    if !is_identifier(returns) || !is_identifier(name) {
        return Err(bad());
    }
    let mut list: Vec<&str> = params.split(',').map(str::trim).collect();
    let variadic = list.last() == Some(&"...");
    if variadic {
        list.pop();
    }
    if list == ["void"] {
        list.clear();
    }
    let params = list.into_iter().map(Param::parse).collect::<Result<_, _>>()?;
    Ok(Prototype { returns: returns.to_owned(), name: name.to_owned(), params, variadic })
}

/// A line of `functions.txt`; `chapter` is that of the lines that follow.
pub(crate) fn function_line(
    functions: &mut Vec<Function>,
    chapter: &mut String,
    line: &str,
) -> Result<(), String> {
    if let Some((title, _)) = section(line) {
        *chapter = title;
        return Ok(());
    }
    let (version, rest) = line.split_once(' ').ok_or_else(|| format!("expected a version: `{line}`"))?;
    let end = rest.rfind(')').ok_or_else(|| format!("`{line}` has no parameters"))? + 1;
    let small = prototype(rest[..end].trim())?;
    let deprecated = match rest[end..].trim() {
        "" => None,
        text => {
            Some(text.strip_prefix('-').ok_or_else(|| format!("`{text}` behind the prototype"))?.to_owned())
        }
    };
    let (since, large_since) = match version.split_once('/') {
        Some((since, large)) => (since, Some(large)),
        None => (version, None),
    };
    if large_since.is_some() != small.params.iter().any(|p| p.large_base.is_some()) {
        return Err(format!("`{}`: two versions and types like `int|MPI_Count` belong together", small.name));
    }
    let mut large = small.clone();
    large.name.push_str("_c");
    large.params = small.params.iter().map(Param::to_large).collect();
    let mut push = |prototype, since: &str| {
        functions.push(Function {
            prototype,
            chapter: chapter.clone(),
            since: since.to_owned(),
            deprecated: deprecated.clone(),
        });
    };
    push(small, since);
    if let Some(since) = large_since {
        push(large, since);
    }
    Ok(())
}

/// Checks that `text` is an integer and gives it back as it is written.
pub(crate) fn integer(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let fine = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).is_ok(),
        None => digits.parse::<i64>().is_ok(),
    };
    if fine { Ok(text.to_owned()) } else { Err(format!("`{text}` is not an integer")) }
}

#[cfg(test)]
mod tests {
    use super::{constant_line, function_line, prototype, type_line};

    #[test]
    fn table_line_with_two_versions_gives_both_functions() {
        let (mut functions, mut chapter) = (Vec::new(), String::new());
        for line in [
            "[Sums]",
            "1.1/4.0 int MPI_F(const int|MPI_Count n[], int|MPI_Aint d)  -4.1",
            "3.0 double MPI_G(void)",
        ] {
            function_line(&mut functions, &mut chapter, line).unwrap();
        }
        let found: Vec<_> = functions
            .iter()
            .map(|f| {
                let params: Vec<_> = f.prototype.params.iter().map(|p| p.to_c()).collect();
                format!("{} {} {}", f.since, f.prototype.name, params.join(" "))
            })
            .collect();
        assert_eq!(
            found,
            ["1.1 MPI_F const int n[] int d", "4.0 MPI_F_c const MPI_Count n[] MPI_Aint d", "3.0 MPI_G "]
        );
        assert_eq!(functions[0].deprecated.as_deref(), Some("4.1"));
        assert_eq!((functions[2].chapter.as_str(), &functions[2].deprecated), ("Sums", &None));
    }

    #[test]
    fn table_large_count_types_need_a_large_version() {
        for line in [
            "1.1/4.0 int MPI_F(int n)",
            "1.1 int MPI_F(int|MPI_Count n)",
            "1.1 int MPI_F(int n) 4.1",
            "1.1 MPI_F",
        ] {
            assert!(function_line(&mut Vec::new(), &mut String::new(), line).is_err(), "{line}");
        }
    }

    #[test]
    fn table_constants_are_unique_integers() {
        let mut groups = Vec::new();
        for line in ["[A]", "MPI_A enum -3", "MPI_B MPI_Comm 0x100", "MPI_C alias MPI_A"] {
            constant_line(&mut groups, &[], line).unwrap();
        }
        for line in ["MPI_A enum 4", "MPI_D enum four", "MPI_E enum 0xg", "MPI_F alias MPI_G", "MPI_H enum"] {
            assert!(constant_line(&mut groups, &[], line).is_err(), "{line}");
        }
        assert!(constant_line(&mut Vec::new(), &[], "MPI_A enum 1").is_err(), "no section");
    }

    #[test]
    fn table_separates_additions_from_the_abi() {
        let mut types = Vec::new();
        type_line(&mut types, "handle MPI_Comm").unwrap();
        type_line(&mut types, "+ callback_alias MPI_Old MPI_New").unwrap();
        assert_eq!((types[0].in_abi, types[1].in_abi), (true, false));
        assert!(type_line(&mut types, "thing MPI_X").is_err());
    }

    #[test]
    fn table_refuses_variadic_parameters() {
        let found = prototype("int MPI_Pcontrol(const int level, ...)").unwrap();
        assert_eq!((found.params.len(), found.variadic), (1, true));
        assert!(prototype("int MPI_X").is_err() && prototype("MPI_X(void)").is_err());
    }
}
