//! `tutti.toml`: everything that a keeper sets, in one file.
//!
//! | part | what it does |
//! |---|---|
//! | [`schema`] | the sections and keys that there are, what each may be, its default |
//! | [`values`] | the value of a key: how it is read, checked and shown |
//! | [`parse`] | text to [`Config`], with every mistake and its place |
//! | [`mod@file`] | which file, and what can be wrong with it before its text is read |
//! | [`rules`] | queues, limits and shares as the controller goes by them |
//! | [`settings`] | what holds, and where each value comes from |
//!
//! Reading is pure but for [`mod@file`]: who exists as a user is asked by a function that the caller gives.

pub mod file;
pub mod parse;
pub mod rules;
pub mod schema;
pub mod section;
pub mod settings;
pub mod values;

pub use file::{Origin, load};
pub use parse::{Accounts, Config, Mistake, Parsed};
pub use rules::{Limits, Queue, Rules, Scope};
pub use settings::{Setting, Source};
pub use values::Value;
