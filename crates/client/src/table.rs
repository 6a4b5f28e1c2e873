//! Tables for people.

use unicode_width::UnicodeWidthStr;

/// Columns that a text takes on a terminal: a letter of Chinese has two, a mark on another letter none.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Columns as wide as their widest entry, `right` ones at the right edge.
pub fn aligned(table: &[Vec<String>], right: &[bool]) -> String {
    let width = |column: usize| table.iter().map(|row| columns(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..right.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).zip(right);
        let cells = cells.map(|((cell, &width), right)| {
            let blanks = " ".repeat(width - columns(cell));
            if *right { blanks + cell } else { cell.to_owned() + &blanks }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    table.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_columns_of_what_a_terminal_shows() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        // A wide letter, a mark of its own, and a joiner without a width.
        let table =
            ["name", "\u{6f22}\u{5b57}", "e\u{301}te\u{301}", "a\u{200c}b"].map(|name| row([name, "7"]));
        let text = aligned(&table, &[false, true]);
        let second = text.lines().map(|line| columns(&line[..line.len() - 1]));
        assert_eq!(second.collect::<Vec<_>>(), [6; 4], "{text}");
        assert_eq!(text.lines().next(), Some("name  7"));
    }
}
