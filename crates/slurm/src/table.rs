//! Format strings of the listing commands: `%.18i %2t` of `squeue` and `sinfo`, `Name:width` of `-O`, and
//! the columns of `sacct`.

use tutti_os::stderr::{escape_control, is_deceptive};

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text as it stands.
    Text(String),
    /// A field.
    Field {
        /// Letter.
        letter: char,
        /// Width in characters; none: as many as it needs.
        width: Option<usize>,
        /// Whether it stands at the right side.
        right: bool,
    },
}

/// Reads a format of letters. `%%x` is `%x`, as in Slurm.
#[must_use]
pub fn pieces(format: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        while letters.next_if_eq(&'%').is_some() {}
        let right = letters.next_if_eq(&'.').is_some();
        let mut width = String::new();
        while let Some(digit) = letters.next_if(char::is_ascii_digit) {
            width.push(digit);
        }
        // sinfo marks with it what it pads at the right side.
        let _ = letters.next_if_eq(&'#');
        let Some(letter) = letters.next() else { break };
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Field { letter, width: width.parse().ok(), right });
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    pieces
}

/// Reads a format as [`pieces`] does; `%all` stands for every field, small letters first, with `|` between.
#[must_use]
pub fn pieces_or_all(format: &str, is_known: impl Fn(char) -> bool) -> Vec<Piece> {
    if !format.eq_ignore_ascii_case("%all") {
        return pieces(format);
    }
    let known = ('a'..='z').chain('A'..='Z').filter(|letter| is_known(*letter));
    let field = |letter| Piece::Field { letter, width: None, right: false };
    let all = known.flat_map(|letter| [Piece::Text("|".into()), field(letter)]);
    all.skip(1).collect()
}

/// Letters of a format that are none: as in Slurm they stand in the lines as they were written, and one line
/// on stderr names each.
pub fn unknown<'a>(
    pieces: &'a [Piece],
    is_known: impl Fn(char) -> bool + 'a,
) -> impl Iterator<Item = char> + 'a {
    pieces.iter().filter_map(move |piece| match piece {
        Piece::Field { letter, .. } if !is_known(*letter) => Some(*letter),
        _ => None,
    })
}

/// A line of a format; `field` gives a field's value, or none for a letter that is no field.
#[must_use]
pub fn line(pieces: &[Piece], field: impl Fn(char) -> Option<String>) -> String {
    let mut line = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => line.push_str(text),
            Piece::Field { letter, width, right } => match field(*letter) {
                Some(value) => line.push_str(&fit(&value, *width, *right)),
                None => {
                    let (side, width) = (
                        if *right { "." } else { "" },
                        width.map_or_else(String::new, |width| width.to_string()),
                    );
                    line.push_str(&format!("%{side}{width}{letter}"));
                }
            },
        }
    }
    line.push('\n');
    line
}

/// A value as it is shown: what begins a line, moves the cursor or turns the direction of a text is escaped.
/// Joiners of letters and what chooses a letter's form change no column, and stand as Slurm's commands write
/// them.
#[must_use]
pub fn shown(value: &str) -> String {
    let is_form = |letter: char| matches!(letter, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
    let piece = |letter: char| match is_deceptive(letter) && !is_form(letter) {
        true => escape_control(letter.encode_utf8(&mut [0; 4])),
        false => letter.to_string(),
    };
    value.chars().map(piece).collect()
}

/// A value cut or padded to a width. What it has of its job's user is what it shows.
#[must_use]
pub fn fit(value: &str, width: Option<usize>, right: bool) -> String {
    let value = shown(value);
    let Some(width) = width else { return value };
    let cut: String = value.chars().take(width).collect();
    let pad = " ".repeat(width.saturating_sub(cut.chars().count()));
    if right { pad + &cut } else { cut + &pad }
}

/// A column that is named: its name, and a width if one stands behind it, below 0 for the left side.
pub type Column = (String, Option<i64>);

/// Width of a column of `-O` that has none.
const NAMED_WIDTH: usize = 20;

/// A column of `-O`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name, in small letters.
    pub name: String,
    /// Width in characters; none: as many as it needs.
    pub width: Option<usize>,
    /// Whether it stands at the right side.
    pub right: bool,
    /// Text behind it.
    pub suffix: String,
}

