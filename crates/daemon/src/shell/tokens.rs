//! Tokens of the page: what a user gives to a program of another account, so that it may read the output of
//! the user's jobs (`tutti page`), and nothing else.
//!
//! ```text
//! user's program  --Token-->            daemon: uid.gid.expires_s.HMAC, for those whom the kernel names
//! tutti-sight     --LogsFor(job, token)--> daemon: as if that user had asked for Logs(job)
//! ```
//!
//! The key is drawn when the first token is made and never leaves the daemon: its tokens end with it, and
//! count on its node alone.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::hmac;
use tutti_os::random::fill_random;

use crate::message::{Answer, Request, User};

/// A token counts for so long.
const LIFE: Duration = Duration::from_secs(12 * 3600);
/// Bytes of a token, at most.
const TOKEN_BYTES_MAX: usize = 200;

static KEY: OnceLock<hmac::Key> = OnceLock::new();

/// Meaning of a request once its token has been looked at.
pub(super) enum Asked {
    /// Request of this user.
    Of(User, Request),
    /// Request that has its answer.
    Answered(Answer),
}

/// Answers who wants a token; takes who shows one for its user.
pub(super) fn exchange(user: User, request: Request) -> Asked {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match request {
        Request::Token => Asked::Answered(issue(user, now_s)),
        Request::LogsFor(job, token) => match read(&token, now_s) {
            Some(user) => Asked::Of(user, Request::Logs(job)),
            None => Asked::Answered(Answer::Refused(
                "the token is none of this daemon's, or too old: `tutti page` prints a link with another one"
                    .into(),
            )),
        },
        request => Asked::Of(user, request),
    }
}

fn issue(user: User, now_s: u64) -> Answer {
    if user.uid == 0 {
        return Answer::Refused("root gets no token: it would open the output of all jobs".into());
    }
    // Whose account it is was found out by the connection, and is not in a token.
    if user.owner.is_some() {
        return Answer::Refused("users of a range of uids get no token".into());
    }
    let key = match KEY.get() {
        Some(key) => key,
        None => {
            let mut bytes = [0; 32];
            if let Err(error) = fill_random(&mut bytes) {
                return Answer::Refused(format!("cannot draw random bytes: {error}"));
            }
            KEY.get_or_init(|| hmac::Key::new(hmac::HMAC_SHA256, &bytes))
        }
    };
    let facts = format!("{}.{}.{}", user.uid, user.gid, now_s + LIFE.as_secs());
    let mark: String =
        hmac::sign(key, facts.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Answer::Token(format!("{facts}.{mark}"))
}

/// The user of a token that counts.
fn read(token: &str, now_s: u64) -> Option<User> {
    let (facts, mark) = Some(token).filter(|token| token.len() <= TOKEN_BYTES_MAX)?.rsplit_once('.')?;
    let mark: Vec<u8> = mark
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect::<Option<_>>()?;
    hmac::verify(KEY.get()?, facts.as_bytes(), &mark).ok()?;
    let mut numbers = facts.split('.').map(str::parse::<u64>);
    let mut number = || numbers.next()?.ok();
    let (uid, gid, expires_s) = (number()?, number()?, number()?);
    (now_s < expires_s).then(|| User::new(uid as u32, gid as u32))
}

#[cfg(test)]
mod tests {
    use tutti_sched::JobId;

    use super::*;

    fn token_of(user: User, now_s: u64) -> String {
        match issue(user, now_s) {
            Answer::Token(token) => token,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn token_is_its_users_until_it_is_too_old() {
        let token = token_of(User::new(7, 8), 1000);
        assert_eq!(read(&token, 1000), Some(User::new(7, 8)));
        assert_eq!(read(&token, 1000 + LIFE.as_secs()), None);
        for at in 0..token.len() {
            let mut wrong = token.clone().into_bytes();
            wrong[at] = if wrong[at] == b'1' { b'2' } else { b'1' };
            let wrong = String::from_utf8(wrong).expect("text");
            assert_eq!(read(&wrong, 1000), None, "{wrong}");
        }
        for wrong in ["", ".", "7.8.9", "7.8.9.", "7.8.99999.00", "\u{e9}.\u{e9}", &token[..token.len() - 2]]
        {
            assert_eq!(read(wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn token_lets_read_output_and_nothing_else() {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let token = token_of(User::new(7, 8), now_s);
        assert!(matches!(issue(User::new(0, 0), now_s), Answer::Refused(_)), "root may read everything");
        let stranger = User::new(9, 9);
        match exchange(stranger, Request::LogsFor(JobId(3), token)) {
            Asked::Of(user, Request::Logs(JobId(3))) => assert_eq!(user, User::new(7, 8)),
            _ => panic!("it is a request for output"),
        }
        assert!(matches!(
            exchange(stranger, Request::LogsFor(JobId(3), "7.8.9.0".into())),
            Asked::Answered(Answer::Refused(_))
        ));
        assert!(
            matches!(exchange(stranger, Request::Down), Asked::Of(user, Request::Down) if user == stranger)
        );
    }
}
