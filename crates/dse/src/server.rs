//! The kernel of an element, where it is a process of its own: it has the place in the job and the global
//! memory, and does what its DSE process asks ([`crate::message`]).
//!
//! It sleeps in the operating system until the process asks; meanwhile the service thread of the library
//! takes what other nodes ask of the memory, and elements of this node need nobody for it. It ends when the
//! process does.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use crate::element::{self, exclusion, relay};
use crate::fault::{self, Code};
use crate::message::{Answer, HEAD, Question};
use crate::{access, process};

/// Bytes of a read or write that are held here at once.
const PIECE: usize = 64 << 10;

/// Serves one process until it finishes or ends.
pub fn run(stream: &UnixStream, bytes: usize) -> ExitCode {
    let mut kernel = Kernel { input: BufReader::with_capacity(PIECE, stream), output: stream };
    match kernel.serve(bytes) {
        Ok(true) => ExitCode::SUCCESS,
        // The process has ended without a word, and its end is the element's: there is nothing to add.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tutti: a DSE kernel cannot serve its process: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Kernel<'a> {
    input: BufReader<&'a UnixStream>,
    output: &'a UnixStream,
}

/// What a question gives.
type Values = Result<[i64; 3], Code>;

fn nothing(result: Result<(), Code>) -> Values {
    result.map(|()| [0; 3])
}

impl Kernel<'_> {
    /// Whether the process has finished in order.
    fn serve(&mut self, bytes: usize) -> io::Result<bool> {
        let begun = element::begin(bytes);
        let is_refused = begun.is_err();
        self.answer(begun.map(|elements| [elements.me as i64, elements.count as i64, 0]))?;
        if is_refused {
            return Ok(false);
        }
        let mut head = [0; HEAD];
        loop {
            match self.input.read_exact(&mut head) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                result => result?,
            }
            let question = Question::decode(&head)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no question of this version"))?;
            match question {
                Question::Read { element, at, bytes } => self.read(element, at as usize, bytes as usize)?,
                Question::Write { element, at, bytes } => self.write(element, at as usize, bytes as usize)?,
                Question::StartProgram { element, bytes } => {
                    let mut words = vec![0; (bytes as usize).min(process::WORDS_MAX)];
                    self.input.read_exact(&mut words)?;
                    self.answer(nothing(process::order_program(element, &words)))?;
                }
                question => self.answer(obey(question))?,
            }
            if question == Question::Finish {
                return Ok(true);
            }
        }
    }

    fn answer(&mut self, values: Values) -> io::Result<()> {
        match values {
            Ok(values) => self.output.write_all(&Answer { values, ..Answer::default() }.encode()),
            Err(code) => {
                let text = fault::last_text();
                let answer = Answer { code: code as i32, text: text.len() as u32, ..Answer::default() };
                self.output.write_all(&[&answer.encode()[..], &text].concat())
            }
        }
    }

    /// The answer, and the bytes behind it. A first piece goes with the answer.
    fn read(&mut self, element: i32, at: usize, bytes: usize) -> io::Result<()> {
        let mut piece = vec![0; HEAD + bytes.min(PIECE)];
        let mut done = 0;
        loop {
            let length = (bytes - done).min(PIECE);
            let data = &mut piece[HEAD..HEAD + length];
            // SAFETY: the piece has so many bytes.
            let read = unsafe { access::read(element, at + done, data.as_mut_ptr().cast(), length) };
            if done == 0 {
                if read.is_err() {
                    return self.answer(nothing(read));
                }
                piece[..HEAD].copy_from_slice(&Answer::default().encode());
                self.output.write_all(&piece[..HEAD + length])?;
            } else {
                read.map_err(not_checked)?;
                self.output.write_all(&piece[HEAD..HEAD + length])?;
            }
            done += length;
            if done == bytes {
                return Ok(());
            }
        }
    }

    fn write(&mut self, element: i32, at: usize, bytes: usize) -> io::Result<()> {
        let mut piece = vec![0; bytes.min(PIECE)];
        let mut done = 0;
        while done < bytes {
            let data = &mut piece[..(bytes - done).min(PIECE)];
            self.input.read_exact(data)?;
            // SAFETY: the piece has so many bytes.
            unsafe { access::write(element, at + done, data.as_ptr().cast(), data.len()) }
                .map_err(not_checked)?;
            done += data.len();
        }
        Ok(())
    }
}

/// A process checks what it writes before it asks, since nobody would hear a refusal.
fn not_checked(_: Code) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, String::from_utf8_lossy(&fault::last_text()).into_owned())
}

/// Questions that carry nothing but numbers.
fn obey(question: Question) -> Values {
    match question {
        Question::Confirm => nothing(access::confirm()),
        Question::Barrier => nothing(element::barrier()),
        Question::Lock(number) => nothing(exclusion::lock(number)),
        Question::Unlock(number) => nothing(exclusion::unlock(number)),
        Question::SemaphoreSet(number, value) => nothing(exclusion::semaphore_set(number, value)),
        Question::SemaphoreWait(number) => nothing(exclusion::semaphore_wait(number)),
        Question::SemaphorePost(number) => nothing(exclusion::semaphore_post(number)),
        Question::Topology { kind, columns } => nothing(relay::choose(kind, columns)),
        Question::Hops => relay::hops().map(|hops| [hops.into(), 0, 0]),
        Question::Start { element, function, argument } => {
            nothing(process::order_function(element, function, argument))
        }
        Question::Wait(element) => process::wait(element).map(|value| [value, 0, 0]),
        Question::Dismiss(element) => nothing(process::dismiss(element)),
        Question::Next => process::next().map(|next| match next {
            Some(next) => [next.starter as i64, next.function as i64, next.argument],
            None => [-1, 0, 0],
        }),
        Question::Ended { starter, value, is_known } => {
            nothing(process::note_end(starter as usize, is_known.then_some(value)))
        }
        Question::Finish => nothing(element::finish()),
        // Those with bytes behind them do not come here.
        Question::Read { .. } | Question::Write { .. } | Question::StartProgram { .. } => Ok([0; 3]),
    }
}
