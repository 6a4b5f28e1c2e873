//! The configuration of the cluster on the controller: who asks for it, who reloads it, which node has which
//! version.

use tutti_protocol::settings;

use super::Controller;
use super::answers::Requester;
use crate::core::action::Action;
use crate::core::config::Loaded;
use crate::core::context::Context;
use crate::core::job_event::JobEvent;
use crate::gang::Command;
use crate::members::NodeId;
use crate::message::{Answer, Routed, User};

impl Controller {
    /// A node has stored this version.
    pub(in crate::core) fn note_version(&mut self, node: NodeId, version: u64) {
        self.versions.insert(node, version);
    }

    /// None: the answer comes when the file has been read.
    pub(super) fn reload(&mut self, cx: Context<'_>, user: User, requester: Requester) -> Option<Answer> {
        if !cx.local.may(user, None) {
            return Some(Answer::Refused(
                "only the owner of the daemons may reload their configuration".into(),
            ));
        }
        cx.out.act(Action::Reload(Some(requester)));
        None
    }

    /// The configuration has been read: it holds from now on, or nothing has changed.
    pub(in crate::core) fn handle_reloaded(
        &mut self,
        cx: Context<'_>,
        requester: Option<Requester>,
        result: Result<Box<Loaded>, Vec<String>>,
    ) {
        let answer = match result {
            Ok(loaded) => {
                let version = settings::version(&loaded.text);
                let shown = settings::version_text(version);
                self.rules = loaded.rules;
                let half_life_ns = self.rules.half_life_ms() * 1_000_000;
                cx.out.act(Action::Gang(Command::Configure { slice_ns: loaded.slice_ns, half_life_ns }));
                self.tell_owners(cx);
                let event = JobEvent {
                    ms: cx.local.wall_ms,
                    event: "reloaded",
                    text: shown.clone(),
                    ..JobEvent::default()
                };
                cx.out.act(Action::Log(event));
                cx.out.act(Action::Info(format!("the configuration of version {shown} holds")));
                // Jobs may wait for a limit that is another now.
                self.retry_waiting();
                Answer::Reloaded(version, loaded.notes)
            }
            Err(lines) => {
                lines.iter().for_each(|line| cx.out.act(Action::Warn(line.clone())));
                cx.out.act(Action::Warn("the configuration is not taken: what held goes on".into()));
                Answer::Mistakes(lines)
            }
        };
        if let Some((from, request_id)) = requester {
            self.answers.remember((from, request_id), answer.clone());
            cx.out.route(from, Routed::answer(request_id, answer));
        }
    }

    /// Jobs that the scheduler has not been asked for are looked at anew.
    pub(super) fn retry_waiting(&mut self) {
        self.jobs.retry_waiting();
    }
}
