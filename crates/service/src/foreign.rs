//! Types of Rust that travel to and from services: the same names and bytes as those of C++.
//!
//! ```no_run
//! # fn main() -> Result<(), tutti_service::foreign::Failure> {
//! use tutti_service::foreign::Typed;
//! let mut kv = Typed::open("alice/kv@*", std::time::Duration::from_secs(60))?;
//! let found: Option<String> = kv.call("get", (17_i64,))?;
//! # Ok(())
//! # }
//! ```

use core::ffi::c_int;
use std::time::Duration;

use tutti_shm::published::name;

use crate::client::Client;
use crate::server::{Served, Service};
use crate::status::{INVALID, OK, THREW, VERSION, text};

/// A type that travels.
pub trait Foreign: Sized {
    /// Name in signatures.
    fn text() -> String;
    /// Appends the bytes of one.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes it off the beginning of what has come; none: that is no value of it.
    fn get(left: &mut &[u8]) -> Option<Self>;
}

macro_rules! number {
    ($($kind:ty, $text:literal;)*) => {$(
        impl Foreign for $kind {
            fn text() -> String {
                $text.into()
            }
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
            fn get(left: &mut &[u8]) -> Option<Self> {
                let (taken, rest) = left.split_first_chunk()?;
                *left = rest;
                Some(<$kind>::from_le_bytes(*taken))
            }
        }
    )*};
}

number! {
    i8, "i8"; i16, "i16"; i32, "i32"; i64, "i64"; u8, "u8"; u16, "u16"; u32, "u32"; u64, "u64"; f32, "f32"; f64, "f64";
}

impl Foreign for bool {
    fn text() -> String {
        "bool".into()
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn get(left: &mut &[u8]) -> Option<Self> {
        u8::get(left).filter(|byte| *byte <= 1).map(|byte| byte == 1)
    }
}

impl<T: Foreign> Foreign for Vec<T> {
    fn text() -> String {
        format!("vec({})", T::text())
    }
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|one| one.put(out));
    }
    fn get(left: &mut &[u8]) -> Option<Self> {
        let count = usize::try_from(u64::get(left)?).ok().filter(|count| *count <= left.len())?;
        (0..count).map(|_| T::get(left)).collect()
    }
}

impl Foreign for String {
    fn text() -> String {
        "str".into()
    }
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend(self.as_bytes());
    }
    fn get(left: &mut &[u8]) -> Option<Self> {
        String::from_utf8(Vec::<u8>::get(left)?).ok()
    }
}

impl<T: Foreign> Foreign for Option<T> {
    fn text() -> String {
        format!("opt({})", T::text())
    }
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|one| one.put(out));
    }
    fn get(left: &mut &[u8]) -> Option<Self> {
        if bool::get(left)? { T::get(left).map(Some) } else { Some(None) }
    }
}

/// Arguments of a function, and parts of a tuple.
pub trait Parts: Sized {
    /// Names of all.
    fn texts() -> Vec<String>;
    /// Appends the bytes of all.
    fn put_all(&self, out: &mut Vec<u8>);
    /// Takes all.
    fn get_all(left: &mut &[u8]) -> Option<Self>;
}

macro_rules! parts {
    ($(($($kind:ident $at:tt),*);)*) => {$(
        impl<$($kind: Foreign),*> Parts for ($($kind,)*) {
            fn texts() -> Vec<String> {
                vec![$($kind::text()),*]
            }
            fn put_all(&self, _out: &mut Vec<u8>) {
                $(self.$at.put(_out);)*
            }
            fn get_all(_left: &mut &[u8]) -> Option<Self> {
                Some(($($kind::get(_left)?,)*))
            }
        }
    )*};
}

