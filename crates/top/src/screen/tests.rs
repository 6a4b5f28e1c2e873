//! Whole screens as text, at three sizes, and what must not be on one.

use serde_json::json;

use tutti_client::filter::Filter;
use tutti_client::report::{Answers, Before};
use tutti_protocol::array::{ArrayTask, InArray};
use tutti_testkit::Random;

use super::*;
use crate::model::Event;
use crate::model::tests::{model, press, report};
use crate::once;
use crate::samples::{answers, other, row, with_rubbish_numbers as rubbish};

fn text(model: &Model) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, model.size().0, model.size().1));
    draw(model, &mut buffer);
    let line = |y: u16| {
        let cells = (0..model.size().0).map(|x| buffer[(x, y)].symbol().to_owned());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..model.size().1).map(line).collect()
}

/// Without the clock at the right of the first line, which is of this machine's time zone.
fn without_clock(text: &str) -> String {
    let (first, rest) = text.split_once('\n').expect("lines");
    let cut = first.rfind("  ").map_or(first, |at| &first[..at]);
    format!("{}\n{rest}", cut.trim_end())
}

#[test]
fn screen_of_80_by_24_has_nodes_jobs_and_reasons() {
    let mut shown = model((80, 24));
    let expected = "\
tutti top  2 of 2 nodes, 8 slots  5 jobs: 4 running, 1 waiting
 1 jobs   2 nodes  3 users
n0             [1133] [2233]
n1
    JOB STATE     USER     RANKS  ROW ASKED  HAD  BUSY     TIME NAME COMMAND
      1 running   40000000     2    0   75%  67%     -     0:09 ./job1
      2 running   40000000     2    1   25%  33%     -     0:09 second ./job2
      3 running   40000000     2  0,1  100% 100%     -     0:09 ./job3
      4 waiting   40000000     2    -     -    -     -   (0:09) ./job4
<0009/1 running   40000000     3    -     -    -     -     0:08 theirs
";
    let found = without_clock(&text(&shown));
    assert!(found.starts_with(expected), "{found}");
    assert!(
        found.trim_end().ends_with("? help  q end  / filter  < > sort  s suspend  c resume  k kill"),
        "{found}"
    );
    assert!(!found.contains("waits: no node"), "{found}");
    (0..3).for_each(|_| {
        shown.handle(10_000, Event::Mouse(wheel()));
    });
    assert!(text(&shown).contains("of another daemon"), "{}", text(&shown));
}

fn wheel() -> crossterm::event::MouseEvent {
    crossterm::event::MouseEvent {
        kind: crossterm::event::MouseEventKind::ScrollDown,
        column: 0,
        row: 0,
        modifiers: crossterm::event::KeyModifiers::NONE,
    }
}

#[test]
fn screen_of_40_by_8_and_of_132_by_50() {
    let found = text(&model((40, 8)));
    let expected = "
 1 jobs   2 nodes  3 users
    JOB STATE     USER      HAD NAME COM
      1 running   40000000  67% ./job1
      2 running   40000000  33% second .
      3 running   40000000 100% ./job3
";
    assert!(found.contains(expected), "{found}");
    let wide = without_clock(&text(&model((132, 50))));
    assert!(
        wide.contains(
            "    JOB STATE     USER     RANKS  ROW ASKED  HAD  BUSY  MSG/S     TIME NAME COMMAND\n"
        ),
        "{wide}"
    );
    assert!(
        wide.contains(
            "      2 running   40000000     2    1   25%  33%     -      -     0:09 second ./job2\n"
        ),
        "{wide}"
    );
}

#[test]
fn screen_numbers_tasks_of_arrays_as_tutti_ps_does() {
    let mut answers = answers(10_000, [6000, 3000]);
    for (row, task) in answers.jobs.iter_mut().zip([0, 7]) {
        row.in_array = InArray::Task(ArrayTask { array: tutti_sched::JobId(1), task });
    }
    let report = Report::new(&answers, &Before::default(), &Filter::default());
    let once = once::text(&report);
    assert!(
        once.contains(" 1_7  running") && once.contains("0: 1_0 on 0-1, 3 on 2-3; 1: 1_7 on 0-1"),
        "{once}"
    );
    let mut shown = model((80, 24));
    shown.handle(10_000, Event::Report(Ok(report)));
    let found = text(&shown);
    assert!(
        found.contains("\nn0             [0033] [7733]\n") && found.contains("\n    1_7 running"),
        "{found}"
    );
}

