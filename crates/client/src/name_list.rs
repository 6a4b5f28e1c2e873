//! Lists of names of jobs, as commands and the page take them: `mesh,solve`. A comma of a name is written
//! `\,`.

/// Names of one option of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameList(Vec<String>);

/// Reads the value of an option, for clap.
///
/// # Errors
/// None: whatever it is, it is a list.
pub fn parse(text: &str) -> Result<NameList, std::convert::Infallible> {
    Ok(NameList(split(text)))
}

/// Names of all of a command's options.
#[must_use]
pub fn all(lists: &[NameList]) -> Vec<String> {
    lists.iter().flat_map(|list| list.0.iter().cloned()).collect()
}

/// Names of a list.
#[must_use]
pub fn split(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    for part in text.split_inclusive(',') {
        let name = names.last_mut().expect("there is one");
        match (part.strip_suffix("\\,"), part.strip_suffix(',')) {
            (Some(part), _) => name.extend([part, ","]),
            (None, Some(part)) => {
                name.push_str(part);
                names.push(String::new());
            }
            (None, None) => name.push_str(part),
        }
    }
    names
}

/// The list of these names.
#[must_use]
pub fn join(names: &[String]) -> String {
    names.iter().map(|name| name.replace(',', "\\,")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_list_has_names_with_commas() {
        for (text, names) in [
            ("mesh", &["mesh"][..]),
            ("mesh,solve", &["mesh", "solve"]),
            (r"eps=0\,1", &["eps=0,1"]),
            (r"a\,b,c,d\,e\,f", &["a,b", "c", "d,e,f"]),
            (r"\,,x", &[",", "x"]),
            (r"a\b", &[r"a\b"]),
            ("", &[""]),
            ("a,", &["a", ""]),
        ] {
            assert_eq!(split(text), names, "{text}");
            assert_eq!(join(&split(text)), text);
        }
        let lists = [parse("a,b").unwrap(), parse(r"c\,d").unwrap()];
        assert_eq!(all(&lists), ["a", "b", "c,d"]);
    }
}
