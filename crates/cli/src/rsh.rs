//! The program that reaches another host: `ssh`, or another one that is called in the same way
//! (`PROGRAM [USER@]HOST COMMAND...`).

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use tutti_protocol::paths;

/// Variable that names another program, with its options.
pub const VARIABLE: &str = "TUTTI_RSH";

/// Variables with options of ssh for other launchers: MPICH's, its name as operators of Kubernetes spell it,
/// Open MPI's, Intel MPI's.
const OF_LAUNCHERS: [&str; 5] = [
    "HYDRA_LAUNCHER_EXTRA_ARGS",
    "HYDRA_LAUNCH_EXTRA_ARGS",
    "OMPI_MCA_plm_rsh_args",
    "PRTE_MCA_plm_ssh_args",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
];

/// A host as `--at` names it: `ssh://[USER@]HOST[:PORT][/PATH/OF/tutti]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `[USER@]HOST`.
    pub host: String,
    port: Option<u16>,
    program: String,
}

impl Target {
    /// Reads it.
    ///
    /// # Errors
    /// When it is none; a text for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("--at is given {text:?}, expected ssh://[USER@]HOST[:PORT][/PATH/OF/tutti]");
        let rest = text.strip_prefix("ssh://").ok_or_else(wrong)?;
        let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
        let end = host.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match host[end..].rfind(':') {
            Some(at) => (&host[..end + at], Some(host[end + at + 1..].parse().map_err(|_| wrong())?)),
            None => (host, None),
        };
        let is_odd = |letter: char| letter.is_whitespace() || letter.is_control();
        let host = host.replace(['[', ']'], "");
        // A host that begins so would be an option of ssh.
        if host.is_empty() || host.starts_with('-') || host.contains(is_odd) {
            return Err(wrong());
        }
        let program = path.filter(|path| !path.is_empty());
        let program = program.map_or_else(|| "tutti".to_owned(), |path| format!("/{path}"));
        Ok(Target { host, port, program })
    }

    /// The command that runs `tutti` there with these words. `is_quiet`: it may ask for nothing.
    pub fn command(&self, words: &[&str], is_quiet: bool) -> Command {
        let mut command = remote_shell();
        if command.get_program() == "ssh" {
            command.arg("-T");
            if is_quiet {
                command.args(["-o", "BatchMode=yes"]);
            }
            if let Some(port) = self.port {
                command.args(["-p", &port.to_string()]);
            }
        }
        command.arg(&self.host).arg(quoted(&self.program)).args(words.iter().map(|word| quoted(word)));
        command
    }
}

/// A host on which this installation is at the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(Target);

impl Host {
    /// Reads `[USER@]HOST`.
    ///
    /// # Errors
    /// When it is none; a text for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("--hosts is given {text:?}, expected [USER@]HOST");
        Target::parse(&format!("ssh://{text}")).map_err(wrong).map(|target| {
            let program = std::fs::canonicalize(paths::tutti()).unwrap_or_else(|_| paths::tutti());
            Host(Target { program: program.to_string_lossy().into_owned(), ..target })
        })
    }

    /// Name of the host, without a user.
    pub fn name(&self) -> &str {
        self.0.host.rsplit('@').next().unwrap_or(&self.0.host)
    }

    /// As `--at` names it.
    pub fn target(&self) -> String {
        let host = if self.name().contains(':') { format!("[{}]", self.0.host) } else { self.0.host.clone() };
        let port = self.0.port.map_or_else(String::new, |port| format!(":{port}"));
        format!("ssh://{host}{port}{}", self.0.program)
    }

    /// The command that runs `tutti` there.
    pub fn command(&self, words: &[&str], is_quiet: bool) -> Command {
        self.0.command(words, is_quiet)
    }
}

static GIVEN: OnceLock<String> = OnceLock::new();

/// Reaches hosts by this program, with its options, in place of TUTTI_RSH.
pub fn reach_by(program: &str) {
    let _ = GIVEN.set(program.to_owned());
}

/// The program that was given or TUTTI_RSH names, with its options, else `ssh`.
pub fn remote_shell() -> Command {
    let given = GIVEN.get().cloned().or_else(|| std::env::var(VARIABLE).ok()).unwrap_or_default();
    let mut words = given.split_ascii_whitespace();
    let mut command = Command::new(words.next().unwrap_or("ssh"));
    command.args(words);
    if command.get_program() == "ssh" {
        let more = OF_LAUNCHERS.iter().filter_map(|name| std::env::var(name).ok());
        for options in more.collect::<Vec<_>>() {
            command.args(options.split_ascii_whitespace());
        }
    }
    command
}

/// A word as the shell of another host reads it.
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+./:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs a command of `tutti` there that asks nothing of a daemon by frames, with this stdin and stdout.
pub fn run_there(target: &str, words: &[OsString]) -> Result<ExitCode, String> {
    let target = Target::parse(target)?;
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = target.command(&words, false);
    let has_terminal = rustix::termios::isatty(rustix::stdio::stdin());
    if command.get_program() == "ssh" && has_terminal && words.first() == Some(&"top") {
        let arguments: Vec<OsString> = command.get_args().skip(1).map(OsString::from).collect();
        command = Command::new("ssh");
        command.arg("-t").args(arguments);
    }
    let status = command.status().map_err(|error| cannot_start(&command, &error))?;
    Ok(ExitCode::from(status.code().map_or(1, |code| code as u8)))
}

/// Line for the user about a command that does not start.
pub fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    let program = command.get_program().to_string_lossy();
    format!("cannot start {program}: {error} (TUTTI_RSH names another program)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_has_user_host_port_and_program() {
        let target =
            |host: &str, port, program: &str| Ok(Target { host: host.into(), port, program: program.into() });
        assert_eq!(Target::parse("ssh://h"), target("h", None, "tutti"));
        assert_eq!(
            Target::parse("ssh://eva@h.example:22/opt/tutti/bin/tutti"),
            target("eva@h.example", Some(22), "/opt/tutti/bin/tutti")
        );
        assert_eq!(Target::parse("ssh://eva@[::1]:22"), target("eva@::1", Some(22), "tutti"));
        assert_eq!(Target::parse("ssh://[fe80::1]"), target("fe80::1", None, "tutti"));
        for wrong in [
            "h",
            "http://h",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://[-oProxyCommand=x]",
            "ssh://]-x",
            "ssh://h:x",
            "ssh://a b",
        ] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn word_for_another_shell_is_quoted() {
        for (word, expected) in
            [("a-b/c", "a-b/c"), ("", "''"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn hosts_that_are_nearly_right_are_never_options() {
        let samples =
            ["ssh://eva@h.example:22/opt/tutti/bin/tutti", "ssh://eva@[::1]:22", "ssh://[-x]", "ssh://h"]
                .map(|text| text.as_bytes().to_vec());
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            let Ok(target) = Target::parse(&String::from_utf8_lossy(bytes)) else { return };
            let is_right = !target.host.is_empty() && !target.host.starts_with('-');
            assert!(is_right && !target.host.contains(char::is_control), "{target:?}");
            assert!(target.program == "tutti" || target.program.starts_with('/'), "{target:?}");
        });
    }
}
