//! Scripts of `sbatch`: their options in `#SBATCH` lines, and their text.

use crate::getopt::{self, Ends};
use crate::wanted::{SPECS, Wanted};

/// Beginning of a line of options.
const MARK: &str = "#SBATCH";
/// Bytes of a line of options, at most.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Reads the options of a script into what a job is to have.
///
/// # Errors
/// With one line about the first one that is wrong.
pub fn read_options(text: &str, wanted: &mut Wanted) -> Result<(), String> {
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        let trimmed = line.trim();
        if !trimmed.is_empty() && !trimmed.starts_with('#') {
            break;
        }
        let Some(rest) = line.strip_prefix(MARK).filter(|rest| rest.starts_with([' ', '\t'])) else {
            continue;
        };
        if rest.len() > LINE_BYTES_MAX {
            return Err(format!(
                "script line {at}: {} bytes of options, {LINE_BYTES_MAX} at most",
                rest.len()
            ));
        }
        let words =
            shlex::split(rest.trim()).ok_or_else(|| format!("script line {at}: a quote is not closed"))?;
        if words.first().is_some_and(|word| word == "hetjob" || word == "packjob") {
            return Err(format!("script line {at}: heterogeneous jobs are not supported by Tutti"));
        }
        let parsed = getopt::parse(SPECS, &words, Ends::AtDashes);
        let parsed = parsed.map_err(|error| format!("script line {at}: {error}"))?;
        if let Some(operand) = parsed.operands.first() {
            return Err(format!("script line {at}: Invalid directive found in batch script: {operand}"));
        }
        for (name, value) in parsed.options {
            wanted.set(name, &value).map_err(|error| format!("script line {at}: {error}"))?;
        }
    }
    Ok(())
}

/// Refuses what is no script, in Slurm's words.
///
/// # Errors
/// With one line.
pub fn check(text: &[u8]) -> Result<(), String> {
    if text.is_empty() || text.iter().all(u8::is_ascii_whitespace) {
        return Err("Batch script is empty!".into());
    }
    if !text.starts_with(b"#!") {
        return Err(
            "This does not look like a batch script.  The first line must start with #! followed by the path to an \
             interpreter. For instance: #!/bin/sh"
                .into(),
        );
    }
    if text.contains(&0) {
        return Err(
            "The SLURM controller does not allow scripts that contain a NULL character: it is no script"
                .into(),
        );
    }
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if first.ends_with(b"\r") {
        return Err(
            "Batch script contains DOS line breaks (\\r\\n) instead of expected UNIX line breaks (\\n)."
                .into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        read_options(text, &mut wanted).map(|()| wanted)
    }

    #[test]
    fn script_options_have_the_forms_of_all_tools() {
        let text = "#!/bin/bash\n\n#SBATCH --job-name=\"x y\"\n#SBATCH --output='/a b/%j'\n\
                    #SBATCH --ntasks            3\n#SBATCH --exclusive           \n#SBATCH --nodes 2\n\n\
                    #SBATCH -t 00:30:00 --mem=1G\n# SBATCH -n 9\n#SBATCHED -n 9\necho\n#SBATCH -n 7\n";
        let found = read(text).unwrap();
        assert_eq!((found.name.as_deref(), found.tasks, found.nodes), (Some("x y"), Some(3), Some(2)));
        assert_eq!(found.files.output.as_deref(), Some("/a b/%j"));
        assert!(found.care.exclusive);
        assert_eq!((found.time_ms, found.memory), (Some(1_800_000), Some(1 << 30)));
    }

    #[test]
    fn script_options_that_are_wrong_are_named_with_their_line() {
        for (line, expected) in [
            ("--frob", "script line 2: unrecognized option '--frob'"),
            ("hetjob", "script line 2: heterogeneous jobs are not supported by Tutti"),
            ("-n 1 x", "script line 2: Invalid directive found in batch script: x"),
            ("-J 'a", "script line 2: a quote is not closed"),
        ] {
            assert_eq!(read(&format!("#!/bin/sh\n#SBATCH {line}\n")).unwrap_err(), expected);
        }
        let long = format!("#!/bin/sh\n#SBATCH {}\n", "-n1 ".repeat(LINE_BYTES_MAX));
        assert!(read(&long).unwrap_err().contains("bytes of options"));
    }

    #[test]
    fn script_without_interpreter_is_refused() {
        assert_eq!(check(b"#!/bin/sh\necho\n"), Ok(()));
        for wrong in [&b""[..], b" \n", b"echo\n", b"#!/bin/sh\n\0", b"#!/bin/sh\r\necho\r\n"] {
            assert!(check(wrong).is_err());
        }
    }
}
