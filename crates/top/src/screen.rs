//! Draws what the model knows. Pure: into a buffer of cells, on whatever terminal.
//!
//! Text of others is escaped ([`tutti_os::stderr::escape_control`]); where the terminal has no UTF-8 what is
//! not ASCII is a question mark.

// By its path, so that a fuzz target can take this file in.
#[path = "screen/layout.rs"]
pub(crate) mod layout;
#[path = "screen/texts.rs"]
pub(crate) mod texts;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use tutti_client::moments::instant;

use crate::model::{Look, Mode, Model};
use crate::once::{memory_of, percent, percent_ppm, rate, rows_of, time_of};
use layout::{Column, Layout, SIZE_MIN, View};
use texts::shown;
use tutti_client::report::{Job, Key, Node, Report, User, limits_of};
use tutti_client::table::columns;

/// Draws everything.
pub(crate) fn draw(model: &Model, buffer: &mut Buffer) {
    let area = buffer.area;
    let mut pen = Pen { buffer, look: model.look };
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        return too_small(&mut pen, area.width);
    }
    let layout = model.layout();
    title(model, &mut pen, area.width);
    views(model, &mut pen, &layout, area.width);
    match model.mode {
        Mode::Help(first) | Mode::Details(_, first) => {
            let texts = model.text().unwrap_or_default();
            lines(&mut pen, &layout, texts.into_iter().skip(first));
        }
        _ => match (model.view, &model.report) {
            (_, None) => pen.put(0, layout.head, area.width, "waiting for the first report", Style::new()),
            (View::Jobs, Some(report)) => {
                picture(&mut pen, &layout, report);
                jobs(model, &mut pen, &layout);
            }
            (View::Nodes, Some(report)) => nodes(model, &mut pen, &layout, report),
            (View::Users, Some(report)) => users(model, &mut pen, &layout, &report.users),
        },
    }
    foot(model, &mut pen, &layout, area.width);
}

/// Says what the screen needs, in as many lines as its words take.
fn too_small(pen: &mut Pen<'_>, width: u16) {
    let text = format!("tutti top needs {} columns, {} lines; q ends it", SIZE_MIN.0, SIZE_MIN.1);
    let (mut x, mut y) = (0, 0);
    for word in text.split(' ') {
        let wide = word.len() as u16;
        if x > 0 && x + wide > width {
            (x, y) = (0, y + 1);
        }
        pen.put(x, y, width, word, Style::new());
        x += wide + 1;
    }
}

/// A buffer that takes text of others.
struct Pen<'a> {
    buffer: &'a mut Buffer,
    look: Look,
}