/// Reads a list of `-O`: `Name`, `Name:10`, `Name:.10`, `Name:|`, with commas between.
#[must_use]
pub fn named(list: &str) -> Vec<Named> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let one = |word: &str| {
        let Some((name, form)) = word.split_once(':') else {
            let (name, width) = (word.to_ascii_lowercase(), Some(NAMED_WIDTH));
            return Named { name, width, right: false, suffix: String::new() };
        };
        let (right, rest) = form.strip_prefix('.').map_or((false, form), |rest| (true, rest));
        let suffix = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let width = rest[..rest.len() - suffix.len()].parse().ok();
        Named { name: name.to_ascii_lowercase(), width, right, suffix: suffix.to_owned() }
    };
    words.map(one).collect()
}

/// Reads `Name:width,Name` (`mark` is `:`), or `Name%width` (`mark` is `%`); a width below 0 is for the
/// left side.
#[must_use]
pub fn columns(list: &str, mark: char) -> Vec<Column> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| match word.split_once(mark) {
            Some((name, width)) => {
                let width = width.trim_matches('.').trim_end_matches(|letter: char| !letter.is_ascii_digit());
                (name.to_owned(), width.parse().ok())
            }
            None => (word.to_owned(), None),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(format: &str) -> String {
        line(&pieces(format), |letter| match letter {
            'i' => Some("12345".into()),
            't' => Some("OOM".into()),
            'c' => Some("a\nb\u{202e}".into()),
            _ => None,
        })
    }

    #[test]
    fn format_has_widths_sides_and_text() {
        for (format, expected) in [
            ("%i", "12345\n"),
            ("%.8i|%8i|", "   12345|12345   |\n"),
            ("%.2t", "OO\n"),
            ("%i<><> %t", "12345<><> OOM\n"),
            ("\"%i\",\"%t\"", "\"12345\",\"OOM\"\n"),
            ("%%i|%%t", "12345|OOM\n"),
            ("%#i", "12345\n"),
            ("%.5q|%-5i", "%.5q|%-5i\n"),
            ("x%", "x\n"),
            ("%c|%.7c|%1c", "a\\nb\\u{202e}|a\\nb\\u{|a\n"),
        ] {
            assert_eq!(line_of(format), expected, "{format}");
        }
        let found: Vec<char> = unknown(&pieces("%i %q %-5i"), |letter| "it".contains(letter)).collect();
        assert_eq!(found, ['q', '-']);
    }

    #[test]
    fn values_keep_the_joiners_and_forms_of_their_letters() {
        let text =
            "\u{646}\u{645}\u{6cc}\u{200c}\u{634}\u{648}\u{62f} \u{2764}\u{fe0f} \u{1f469}\u{200d}\u{1f680}";
        assert_eq!(fit(text, None, false), text);
        assert_eq!(fit("a\u{202e}\u{2028}\u{200f}\tb", None, false), "a\\u{202e}\\u{2028}\\u{200f}\\tb");
    }

    #[test]
    fn format_of_all_fields_has_each_once() {
        let shown = |format: &str| {
            let pieces = pieces_or_all(format, |letter| "Bita".contains(letter));
            line(&pieces, |letter| "Bita".contains(letter).then(|| letter.to_string()))
        };
        assert_eq!((shown("%all"), shown("%ALL")), ("a|i|t|B\n".into(), "a|i|t|B\n".into()));
        // With anything beside it, it is `%a` and a text, as in Slurm.
        assert_eq!(shown("x%allx %i"), "xallx i\n");
    }

    #[test]
    fn named_columns_have_widths_sides_and_suffixes() {
        let of = |list: &str| {
            let one = named(list).remove(0);
            (one.name, one.width, one.right, one.suffix)
        };
        let expected = |width, right, suffix: &str| ("jobid".to_owned(), width, right, suffix.to_owned());
        assert_eq!(of("JobID"), expected(Some(20), false, ""));
        assert_eq!(of("JobID:.8"), expected(Some(8), true, ""));
        assert_eq!(of("JobID:8;"), expected(Some(8), false, ";"));
        assert_eq!(of("JobID:|,Name"), expected(None, false, "|"));
        assert_eq!(of("JobID:"), expected(None, false, ""));
    }

    #[test]
    fn columns_have_names_and_widths() {
        let column = |name: &str, width| (name.to_owned(), width);
        assert_eq!(
            columns("nodelist%-256, state%20", '%'),
            [column("nodelist", Some(-256)), column("state", Some(20))]
        );
    }
}
