//! The expressions of rules: a name with or without arguments in parentheses, to any depth.

/// A function or a group with its arguments, or a parameter or constant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expression {
    /// Text before the parentheses.
    pub name: String,
    /// Arguments between the parentheses; none without parentheses.
    pub arguments: Option<Vec<Expression>>,
}

impl Expression {
    /// Reads `data(buffer, count, datatype)`.
    pub(super) fn parse(text: &str) -> Result<Expression, String> {
        let text = text.trim();
        let bad = || format!("`{text}` is no parameter, literal or name(arguments)");
        let Some((name, rest)) = text.split_once('(') else {
            let is_word = is_path(text);
            return is_word.then(|| Expression { name: text.to_owned(), arguments: None }).ok_or_else(bad);
        };
        let inside = rest.strip_suffix(')').ok_or_else(bad)?;
        let name = name.trim().to_owned();
        Ok(Expression { name, arguments: Some(Expression::parse_list(inside)?) })
    }

    /// Reads expressions with commas between them; an empty text has none.
    pub(super) fn parse_list(text: &str) -> Result<Vec<Expression>, String> {
        let mut list = Vec::new();
        if text.trim().is_empty() {
            return Ok(list);
        }
        let (mut depth, mut begin) = (0, 0);
        for (at, c) in text.char_indices().chain([(text.len(), ',')]) {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    list.push(Expression::parse(&text[begin..at])?);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        Ok(list)
    }

    /// Whether it is a number, a truth value or a constant of Rust: `0`, `true`, `Mode::Standard`.
    pub(super) fn is_literal(&self) -> bool {
        ["true", "false"].contains(&self.name.as_str())
            || self.name.contains("::")
            || self.name.starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase())
    }

    /// The parameters that it uses.
    pub(super) fn parameters(&self) -> Vec<&str> {
        match &self.arguments {
            Some(arguments) => arguments.iter().flat_map(Expression::parameters).collect(),
            None if self.is_literal() => Vec::new(),
            None => vec![&self.name],
        }
    }
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}
