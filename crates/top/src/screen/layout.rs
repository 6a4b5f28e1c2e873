//! Where everything is on a screen of a size. Both the drawing and the mouse go by it.
//!
//! ```text
//! title      what there is, or what is wrong
//! views      1 jobs  2 nodes  3 users, and the filter
//! picture    with the jobs: a line for each node, at most a third of the screen
//! head       names of the columns
//! lines
//! remark     what keeps the job that is selected
//! foot       keys, a question, what is typed, what was done
//! ```

use ratatui::layout::Rect;

use tutti_client::report::{Node, Report};

/// The smallest screen on which something is shown.
pub(crate) const SIZE_MIN: (u16, u16) = (40, 8);
/// First line of a text in place of the view.
pub(crate) const TEXT_AT: u16 = 2;
/// Width of a view's name, with its number and blanks.
const VIEW_WIDTH: u16 = 9;

/// View in the large part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Jobs,
    Nodes,
    Users,
}

impl View {
    /// All, in their order.
    pub(crate) const ALL: [View; 3] = [View::Jobs, View::Nodes, View::Users];
}

/// A column of the table of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Job,
    State,
    User,
    Ranks,
    Row,
    Asked,
    Had,
    Busy,
    Messages,
    Time,
    Command,
}

impl Column {
    /// All, from left to right.
    pub(crate) const ALL: [Column; 11] = [
        Column::Job,
        Column::State,
        Column::User,
        Column::Ranks,
        Column::Row,
        Column::Asked,
        Column::Had,
        Column::Busy,
        Column::Messages,
        Column::Time,
        Column::Command,
    ];
}

/// Places on the screen: lines from 0 at the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The names of the views.
    pub(crate) views: u16,
    /// The nodes beside the jobs; empty in other views.
    pub(crate) picture: Rect,
    /// The names of the columns.
    pub(crate) head: u16,
    /// The lines of the view.
    pub(crate) lines: Rect,
    /// Reasons of the selected job.
    pub(crate) remark: u16,
    /// The last line.
    pub(crate) foot: u16,
    /// Columns of the table of jobs: which, where it begins, how wide it is.
    pub(crate) columns: Vec<(Column, u16, u16)>,
}

/// Width of a column; the last one has what is left.
fn width(column: Column) -> u16 {
    match column {
        Column::Job => 7,
        Column::State => 9,
        Column::User => 8,
        Column::Ranks | Column::Asked | Column::Busy => 5,
        Column::Row | Column::Had => 4,
        Column::Messages => 6,
        Column::Time => 8,
        Column::Command => 0,
    }
}

/// Columns that a narrow screen goes without, the first ones first.
const DISPENSABLE: [Column; 6] =
    [Column::Messages, Column::Busy, Column::Row, Column::Ranks, Column::Asked, Column::Time];
/// Columns that the command is to have before columns are left out for it.
const COMMAND_WIDTH: u16 = 12;

fn columns(all: u16) -> Vec<(Column, u16, u16)> {
    let mut shown = Column::ALL.to_vec();
    let taken = |shown: &[Column]| shown.iter().map(|column| width(*column) + 1).sum::<u16>();
    for column in DISPENSABLE {
        if taken(&shown) + COMMAND_WIDTH > all {
            shown.retain(|other| *other != column);
        }
    }
    let mut at = 0;
    let mut placed = Vec::new();
    for column in shown {
        let width = if column == Column::Command { all.saturating_sub(at) } else { width(column) };
        placed.push((column, at, width));
        at = at.saturating_add(width).saturating_add(1);
    }
    placed
}

/// Rows of the matrix in which a node has jobs.
pub(crate) fn rows_of(node: &Node) -> Vec<u32> {
    let mut rows: Vec<u32> = node.cells.keys().map(|(row, _)| *row).collect();
    rows.dedup();
    rows
}

/// Lines of a node in its view: one for its state, if that is not `up`, one for each row that it has jobs in,
/// one for those beside.
pub(crate) fn lines_of(node: &Node) -> usize {
    let for_state = usize::from(node.state != "up");
    (for_state + rows_of(node).len() + usize::from(!node.beside.is_empty())).max(1)
}

/// Lines of the view of the nodes.
pub(crate) fn node_lines(report: &Report) -> usize {
    report.nodes.iter().map(lines_of).sum()
}

/// Lines that a text has in place of the view.
pub(crate) fn text_height(layout: &Layout) -> u16 {
    layout.remark.saturating_sub(TEXT_AT)
}

/// The places for a screen of that many columns and lines.
pub(crate) fn of(size: (u16, u16), view: View, report: Option<&Report>) -> Layout {
    let (columns_wide, lines_high) = (size.0.max(SIZE_MIN.0), size.1.max(SIZE_MIN.1));
    let nodes = report.map_or(0, |report| report.nodes.len()).min(usize::from(lines_high / 3)) as u16;
    let picture = if view == View::Jobs && lines_high >= 12 { nodes } else { 0 };
    let head = 2 + picture;
    let foot = lines_high - 1;
    Layout {
        views: 1,
        picture: Rect::new(0, 2, columns_wide, picture),
        head,
        lines: Rect::new(0, head + 1, columns_wide, foot - 1 - (head + 1)),
        remark: foot - 1,
        foot,
        columns: columns(columns_wide),
    }
}

impl Layout {
    /// The view whose name is there.
    pub(crate) fn view_at(&self, column: u16, line: u16) -> Option<View> {
        let at = usize::from(column / VIEW_WIDTH);
        View::ALL.get(at).copied().filter(|_| line == self.views)
    }

    /// Where the name of a view begins.
    pub(crate) fn view_start(view: View) -> u16 {
        view as u16 * VIEW_WIDTH
    }

    /// The column of the table of jobs that is there.
    pub(crate) fn column_at(&self, at: u16) -> Option<Column> {
        let found = self.columns.iter().rev().find(|(_, start, _)| *start <= at);
        found.map(|(column, ..)| *column)
    }

    /// Index of the line there, from the first that is shown on.
    pub(crate) fn line_at(&self, line: u16) -> Option<usize> {
        let at = line.checked_sub(self.lines.y)?;
        (at < self.lines.height).then_some(usize::from(at))
    }
}
