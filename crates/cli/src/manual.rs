//! Manual pages. Options and synopses are made by clap's generator from the command lines themselves; the
//! text around them is in `manual/*.roff`, where a line `@...` says what is put there:
//!
//! | line | in its place |
//! |---|---|
//! | `@title` | the title of the page |
//! | `@options` | every option of the command |
//! | `@commands` | the commands of `tutti`, with every option of each that has no page of its own |
//! | `@states` | what each state of a job means |

use std::io;

use clap::{Arg, Command, CommandFactory, ValueEnum};
use clap_mangen::Man;
use tutti_protocol::daemon_options;

use crate::options::{self, Launcher};
use tutti_client::states;

/// A manual page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Page {
    Mpiexec,
    Tutti,
    TuttiRun,
    TuttiSubmit,
    Tuttid,
}

impl Page {
    fn template(self) -> &'static str {
        match self {
            Page::Mpiexec => include_str!("manual/mpiexec.roff"),
            Page::Tutti => include_str!("manual/tutti.roff"),
            Page::TuttiRun => include_str!("manual/tutti-run.roff"),
            Page::TuttiSubmit => include_str!("manual/tutti-submit.roff"),
            Page::Tuttid => include_str!("manual/tuttid.roff"),
        }
    }
}

/// A page in roff; `tutti` is the line of that command.
pub fn text(page: Page, tutti: Command) -> String {
    let command = match page {
        Page::Mpiexec => options::command("mpiexec", Launcher::Mpiexec),
        Page::Tutti => tutti,
        Page::TuttiRun => options::command("tutti-run", Launcher::Run),
        Page::TuttiSubmit => options::command("tutti-submit", Launcher::Submit),
        Page::Tuttid => daemon_options::Options::command(),
    };
    let section = if page == Page::Tuttid { "8" } else { "1" };
    let name = command.get_name().to_owned();
    let man = Man::new(with_aliases(command.clone()))
        .title(name)
        .section(section)
        .source(concat!("Tutti ", env!("CARGO_PKG_VERSION")))
        .manual("Tutti");
    let mut text = String::new();
    for line in page.template().lines() {
        match line {
            "@title" => text.push_str(&rendered(|out| man.render_title(out))),
            "@options" => text.push_str(&rendered(|out| man.render_options_section(out))),
            "@commands" => command.get_subcommands().for_each(|command| push_command(&mut text, command)),
            "@states" => {
                for (word, meaning) in states::WORDS.iter().zip(states::MEANINGS) {
                    text.push_str(&format!(".TP\n.B {word}\n{}\n", escaped(meaning)));
                }
            }
            line => text.extend([line, "\n"]),
        }
    }
    text
}

/// A command as a part of the page of `tutti`.
fn push_command(text: &mut String, command: &Command) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    text.push_str(&format!(".SS {}\n", command.get_name()));
    let man = Man::new(with_aliases(command.clone().bin_name(format!("tutti {}", command.get_name()))));
    text.push_str(&body(&rendered(|out| man.render_synopsis_section(out))));
    text.push_str(&format!(".PP\n{}.\n", escaped(&about)));
    let page = format!("tutti-{}", command.get_name());
    if Page::from_str(&page, false).is_ok() {
        text.push_str(&format!("Its options are in\n.BR {} (1).\n", escaped(&page)));
    } else {
        text.push_str(&body(&rendered(|out| man.render_options_section(out))));
    }
}

/// Text of a section below its heading.
fn body(section: &str) -> String {
    section.lines().filter(|line| !line.starts_with(".SH ")).map(|line| format!("{line}\n")).collect()
}

/// Adds the other names of each option to its help: the generator prints the first two alone.
fn with_aliases(command: Command) -> Command {
    command.mut_args(|argument| {
        let names = other_names(&argument);
        let help = argument.get_help().map(ToString::to_string);
        match help {
            Some(help) if !names.is_empty() => argument.help(format!("{help}. Also {}.", names.join(", "))),
            _ => argument,
        }
    })
}

fn other_names(argument: &Arg) -> Vec<String> {
    let letters = argument.get_visible_short_aliases().unwrap_or_default();
    let words = argument.get_visible_aliases().unwrap_or_default();
    let letters = letters.into_iter().map(|letter| format!("-{letter}"));
    letters.chain(words.into_iter().map(|word| format!("--{word}"))).collect()
}

/// Text of the generator, without the macro for apostrophes that it begins each part with except the
/// first, the title.
fn rendered(render: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> String {
    let mut text = Vec::new();
    render(&mut text).expect("memory takes every write");
    let text = String::from_utf8(text).expect("options are text");
    let is_kept =
        |line: &&str| text.contains(".TH ") || !(line.starts_with(".ie ") || line.starts_with(".el "));
    text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::commands;

    #[test]
    fn manual_templates_have_no_unknown_line() {
        for page in Page::value_variants() {
            let text = text(*page, commands::command_line());
            assert!(!text.lines().any(|line| line.starts_with('@')), "{page:?}");
            assert!(text.contains(".TH "), "{page:?}");
        }
    }
}