#[test]
fn screen_that_is_too_small_has_a_line_and_never_fails() {
    assert!(text(&model((39, 24))).starts_with("tutti top needs 40 columns, 8 lines; q\nends it\n"));
    let narrow = "tutti top needs 40\ncolumns, 8 lines; q\nends it\n";
    assert!(text(&model((20, 24))).starts_with(narrow), "{}", text(&model((20, 24))));
    for size in [(0, 0), (1, 1), (40, 8), (80, 9), (80, 11), (80, 12), (500, 8), (41, 200)] {
        let mut shown = model(size);
        for keys in ["", "1\n", "x2", "3", "?", "x1/abc", "\u{1b}k"] {
            press(&mut shown, keys);
            text(&shown);
            // The window has another size than is known yet.
            for other in [(0, 0), (10, 3), (200, 60)] {
                draw(&shown, &mut Buffer::empty(Rect::new(0, 0, other.0, other.1)));
            }
        }
    }
}

#[test]
fn screen_of_nodes_shows_each_row_and_jobs_beside() {
    let mut found = answers(10_000, [0, 0]);
    found.jobs.push(row(17, json!({ "gang": false, "nodes": ["n1"], "ranks": 6 })));
    found.nodes[1].alive = false;
    let mut shown = model((80, 24));
    shown.handle(10_000, Event::Report(Ok(report(&found))));
    press(&mut shown, "2");
    let text = text(&shown);
    let lines: Vec<&str> = text.lines().skip(2).take(5).collect();
    assert_eq!(
        lines,
        [
            "NODE           ROW, JOB IN EACH SLOT",
            "n0               0 [1133]",
            "                 1 [2233]",
            "n1             lost",
            "               job 17: 6 ranks"
        ]
    );
}

#[test]
fn screen_of_nodes_names_one_that_is_drained() {
    let mut found = answers(10_000, [0, 0]);
    let drained = json!({ "since_ms": 1, "uid": 0, "why": "a new disk" });
    found.nodes[0].drained = serde_json::from_value(drained).expect("a drained node");
    let mut shown = model((80, 24));
    shown.handle(10_000, Event::Report(Ok(report(&found))));
    press(&mut shown, "2");
    let text = text(&shown);
    let lines: Vec<&str> = text.lines().skip(3).take(2).collect();
    assert_eq!(lines, ["n0             draining", "                 0 [1133]"]);
}

#[test]
fn screen_shows_text_of_others_harmless() {
    let mut found = answers(10_000, [0, 0]);
    found.jobs[0].command = "\u{1b}[2Jev\u{202e}il\u{9b}31m\r\n\u{7}".into();
    found.jobs[0].name = "na\u{e4}me".into();
    found.nodes[0].name = "\u{1b}]0;node\u{7}".into();
    found.jobs[0].waits = Some("\u{1b}c".into());
    let mut shown = model((132, 24));
    shown.handle(10_000, Event::Report(Ok(report(&found))));
    for keys in ["", "2", "3", "1\n"] {
        press(&mut shown, keys);
        let text = text(&shown);
        assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'), "{text:?}");
        assert!(text.is_ascii(), "no UTF-8: {text}");
    }
    assert!(text(&shown).contains("command  \\u{1b}[2Jev\\u{202e}il"), "{}", text(&shown));
    shown.look.utf8 = true;
    assert!(text(&shown).contains("na\u{e4}me"), "{}", text(&shown));
}

#[test]
fn screen_has_colours_only_where_they_are_wanted() {
    let mut shown = model((80, 24));
    let colours = |model: &Model| {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
        draw(model, &mut buffer);
        buffer.content().iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colours(&shown), 0);
    shown.look.colour = true;
    assert!(colours(&shown) > 10);
}

