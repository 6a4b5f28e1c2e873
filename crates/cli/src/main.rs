//! The front end of Tutti.
fn main() {}
