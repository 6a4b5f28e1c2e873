//! Names of files with patterns: `%j`, `%A_%a`, `%t`, `%N`, `%x`, `%u`, `%%`.

/// Values that patterns stand for. An empty text is not known here and is left to Tutti's own patterns.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// `%j`, `%J`.
    pub job: String,
    /// `%A`.
    pub array: String,
    /// `%a`; without an array it is as in Slurm.
    pub task_of_array: Option<u32>,
    /// `%t`, the rank.
    pub rank: String,
    /// Whether the daemon puts the numbers of an array's elements in for `%A` and `%a`.
    pub is_array: bool,
    /// `%n`, the node's index.
    pub node_index: String,
    /// `%N`, the node.
    pub node: String,
    /// `%x`, the job's name.
    pub name: String,
    /// `%u`.
    pub user: String,
    /// `%s`, the step.
    pub step: String,
}

/// Slurm's value of `%a` without an array.
const NO_TASK: u32 = 4_294_967_294;

/// Replaces patterns. Those without a value become Tutti's: `%j` the job, `%N` the node. With `is_last` no
/// other program looks at the name again, so `%%` becomes a percent sign.
#[must_use]
pub fn expand(pattern: &str, values: &Values, is_last: bool) -> String {
    // A backslash takes the meaning from all patterns, as in Slurm.
    if pattern.contains('\\') {
        let plain = pattern.replace('\\', "");
        return if is_last { plain } else { plain.replace('%', "%%") };
    }
    let escaped = |text: &str| if is_last { text.to_owned() } else { text.replace('%', "%%") };
    let mut name = String::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            name.push(letter);
            continue;
        }
        let mut width = String::new();
        while let Some(digit) = letters.next_if(char::is_ascii_digit) {
            width.push(digit);
        }
        // Ten digits at most, as in Slurm.
        let width = width.parse::<usize>().map_or(0, |width| width.min(10));
        let task = || values.task_of_array.unwrap_or(NO_TASK).to_string();
        let (value, own) = match letters.next() {
            Some('j' | 'J') => (values.job.clone(), "%j"),
            Some('A') if values.is_array => (String::new(), "%A"),
            Some('a') if values.is_array => (String::new(), "%a"),
            Some('A') => (values.array.clone(), "%j"),
            Some('a') => (task(), ""),
            Some('t') => (values.rank.clone(), ""),
            Some('n') => (values.node_index.clone(), ""),
            Some('N') => (values.node.clone(), "%N"),
            Some('x') => (values.name.clone(), ""),
            Some('u') => (values.user.clone(), ""),
            Some('s') => (values.step.clone(), ""),
            Some('%') => ("%".to_owned(), ""),
            Some(other) => (format!("%{other}"), ""),
            None => ("%".to_owned(), ""),
        };
        if value.is_empty() && !own.is_empty() {
            name.push_str(own);
        } else if value.bytes().all(|byte| byte.is_ascii_digit()) {
            name.push_str(&format!("{value:0>width$}"));
        } else {
            name.push_str(&escaped(&value));
        }
    }
    name
}

/// Whether each task, or each node, has a file of its own.
#[must_use]
pub fn is_of_tasks(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        rest = rest[at + 1..].trim_start_matches(|letter: char| letter.is_ascii_digit());
        match rest.chars().next() {
            Some('t' | 'n' | 'N') => return true,
            Some(letter) => rest = &rest[letter.len_utf8()..],
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_have_slurms_patterns() {
        let values = Values {
            job: String::new(),
            array: "6".into(),
            task_of_array: Some(3),
            rank: "0".into(),
            name: "a%b".into(),
            user: "eva".into(),
            ..Values::default()
        };
        assert_eq!(expand("%A_%a_%t.out", &values, false), "6_3_0.out");
        assert_eq!(expand("%j %J %N %x %u %% %q", &values, false), "%j %j %N a%%b eva %% %%q");
        assert_eq!(expand("x%4a%03A", &values, false), "x0003006");
        assert_eq!(expand("a\\%j", &values, false), "a%%j");
        assert_eq!(expand("100%", &values, true), "100%");
        assert_eq!(expand("%a", &Values::default(), true), "4294967294");
        assert!(is_of_tasks("%j_%t") && is_of_tasks("%2t") && !is_of_tasks("%j_%%t"));
    }
}
