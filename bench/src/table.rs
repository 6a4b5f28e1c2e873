//! The side-by-side table, as aligned text or as Markdown, and the same as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    figures::Series,
    mpis::Kind,
    rows::{Goal, Results, Row},
};

/// Two equal programs come out as slower or faster than each other by chance: so near is as good.
const TIE: f64 = 1.02;

/// A row with its figures, ready to be shown.
pub struct Shown<'a> {
    row: &'a Row,
    limit: Option<f64>,
    series: Vec<(Kind, Series)>,
    /// Ours against the best peer in this row; below 1 ours is better.
    ratio: Option<(Kind, f64)>,
}

impl<'a> Shown<'a> {
    /// Takes a row's figures out of the results.
    pub fn new(row: &'a Row, results: &Results, kinds: &[Kind]) -> Self {
        let series: Vec<(Kind, Series)> =
            kinds.iter().map(|&kind| (kind, row.series(results, kind))).collect();
        let ratio = ratio_to_best_peer(row, &series);
        Self { row, limit: row.limit(results), series, ratio }
    }

    fn ours(&self) -> Option<f64> {
        self.series.iter().find(|(kind, _)| *kind == Kind::Tutti)?.1.median()
    }

    /// Whether ours reaches the goal; none if it is not judged.
    pub fn met(&self) -> Option<bool> {
        match self.row.goal {
            Goal::Shown => None,
            Goal::Reach(goal) if self.row.higher_is_better() => Some(self.ours()? >= goal),
            Goal::Reach(goal) => Some(self.ours()? <= goal),
            Goal::Beat(by) => self.ratio.map(|(_, ratio)| ratio <= TIE / by),
        }
    }

    /// Whether the machine itself was slower than the goal in this run.
    pub fn out_of_reach(&self) -> bool {
        let (Goal::Reach(goal), Some(limit)) = (self.row.goal, self.limit) else { return false };
        if self.row.higher_is_better() { limit < goal } else { limit > goal }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.row.text.clone(), self.row.unit.into()];
        cells.push(self.limit.map_or_else(|| "-".into(), number));
        for (_, series) in &self.series {
            cells.push(match (series.median(), series.p99(), &series.failure) {
                (Some(median), Some(p99), _) => format!("{} ({})", number(median), number(p99)),
                (Some(median), None, _) => number(median),
                (None, _, Some(why)) if why == "timeout" => why.clone(),
                (None, _, Some(_)) => "failed".into(),
                (None, _, None) => "-".into(),
            });
        }
        cells.push(match self.row.goal {
            Goal::Reach(goal) => number(goal),
            Goal::Beat(1.0) => "best peer".into(),
            Goal::Beat(by) => format!("best peer / {by}"),
            Goal::Shown => "-".into(),
        });
        cells.push(self.ratio.map_or_else(|| "-".into(), |(_, ratio)| format!("{ratio:.2}")));
        cells.push(match self.met() {
            Some(true) => "met".into(),
            Some(false) if self.out_of_reach() && self.row.higher_is_better() => "limit < goal".into(),
            Some(false) if self.out_of_reach() => "limit > goal".into(),
            Some(false) => "NOT met".into(),
            None => "-".into(),
        });
        cells
    }

    /// Why an MPI has no figure in this row.
    fn failures(&self) -> impl Iterator<Item = String> {
        self.series
            .iter()
            .filter_map(|(kind, series)| Some(format!("{}: {}", kind.title(), series.failure.as_ref()?)))
    }

    /// All that is known about the row.
    pub fn json(&self) -> Value {
        let mpis: serde_json::Map<String, Value> = self
            .series
            .iter()
            .map(|(kind, series)| {
                let rounds: Vec<f64> = series.rounds.values().copied().collect();
                let value = json!({"median": series.median(), "p99": series.p99(), "rounds": rounds,
                    "failure": series.failure});
                (kind.name().into(), value)
            })
            .collect();
        let goal = match self.row.goal {
            Goal::Reach(goal) => json!({"reach": goal}),
            Goal::Beat(by) => json!({"beat_best_peer_by": by}),
            Goal::Shown => Value::Null,
        };
        json!({
            "id": self.row.id, "text": self.row.text, "unit": self.row.unit,
            "higher_is_better": self.row.higher_is_better(), "limit": self.limit, "mpis": mpis, "goal": goal,
            "best_peer": self.ratio.map(|(kind, _)| kind.name()), "ratio": self.ratio.map(|(_, ratio)| ratio),
            "met": self.met(), "out_of_reach": self.out_of_reach(),
        })
    }
}

