//! Writes the manual page of a header whose documentation is a page for users: `man tutti.hpp`.
//!
//! Of Markdown the page may have headings, paragraphs, lists, tables, blocks of code, code, bold words and
//! links. A row of a table becomes a paragraph with the first cell as its tag.

use std::fmt::Write;

use crate::manual::escaped;

/// The manual page of a document, and one that leads to it for each call in its tables: file and text.
pub fn pages(name: &str, document: &str, version: &str) -> Vec<(String, String)> {
    let mut lines = document.lines();
    let title = lines.find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
    let mut text = format!(
        ".TH {name} 3 \"\" \"Tutti {version}\" \"Tutti\"\n.SH NAME\n{name} \\- {}\n.SH DESCRIPTION\n",
        inline(title)
    );
    let rest: Vec<&str> = lines.collect();
    let mut at = 0;
    while at < rest.len() {
        at += block(&rest[at..], &mut text);
    }
    let mut pages = vec![(format!("{name}.3"), text)];
    for call in calls(document) {
        pages.push((format!("tutti::{call}.3"), format!(".so man3/{name}.3\n")));
    }
    pages
}

/// Writes the block that these lines begin with; how many lines it has.
fn block(lines: &[&str], text: &mut String) -> usize {
    let is_end = |line: &&&str| {
        line.is_empty() || line.starts_with(['#', '|']) || line.starts_with("```") || line.starts_with("- ")
    };
    let first = lines[0];
    if first.is_empty() {
        return 1;
    }
    if let Some(heading) = first.strip_prefix("## ") {
        put(text, format_args!(".SH {}", inline(heading).to_uppercase()));
        return 1;
    }
    if first.starts_with("```") {
        let code: Vec<_> = lines[1..].iter().take_while(|line| !line.starts_with("```")).collect();
        put(text, format_args!(".PP\n.in +4n\n.EX"));
        code.iter().for_each(|line| put(text, format_args!("{}", escaped(line))));
        put(text, format_args!(".EE\n.in"));
        return code.len() + 2;
    }
    if first.starts_with('|') {
        let rows: Vec<Vec<&str>> =
            lines.iter().take_while(|line| line.starts_with('|')).map(|line| cells(line)).collect();
        rows.iter().skip(2).for_each(|row| table_row(&rows[0], row, text));
        return rows.len();
    }
    let more = lines[1..].iter().take_while(|line| !is_end(line)).count() + 1;
    let paragraph = lines[..more].iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    match paragraph.strip_prefix("- ") {
        Some(item) => put(text, format_args!(".IP \\(bu 2\n{}", inline(item))),
        None => put(text, format_args!(".PP\n{}", inline(&paragraph))),
    }
    more
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a String takes everything");
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split(" |").map(str::trim).collect()
}

/// A row: the first cell as a tag, the others behind it, from the third on with the names of their columns.
fn table_row(names: &[&str], row: &[&str], text: &mut String) {
    put(text, format_args!(".TP\n{}", inline(row[0])));
    let others = row.iter().zip(names).enumerate().skip(1).map(|(at, (cell, name))| match at {
        1 => inline(cell),
        _ => format!("{}: {}", inline(name), inline(cell)),
    });
    put(text, format_args!("{}", others.collect::<Vec<_>>().join("; ")));
}

/// Text with code and bold words in bold, and links as their texts. Code in bold words stands out from them.
fn inline(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let words = |part: &str| without_links(part).replace("**", "`");
    let parts = parts.map(|(at, part)| if at % 2 == 0 { words(part) } else { part.to_owned() });
    escaped(&parts.collect::<Vec<_>>().join("`"))
}

/// Text in which links are their texts.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let found =
            link.split_once("](").and_then(|(shown, behind)| Some((shown, behind.split_once(')')?.1)));
        let (shown, behind) = found.unwrap_or(("[", link));
        out += before;
        out += shown;
        rest = behind;
    }
    out + rest
}

/// Names of the calls that tables with a column `call` describe.
fn calls(document: &str) -> Vec<String> {
    let mut calls = Vec::new();
    let mut is_of_calls = false;
    for line in document.lines() {
        if !line.starts_with('|') {
            is_of_calls = false;
            continue;
        }
        let first = cells(line)[0].to_owned();
        is_of_calls |= first == "call";
        let names = first.split('`').skip(1).step_by(2).filter(|_| is_of_calls);
        let names = names.filter(|name| name.contains(['(', '<']));
        let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase());
        let names = names.map(|name| name.split(['(', '<']).next().unwrap_or_default()).filter(is_name);
        calls.extend(names.filter(|name| !name.contains([' ', '.'])).map(str::to_owned));
    }
    calls.sort();
    calls.dedup();
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Calls\n\nA **word** and `f(x)`, [a page](b.md).\n`More`.\n\n```cpp\n.a = \"\\n\";\n```\n\n## Some calls\n\n\
                        | call | does | who may |\n|---|---|---|\n| `f(x)`, `g<T>(x)` | runs `x` | all |\n| `h()` for `x` | too | all |\n| `p.q()` | no call | main |\n\n\
                        - one\n  goes on\n- two\n";

    #[test]
    fn page_manual_has_every_block_of_its_document() {
        let pages = pages("t.hpp", PAGE, "1");
        let text = &pages[0].1;
        for part in [
            ".SH NAME\nt.hpp \\- Calls\n",
            ".PP\nA \\fBword\\fR and \\fBf(x)\\fR, a page. \\fBMore\\fR.\n",
            ".EX\n\\&.a = \"\\en\";\n.EE\n",
            ".SH SOME CALLS\n.TP\n\\fBf(x)\\fR, \\fBg<T>(x)\\fR\nruns \\fBx\\fR; who may: all\n",
            ".IP \\(bu 2\none goes on\n.IP \\(bu 2\ntwo\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        let names: Vec<&str> = pages[1..].iter().map(|page| page.0.as_str()).collect();
        assert_eq!(names, ["tutti::f.3", "tutti::g.3", "tutti::h.3"]);
    }

    /// Each call of the page stands in the header, and no mark of Markdown is left.
    #[test]
    fn page_manual_of_tutti_hpp_leads_to_calls_of_the_header() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
        let (document, header) = (read("docs/user/cxx.md"), read("bindings/cxx/tutti.hpp"));
        let pages = pages("tutti.hpp", &document, "1");
        assert!(pages.len() > 20, "{}", pages.len());
        for (file, _) in &pages[1..] {
            let name = file.trim_start_matches("tutti::").trim_end_matches(".3");
            let is_word = |at: usize| !header[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            assert!(header.match_indices(name).any(|(at, _)| is_word(at)), "{name} is not in the header");
        }
        for name in ["invoke", "post", "spawn", "make", "read"] {
            assert!(pages.iter().any(|page| page.0 == format!("tutti::{name}.3")), "{name}");
        }
        let outside = pages[0].1.split(".EX").flat_map(|part| part.rsplit(".EE").next());
        for part in outside {
            assert!(!part.contains('`') && !part.contains("](") && !part.contains("**"), "{part}");
        }
    }
}
