//! Error classes, codes and texts that users add (MPI 9.5). They may be added at any time, so they have their
//! own lock.

use core::ffi::c_int;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::abi::*;
use crate::error::{Error, Result, check, class_text};

/// A class or code of the user.
#[derive(Debug)]
struct Entry {
    /// The class of a code; a class is its own.
    class: c_int,
    text: Vec<u8>,
}

/// Error classes and codes that users have added. Numbers are not given twice.
#[derive(Debug)]
struct Codes {
    entries: BTreeMap<c_int, Entry>,
}

static CODES: Mutex<Codes> = Mutex::new(Codes { entries: BTreeMap::new() });

/// The highest number in use: what the attribute MPI_LASTUSEDCODE points to, so it stays where it is.
pub static LAST_USED: AtomicI32 = AtomicI32::new(MPI_ERR_LASTCODE);

fn with<T>(action: impl FnOnce(&mut Codes) -> T) -> T {
    action(&mut CODES.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Codes {
    fn add(&mut self, class: Option<c_int>) -> Result<c_int> {
        let number = LAST_USED
            .load(Ordering::Relaxed)
            .checked_add(1)
            .ok_or_else(|| Error::new(MPI_ERR_INTERN, "no number is left for another error code"))?;
        LAST_USED.store(number, Ordering::Relaxed);
        self.entries.insert(number, Entry { class: class.unwrap_or(number), text: Vec::new() });
        Ok(number)
    }

    /// A class or code of the user, to be changed.
    fn own(&mut self, code: c_int, name: &str) -> Result<&mut Entry> {
        self.entries.get_mut(&code).ok_or_else(|| {
            let what = if class_text(code).is_some() { "belongs to the standard" } else { "was not added" };
            Error::new(MPI_ERR_ARG, format_args!("{name} is {code}, which {what}"))
        })
    }

    fn remove(&mut self, code: c_int, name: &str) -> Result<()> {
        let entry = self.own(code, name)?;
        check(entry.text.is_empty(), MPI_ERR_OTHER, || format!("{name} {code} still has a text"))?;
        let user = self.entries.iter().find(|(number, entry)| entry.class == code && **number != code);
        check(user.is_none(), MPI_ERR_OTHER, || {
            format!("error code {} is of class {code}", user.map_or(0, |u| *u.0))
        })?;
        self.entries.remove(&code);
        Ok(())
    }
}

/// Adds a class.
///
/// # Errors
/// MPI_ERR_INTERN when the numbers are used up.
pub fn add_class() -> Result<c_int> {
    with(|codes| codes.add(None))
}

/// Adds a code of a class.
///
/// # Errors
/// MPI_ERR_ARG when there is no such class.
pub fn add_code(class: c_int) -> Result<c_int> {
    with(|codes| {
        let known =
            class_text(class).is_some() || codes.entries.get(&class).is_some_and(|e| e.class == class);
        check(known, MPI_ERR_ARG, || format!("errorclass is {class}, which is not an error class"))?;
        codes.add(Some(class))
    })
}

/// Gives a class or code of the user a text.
///
/// # Errors
/// MPI_ERR_ARG when it is none of the user's, or the text too long.
pub fn add_text(code: c_int, text: &[u8]) -> Result<()> {
    check(text.len() < MPI_MAX_ERROR_STRING as usize, MPI_ERR_ARG, || {
        format!("string has {} bytes, expected at most {}", text.len(), MPI_MAX_ERROR_STRING - 1)
    })?;
    with(|codes| codes.own(code, "errorcode").map(|entry| entry.text = text.to_vec()))
}

/// Takes a class of the user away.
///
/// # Errors
/// MPI_ERR_ARG when it is none, MPI_ERR_OTHER when it has a text or codes.
pub fn remove_class(class: c_int) -> Result<()> {
    with(|codes| {
        let entry = codes.own(class, "errorclass")?;
        check(entry.class == class, MPI_ERR_ARG, || format!("errorclass is {class}, which is a code"))?;
        codes.remove(class, "errorclass")
    })
}

/// Takes a code of the user away.
///
/// # Errors
/// MPI_ERR_ARG when it is none, MPI_ERR_OTHER when it has a text.
pub fn remove_code(code: c_int) -> Result<()> {
    with(|codes| {
        let entry = codes.own(code, "errorcode")?;
        check(entry.class != code, MPI_ERR_ARG, || format!("errorcode is {code}, which is a class"))?;
        codes.remove(code, "errorcode")
    })
}

/// Takes the text of a class or code of the user away.
///
/// # Errors
/// MPI_ERR_ARG when it is none of the user's, or has no text.
pub fn remove_text(code: c_int) -> Result<()> {
    with(|codes| {
        let entry = codes.own(code, "errorcode")?;
        check(!entry.text.is_empty(), MPI_ERR_ARG, || format!("errorcode {code} has no text"))?;
        entry.text.clear();
        Ok(())
    })
}

/// The class of a code; MPI_ERR_UNKNOWN for a number that nobody has given.
pub fn class_of(code: c_int) -> c_int {
    if class_text(code).is_some() {
        return code;
    }
    with(|codes| codes.entries.get(&code).map_or(MPI_ERR_UNKNOWN, |entry| entry.class))
}

/// The text of a class or code of the user.
pub fn text_of(code: c_int) -> Option<Vec<u8>> {
    with(|codes| codes.entries.get(&code).map(|entry| entry.text.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_class_is_removed_after_its_codes() {
        let class = add_class().unwrap();
        assert!(class > MPI_ERR_LASTCODE);
        let code = add_code(class).unwrap();
        assert_eq!((class_of(code), class_of(class)), (class, class));
        add_text(code, b"it happened").unwrap();
        assert_eq!(text_of(code).unwrap(), b"it happened");
        assert_eq!(remove_code(code).unwrap_err().class, MPI_ERR_OTHER);
        assert_eq!(remove_class(class).unwrap_err().class, MPI_ERR_OTHER);
        remove_text(code).unwrap();
        remove_code(code).unwrap();
        remove_class(class).unwrap();
        assert_eq!(remove_class(class).unwrap_err().class, MPI_ERR_ARG);
        assert_eq!(class_of(code), MPI_ERR_UNKNOWN);
    }

    #[test]
    fn error_codes_of_the_standard_stay() {
        for refused in [remove_class(MPI_ERR_TAG), remove_code(MPI_SUCCESS), add_text(MPI_ERR_TAG, b"no")] {
            assert_eq!(refused.unwrap_err().class, MPI_ERR_ARG);
        }
        assert_eq!(class_of(MPI_ERR_RANK), MPI_ERR_RANK);
        let of_standard = add_code(MPI_ERR_RANK).unwrap();
        assert_eq!(class_of(of_standard), MPI_ERR_RANK);
    }
}
