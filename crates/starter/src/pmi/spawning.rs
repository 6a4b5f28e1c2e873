//! A request for more processes, as a program sends it over PMI: a block of lines for each command. Called by
//! the server line by line. What it keeps is bounded by [`BYTES_MAX`].
//!
//! ```text
//! mcmd=spawn / nprocs=N / execname=FILE / totspawns=COMMANDS / spawnssofar=K / argI=TEXT ... / argcnt=N
//! preput_num=N / preput_key_I=KEY / preput_val_I=VALUE / info_num=N / info_key_I=KEY / info_val_I=VALUE / endcmd
//! ```

use std::collections::BTreeMap;

use super::line::number;

/// Bytes of all blocks, at most.
const BYTES_MAX: usize = 128 << 10;
/// Commands, at most.
const COMMANDS_MAX: u32 = 512;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A command that is to be executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// By how many processes.
    pub ranks: u32,
    /// File of the program, or its name.
    pub file: Vec<u8>,
    /// Arguments of the program without its name.
    pub arguments: Vec<Vec<u8>>,
    /// Wishes of the user.
    pub hints: Vec<Pair>,
    /// Pairs that the new processes find in their store.
    pub preput: Vec<Pair>,
}

/// The blocks that have come so far.
#[derive(Debug, Default)]
pub struct Blocks {
    open: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
    commands: Vec<Command>,
    /// Blocks that have come whole.
    complete: u32,
    bytes: usize,
    is_wrong: bool,
}

impl Blocks {
    /// Inside of a block.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// A block begins.
    pub fn begin(&mut self) {
        self.open = Some(BTreeMap::new());
    }

    /// Takes a line of a block. Behind the last one of all gives the commands; none of them: they are no
    /// request that can be served.
    pub fn take_line(&mut self, line: &[u8]) -> Option<Vec<Command>> {
        let open = self.open.as_mut()?;
        if line != b"endcmd" {
            self.bytes += line.len() + 64;
            self.is_wrong |= self.bytes > BYTES_MAX;
            if !self.is_wrong {
                let at = line.iter().position(|byte| *byte == b'=').unwrap_or(line.len());
                open.insert(line[..at].to_vec(), line.get(at + 1..).unwrap_or_default().to_vec());
            }
            return None;
        }
        let values = self.open.take()?;
        let of = |key: &str| values.get(key.as_bytes()).and_then(|text| number::<u32>(text));
        let wanted = of("totspawns").unwrap_or(1);
        self.complete += 1;
        match command(&values) {
            Some(command) if wanted <= COMMANDS_MAX => self.commands.push(command),
            _ => self.is_wrong = true,
        }
        if self.complete < wanted && wanted <= COMMANDS_MAX {
            return None;
        }
        let all = std::mem::take(self);
        let is_good = !all.is_wrong && all.commands.len() == wanted as usize;
        Some(if is_good { all.commands } else { Vec::new() })
    }
}

fn command(values: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Command> {
    let value = |key: String| values.get(key.as_bytes()).cloned();
    let count = |key: &str| match values.get(key.as_bytes()) {
        // More than there are lines is a lie.
        Some(text) => number::<usize>(text).filter(|count| *count <= values.len()),
        None => Some(0),
    };
    let pairs = |name: &str| {
        let pair =
            |index| Some((value(format!("{name}_key_{index}"))?, value(format!("{name}_val_{index}"))?));
        (0..count(&format!("{name}_num"))?).map(pair).collect::<Option<Vec<Pair>>>()
    };
    let arguments = (1..=count("argcnt")?).map(|index| value(format!("arg{index}")));
    Some(Command {
        ranks: values.get(&b"nprocs"[..]).and_then(|text| number(text)).filter(|ranks| *ranks > 0)?,
        file: value("execname".into()).filter(|file| !file.is_empty())?,
        arguments: arguments.collect::<Option<_>>()?,
        hints: pairs("info")?,
        preput: pairs("preput")?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(blocks: &mut Blocks, lines: &str) -> Option<Vec<Command>> {
        blocks.begin();
        let mut taken = None;
        for line in lines.lines() {
            taken = blocks.take_line(line.as_bytes());
        }
        taken
    }

    #[test]
    fn pmi_spawn_is_read_block_by_block() {
        let mut blocks = Blocks::default();
        let first = "nprocs=2\nexecname=./a b\ntotspawns=2\nspawnssofar=1\narg1=x=y z\nargcnt=1\npreput_num=1\n\
            preput_key_0=PORT\npreput_val_0=p=1 q\nendcmd";
        assert_eq!(take(&mut blocks, first), None);
        let last = "nprocs=1\nexecname=c\ntotspawns=2\nspawnssofar=2\nargcnt=0\ninfo_num=1\ninfo_key_0=wdir\n\
            info_val_0=/\nendcmd";
        let commands = take(&mut blocks, last).expect("the last block");
        assert_eq!((&*commands[0].file, &*commands[0].arguments), (&b"./a b"[..], &[b"x=y z".to_vec()][..]));
        assert_eq!(commands[0].preput, [(b"PORT".to_vec(), b"p=1 q".to_vec())]);
        assert_eq!((commands[1].ranks, &*commands[1].hints), (1, &[(b"wdir".to_vec(), b"/".to_vec())][..]));
    }

    #[test]
    fn pmi_spawn_that_is_none_starts_nothing() {
        for lines in [
            "endcmd",
            "nprocs=0\nexecname=a\nendcmd",
            "nprocs=1\nendcmd",
            "nprocs=1\nexecname=a\nargcnt=4000000000\nendcmd",
            "nprocs=1\nexecname=a\nargcnt=1\nendcmd",
            "nprocs=1\nexecname=a\npreput_num=1\nendcmd",
            "nprocs=1\nexecname=a\ntotspawns=4000000000\nspawnssofar=4000000000\nendcmd",
        ] {
            assert_eq!(take(&mut Blocks::default(), lines), Some(Vec::new()), "{lines}");
        }
        let long = format!("nprocs=1\nexecname=a\narg1={}\nargcnt=1\nendcmd", "x".repeat(BYTES_MAX));
        assert_eq!(take(&mut Blocks::default(), &long), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn pmi_spawn_survives_any_lines(lines in proptest::collection::vec("[a-z0-9_=]{0,12}|endcmd", 0..40)) {
            let mut blocks = Blocks::default();
            for line in lines {
                blocks.begin();
                let _ = blocks.take_line(line.as_bytes());
            }
        }
    }
}
