//! Tables for people.

/// Columns as wide as their widest entry, `right` ones at the right edge.
pub fn aligned(table: &[Vec<String>], right: &[bool]) -> String {
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..right.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).zip(right);
        let cells = cells.map(
            |((cell, &width), right)| {
                if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            },
        );
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    table.iter().map(line).collect()
}
