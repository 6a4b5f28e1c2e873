//! A table over sizes: rows of the paper, of ours, of peers and of the limit; as Markdown, and drawn.

use std::fmt::Write;

use tutti_svg::plot::{self, Lines, Series};

use crate::table::number;

/// A row of figures, one for each size.
#[derive(Clone, Debug, Default)]
pub struct Row {
    name: String,
    figures: Vec<Option<f64>>,
    is_published: bool,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Measured quantity, with its unit.
    pub title: String,
    /// Where and how.
    pub note: String,
    /// Of each column, in bytes.
    pub sizes: Vec<u64>,
    /// In their order.
    pub rows: Vec<Row>,
}

impl Row {
    /// Printed figures of a paper: one for each size, NaN where it has none.
    pub fn paper(name: &str, figures: &[f64]) -> Self {
        let figures = figures.iter().map(|figure| Some(*figure).filter(|figure| figure.is_finite()));
        Row { name: format!("paper: {name}"), figures: figures.collect(), is_published: true }
    }

    /// Figures measured here.
    pub fn here(name: &str, figures: Vec<Option<f64>>) -> Self {
        Row { name: name.to_owned(), figures, is_published: false }
    }
}

impl Sheet {
    /// As Markdown.
    pub fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(u64::to_string).collect();
        let mut text = format!("### {}\n\n{}\n\n", self.title, self.note);
        _ = writeln!(text, "| bytes | {} |\n|---|{}", sizes.join(" | "), "---|".repeat(sizes.len()));
        for row in &self.rows {
            let cells = (0..self.sizes.len()).map(|at| row.figures.get(at).copied().flatten());
            let cells: Vec<String> = cells.map(|figure| figure.map_or_else(|| "-".into(), number)).collect();
            _ = writeln!(text, "| {} | {} |", row.name, cells.join(" | "));
        }
        text
    }

    /// As a picture: sizes across, the paper's rows dashed.
    pub fn picture(&self) -> String {
        let series = self.rows.iter().map(|row| {
            let points = self.sizes.iter().zip(&row.figures);
            let points = points.filter_map(|(size, figure)| Some(((*size).max(1) as f64, (*figure)?)));
            Series { name: row.name.clone(), points: points.collect(), dashed: row.is_published }
        });
        plot::lines(&Lines {
            title: self.title.clone(),
            note: self.note.clone(),
            x: "bytes".into(),
            y: self.title.rsplit(", ").next().unwrap_or_default().to_owned(),
            powers: true,
            from: 0.0,
            series: series.filter(|series| !series.points.is_empty()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheet_has_the_papers_rows_beside_ours_and_draws_both() {
        let sheet = Sheet {
            title: "Round trip, us".into(),
            note: "here".into(),
            sizes: vec![0, 4],
            rows: vec![
                Row::paper("SR", &[71.0, f64::NAN]),
                Row::here("SR", vec![Some(1.5), None]),
                Row::here("a peer that failed", vec![]),
            ],
        };
        assert_eq!(
            sheet.text(),
            "### Round trip, us\n\nhere\n\n| bytes | 0 | 4 |\n|---|---|---|\n| paper: SR | 71.0 | - |\n\
             | SR | 1.50 | - |\n| a peer that failed | - | - |\n"
        );
        let picture = sheet.picture();
        assert!(picture.contains("paper: SR") && picture.contains("stroke-dasharray"), "{picture}");
        assert!(!picture.contains("a peer that failed"));
    }
}