parts! {
    (); (A 0); (A 0, B 1); (A 0, B 1, C 2); (A 0, B 1, C 2, D 3); (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

macro_rules! tuples {
    ($(($($kind:ident),*);)*) => {$(
        impl<$($kind: Foreign),*> Foreign for ($($kind,)*) {
            fn text() -> String {
                format!("tuple({})", Self::texts().join(","))
            }
            fn put(&self, out: &mut Vec<u8>) {
                self.put_all(out);
            }
            fn get(left: &mut &[u8]) -> Option<Self> {
                Self::get_all(left)
            }
        }
    )*};
}

tuples! { (A); (A, B); (A, B, C); (A, B, C, D); (A, B, C, D, E); (A, B, C, D, E, F); }

/// A result: what travels, or nothing.
pub trait Given: Sized {
    /// Name in signatures.
    fn text() -> String;
    /// Bytes of one.
    fn encode(&self) -> Vec<u8>;
    /// All bytes that have come.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

impl<T: Foreign> Given for T {
    fn text() -> String {
        T::text()
    }
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        T::get(&mut bytes).filter(|_| bytes.is_empty())
    }
}

impl Given for () {
    fn text() -> String {
        "void".into()
    }
    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

fn signature<A: Parts, R: Given>(function: &str) -> String {
    format!("{function}({})->{}", A::texts().join(","), R::text())
}

/// How a call has failed: a number of [`crate::status`], and a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of how it ended.
    pub status: c_int,
    /// Line for people.
    pub text: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// A connection whose calls have types.
#[derive(Debug)]
pub struct Typed {
    client: Client,
    name: String,
    at_most: Duration,
}

impl Typed {
    /// Connects to a service by its name, `[user/]name[@node]`; each call waits so long at most.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn open(name: &str, at_most: Duration) -> Result<Self, Failure> {
        let failed = |status| Failure { status, text: format!("service {name}: {}", text(status)) };
        let parsed = name::parse(name.as_bytes()).ok_or_else(|| failed(INVALID))?;
        let client = Client::open(&parsed, at_most).map_err(failed)?;
        Ok(Typed { client, name: name.to_owned(), at_most })
    }

    /// Length of the queue of this connection ([`Client::waiting`]).
    pub fn waiting(&mut self) -> usize {
        self.client.waiting()
    }

    /// Calls a function with a tuple of arguments.
    ///
    /// # Errors
    /// How it has ended; what the function has thrown.
    pub fn call<R: Given, A: Parts>(&mut self, function: &str, arguments: A) -> Result<R, Failure> {
        let wanted = signature::<A, R>(function);
        let mut bytes = Vec::new();
        arguments.put_all(&mut bytes);
        let failed = |status, what: &str| Failure { status, text: format!("service {}: {what}", self.name) };
        match self.client.call(&wanted, &bytes, self.at_most) {
            Ok((OK, data)) => R::decode(&data).ok_or_else(|| failed(VERSION, "its result is no such value")),
            Ok((_, data)) => {
                let thrown = String::from_utf8_lossy(&data).replace('\0', ": ");
                Err(failed(THREW, &thrown))
            }
            Err(VERSION) => {
                let has = |one: &&String| one.split('(').next() == Some(function);
                let found = self.client.signatures().iter().find(has).map(String::as_str);
                let found = found.map_or_else(|| format!("no function {function}"), str::to_owned);
                Err(failed(VERSION, &format!("it has {found}, and is asked for {wanted}")))
            }
            Err(status) => Err(failed(status, text(status))),
        }
    }
}

impl Service {
    /// Offers a function of Rust with a tuple of arguments; an error of it is what the caller is told.
    ///
    /// # Errors
    /// As [`Service::add`].
    pub fn add_typed<A: Parts, R: Given>(
        &mut self,
        function: &str,
        mut run: impl FnMut(A) -> Result<R, String> + Send + 'static,
    ) -> Result<(), c_int> {
        let call = move |mut data: &[u8], served: &mut Served| {
            let arguments = A::get_all(&mut data).filter(|_| data.is_empty());
            let result = arguments.map_or_else(|| Err("these are no such arguments".to_owned()), &mut run);
            let answered = match result {
                Ok(value) => served.answer(OK, &value.encode()),
                Err(text) => served.answer(THREW, format!("error\0{text}").as_bytes()),
            };
            if answered.is_err() {
                let _ = served.answer(THREW, b"error\0the result is longer than may travel");
            }
        };
        self.add(&signature::<A, R>(function), Box::new(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_shm::published::Audience;

    type Row = (i32, String, Option<f64>, bool);

    #[test]
    fn typed_client_and_service_of_rust_understand_each_other() {
        let name = format!("typed-rust-{}", std::process::id());
        let own = tutti_shm::published::name::own_user();
        let (mut service, stop) = Service::open(&name, Audience::User(own)).expect("a service");
        service.add_typed("mirror", |(rows,): (Vec<Row>,)| Ok(rows)).expect("one");
        service
            .add_typed(
                "half",
                |(number,): (u8,)| {
                    if number % 2 == 0 { Ok(number / 2) } else { Err(format!("{number} is odd")) }
                },
            )
            .expect("one more");
        service.add_typed("nothing", |()| Ok(())).expect("one more");
        let serves = std::thread::spawn(move || service.serve(None));
        let mut client = Typed::open(&name, Duration::from_secs(60)).expect("a client");
        let rows = vec![(1, "one".to_owned(), Some(1.5), true), (-2, String::new(), None, false)];
        assert_eq!(client.call("mirror", (rows.clone(),)), Ok(rows));
        assert_eq!(client.call::<(), _>("nothing", ()), Ok(()));
        assert_eq!(client.call("half", (8_u8,)), Ok(4_u8));
        let odd = client.call::<u8, _>("half", (7_u8,)).expect_err("it is odd");
        assert_eq!((odd.status, odd.text), (THREW, format!("service {name}: error: 7 is odd")));
        let other = client.call::<u8, _>("half", (7_i64,)).expect_err("another type");
        let says = format!("service {name}: it has half(u8)->u8, and is asked for half(i64)->u8");
        assert_eq!((other.status, other.text), (VERSION, says));
        stop.stop();
        assert_eq!(serves.join().expect("it ends"), Ok(4));
        let gone = client.call::<(), _>("nothing", ()).expect_err("it has ended");
        assert!([crate::status::GONE, crate::status::LOST].contains(&gone.status), "{gone}");
    }
}
