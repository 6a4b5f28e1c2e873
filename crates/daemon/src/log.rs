//! The daemon's log, on stderr: `2026-11-23T13:31:02.123Z INFO node0: controller listens on 127.0.0.1:7411`,
//! one line each.
//!
//! A full disk, or a reader that has gone, is no reason to end: what cannot be written is lost. The switch
//! thread writes nothing here; what it has to say the main loop does.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tutti_protocol::daemon_options::LogLevel;
use tutti_protocol::log_line::TIME_CHARS;

/// Target of lines that are logged at every level.
pub const ALWAYS: &str = "always";

/// All that the process logs up to a level from now on goes to stderr, as said by the daemon of this node.
/// Once in a process.
pub fn begin(node: &str, level: LogLevel) {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(Stderr)
        .log_internal_errors(false)
        .event_format(Line { node: node.into() })
        .finish()
        .with(filter(level));
    // One that a test has begun stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn filter(level: LogLevel) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let is_logged = move |event: &Metadata<'_>| *event.level() <= level || event.target() == ALWAYS;
    filter_fn(is_logged).with_max_level_hint(level.max(LevelFilter::INFO))
}

/// Each line is one write: what several daemons write into one file does not mix.
#[derive(Clone, Copy, Debug)]
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Stderr
    }
}

#[derive(Debug)]
struct Line {
    node: Arc<str>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>, F: for<'a> FormatFields<'a> + 'static> FormatEvent<S, F>
    for Line
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, F>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let time = time.get(..TIME_CHARS).unwrap_or(&time);
        write!(writer, "{time}Z {} {}: ", event.metadata().level(), self.node)?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tutti_protocol::log_line::text_of;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("a test").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn log_lines_have_time_level_and_node() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .event_format(Line { node: "node7".into() })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!("node {} does not answer any more", "a")
        });
        let text = String::from_utf8(written.0.lock().expect("a test").clone()).expect("text");
        let (time, rest) = text.split_once(' ').expect("a time");
        assert_eq!(rest, "WARN node7: node a does not answer any more\n");
        assert_eq!(time.len(), TIME_CHARS + 1);
        let parts = [&time[4..5], &time[10..11], &time[19..20], &time[23..]];
        assert_eq!(parts, ["-", "T", ".", "Z"], "{time}");
        assert_eq!(text_of(text.trim_end()), "node a does not answer any more");
        assert_eq!(text_of("thread main panicked at x"), "thread main panicked at x");
    }

    #[test]
    fn log_level_filters_all_but_the_first_line() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_writer(move || writer.clone())
            .event_format(Line { node: "node7".into() })
            .finish()
            .with(filter(LogLevel::Warn));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: ALWAYS, "listens on");
            tracing::info!("not said");
            tracing::warn!("said");
        });
        let text = String::from_utf8(written.0.lock().expect("a test").clone()).expect("text");
        let lines: Vec<&str> = text.lines().map(text_of).collect();
        assert_eq!(lines, ["listens on", "said"]);
    }
}
