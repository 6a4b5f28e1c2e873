//! `tutti-screen FILE ROWS COLUMNS TEXT SCRIPT`: runs a script at a terminal of that size, waits until the
//! screen shows the text, and draws the screen as SVG. mk/pictures.sh makes pictures of documents with it.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Text that does not come in this time does not come.
const LIMIT: Duration = Duration::from_secs(60);
/// Width and height of a cell.
const CELL: (f64, f64) = (8.4, 18.0);
/// Colours of the terminal by number, on white.
const COLOURS: [&str; 16] = [
    "#1b1f24", "#b42318", "#067647", "#8a5a00", "#1d4e89", "#8a3a8a", "#0b6b75", "#d0d7de", "#57606a",
    "#d92d20", "#0a9a5c", "#b57a00", "#2f6fc0", "#a650a6", "#148f9c", "#ffffff",
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, rows, columns, text, script] = &words[..] else {
        eprintln!("usage: tutti-screen FILE ROWS COLUMNS TEXT SCRIPT");
        return ExitCode::from(2);
    };
    let (Ok(rows), Ok(columns)) = (rows.parse(), columns.parse()) else {
        eprintln!("tutti-screen: ROWS and COLUMNS are numbers");
        return ExitCode::from(2);
    };
    match screen(script, (rows, columns), text).and_then(|screen| {
        std::fs::write(file, svg(&screen)).map_err(|error| format!("cannot write {file}: {error}"))
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tutti-screen: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The screen as soon as it shows the text.
fn screen(
    script: &str,
    (rows, columns): (NonZeroU16, NonZeroU16),
    text: &str,
) -> Result<vt100::Parser, String> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
    let master = master.map_err(|error| format!("no terminal: {error}"))?;
    let ready = || -> rustix::io::Result<OwnedFd> {
        grantpt(&master)?;
        unlockpt(&master)?;
        tcsetwinsize(
            &master,
            Winsize { ws_row: rows.get(), ws_col: columns.get(), ws_xpixel: 0, ws_ypixel: 0 },
        )?;
        open(ptsname(&master, Vec::new())?, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
    };
    let slave = ready().map_err(|error| format!("no terminal: {error}"))?;
    let end = || slave.try_clone().map_err(|error| format!("no terminal: {error}"));
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "bash", "-c", script]);
    command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
    let mut shell = command.stdin(end()?).stdout(end()?).stderr(end()?).spawn().map_err(|e| e.to_string())?;
    let mut keyboard = std::fs::File::from(master);
    let mut output = keyboard.try_clone().map_err(|error| error.to_string())?;
    let (sender, shown) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read) = output.read(&mut bytes) {
            if read == 0 || sender.send(bytes[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut seen = vt100::Parser::new(rows, columns, 0);
    let deadline = Instant::now() + LIMIT;
    let found = loop {
        if seen.screen().contents().contains(text) {
            break Ok(seen);
        }
        match shown.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(bytes) => seen.process(&bytes),
            Err(_) => break Err(format!("the screen does not show {text:?}:\n{}", seen.screen().contents())),
        }
    };
    // A live screen ends by its key; the shell is waited for, so that nothing is left.
    let _ = keyboard.write_all(b"q");
    let _ = shell.wait();
    found
}

fn svg(seen: &vt100::Parser) -> String {
    let screen = seen.screen();
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    // Empty lines at the end are of no interest.
    let lines: Vec<String> = screen.rows(0, columns).collect();
    let used =
        lines.iter().rposition(|line| !line.trim().is_empty()).map_or(1, |last| last as u16 + 1).min(rows);
    let (width, height) = (f64::from(columns) * CELL.0 + 16.0, f64::from(used) * CELL.1 + 16.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         font-family=\"'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"14\">\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" rx=\"6\" fill=\"#fff\" stroke=\"#d0d7de\"/>\n"
    );
    for row in 0..used {
        let mut column = 0;
        while column < columns {
            let look = look_of(screen.cell(row, column));
            let from = column;
            let mut run = String::new();
            while column < columns && look_of(screen.cell(row, column)) == look {
                let cell = screen.cell(row, column);
                let content = cell.map_or("", vt100::Cell::contents);
                run.push_str(if content.is_empty() { " " } else { content });
                column += 1;
            }
            put_run(&mut text, (row, from, column - from), &run, &look);
        }
    }
    text.push_str("</svg>\n");
    text
}

/// Ink, paper and weight of a cell.
fn look_of(cell: Option<&vt100::Cell>) -> (String, Option<String>, bool) {
    let Some(cell) = cell else { return (COLOURS[0].into(), None, false) };
    let colour = |colour: vt100::Color| match colour {
        vt100::Color::Default => None,
        vt100::Color::Idx(number) => Some(COLOURS[usize::from(number) % 16].to_owned()),
        vt100::Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
    };
    let (ink, paper) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
    let (ink, paper) = match cell.inverse() {
        true => {
            (Some(paper.unwrap_or_else(|| "#fff".into())), Some(ink.unwrap_or_else(|| COLOURS[0].into())))
        }
        false => (ink, paper),
    };
    (ink.unwrap_or_else(|| COLOURS[0].into()), paper, cell.bold())
}

fn put_run(
    text: &mut String,
    (row, column, cells): (u16, u16, u16),
    run: &str,
    (ink, paper, is_bold): &(String, Option<String>, bool),
) {
    let (x, y) = (8.0 + f64::from(column) * CELL.0, 8.0 + f64::from(row) * CELL.1);
    let width = f64::from(cells) * CELL.0;
    if let Some(paper) = paper {
        let height = CELL.1;
        let _ = writeln!(
            text,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{paper}\"/>"
        );
    }
    if run.trim().is_empty() {
        return;
    }
    let run = run.trim_end().replace('&', "&amp;").replace('<', "&lt;").replace(' ', "\u{a0}");
    let (base, weight) = (y + 13.0, if *is_bold { " font-weight=\"bold\"" } else { "" });
    let length = run.chars().count() as f64 * CELL.0;
    let _ = writeln!(
        text,
        "<text x=\"{x:.1}\" y=\"{base:.1}\" textLength=\"{length:.1}\" fill=\"{ink}\"{weight}>{run}</text>"
    );
}