/// The peer with the best median, and the median over the rounds of ours against it.
fn ratio_to_best_peer(row: &Row, series: &[(Kind, Series)]) -> Option<(Kind, f64)> {
    let (_, ours) = series.iter().find(|(kind, _)| *kind == Kind::Tutti)?;
    let peers = series.iter().filter(|(kind, series)| *kind != Kind::Tutti && series.median().is_some());
    let better = |a: f64, b: f64| if row.higher_is_better() { b.total_cmp(&a) } else { a.total_cmp(&b) };
    let (kind, best) = peers
        .min_by(|(_, a), (_, b)| better(a.median().unwrap_or(f64::NAN), b.median().unwrap_or(f64::NAN)))?;
    let ratio = if row.higher_is_better() { best.ratio_to(ours)? } else { ours.ratio_to(best)? };
    Some((*kind, ratio))
}

/// Why there are figures missing: one line per reason, with the rows that it concerns.
pub fn failures(shown: &[Shown]) -> String {
    let mut rows_by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for row in shown {
        for reason in row.failures() {
            rows_by_reason.entry(reason).or_default().push(&row.row.id);
        }
    }
    rows_by_reason
        .into_iter()
        .map(|(reason, rows)| match rows.len() {
            1..=3 => format!("{} ({})\n", reason, rows.join(", ")),
            count => format!("{reason} ({}, {} and {} more rows)\n", rows[0], rows[1], count - 2),
        })
        .collect()
}

/// A figure as it is shown.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The whole table.
pub fn render(shown: &[Shown], kinds: &[Kind], markdown: bool) -> String {
    let mut lines: Vec<Vec<String>> = vec![["row", "unit", "limit"].map(String::from).to_vec()];
    lines[0].extend(kinds.iter().map(|kind| kind.title().to_owned()));
    lines[0].extend(["goal", "ours/best peer", "goal met"].map(String::from));
    lines.extend(shown.iter().map(Shown::cells));

    let columns = lines[0].len();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .enumerate()
            .map(
                |(column, (cell, &width))| {
                    if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        let (between, edge) = if markdown { (" | ", "|") } else { ("  ", "") };
        let row = cells.join(between);
        let row = if markdown { format!("{edge} {row} {edge}") } else { row.trim_end().to_owned() };
        text += &row;
        text.push('\n');
        if at == 0 {
            let rule: Vec<String> = widths
                .iter()
                .enumerate()
                .map(|(column, &width)| match markdown {
                    true if column >= 2 => format!("{}:", "-".repeat(width.max(2) - 1)),
                    _ => "-".repeat(width),
                })
                .collect();
            let rule = rule.join(between);
            text += &if markdown { format!("{edge} {rule} {edge}") } else { rule };
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{figures::Line, rows};

    fn results(figures: &[(Kind, usize, f64)]) -> Results {
        let mut results = Results { cores: 2, ..Results::default() };
        for &(kind, round, ns) in figures {
            let line = Line::parse(&format!("rtt bytes=4 median_ns={ns} p99_ns={}", ns * 2.0)).unwrap();
            results.runs.insert(("rtt".into(), kind, round), Ok(vec![line]));
        }
        results
    }

    #[test]
    fn table_row_shows_median_tail_ratio_and_verdict() {
        let rows = rows::all();
        let row = rows.iter().find(|row| row.id == "rtt/4").unwrap();
        let kinds = [Kind::Mpich, Kind::OpenMpi, Kind::Tutti];
        let results =
            results(&[(Kind::Mpich, 0, 1900.0), (Kind::OpenMpi, 0, 260.0), (Kind::Tutti, 0, 180.0)]);
        let shown = Shown::new(row, &results, &kinds);
        assert_eq!(
            shown.cells()[3..],
            ["1.90 (3.80)", "0.260 (0.520)", "0.180 (0.360)", "0.200", "0.69", "met"].map(String::from)
        );
        assert_eq!(shown.json()["best_peer"], "openmpi");
    }

    #[test]
    fn table_does_not_judge_missing_figures() {
        let rows = rows::all();
        let row = rows.iter().find(|row| row.id == "rtt/4").unwrap();
        let mut results = results(&[(Kind::OpenMpi, 0, 260.0)]);
        results.runs.insert(("rtt".into(), Kind::Tutti, 0), Err("timeout".into()));
        let shown = Shown::new(row, &results, &[Kind::OpenMpi, Kind::Tutti]);
        assert_eq!(shown.cells()[3..], ["0.260 (0.520)", "timeout", "0.200", "-", "-"].map(String::from));
        assert_eq!(failures(&[shown]), "Tutti: timeout (rtt/4)\n");
    }

    #[test]
    fn table_columns_are_aligned() {
        let rows = rows::all();
        let results = results(&[(Kind::Tutti, 0, 180.0)]);
        let kinds = [Kind::Tutti];
        let shown: Vec<Shown> = rows.iter().map(|row| Shown::new(row, &results, &kinds)).collect();
        let text = render(&shown, &kinds, true);
        let widths: std::collections::BTreeSet<usize> =
            text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 1, "{text}");
    }
}
