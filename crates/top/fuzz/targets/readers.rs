//! Reader of `tutti top` for what others say: answers of daemons between keys, clicks and sizes of the
//! window, drawn after each. Nothing panics, and no cell has what would move the terminal's cursor. For `make
//! fuzz` and for the tests beside `main.rs`.
//!
//! ```text
//! byte: number of events   events, 2 bytes each   changes, by the codec
//! ```

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tutti_client::filter::Filter;
use tutti_client::report::{Answers, Before, Report};
use tutti_os::stderr::is_deceptive;
use tutti_protocol::codec;
use tutti_protocol::users::watch::{Changes, Picture};

use crate::model::{Event, Look, Model};
use crate::{once, screen};

/// Keys beside characters.
const KEYS: [KeyCode; 13] = [
    KeyCode::Enter,
    KeyCode::Esc,
    KeyCode::Backspace,
    KeyCode::Tab,
    KeyCode::BackTab,
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::Left,
    KeyCode::F(1),
];

/// Reads bytes.
pub(crate) fn read(input: &[u8]) {
    let Some((&count, bytes)) = input.split_first() else { return };
    let (events, bytes) = bytes.split_at((usize::from(count) * 2).min(bytes.len() & !1));
    let reports = codec::decode::<Changes>(bytes).map_or_else(|_| Vec::new(), reports);
    for look in [Look { colour: true, utf8: true }, Look { colour: false, utf8: false }] {
        let mut model = Model::new(look, (80, 24), 1_000_000);
        let all = reports.iter().map(|report| Event::Report(Ok(report.clone())));
        let all = all.chain(events.chunks_exact(2).map(|pair| event(pair[0], pair[1])));
        // The second report comes between.
        for event in all.chain(reports.last().map(|report| Event::Report(Ok(report.clone())))) {
            let _ = model.handle(1_002_500, event);
            draw(&model, look);
        }
    }
}

/// Reports of two moments.
fn reports(mut changes: Changes) -> Vec<Report> {
    // Users of every machine: others are looked for by another program.
    changes.items.jobs.iter_mut().for_each(|row| row.uid %= 4);
    changes.items.prices.iter_mut().for_each(|prices| prices.users.iter_mut().for_each(|one| one.user %= 4));
    changes.since = None;
    let (mut picture, mut before) = (Picture::default(), Before::default());
    picture.take(changes);
    let mut report = |at_ms| {
        let answers = Answers { at_ms, ..Answers::of(&picture) };
        let report = Report::new(&answers, &before, &Filter::default());
        before.add(&answers);
        assert!(once::text(&report).lines().all(|line| !line.contains(is_deceptive)));
        assert!(once::json(&answers, &report).is_object());
        report
    };
    vec![report(1_000_000), report(1_002_500)]
}

fn event(kind: u8, value: u8) -> Event {
    let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
    let mouse =
        |kind, column, row| Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE });
    let (column, row) = (u16::from(value), u16::from(kind >> 3));
    match kind % 8 {
        0 | 1 => key(KeyCode::Char(char::from(value)), KeyModifiers::NONE),
        2 | 3 => key(KEYS[usize::from(value) % KEYS.len()], KeyModifiers::NONE),
        4 => key(KeyCode::Char(char::from(value)), KeyModifiers::CONTROL),
        5 => mouse(MouseEventKind::Down(MouseButton::Left), column, row),
        6 => mouse([MouseEventKind::ScrollUp, MouseEventKind::ScrollDown][usize::from(value % 2)], 0, 0),
        _ => Event::Resize(column, row),
    }
}

fn draw(model: &Model, look: Look) {
    let (columns, lines) = model.size();
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, lines));
    screen::draw(model, &mut buffer);
    for cell in buffer.content() {
        let symbol = cell.symbol();
        assert!(!symbol.contains(is_deceptive) && (look.utf8 || symbol.is_ascii()), "{symbol:?}");
    }
}
