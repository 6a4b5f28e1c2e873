//! Scripts of `sbatch`: their options in `#SBATCH` lines, and their text.

use crate::getopt::{self, Ends};
use crate::refusal::Refusal;
use crate::wanted::{SPECS, Wanted};

/// Beginning of a line of options.
const MARK: &str = "#SBATCH";
/// Bytes of a line of options, at most.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Reads the options of a script into what a job is to have.
///
/// # Errors
/// With the first one that is wrong.
pub fn read_options(text: &str, wanted: &mut Wanted) -> Result<(), Refusal> {
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        let trimmed = line.trim();
        if !trimmed.is_empty() && !trimmed.starts_with('#') {
            break;
        }
        // Slurm wants no blank behind the mark.
        let Some(rest) = line.strip_prefix(MARK) else { continue };
        if rest.len() > LINE_BYTES_MAX {
            return Err(format!(
                "script line {at}: {} bytes of options, {LINE_BYTES_MAX} at most",
                rest.len()
            )
            .into());
        }
        let words =
            shlex::split(rest.trim()).ok_or_else(|| format!("script line {at}: a quote is not closed"))?;
        if words.first().is_some_and(|word| word == "hetjob" || word == "packjob") {
            return Err(format!("script line {at}: heterogeneous jobs are not supported by Tutti").into());
        }
        let parsed = getopt::parse(SPECS, &words, Ends::AtDashes)?;
        if let Some(operand) = parsed.operands.first() {
            return Err(Refusal::Form(format!("Invalid directive found in batch script: {operand}")));
        }
        for (name, value) in parsed.options {
            wanted.set(name, &value)?;
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
            "This does not look like a batch script.  The first\nline must start with #! followed by the path to an \
             interpreter.\nFor instance: #!/bin/sh"
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
            "Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n)."
                .into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Wanted, Refusal> {
        let mut wanted = Wanted::default();
        read_options(text, &mut wanted).map(|()| wanted)
    }

    #[test]
    fn script_options_have_the_forms_of_all_tools() {
        let text = "#!/bin/bash\n\n#SBATCH --job-name=\"x y\"\n#SBATCH --output='/a b/%j'\n\
                    #SBATCH --ntasks            3\n#SBATCH --exclusive           \n#SBATCH --nodes 2\n\n\
                    #SBATCH -t 00:30:00 --mem=1G\n# SBATCH -n 9\n#SBATCH-H\necho\n#SBATCH -n 7\n";
        let found = read(text).unwrap();
        assert_eq!((found.name.as_deref(), found.tasks, found.nodes), (Some("x y"), Some(3), Some(2)));
        assert_eq!(found.files.output.as_deref(), Some("/a b/%j"));
        assert!(found.care.exclusive && found.care.hold);
        assert_eq!((found.time_ms, found.memory), (Some(1_800_000), Some(1 << 30)));
    }

    #[test]
    fn script_options_that_are_wrong_are_refused_in_slurms_words() {
        for (line, expected) in [
            (" --frob", Refusal::Line("unrecognized option '--frob'".into())),
            (" hetjob", "script line 2: heterogeneous jobs are not supported by Tutti".into()),
            (" -n 1 x", Refusal::Form("Invalid directive found in batch script: x".into())),
            ("ED -n 9", Refusal::Form("Invalid directive found in batch script: ED".into())),
            (" -t abc", Refusal::specification("time")),
            (" -J 'a", "script line 2: a quote is not closed".into()),
        ] {
            assert_eq!(read(&format!("#!/bin/sh\n#SBATCH{line}\n")).unwrap_err(), expected);
        }
        let long = format!("#!/bin/sh\n#SBATCH {}\n", "-n1 ".repeat(LINE_BYTES_MAX));
        assert!(read(&long).unwrap_err().to_string().contains("bytes of options"));
    }

    #[test]
    fn script_without_interpreter_is_refused() {
        assert_eq!(check(b"#!/bin/sh\necho\n"), Ok(()));
        for wrong in [&b""[..], b" \n", b"echo\n", b"#!/bin/sh\n\0", b"#!/bin/sh\r\necho\r\n"] {
            assert!(check(wrong).is_err());
        }
    }
}
