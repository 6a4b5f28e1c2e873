//! Mail about jobs, on the controller: a command of the keeper (`mail` in `[cluster]`) sends it, as
//! `COMMAND -s SUBJECT ADDRESS` with the text on its stdin.
//!
//! Words of users are in subject, text and address. So the command runs as the job's user and never as root
//! for another one, no shell reads its line, and an address is one plain word
//! ([`tutti_protocol::mail::Mail::is_address`]). What it may do wrong is what its user may do.
//!
//! One of each account runs at a time, some of all, and [`WAITING_MAX`] letters of an account wait; more are
//! dropped with a line in the log. A user can stop the command that sends its mail: its own mail waits then.
//! A daemon that ends takes those with it that wait.

use super::letters::{Put, Sending, WAITING_MAX};
use super::{Shell, ShellEvent};
use crate::core::action::Letter;

impl Shell {
    /// Sends a letter, when those before it are sent.
    pub(super) fn send_mail(&mut self, letter: Letter) {
        if self.settings.configured.mail.is_none() {
            return;
        }
        let uid = letter.user.account().uid;
        if self.mails.put(letter) == Put::FirstWithoutRoom {
            let line = format!("{WAITING_MAX} mails of user {uid} wait to be sent: more are dropped");
            self.complaints.warn(uid, &line);
        }
        self.send_next();
    }

    /// A letter has been sent, or not.
    pub(super) fn handle_mail_sent(&mut self, uid: u32, failure: Option<&str>) {
        self.mails.end(uid);
        if let Some(why) = failure {
            self.complaints.warn(uid, why);
        }
        self.send_next();
    }

    fn send_next(&mut self) {
        let Some(command) = self.settings.configured.mail.clone() else { return };
        while let Some(letter) = self.mails.take() {
            let (job, uid) = (letter.job, letter.user.account().uid);
            let events = self.shell_events.clone();
            let done = move |result: Result<(), String>| {
                let failure = result.err().map(|why| format!("the mail about job {job} is not sent: {why}"));
                drop(events.send(ShellEvent::MailSent(uid, failure)));
            };
            match Sending::start(&command, &letter, &self.wards) {
                Ok(sending) => {
                    let thread = std::thread::Builder::new().name("tutti-mail".into());
                    if thread.spawn(move || done(sending.finish_blocking())).is_err() {
                        // The command goes on; nobody hears of its end.
                        self.mails.end(uid);
                    }
                }
                Err(why) => done(Err(why)),
            }
        }
    }
}
