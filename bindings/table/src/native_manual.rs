//! Writes the manual pages of the native interface: one for each comment of a header that functions follow.

use std::fmt::Write;

use crate::manual::escaped;

/// A comment, and what is declared below it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Group {
    comment: String,
    /// Types of functions that the prototypes name.
    types: Vec<String>,
    prototypes: Vec<String>,
}

impl Group {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.prototypes.iter().map(|prototype| name_of(prototype))
    }
}

/// The name that a prototype declares.
fn name_of(prototype: &str) -> &str {
    let before = prototype.split('(').next().unwrap_or_default();
    before.rsplit([' ', '*']).next().unwrap_or_default()
}

/// The comments of a header with the functions below each, in order.
fn groups(header: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut group = Group::default();
    let mut open = String::new();
    let (mut in_comment, mut depth) = (false, 0_i32);
    for line in header.lines() {
        if in_comment || line.starts_with("/*") {
            if line.starts_with("/*") {
                groups.push(std::mem::take(&mut group));
            }
            in_comment = !line.contains("*/");
            let text = line.trim_start_matches("/*").trim_end_matches("*/").trim_start_matches(" *");
            group.comment += text.trim();
            group.comment.push(' ');
            continue;
        }
        if line.starts_with("extern") {
            continue;
        }
        let braces = line.matches('{').count() as i32 - line.matches('}').count() as i32;
        if depth > 0 || line.starts_with(['#', '}', '{']) || line.is_empty() {
            depth = (depth + braces).max(0);
            if line.is_empty() && depth == 0 {
                groups.push(std::mem::take(&mut group));
            }
            continue;
        }
        depth += braces;
        open += line.trim();
        match open.ends_with([';', ')']) && depth == 0 {
            true if open.starts_with("typedef") => group.types.push(std::mem::take(&mut open)),
            true => {
                let prototype = open.trim_start_matches("static inline ").trim_end_matches(';');
                group.prototypes.push(format!("{prototype};"));
                open.clear();
            }
            false if depth > 0 => open.clear(),
            false => open.push(' '),
        }
    }
    groups.push(group);
    groups.retain(|group| !group.prototypes.is_empty());
    groups
}

/// The prototypes of all functions of a header, a line each.
pub fn prototypes(header: &str) -> Vec<String> {
    groups(header).into_iter().flat_map(|group| group.prototypes).collect()
}

/// Codes that functions return, with their meanings: the lines behind `#define ..._OK 0`, up to an empty one.
fn codes(header: &str) -> Vec<(&str, &str)> {
    let lines = header.lines().skip_while(|line| !line.ends_with("_OK 0")).skip(1);
    let defines = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("#define "));
    defines
        .filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            let meaning = rest.split_once("/*").map_or("", |(_, meaning)| meaning);
            Some((name, meaning.trim_end_matches("*/").trim()))
        })
        .collect()
}

/// All pages of a header: name of the file, and its text.
pub fn pages(file: &str, header: &str, version: &str) -> Vec<(String, String)> {
    let groups = groups(header);
    let all: Vec<&str> = groups.iter().filter_map(|group| group.names().next()).collect();
    let codes = codes(header);
    let mut pages = Vec::new();
    for group in &groups {
        let names: Vec<&str> = group.names().collect();
        let title = group.comment.split(['.', ':', ';']).next().unwrap_or_default().trim();
        let mut page = format!(
            ".TH {} 3 \"\" \"Tutti {version}\" \"Tutti\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.nf\n#include <{file}>\n",
            names[0],
            names.join(", "),
            escaped(title)
        );
        for line in group.types.iter().chain(&group.prototypes) {
            writeln!(page, ".PP\n{}", escaped(line)).expect("a String takes everything");
        }
        writeln!(page, ".fi\n.PP\nLink with -ltutti.\n.SH DESCRIPTION\n{}", escaped(group.comment.trim()))
            .expect("a String takes everything");
        let returns_code = group.prototypes.iter().any(|prototype| prototype.starts_with("int "));
        if returns_code && !codes.is_empty() {
            page += ".SH RETURN VALUE\n0, or the number that is asked for, or one of these:\n";
            for (name, meaning) in &codes {
                writeln!(page, ".TP\n{}\n{}", escaped(name), escaped(meaning))
                    .expect("a String takes everything");
            }
        }
        let others: Vec<_> =
            all.iter().filter(|other| **other != names[0]).map(|other| format!("{other}(3)")).collect();
        if !others.is_empty() {
            writeln!(page, ".SH SEE ALSO\n{}", others.join(", ")).expect("a String takes everything");
        }
        pages.push((format!("{}.3", names[0]), page));
        pages.extend(
            names[1..].iter().map(|name| (format!("{name}.3"), format!(".so man3/{}.3\n", names[0]))),
        );
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/* A file. */\n#define TUTTI_OK 0\n#define TUTTI_ERR_X (-1) /* it is wrong */\n\n/* Says one: more. */\n\
                          typedef void (*f)(int a);\nint one(int a,\n        f b);\nvoid two(void);\n\n/* A type. */\n\
                          typedef struct s {\n    int a;\n} s;\n\n/* Inline. */\nstatic inline int three(int a)\n{\n    return \
                          a;\n}\n";

    #[test]
    fn native_man_pages_are_those_of_comments_with_functions() {
        let names: Vec<Vec<String>> =
            groups(HEADER).iter().map(|group| group.names().map(str::to_owned).collect()).collect();
        assert_eq!(names, [vec!["one", "two"], vec!["three"]]);
        let pages = pages("f.h", HEADER, "1");
        assert_eq!(pages.len(), 3);
        assert!(pages[0].1.contains("one, two \\- Says one\n"), "{}", pages[0].1);
        assert!(pages[0].1.contains("int one(int a, f b);"), "{}", pages[0].1);
        assert!(pages[0].1.contains("TUTTI_ERR_X\nit is wrong"), "{}", pages[0].1);
        assert_eq!(pages[1], ("two.3".to_owned(), ".so man3/one.3\n".to_owned()));
    }

    #[test]
    fn native_man_pages_of_the_headers_describe_every_function() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../native");
        let mut described = 0;
        for file in ["tutti.h", "tutti_board.h", "tutti_call.h", "tutti_dse.h", "tutti_move.h"] {
            let header = std::fs::read_to_string(folder.join(file)).unwrap();
            for group in groups(&header) {
                assert!(group.comment.trim().len() > 10, "{file}: {group:?}");
                assert!(group.names().all(|name| name.starts_with("tutti_")), "{file}: {group:?}");
                described += group.prototypes.len();
            }
            let declared = header.lines().filter(|line| line.starts_with("int tutti_")).count();
            let found = groups(&header);
            let ints =
                found.iter().flat_map(|group| &group.prototypes).filter(|p| p.starts_with("int tutti_"));
            assert!(ints.count() >= declared, "{file}");
        }
        assert!(described >= 50, "{described}");
    }
}
