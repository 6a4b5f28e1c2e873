//! Effects of keys and reports.

use serde_json::json;
use tutti_client::filter::Filter;

use super::*;
use crate::samples::{answers, row};
use tutti_client::report::{Answers, Before};

pub(crate) const PLAIN: Look = Look { colour: false, utf8: false };

pub(crate) fn report(answers: &Answers) -> Report {
    Report::new(answers, &Before::default(), &Filter::default())
}

/// With the jobs 1 to 4 of a daemon and one of another user's, as of 10 s.
pub(crate) fn model(size: (u16, u16)) -> Model {
    let mut model = Model::new(PLAIN, size, 10_000);
    model.handle(10_000, Event::Report(Ok(report(&answers(10_000, [6000, 3000])))));
    model
}

pub(crate) fn press(model: &mut Model, keys: &str) -> Option<Effect> {
    let mut effect = None;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            key => KeyCode::Char(key),
        };
        effect = code_of(model, code);
    }
    effect
}

fn code_of(model: &mut Model, code: KeyCode) -> Option<Effect> {
    model.handle(10_000, Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn with_control(model: &mut Model, letter: char) -> Option<Effect> {
    model.handle(10_000, Event::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)))
}

fn listed(model: &Model) -> Vec<u64> {
    model.jobs().map(|job| job.id.key.job).collect()
}

/// A daemon with so many jobs.
fn many(count: u64) -> Answers {
    Answers { jobs: (1..=count).map(|job| row(job, json!({}))).collect(), ..answers(10_000, [0, 0]) }
}

#[test]
fn model_kills_only_after_a_question() {
    let mut model = model((80, 24));
    code_of(&mut model, KeyCode::Down);
    assert_eq!(model.selected.map(|key| key.job), Some(2));
    assert_eq!(press(&mut model, "k"), None);
    assert_eq!(model.mode, Mode::Question(Deed::Kill, JobId(2)));
    assert_eq!(press(&mut model, "n"), None, "it was not meant");
    assert_eq!((model.mode.clone(), model.notice()), (Mode::Browse, Some("nothing was done")));
    assert_eq!(press(&mut model, "ky"), Some(Effect::Do(Deed::Kill, JobId(2))));
    assert_eq!(press(&mut model, "sy"), Some(Effect::Do(Deed::Suspend, JobId(2))));
    assert_eq!(press(&mut model, "cY"), Some(Effect::Do(Deed::Resume, JobId(2))));
    // While it is asked the list may change: the question stays what it was.
    press(&mut model, "k");
    model.handle(11_000, Event::Report(Ok(report(&many(1)))));
    assert_eq!(press(&mut model, "y"), Some(Effect::Do(Deed::Kill, JobId(2))));
    model.handle(11_000, Event::Done(Deed::Kill, JobId(2), Err("there is no job 2".into())));
    assert_eq!(model.notice(), Some("there is no job 2"));
    model.handle_tick(11_000 + NOTICE_MS);
    assert_eq!(model.notice(), None);
}

#[test]
fn model_does_nothing_to_jobs_of_other_daemons() {
    let mut model = model((80, 24));
    code_of(&mut model, KeyCode::End);
    assert_eq!(model.selected, Some(Key { other: Some(4_000_000_009), job: 1 }));
    assert_eq!(press(&mut model, "ky"), None);
    assert!(model.notice().is_some_and(|text| text.contains("has another daemon")), "{:?}", model.notice());
}