#[test]
fn screen_of_many_nodes_and_slots_is_cut_where_it_ends() {
    let mut found = answers(10_000, [0, 0]);
    let node = found.nodes[0].clone();
    found.nodes = (0..100)
        .map(|number| {
            let mut node = node.clone();
            (node.node, node.name, node.slots) = (tutti_sched::NodeId(number), format!("n{number}"), 512);
            node
        })
        .collect();
    found.others = (0..90).map(|uid| other(uid, 4_100_000_000 + uid as u32)).collect();
    let mut shown = model((80, 24));
    shown.handle(10_000, Event::Report(Ok(report(&found))));
    let jobs = text(&shown);
    assert!(
        jobs.contains("93 more nodes: 2") && jobs.contains("[1133....") && jobs.contains(">\n"),
        "{jobs}"
    );
    for keys in ["2", "3"] {
        press(&mut shown, keys);
        (0..100).for_each(|_| {
            shown.handle(10_000, Event::Mouse(wheel()));
        });
        let last = text(&shown);
        assert!(last.contains(if keys == "2" { "\nn99" } else { "\n4100000089" }), "{last}");
    }
}

#[test]
fn screen_has_the_age_of_a_report() {
    let mut shown = model((80, 24));
    shown.handle(17_500, Event::Report(Err("the daemon closed the connection".into())));
    assert!(text(&shown).starts_with("7 s old: the daemon closed the connection\n"), "{}", text(&shown));
}

/// Numbers may be another user's daemon's, which says what it likes.
#[test]
fn report_with_rubbish_numbers_is_shown() {
    let honest = answers(14_000, [4000, 2000]);
    for number in 0..40 {
        let mut random = Random::new(tutti_testkit::mix(tutti_testkit::seed().wrapping_add(number)));
        let (before, now) = (rubbish(&honest, &mut random), rubbish(&honest, &mut random));
        let mut had = Before::default();
        had.add(&Answers { at_ms: 10_000, ..before });
        let report = Report::new(&now, &had, &Filter::default());
        assert!(once::text(&report).contains("second") && once::json(&now, &report).is_object());
        for size in [(20, 6), (80, 24), (200, 60)] {
            let mut shown = model(size);
            shown.handle(14_000, Event::Report(Ok(report.clone())));
            for keys in ["1", "2", "3", ">", "1>>>>\n"] {
                press(&mut shown, keys);
                assert!(!text(&shown).is_empty());
            }
        }
    }
}

/// The picture has a place for each job beside the rows, as far as the screen is wide.
#[test]
fn screen_ends_where_a_node_has_more_jobs_than_it_is_wide() {
    let mut found = answers(10_000, [6000, 3000]);
    found.prices.places.clear();
    found.jobs = (1..20_000).map(|job| row(job, json!({}))).collect();
    let mut shown = model((80, 24));
    shown.handle(10_000, Event::Report(Ok(report(&found))));
    let picture = text(&shown);
    let line = picture.lines().find(|line| line.starts_with("n0 ")).expect("a node");
    assert_eq!(line, "n0             1*2 2*2 3*2 4*2 5*2 6*2 7*2 8*2 9*2 0*2 1*2 2*2 3*2 4*2 5*2 6*2 7");
}

#[test]
fn screen_of_details_has_the_whole_command_and_marks_where_there_is_more() {
    let mut answers = answers(10_000, [6000, 3000]);
    answers.jobs[0].command = format!("./solve {} --last \u{4e2d}", "--case 17 ".repeat(12));
    let mut shown = model((40, 8));
    shown.look.utf8 = true;
    shown.handle(10_000, Event::Report(Ok(report(&answers))));
    press(&mut shown, "\n");
    let lines = shown.text().expect("details").join("");
    let whole: String = lines.split_whitespace().collect();
    let command: String = answers.jobs[0].command.split_whitespace().collect();
    assert!(whole.contains(&command), "{lines}");
    let found = text(&shown);
    assert!(found.contains("1-4 of ") && found.contains(": arrows  other keys: back"), "{found}");
    shown.handle(10_000, Event::Resize(100, 40));
    assert!(text(&shown).contains("any key: back"), "{}", text(&shown));
}
