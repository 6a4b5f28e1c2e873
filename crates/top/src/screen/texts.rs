//! Texts in place of a view: help, and everything about a job.

use ratatui::text::Span;
use tutti_client::report::Job;
use tutti_os::stderr::escape_control;

use crate::once::{percent, rate, rows_of, time_of};

/// Help on the keys.
pub(crate) const HELP: [&str; 18] = [
    "1 2 3 Tab      jobs, nodes, users",
    "Up Down        select a job; Page Up, Page Down, Home, End",
    "< > Left Right sort by another column; r: the other way round",
    "/              show jobs with these words only; Esc: all",
    "Enter          everything about the job: where it is, whom it waits for",
    "s c k          suspend, resume (continue), kill the job, after a question",
    "Space          hold the picture, or let it go on",
    "Ctrl-L         draw everything anew; Ctrl-Z: to the shell, fg comes back",
    "q Ctrl-C       end",
    "Mouse          click on a job, a column or a view; wheel",
    "",
    "ROW    rows of jobs take turns; jobs in one row run at the same time",
    "ASKED  the job's weight over those of all jobs that have one of its slots",
    "HAD    part of the last ten seconds in which it was to run",
    "BUSY   how much of its slots' time it computes",
    "MSG/S  messages of MPI that its ranks send in a second, over the last ten",
    "TIME   since it runs; in parentheses: since it waits",
    "A letter in the picture is the last figure of a job's number; . is free.",
];

/// Width of the word that a line of details begins with, with a blank.
const WORD_WIDTH: usize = 9;

/// Text that shows what it is, on this terminal.
pub(crate) fn shown(text: &str, utf8: bool) -> String {
    let text = escape_control(text);
    if utf8 {
        text
    } else {
        text.chars().map(|letter| if letter.is_ascii() { letter } else { '?' }).collect()
    }
}

/// Lines of a text on this terminal, as wide as the screen.
pub(crate) fn folded_lines<'a>(
    lines: impl Iterator<Item = &'a str>,
    width: usize,
    utf8: bool,
) -> Vec<String> {
    lines.flat_map(|line| folded(&shown(line, utf8), width)).collect()
}

/// A line in as many as it takes; further ones stand below its text, behind the word that it begins with.
fn folded(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for letter in line.chars() {
        let wide = Span::raw(letter.encode_utf8(&mut [0; 4]).to_owned()).width();
        if used + wide > width {
            lines.push(" ".repeat(WORD_WIDTH));
            used = WORD_WIDTH;
        }
        if let Some(last) = lines.last_mut() {
            last.push(letter);
        }
        used += wide;
    }
    lines
}

/// Everything about a job.
pub(crate) fn details(job: &Job, now_ms: u64) -> Vec<String> {
    let mut lines = vec![
        format!("job      {}", job.id.number),
        format!("state    {}", job.state),
        format!("user     {}", job.id.user),
    ];
    if !job.label.name.is_empty() {
        lines.push(format!("name     {}", job.label.name));
    }
    lines.push(format!("command  {}", job.label.command));
    lines.push(format!("ranks    {} on {} nodes", job.size.ranks, job.size.node_count));
    lines.push(format!("time     {}", time_of(job, now_ms)));
    let sent = job.place.sent;
    if sent.messages > 0 {
        lines.push(format!("messages {} sent, {} in a second", sent.messages, rate(sent.per_s)));
    }
    if let Some(weight) = job.share.weight {
        lines.push(format!("weight   {weight}"));
        let shares = [job.share.asked_permille, job.share.had_permille, job.share.busy_permille].map(percent);
        lines.push(format!("share    asked {}, had {}, busy {}", shares[0], shares[1], shares[2]));
        lines.push(format!("rows     {}", rows_of(job)));
    }
    lines.extend(job.label.remarks.iter().map(|remark| format!("         {remark}")));
    for (node, slots) in &job.place.slots {
        let slots: Vec<usize> = slots.iter().map(|slot| *slot as usize).collect();
        lines.push(format!("slots    {node}: {}", tutti_os::cpu_list::format(&slots)));
    }
    if job.place.slots.is_empty() {
        let ranks = job.size.nodes.iter().zip(&job.size.node_ranks);
        lines.extend(ranks.map(|(node, ranks)| format!("node     {node}: {ranks} ranks")));
    }
    lines
}