#[test]
fn model_sorts_filters_and_keeps_the_selection() {
    let mut model = model((80, 24));
    assert_eq!(listed(&model), [1, 2, 3, 4, 1]);
    code_of(&mut model, KeyCode::Down);
    let sorted = |model: &mut Model, column| {
        while model.sort != column {
            press(model, ">");
        }
        listed(model)
    };
    assert_eq!(sorted(&mut model, Column::Had), [3, 1, 2, 4, 1]);
    assert_eq!(sorted(&mut model, Column::Ranks)[0], 1, "three ranks of another daemon");
    press(&mut model, "r");
    assert_eq!(listed(&model).last(), Some(&1));
    assert_eq!(model.selected.map(|key| key.job), Some(2));
    press(&mut model, "r<");
    assert_eq!(model.sort, Column::User);
    press(&mut model, "/RUNNING second\n");
    assert_eq!((listed(&model), model.filter.as_str()), (vec![2], "RUNNING second"));
    press(&mut model, "/x\u{1b}");
    assert_eq!(model.filter, "RUNNING second", "what was typed is taken back");
    press(&mut model, "/\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}q\n");
    assert_eq!((model.filter.as_str(), listed(&model).len()), ("RUNNING q", 0));
    assert_eq!(press(&mut model, "k\n"), None, "no job is selected");
    press(&mut model, "\u{1b}");
    assert_eq!(listed(&model).len(), 5);
    press(&mut model, &format!("/{}\n", "x".repeat(1000)));
    assert_eq!(model.filter.len(), FILTER_CHARS);
}

#[test]
fn model_shows_the_selected_job_among_thousands_at_any_size() {
    let mut model = model((80, 24));
    model.handle(10_000, Event::Report(Ok(report(&many(5000)))));
    for size in [(80, 24), (40, 8), (300, 100), (0, 0), (65535, 5), (20, 65535), (80, 24)] {
        model.handle(10_000, Event::Resize(size.0, size.1));
        for code in
            [KeyCode::End, KeyCode::Up, KeyCode::PageUp, KeyCode::Home, KeyCode::PageDown, KeyCode::Down]
        {
            code_of(&mut model, code);
            let height = usize::from(model.layout().lines.height);
            let at = model.jobs().position(|job| Some(job.id.key) == model.selected).expect("it is listed");
            assert!((model.first()..model.first() + height).contains(&at), "{size:?} {code:?}");
        }
    }
    code_of(&mut model, KeyCode::End);
    // Behind it is the job of the other user.
    code_of(&mut model, KeyCode::Up);
    assert_eq!(model.selected.map(|key| key.job), Some(5000));
    // Most of them end: there is no empty screen.
    model.handle(10_000, Event::Report(Ok(report(&many(3)))));
    assert_eq!((model.first(), model.selected_job().is_some()), (0, true));
    model.handle(10_000, Event::Report(Ok(Report::default())));
    assert_eq!((model.first(), model.selected_job().is_some()), (0, false));
    for code in [KeyCode::End, KeyCode::Up, KeyCode::Enter] {
        assert_eq!(code_of(&mut model, code), None);
    }
}

#[test]
fn model_keeps_an_older_report_while_the_daemon_is_away() {
    let mut model = model((80, 24));
    model.handle(12_000, Event::Report(Err("no daemon answers".into())));
    assert_eq!((model.trouble.as_deref(), listed(&model).len()), (Some("no daemon answers"), 5));
    model.handle(13_000, Event::Report(Ok(report(&many(2)))));
    assert_eq!((model.trouble.as_deref(), listed(&model)), (None, vec![1, 2, 1]));
    press(&mut model, " ");
    model.handle(14_000, Event::Report(Ok(report(&many(9)))));
    assert_eq!(listed(&model).len(), 3, "it is held");
    assert_eq!(press(&mut model, " "), Some(Effect::Ask));
}

