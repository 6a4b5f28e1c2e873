//! The page around the pictures.

use std::fmt::Write;

use tutti_svg::escape;

use super::chart::{Chart, LEFT, RIGHT};
use super::clock::{Clock, STEPS_US};
use super::log::{History, Job, Span};
use super::style::Style;
use super::switch::{Switches, duration};

/// Rows of the table of events.
const ROWS_MAX: usize = 300;
/// Turns that the magnified part shows.
const MAGNIFIED_TURNS: u64 = 24;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
pub fn page(history: &History, span: Span, job: Option<u64>) -> String {
    let style = Style::new(history, span);
    let whole = Chart { history, style: &style, span, events: true };
    let title = job.map_or_else(|| "Timeline".to_owned(), |job| format!("Timeline of job {job}"));
    let switches = Switches::new(history, span);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n\
         <p class=\"sub\">{} nodes, {} jobs, {}: from {} to {} {}.</p>\n",
        history.nodes.len(),
        history.jobs.len(),
        duration(span.1 - span.0),
        style.clock.date(span.0),
        style.clock.date(span.1),
        style.clock.zone()
    );
    text.push_str(&jobs(history, &style, span));
    let exact = whole.is_exact();
    let how = if exact {
        "Each colour is a job, each strip a node: a job is drawn where its ranks run."
    } else {
        "Each colour is a job, each strip a node. Turns are too short to be seen here: a column shows how the jobs shared its time."
    };
    _ = write!(
        text,
        "<h2>Which job ran where</h2><p>{how} <span class=\"hint\"></span></p>\n<figure>{}</figure>\n",
        whole.draw()
    );
    if !exact && let Some(part) = magnified(history, span) {
        let part = Chart { history, style: &style, span: part, events: false };
        _ = write!(text, "<h2>A part of it, magnified</h2>\n<figure>{}</figure>\n", part.draw());
    }
    if let Some((picture, words)) = switches.draw(history, &style, span) {
        _ = write!(text, "<h2>One switch</h2><p>{words}</p>\n<figure>{picture}</figure>\n");
    }
    if let Some(summary) = switches.summary() {
        _ = writeln!(text, "<p>{summary}.</p>");
    }
    if history.lost > 0 {
        _ = writeln!(
            text,
            "<p>Of {} turns there is no record: a daemon had no core for too long.</p>",
            history.lost
        );
    }
    text.push_str(&events(history, style.clock, span));
    _ = write!(
        text,
        "<script>const LEFT={LEFT},RIGHT={RIGHT},STEPS={STEPS_US:?};\n{SCRIPT}</script></html>\n"
    );
    text
}

fn jobs(history: &History, style: &Style, span: Span) -> String {
    // Few jobs have names: without any there is no column for them.
    let named = history.jobs.values().any(|job| job.name.is_some());
    let mut text = format!(
        "<table><tr><th><th class=\"r\">job<th>user{}<th>command<th class=\"r\">nodes<th class=\"r\">submitted<th class=\"r\">over\
         <th class=\"r\">ran<th class=\"r\">turns<th>ended\n",
        if named { "<th>name" } else { "" }
    );
    let name = |job: &Job| match named {
        true => format!("<td>{}", escape(job.name.as_deref().unwrap_or("-"))),
        false => String::new(),
    };
    for (id, job) in &history.jobs {
        let runs = || history.nodes.iter().filter_map(|node| node.runs.get(id));
        let nodes = runs().count().max(1) as u64;
        let ran = runs().flatten().map(|(from, to)| to - from).sum::<u64>() / nodes;
        let end = job.over_us.unwrap_or(history.until_us);
        let lived = end.saturating_sub(job.started_us.unwrap_or(end)).max(1);
        let ended = match (job.over_us, job.status) {
            (None, _) => "runs".to_owned(),
            (_, Some(0)) => "well".to_owned(),
            (_, status) => format!("status {}", status.unwrap_or(0)),
        };
        _ = writeln!(
            text,
            "<tr><td><svg width=\"22\" height=\"14\"><rect width=\"22\" height=\"14\" fill=\"{}\"/></svg><td class=\"r\">{id}<td>{}{}<td class=\"c\">{}<td class=\"r\">{}\
             <td class=\"r\">{}<td class=\"r\">{}<td class=\"r\">{} ({:.0} %)<td class=\"r\">{}<td>{ended}",
            style.fill(*id),
            escape(job.user.as_deref().unwrap_or("-")),
            name(job),
            escape(&job.command),
            job.nodes.len(),
            style.clock.moment(job.submitted_us, span),
            job.over_us.map_or_else(|| "-".into(), |over| style.clock.moment(over, span)),
            duration(ran),
            100.0 * ran as f64 / lived as f64,
            runs().map(Vec::len).max().unwrap_or(0),
        );
    }
    text.push_str("</table>\n");
    text
}

/// The table of events, folded: with many ranks it is long, and the flags name its rows.
fn events(history: &History, clock: Clock, span: Span) -> String {
    let faults = history.marks.iter().filter(|mark| mark.fault).count();
    let bad_news = if faults > 0 { format!(", {faults} of them faults") } else { String::new() };
    let mut text = format!(
        "<details><summary>{} events{bad_news}</summary>\n<table><tr><th class=\"r\"><th class=\"r\">time<th class=\"r\">job<th>what\n",
        history.marks.len()
    );
    for (number, mark) in history.marks.iter().enumerate().take(ROWS_MAX) {
        _ = writeln!(
            text,
            "<tr{}><td class=\"r\">{}<td class=\"r\">{}<td class=\"r\">{}<td>{}{}",
            if mark.fault { " class=\"fault\"" } else { "" },
            number + 1,
            clock.moment(mark.us, span),
            mark.job.map_or_else(String::new, |job| job.to_string()),
            mark.node.as_ref().map_or_else(String::new, |node| format!("{}: ", escape(node))),
            escape(&mark.text)
        );
    }
    if history.marks.len() > ROWS_MAX {
        _ = writeln!(text, "<tr><td><td><td><td>and {} more", history.marks.len() - ROWS_MAX);
    }
    text.push_str("</table></details>\n");
    text
}

/// A span of some turns in the middle of those of the job with the most.
fn magnified(history: &History, (from, to): Span) -> Option<Span> {
    let runs = history.nodes.iter().flat_map(|node| node.runs.values()).max_by_key(|runs| runs.len())?;
    let inside: Vec<&Span> = runs.iter().filter(|run| run.0 >= from && run.1 <= to).collect();
    let middle = inside.get(inside.len() / 2)?;
    let pitch = (inside.last()?.1 - inside.first()?.0) / inside.len() as u64;
    let half = pitch * MAGNIFIED_TURNS / 4;
    Some((middle.0.saturating_sub(half).max(from), (middle.0 + half).min(to)))
}