impl Pen<'_> {
    /// Text in at most `width` columns.
    fn put(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let area = self.buffer.area;
        if x >= area.width || y >= area.height {
            return;
        }
        let text = shown(text, self.look.utf8);
        self.buffer.set_stringn(x, y, text, usize::from(width.min(area.width - x)), style);
    }

    /// The same at the right edge of its width, if it has room.
    fn put_right(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let blank = width.saturating_sub(columns(&shown(text, self.look.utf8)) as u16);
        self.put(x + blank, y, width - blank, text, style);
    }

    /// A whole line in a style.
    fn fill(&mut self, y: u16, style: Style) {
        let area = self.buffer.area;
        self.buffer.set_style(Rect::new(0, y, area.width, 1).intersection(area), style);
    }

    fn colour(&self, colour: Color) -> Style {
        if self.look.colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn of_state(&self, state: &str) -> Style {
        match state {
            "running" => self.colour(Color::Green),
            "waiting" | "starting" => self.colour(Color::Yellow),
            "deadlock" => self.colour(Color::Red).add_modifier(Modifier::BOLD),
            "suspended" => self.colour(Color::Magenta),
            _ => Style::new(),
        }
    }

    /// Neighbours in number have different colours.
    fn of_job(&self, key: Key) -> Style {
        const COLOURS: [Color; 6] =
            [Color::Green, Color::Cyan, Color::Yellow, Color::Magenta, Color::Blue, Color::Red];
        self.colour(COLOURS[(key.job % COLOURS.len() as u64) as usize])
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn title(model: &Model, pen: &mut Pen<'_>, width: u16) {
    let clock = instant(model.now_ms);
    let clock = clock.split(' ').next_back().unwrap_or_default();
    let Some(report) = &model.report else {
        pen.put(0, 0, width, &format!("tutti top  {}", model.trouble().unwrap_or_default()), bold());
        return;
    };
    let old_s = model.now_ms.saturating_sub(report.at_ms) / 1000;
    if let Some(trouble) = model.trouble() {
        let style = pen.colour(Color::Red).add_modifier(Modifier::BOLD);
        return pen.put(0, 0, width, &format!("{old_s} s old: {trouble}"), style);
    }
    let count = |state: &str| report.jobs.iter().filter(|job| job.state == state).count();
    let alive = report.nodes.iter().filter(|node| node.is_alive());
    let slots: u64 = alive.clone().map(|node| u64::from(node.slots)).sum();
    let place = match report.daemon {
        true => format!("{} of {} nodes, {slots} slots", alive.count(), report.nodes.len()),
        false => "no daemon of one's own".to_owned(),
    };
    let text = format!(
        "tutti top  {place}  {} job{}: {} running, {} waiting{}",
        report.jobs.len(),
        if report.jobs.len() == 1 { "" } else { "s" },
        count("running"),
        count("waiting"),
        if model.is_paused() { "  HELD" } else { "" }
    );
    pen.put(0, 0, width.saturating_sub(9), &text, bold());
    pen.put_right(width.saturating_sub(8), 0, 8, clock, Style::new());
}

fn views(model: &Model, pen: &mut Pen<'_>, layout: &Layout, width: u16) {
    for (view, name) in View::ALL.into_iter().zip(["1 jobs", "2 nodes", "3 users"]) {
        let style = if view == model.view { reversed() } else { Style::new() };
        pen.put(Layout::view_start(view), layout.views, 9, &format!(" {name} "), style);
    }
    if !model.filter.is_empty() {
        let shown = format!("{} with {:?}", model.jobs().len(), model.filter);
        pen.put(28, layout.views, width.saturating_sub(28), &shown, bold());
    }
}

fn foot(model: &Model, pen: &mut Pen<'_>, layout: &Layout, width: u16) {
    let (text, style) = match (&model.mode, model.notice()) {
        (Mode::Filter(_), _) => (format!("show jobs with: {}_", model.filter), bold()),
        (Mode::Question(deed, job), _) => {
            let job_row = model.job(Key { other: None, job: job.0 });
            let command = job_row.map(|job| job.label.command.clone()).unwrap_or_default();
            (format!("{} job {job}? y: yes, other keys: no  ({command})", deed.word()), reversed())
        }
        (Mode::Help(_) | Mode::Details(..), _) if model.text_most() == 0 => {
            ("any key: back".to_owned(), Style::new())
        }
        (Mode::Help(first) | Mode::Details(_, first), _) => {
            let height = usize::from(layout::text_height(layout));
            let all = model.text_most() + height;
            let text = format!("{}-{} of {all}: arrows  other keys: back", first + 1, first + height);
            (text, Style::new())
        }
        (Mode::Browse, Some(notice)) => (notice.to_owned(), bold()),
        (Mode::Browse, None) => {
            ("? help  q end  / filter  < > sort  s suspend  c resume  k kill".to_owned(), Style::new())
        }
    };
    pen.put(0, layout.foot, width, &text, style);
    let is_list = matches!(model.mode, Mode::Browse | Mode::Question(..)) && model.view == View::Jobs;
    if let Some(remark) = model.selected_job().filter(|_| is_list).and_then(|job| job.label.remarks.first()) {
        pen.put(0, layout.remark, width, remark, pen.colour(Color::Yellow));
    }
}

/// Lines of text in place of the view.
fn lines(pen: &mut Pen<'_>, layout: &Layout, texts: impl Iterator<Item = String>) {
    let width = layout.lines.width;
    for (y, text) in (layout::TEXT_AT..layout.remark).zip(texts) {
        pen.put(0, y, width, &text, Style::new());
    }
}

/// A line for each node: its name, then its rows side by side.
fn picture(pen: &mut Pen<'_>, layout: &Layout, report: &Report) {
    let area = layout.picture;
    let shown = if report.nodes.len() > usize::from(area.height) {
        usize::from(area.height.saturating_sub(1))
    } else {
        report.nodes.len()
    };
    for (y, node) in (area.y..).zip(&report.nodes[..shown]) {
        let mut x = name_of_node(pen, y, node);
        for row in layout::rows_of(node) {
            if x < area.width {
                x = cells(pen, (x, y), report, node, row) + 1;
            }
        }
        for (key, ranks) in &node.beside {
            if x < area.width {
                let text = format!("{}*{ranks}", letter(report, *key));
                pen.put(x, y, area.width, &text, pen.of_job(*key));
                x += text.len() as u16 + 1;
            }
        }
    }
    if shown < report.nodes.len() && area.height > 0 {
        let more = format!("{} more nodes: 2", report.nodes.len() - shown);
        pen.put(0, area.y + area.height - 1, area.width, &more, Style::new());
    }
}

/// Width of the names of nodes.
const NAME_WIDTH: u16 = 14;

/// Writes it; gives the column behind it.
fn name_of_node(pen: &mut Pen<'_>, y: u16, node: &Node) -> u16 {
    let style = if node.is_alive() { bold() } else { pen.colour(Color::Red).add_modifier(Modifier::BOLD) };
    pen.put(0, y, NAME_WIDTH, &node.name, style);
    if node.state == "up" {
        return NAME_WIDTH + 1;
    }
    let width = node.state.len() as u16;
    pen.put(NAME_WIDTH + 1, y, width, node.state, style);
    NAME_WIDTH + 2 + width
}

/// Last figure of a job's number.
fn letter(report: &Report, key: Key) -> char {
    report.number(key).chars().next_back().unwrap_or('0')
}

/// The slots of a node in a row, in brackets, as far as they have room; gives the column behind them.
fn cells(pen: &mut Pen<'_>, (x, y): (u16, u16), report: &Report, node: &Node, row: u32) -> u16 {
    let room = pen.buffer.area.width.saturating_sub(x + 2);
    let slots = node.slots.min(u32::from(room)) as u16;
    pen.put(x, y, 1, "[", Style::new());
    for slot in 0..slots {
        match node.cells.get(&(row, u32::from(slot))) {
            Some(key) => pen.put(x + 1 + slot, y, 1, &letter(report, *key).to_string(), pen.of_job(*key)),
            None => pen.put(x + 1 + slot, y, 1, ".", Style::new()),
        }
    }
    pen.put(x + 1 + slots, y, 1, if u32::from(slots) < node.slots { ">" } else { "]" }, Style::new());
    x + slots + 2
}

fn head_of(column: Column) -> &'static str {
    match column {
        Column::Job => "JOB",
        Column::State => "STATE",
        Column::User => "USER",
        Column::Ranks => "RANKS",
        Column::Row => "ROW",
        Column::Asked => "ASKED",
        Column::Had => "HAD",
        Column::Busy => "BUSY",
        Column::Messages => "MSG/S",
        Column::Time => "TIME",
        Column::Command => "NAME COMMAND",
    }
}

fn is_right(column: Column) -> bool {
    !matches!(column, Column::State | Column::User | Column::Command)
}

fn jobs(model: &Model, pen: &mut Pen<'_>, layout: &Layout) {
    for (column, x, width) in &layout.columns {
        let is_sorted = *column == model.sort;
        let style = if is_sorted { bold().add_modifier(Modifier::UNDERLINED) } else { bold() };
        put_cell(pen, (*column, *x, *width), layout.head, head_of(*column), style);
    }
    let shown = model.jobs().skip(model.first()).take(usize::from(layout.lines.height));
    for (y, job) in (layout.lines.y..).zip(shown) {
        let is_selected = Some(job.id.key) == model.selected;
        for place in &layout.columns {
            let style = if place.0 == Column::State { pen.of_state(job.state) } else { Style::new() };
            put_cell(pen, *place, y, &text_of(job, place.0, model.now_ms), style);
        }
        if is_selected {
            pen.fill(y, reversed());
        }
    }
}

fn put_cell(pen: &mut Pen<'_>, (column, x, width): (Column, u16, u16), y: u16, text: &str, style: Style) {
    let count = text.chars().count();
    if column == Column::Job && count > usize::from(width) {
        // The end of a number says more than its begin.
        let end: String = text.chars().skip(count + 1 - usize::from(width)).collect();
        return pen.put(x, y, width, &format!("<{end}"), style);
    }
    match is_right(column) {
        true => pen.put_right(x, y, width, text, style),
        false => pen.put(x, y, width, text, style),
    }
}

fn text_of(job: &Job, column: Column, now_ms: u64) -> String {
    match column {
        Column::Job => job.id.number.clone(),
        Column::State => job.state.to_owned(),
        Column::User => job.id.user.clone(),
        Column::Ranks => job.size.ranks.to_string(),
        Column::Row => rows_of(job),
        Column::Asked => percent(job.share.asked_permille),
        Column::Had => percent(job.share.had_permille),
        Column::Busy => percent(job.share.busy_permille),
        Column::Messages => rate(job.place.sent.per_s),
        Column::Time => time_of(job, now_ms),
        Column::Command if job.label.name.is_empty() => job.label.command.clone(),
        Column::Command => format!("{} {}", job.label.name, job.label.command),
    }
}

fn nodes(model: &Model, pen: &mut Pen<'_>, layout: &Layout, report: &Report) {
    pen.put(0, layout.head, NAME_WIDTH, "NODE", bold());
    pen.put(NAME_WIDTH + 1, layout.head, layout.lines.width, "ROW, JOB IN EACH SLOT", bold());
    let mut at = 0;
    let (first, height) = (model.first(), usize::from(layout.lines.height));
    for node in &report.nodes {
        let count = layout::lines_of(node);
        if at + count > first && at < first + height {
            node_in_view(pen, layout, (report, node), at as i64 - first as i64);
        }
        at += count;
    }
}

/// A node in its own view, whose first line is `at` lines below the first that is shown.
fn node_in_view(pen: &mut Pen<'_>, layout: &Layout, (report, node): (&Report, &Node), at: i64) {
    let height = i64::from(layout.lines.height);
    let line = |nth: usize| {
        let line = at + nth as i64;
        (0..height).contains(&line).then(|| layout.lines.y + line as u16)
    };
    let rows = layout::rows_of(node);
    let first = usize::from(node.state != "up");
    if let Some(y) = line(0) {
        let x = name_of_node(pen, y, node);
        if rows.is_empty() && node.beside.is_empty() {
            let text = format!("{} slots free, memory {}", node.slots, memory_of(node));
            pen.put(x, y, layout.lines.width, &text, Style::new());
        }
    }
    for (nth, row) in rows.iter().enumerate() {
        if let Some(y) = line(first + nth) {
            pen.put_right(NAME_WIDTH + 1, y, 3, &row.to_string(), Style::new());
            cells(pen, (NAME_WIDTH + 5, y), report, node, *row);
        }
    }
    if let Some(y) = line(first + rows.len()).filter(|_| !node.beside.is_empty()) {
        let jobs: Vec<String> = node
            .beside
            .iter()
            .map(|(key, ranks)| format!("job {}: {ranks} ranks", report.number(*key)))
            .collect();
        pen.put(NAME_WIDTH + 1, y, layout.lines.width, &jobs.join(", "), Style::new());
    }
}

fn users(model: &Model, pen: &mut Pen<'_>, layout: &Layout, users: &[User]) {
    let head = ["JOBS", "WAIT", "RANKS", "SHARE", "USED", "GETS"];
    pen.put(0, layout.head, 12, "USER", bold());
    for (x, text) in (13..).step_by(7).zip(head) {
        pen.put_right(x, layout.head, 6, text, bold());
    }
    pen.put(56, layout.head, layout.lines.width, "LIMITS", bold());
    let shown = users.iter().skip(model.first()).take(usize::from(layout.lines.height));
    for (y, user) in (layout.lines.y..).zip(shown) {
        let values = [
            user.count.running.to_string(),
            user.count.waiting.to_string(),
            user.count.ranks.to_string(),
            percent_ppm(user.standing.map(|one| one.share_ppm)),
            percent_ppm(user.used_ppm),
            percent_ppm(user.standing.map(|one| one.effective_ppm)),
        ];
        pen.put(0, y, 12, &user.name, Style::new());
        for (x, text) in (13..).step_by(7).zip(values) {
            pen.put_right(x, y, 6, &text, Style::new());
        }
        pen.put(56, y, layout.lines.width, &limits_of(user), Style::new());
    }
}

#[cfg(test)]
mod tests;
