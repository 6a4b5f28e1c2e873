//! Control of one job by a user: what becomes of it.

use rustix::process::Signal;
use tutti_protocol::wire::SIGNAL_ALONE;

use super::{JobRecord, TERM};
use crate::core::clocks::Clocks;
use crate::message::{Control, Notice, Run};

/// Exit status of what is killed.
const KILLED: u8 = 128 + 9;
/// Why a job ended whose front end was there no more.
const ABANDONED: &str = "its front end is gone";

impl JobRecord {
    /// Does to it what a user wants, named as `actor`. Gives what it comes to for its steps.
    ///
    /// # Errors
    /// When that cannot be done to such a job: a text for the user.
    pub(in crate::core::controller) fn control(
        &mut self,
        control: Control,
        (uid, actor): (u32, &str),
        now: Clocks,
    ) -> Result<Control, String> {
        let was = self.order.run;
        // What has no ranks yet hears no signal.
        let control =
            if self.queued.is_some() && matches!(control, Control::End(_)) { Control::Kill } else { control };
        if let Control::End(kill_after_ms) = control {
            self.end_within(kill_after_ms, now);
        }
        let control = if matches!(control, Control::End(_)) { Control::Signal(TERM) } else { control };
        match control {
            Control::Suspend if was == Run::Go => {
                self.suspend(uid, now);
            }
            Control::Resume if was == Run::Stop => {
                self.set_run(Run::Go, uid, now);
                self.reports.push(Notice::Resumed);
            }
            Control::Suspend | Control::Resume | Control::Hold | Control::Release | Control::Requeue => {}
            Control::Detach => self.detach(),
            Control::Window(rows, columns) => {
                self.order.window = Some((rows, columns));
                self.signal(Signal::WINCH.as_raw() as u32);
            }
            Control::Kill | Control::Abandon => {
                self.end.mark_by_user();
                let text = match control {
                    Control::Kill => format!("it was killed by {actor}"),
                    _ => ABANDONED.into(),
                };
                self.end.cancel(uid, text);
                self.end_by(None, KILLED);
            }
            // It is a signal by now.
            Control::End(_) => {}
            Control::SignalScript(_) if self.launch.steps.allocation.is_none() => {
                return Err(format!("job {} is no script", self.id));
            }
            Control::Signal(signal) | Control::SignalScript(signal) => {
                let is_alone = matches!(control, Control::SignalScript(_));
                self.signal(if is_alone { signal | SIGNAL_ALONE } else { signal });
                // Who is to end must be able to hear it.
                let ends = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
                let ends = ends.iter().any(|end| end.as_raw() as u32 == signal);
                if ends && was == Run::Stop {
                    self.set_run(Run::Go, uid, now);
                }
                if ends {
                    let name = tutti_os::signal_name(signal as i32);
                    let text = format!("signal {signal} ({name}) was sent by {actor}");
                    self.end.record_signal(uid, text);
                }
            }
        }
        Ok(control)
    }
}
