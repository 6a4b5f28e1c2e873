//! Tables on stdout, pictures in files.

use std::{fs, path::PathBuf};

use crate::mpis::Places;

/// A cell that begins so says why there is no figure where there should be one.
pub const FAILED: &str = "failed: ";

/// A table of words.
#[derive(Clone, Debug)]
pub struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With the names of its columns.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Table { title: title.into(), rows: vec![columns.iter().map(|name| (*name).to_owned()).collect()] }
    }

    /// One row more.
    pub fn row(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// A row that says why there is none.
    pub fn failed(&mut self, mut row: Vec<String>, why: &str) {
        row.push(format!("{FAILED}{why}"));
        self.row(row);
    }

    /// As Markdown that can also be read as it is, in place of the line that says what is being measured. An
    /// error if a row failed.
    pub fn print(&self) -> Result<(), String> {
        eprint!("\r\x1b[K");
        self.show();
        match self.rows.iter().filter(|row| row.iter().any(|cell| cell.starts_with(FAILED))).count() {
            0 => Ok(()),
            1 => Err("a row failed".into()),
            failed => Err(format!("{failed} rows failed")),
        }
    }

    fn show(&self) {
        let columns = self.rows[0].len();
        let wide = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        println!("\n### {}\n", self.title);
        for (index, row) in self.rows.iter().enumerate() {
            let cells = (0..columns).map(|column| {
                let cell = row.get(column).map_or("", String::as_str);
                format!(" {cell:<width$} ", width = wide(column))
            });
            println!("|{}|", cells.collect::<Vec<_>>().join("|"));
            if index == 0 {
                println!(
                    "|{}|",
                    (0..columns).map(|column| "-".repeat(wide(column) + 2)).collect::<Vec<_>>().join("|")
                );
            }
        }
    }
}

/// Writes a picture and says where it is.
pub fn picture(places: &Places, name: &str, svg: &str) -> Result<(), String> {
    let folder: PathBuf = places.target.join("bench-gang");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let file = folder.join(name);
    fs::write(&file, svg).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("\npicture: {}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_with_a_failed_row_is_an_error() {
        let mut table = Table::new("A table", &["nodes", "EP"]);
        table.row(vec!["2".into(), "1 %".into()]);
        assert_eq!(table.print(), Ok(()));
        table.failed(vec!["4".into()], "over 60 s");
        assert_eq!(table.print(), Err("a row failed".into()));
    }
}
