//! Login phase of a connection: passes login requests to the state machine in `login` and acts on
//! its steps.

use block::Rope;
use bytes::Bytes;

use super::{Connection, Question, State};
use crate::event::{ClosedReason, Event, LoginStatus};
use crate::login::{Login, LoginStep};
use crate::pdu::{Bhs, request};
use crate::receive::{Destination, Finished};
use crate::sequence::Numbers;

impl Connection {
    pub(super) fn take_login_header(&mut self, bhs: &Bhs) {
        if bhs.opcode() != request::LOGIN {
            // RFC 7143 6.3: only login requests before full-feature phase.
            self.end(ClosedReason::Protocol("not a login request"));
            return;
        }
        let length = bhs.data_segment_length();
        self.receiver.begin_segment(*bhs, Destination::Text(Vec::with_capacity(length)));
    }

    pub(super) fn take_login_segment(&mut self, finished: Finished) {
        let Destination::Text(text) = finished.destination else { return };
        let State::Login(login) = &mut self.state else { return };
        if login.is_first() {
            self.numbers = Numbers::start(finished.bhs.cmd_sn(), finished.bhs.u32(28));
        }
        let step = login.request(finished.bhs, &text);
        self.carry_out(step);
    }

    pub(super) fn decide_login(&mut self, decide: impl FnOnce(&mut Login) -> LoginStep) {
        if self.question != Question::Login {
            return;
        }
        self.question = Question::None;
        if let State::Login(login) = &mut self.state {
            let step = decide(login);
            self.carry_out(step);
        }
    }

    fn carry_out(&mut self, step: LoginStep) {
        match step {
            LoginStep::Ask(login_request) => {
                self.question = Question::Login;
                self.events.push_back(Event::Login(login_request));
            }
            LoginStep::Authenticated(login_request) => {
                self.question = Question::Login;
                self.events.push_back(Event::Authenticated(login_request));
            }
            LoginStep::Respond(bhs, text) => self.send_login_response(bhs, text),
            LoginStep::Complete(bhs, text) => {
                self.send_login_response(bhs, text);
                self.begin_full_feature_phase();
            }
            LoginStep::Refuse(bhs, text, status) => self.refuse_login(bhs, text, status),
        }
    }

    fn refuse_login(&mut self, bhs: Bhs, text: Vec<u8>, status: LoginStatus) {
        self.send_login_response(bhs, text);
        self.end(ClosedReason::LoginRefused(status.class_and_detail()));
    }

    fn send_login_response(&mut self, mut bhs: Bhs, text: Vec<u8>) {
        self.numbers.open_window(0, self.config.limits.tasks_max);
        self.numbers.stamp_status(&mut bhs);
        self.send.push(bhs, Rope::from(Bytes::from(text)));
    }

    /// RFC 7143 6.3: the digests hold from the first PDU after the final login response.
    fn begin_full_feature_phase(&mut self) {
        if let State::Login(login) = &self.state {
            self.parameters = login.parameters().clone();
        }
        self.state = State::FullFeature;
        let (header, data) = (self.parameters.header_digest, self.parameters.data_digest);
        self.receiver.set_digests(header, data);
        self.send.set_digests(header, data);
        self.liveness.heard = true;
        self.events.push_back(Event::LoggedIn(Box::new(self.parameters.clone())));
    }
}