#[test]
fn model_takes_clicks_and_the_wheel() {
    let mut model = model((80, 24));
    let click = |model: &mut Model, column, line| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let mouse = MouseEvent { kind, column, row: line, modifiers: KeyModifiers::NONE };
        assert_eq!(model.handle(10_000, Event::Mouse(mouse)), None);
    };
    let layout = model.layout();
    click(&mut model, 5, layout.lines.y + 2);
    assert_eq!(model.selected.map(|key| key.job), Some(3));
    click(&mut model, 5, layout.lines.y + 15);
    assert_eq!(model.selected.map(|key| key.job), Some(3), "there is no job");
    click(&mut model, 10, layout.head);
    assert_eq!((model.sort, model.reversed), (Column::State, false));
    click(&mut model, 10, layout.head);
    assert_eq!((model.sort, model.reversed), (Column::State, true));
    click(&mut model, Layout::view_start(View::Users) + 1, layout.views);
    assert_eq!(model.view, View::Users);
    click(&mut model, u16::MAX, u16::MAX);
    let wheel =
        MouseEvent { kind: MouseEventKind::ScrollDown, column: 0, row: 0, modifiers: KeyModifiers::NONE };
    model.handle(10_000, Event::Mouse(wheel));
    press(&mut model, "1");
    model.handle(10_000, Event::Mouse(wheel));
    assert!(model.selected_job().is_some());
}

#[test]
fn model_ends_and_stops_by_keys_in_every_mode() {
    for keys in ["", "/", "k", "?", "\n"] {
        let mut model = model((80, 24));
        press(&mut model, keys);
        assert_eq!(with_control(&mut model, 'z'), Some(Effect::Stop), "{keys:?}");
        assert_eq!(with_control(&mut model, 'l'), Some(Effect::Repaint), "{keys:?}");
        assert_eq!(with_control(&mut model, 'c'), Some(Effect::Quit), "{keys:?}");
    }
    let mut model = model((80, 24));
    assert_eq!(press(&mut model, "?q"), None, "the help is closed");
    assert_eq!(press(&mut model, "q"), Some(Effect::Quit));
}

/// A question is about the job that it names, and details stay with theirs, whatever moves or ends meanwhile.
#[test]
fn model_asks_and_tells_about_the_job_of_the_key() {
    let mut model = model((80, 24));
    code_of(&mut model, KeyCode::Down);
    press(&mut model, "k");
    wheel(&mut model, MouseEventKind::ScrollDown);
    assert_eq!(model.selected.map(|key| key.job), Some(2));
    assert_eq!(press(&mut model, "n"), None);
    press(&mut model, "\n");
    let first = |model: &Model| model.text().expect("a text")[0].clone();
    assert_eq!(first(&model), "job      2");
    let mut later = answers(11_000, [6000, 3000]);
    later.jobs.remove(1);
    model.handle(11_000, Event::Report(Ok(report(&later))));
    assert_eq!(first(&model), "job 2 is over");
    press(&mut model, "x");
    assert_eq!((model.mode.clone(), model.text()), (Mode::Browse, None));
}

/// On the smallest screen all of a text can be read; keys that move nothing lead back.
#[test]
fn model_scrolls_texts_that_have_no_room() {
    let mut model = model((40, 8));
    press(&mut model, "?");
    let lines = model.text().expect("help");
    let shown = |model: &Model| match model.mode {
        Mode::Help(first) | Mode::Details(_, first) => Some(first),
        _ => None,
    };
    assert!(model.text_most() > 0 && lines.iter().all(|line| line.chars().count() <= 40), "{lines:?}");
    for (code, expected) in [
        (KeyCode::Down, 1),
        (KeyCode::PageDown, 4),
        (KeyCode::End, model.text_most()),
        (KeyCode::Down, model.text_most()),
        (KeyCode::Home, 0),
        (KeyCode::Up, 0),
    ] {
        code_of(&mut model, code);
        assert_eq!(shown(&model), Some(expected), "{code:?}");
    }
    wheel(&mut model, MouseEventKind::ScrollDown);
    assert_eq!(shown(&model), Some(3));
    code_of(&mut model, KeyCode::End);
    model.handle(10_000, Event::Resize(132, 50));
    assert_eq!((shown(&model), model.text_most()), (Some(0), 0), "all of it has room");
    code_of(&mut model, KeyCode::Down);
    assert_eq!(model.mode, Mode::Browse);
}

fn wheel(model: &mut Model, kind: MouseEventKind) {
    let mouse = MouseEvent { kind, column: 0, row: 5, modifiers: KeyModifiers::NONE };
    model.handle(10_000, Event::Mouse(mouse));
}
