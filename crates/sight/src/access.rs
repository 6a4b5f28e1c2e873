//! Right to read what is below `/api`: open, or with a token.

/// Right to read what is below `/api`.
#[derive(Clone, Debug)]
pub enum Access {
    /// Everybody who reaches the page: root's daemon shows all jobs to all users of the machine.
    Open,
    /// Readers with this token.
    Token(String),
}

/// In the same time wherever they differ.
pub fn is_equal(given: &str, token: &str) -> bool {
    let differing = given.bytes().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == token.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_must_be_equal() {
        assert!(is_equal("abc", "abc"));
        assert!(!is_equal("abd", "abc") && !is_equal("ab", "abc") && !is_equal("", "abc"));
    }
}
