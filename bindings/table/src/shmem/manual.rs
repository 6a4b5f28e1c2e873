//! Writes the manual pages of OpenSHMEM: one for each body, with the prototypes of all families that it
//! serves. What it does is the comment above the body in `crates/shmem/src/api`, or behind that of the table.

use super::{Family, Shmem};
use crate::manual::escaped;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// By name, the comment above each body.
#[derive(Debug)]
pub struct Comments(BTreeMap<String, String>);

impl Comments {
    /// Reads the Rust files in `api`.
    ///
    /// # Errors
    /// The system's.
    pub fn load(api: &Path) -> io::Result<Self> {
        let mut comments = BTreeMap::new();
        for entry in std::fs::read_dir(api)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                take(&std::fs::read_to_string(path)?, &mut comments);
            }
        }
        Ok(Comments(comments))
    }
}

fn take(text: &str, comments: &mut BTreeMap<String, String>) {
    let mut comment = String::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(words) = line.strip_prefix("///") {
            comment += words.trim();
            comment.push('\n');
        } else if let Some(rest) = line.strip_prefix("pub unsafe fn ") {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            comments.insert(rest[..end].to_owned(), std::mem::take(&mut comment));
        } else if !line.starts_with("#[") {
            comment.clear();
        }
    }
}

/// All pages: name of the file, and its text.
pub fn pages(table: &Shmem, comments: &Comments, version: &str) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let mut by_body: Vec<(&str, Vec<&Family>)> = Vec::new();
    for family in &table.families {
        match by_body.iter_mut().find(|(body, _)| *body == family.body) {
            Some((_, families)) => families.push(family),
            None => by_body.push((&family.body, vec![family])),
        }
    }
    for (body, families) in by_body {
        let name = families[0].generic_name();
        let others = families.iter().map(|family| family.generic_name()).filter(|other| *other != name);
        let mut others: Vec<String> = others.collect();
        others.dedup();
        let written = table.written.get(body).and_then(|written| written.comment.as_ref());
        let comment = written.or_else(|| comments.0.get(body)).map_or("", String::as_str);
        pages.push((format!("{name}.3"), page(table, &name, &families, comment, version)));
        pages.extend(others.into_iter().map(|other| (format!("{other}.3"), format!(".so man3/{name}.3\n"))));
    }
    pages.dedup_by(|one, next| one.0 == next.0);
    pages
}

fn page(table: &Shmem, name: &str, families: &[&Family], comment: &str, version: &str) -> String {
    let (title, _) = comment.split_once(['.', ';', ':', '(']).unwrap_or((comment, ""));
    let mut page = format!(
        ".TH {name} 3 \"\" \"Tutti {version}\" \"OpenSHMEM\"\n.SH NAME\n{name} \\- {}\n.SH SYNOPSIS\n.nf\n#include <shmem.h>\n",
        escaped(title.trim())
    );
    let mut notes = String::new();
    for family in families {
        let types = table.types_of(family);
        let names: Vec<&str> = types.iter().flatten().map(|of_type| of_type.name.as_str()).collect();
        for with_context in [false, true] {
            if with_context && !family.has_context {
                continue;
            }
            let of_type = types[0].map(|of_type| super::Type {
                name: if of_type.c == "void" { "SIZE" } else { "TYPENAME" }.to_owned(),
                rust: String::new(),
                c: "TYPE".to_owned(),
            });
            let function = super::Function {
                family,
                of_type: of_type.as_ref(),
                with_context,
                name: family.name_for(of_type.as_ref(), with_context),
            };
            page += &format!(".PP\n{};\n", escaped(&function.c_prototype("")));
        }
        if !names.is_empty() {
            notes += &format!(".PP\n{} is there for: {}.\n", escaped(&family.pattern), names.join(", "));
        }
        if family.is_generic {
            notes += &format!("In C11 and C++ `{}` takes any of these types.\n", family.generic_name())
                .replace('`', "");
        }
        if family.is_deprecated {
            notes += ".PP\nThe standard advises against it in new programs.\n";
        }
        if family.is_new {
            notes += ".PP\nIt comes from OpenSHMEM 1.6.\n";
        }
    }
    page += &format!(".fi\n.SH DESCRIPTION\n{}\n{notes}", escaped(comment));
    page += ".SH SEE ALSO\noshrun(1), oshcc(1), OpenSHMEM 1.5\n";
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shmem_man_pages_all_have_a_description() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let table = Shmem::load(&root.join("bindings/shmem")).unwrap();
        let comments = Comments::load(&root.join("crates/shmem/src/api")).unwrap();
        for (file, page) in pages(&table, &comments, "1") {
            let described = page.split(".SH DESCRIPTION\n").nth(1).and_then(|rest| rest.lines().next());
            assert!(
                page.starts_with(".so ") || described.is_some_and(|line| line.len() > 10),
                "{file}: {page}"
            );
        }
    }
}
