//! The kernel of an element, where it is a process of its own: it has the place in the job and the global
//! memory, and does what its DSE process asks ([`crate::message`]).
//!
//! It sleeps in the operating system until the process asks; meanwhile the service thread of the library
//! takes what other nodes ask of the memory, and elements of this node need nobody for it. It ends when the
//! process does.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use tutti_native::status::OK;
use tutti_runtime::stamps::{self as kept, Mark};

use crate::element::{self, exclusion, relay};
use crate::fault::{self, Code};
use crate::message::{Answer, HEAD, Question, encode_stamp};
use crate::{access, process, stamps};

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

/// Values that a question gives, or the code of its refusal.
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
            if let Some(now_ns) = kept::begin() {
                kept::note(Mark::Taken, now_ns, HEAD);
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
                Question::StampsStop => self.stop_stamps()?,
                question => self.answer(obey(question))?,
            }
            if question == Question::Finish {
                return Ok(true);
            }
        }
    }

    fn answer(&mut self, values: Values) -> io::Result<()> {
        match values {
            Ok(values) => self.give(&Answer { values, ..Answer::default() }.encode()),
            Err(code) => {
                let text = fault::last_text();
                let answer = Answer { code: code as i32, text: text.len() as u32, ..Answer::default() };
                self.give(&[&answer.encode()[..], &text].concat())
            }
        }
    }

    fn give(&mut self, bytes: &[u8]) -> io::Result<()> {
        let begun_ns = kept::begin();
        self.output.write_all(bytes)?;
        if let Some(begun_ns) = begun_ns {
            kept::note(Mark::Given, begun_ns, bytes.len());
        }
        Ok(())
    }

    /// The answer, and the stamps behind it.
    fn stop_stamps(&mut self) -> io::Result<()> {
        let (stamps, lost) = match stamps::stop() {
            Ok(found) => found,
            Err(status) => return self.answer(Ok([status.into(), 0, 0])),
        };
        self.answer(Ok([OK.into(), stamps.len() as i64, lost as i64]))?;
        let mut output = BufWriter::with_capacity(PIECE, self.output);
        for stamp in &stamps {
            output.write_all(&encode_stamp(stamp))?;
        }
        output.flush()
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
                self.give(&piece[..HEAD + length])?;
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
        Question::End(element) => nothing(process::end(element)),
        Question::ServeBeside => nothing(process::serve_programs_beside()),
        Question::IsEnded => process::is_ended().map(|is_ended| [is_ended.into(), 0, 0]),
        Question::Next => process::next().map(|next| match next {
            Some(next) => [next.starter as i64, next.function as i64, next.argument],
            None => [-1, 0, 0],
        }),
        Question::Ended { starter, value, is_known } => {
            nothing(process::note_end(starter as usize, is_known.then_some(value)))
        }
        Question::Finish => nothing(element::finish()),
        Question::StampsStart { room, inner } => {
            Ok([stamps::start(usize::try_from(room).unwrap_or(usize::MAX), inner).into(), 0, 0])
        }
        // Those with bytes behind them do not come here.
        Question::Read { .. }
        | Question::Write { .. }
        | Question::StartProgram { .. }
        | Question::StampsStop => Ok([0; 3]),
    }
}
