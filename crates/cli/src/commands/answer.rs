//! Answers of daemons, as users see them.

use std::process::ExitCode;

use crate::stdout;

/// Text for a user whose daemon gives an answer that this command does not know.
pub(super) const OTHER_VERSION: &str = "the daemon is of another version";

/// Prints rows, as JSON or as text.
pub(super) fn show<T: serde::Serialize>(
    rows: &[T],
    json: bool,
    print: fn(&[T]) -> String,
) -> Result<ExitCode, String> {
    let text = if json {
        serde_json::to_string_pretty(rows).expect("rows are serialisable") + "\n"
    } else {
        print(rows)
    };
    Ok(stdout::print(Some(text), ""))
}
