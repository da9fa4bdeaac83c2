//! Login state machine (RFC 7143 6.3, 11.12, 11.13): takes login requests and the owner's verdict,
//! gives steps.

use crate::authentication::{Authentication, NotAuthentic, Requirement, is_security_key};
use crate::event::{LoginRequest, LoginStatus, LoginTerms};
use crate::limits::{LOGIN_REQUESTS_MAX, LOGIN_SEGMENT_MAX, Limits};
use crate::name::fold_name;
use crate::negotiation::Negotiation;
use crate::parameters::SessionParameters;
use crate::pdu::{Bhs, CONTINUE, FINAL, response};
use crate::text::{Incoming, Malformed, Outgoing, emit, parse};

/// RFC 7143 11.12.3; the numbers are those of the CSG and NSG fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Security = 0,
    Operational = 1,
    FullFeature = 3,
}

impl Stage {
    fn from_field(field: u8) -> Option<Self> {
        match field & 3 {
            0 => Some(Self::Security),
            1 => Some(Self::Operational),
            3 => Some(Self::FullFeature),
            _ => None,
        }
    }
}

/// The owner's verdict about the initiator, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    NotAsked,
    /// Whether the initiator may try.
    AskedForTerms,
    /// The initiator may try: the owner said what it must prove.
    Admitted,
    /// Whether the initiator, which has proved who it is, gets its session.
    AskedForSession,
}

/// Next step after a login request or the owner's verdict.
#[derive(Debug)]
pub(crate) enum LoginStep {
    /// Ask the owner on what terms the initiator may log in.
    Ask(Box<LoginRequest>),
    /// The initiator is who it says; ask the owner for its session.
    Authenticated(Box<LoginRequest>),
    /// Send this.
    Respond(Bhs, Vec<u8>),
    /// Send this; then full-feature phase begins.
    Complete(Bhs, Vec<u8>),
    /// Send this and close.
    Refuse(Bhs, Vec<u8>, LoginStatus),
}

/// A login in progress.
#[derive(Debug)]
pub(crate) struct Login {
    limits: Limits,
    authentication: Authentication,
    negotiation: Negotiation,
    parameters: SessionParameters,
    /// `None` until the first request.
    stage: Option<Stage>,
    verdict: Verdict,
    incoming: Incoming,
    /// The text of the first request, while the owner decides.
    first_text: Vec<u8>,
    reply: Outgoing,
    /// The final response, while the owner makes the session.
    last_part: Vec<u8>,
    /// The request being answered.
    request: Bhs,
    requests: u32,
    target_portal_group_tag: u16,
    /// TargetPortalGroupTag goes out with the first answer (RFC 7143 13.9).
    group_tag_sent: bool,
    /// Our MaxRecvDataSegmentLength goes out once, in the operational stage only.
    declared: bool,
}

impl Login {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            // The owner's terms come before the first key is answered.
            authentication: Authentication::new(Requirement::default()),
            negotiation: Negotiation::default(),
            parameters: SessionParameters::default(),
            stage: None,
            verdict: Verdict::NotAsked,
            incoming: Incoming::default(),
            first_text: Vec::new(),
            reply: Outgoing::default(),
            last_part: Vec::new(),
            request: Bhs([0; 48]),
            requests: 0,
            target_portal_group_tag: 0,
            group_tag_sent: false,
            declared: false,
        }
    }

    pub(crate) fn parameters(&self) -> &SessionParameters {
        &self.parameters
    }

    /// Whether no request has come yet.
    pub(crate) fn is_first(&self) -> bool {
        self.requests == 0
    }

    /// Takes a login request.
    pub(crate) fn request(&mut self, bhs: Bhs, data: &[u8]) -> LoginStep {
        self.request = bhs;
        self.take_request(data).unwrap_or_else(|status| self.refuse(status))
    }

    /// The owner lets the initiator try.
    pub(crate) fn admit(&mut self, terms: LoginTerms) -> LoginStep {
        if self.verdict != Verdict::AskedForTerms {
            return self.refuse(LoginStatus::TargetError);
        }
        self.verdict = Verdict::Admitted;
        self.authentication = Authentication::new(terms.authentication);
        self.target_portal_group_tag = terms.target_portal_group_tag;
        if let Some(session) = terms.session {
            self.parameters.join(session.parameters);
        }
        let text = std::mem::take(&mut self.first_text);
        self.negotiate(&text).unwrap_or_else(|status| self.refuse(status))
    }

    /// The owner has made the session.
    pub(crate) fn accept(&mut self, tsih: u16) -> LoginStep {
        if self.verdict != Verdict::AskedForSession {
            return self.refuse(LoginStatus::TargetError);
        }
        // RFC 7143 11.13.3: 0 is reserved.
        self.parameters.tsih = tsih.max(1);
        self.parameters.authentication = self.authentication.method();
        let part = std::mem::take(&mut self.last_part);
        let mut bhs = self.response();
        bhs.0[1] |= FINAL | Stage::FullFeature as u8;
        bhs.0[14..16].copy_from_slice(&self.parameters.tsih.to_be_bytes());
        LoginStep::Complete(bhs, part)
    }

    /// A response that ends the login.
    pub(crate) fn refuse(&self, status: LoginStatus) -> LoginStep {
        LoginStep::Refuse(self.final_response(status.class_and_detail()), Vec::new(), status)
    }

    /// A response that sends the initiator to another address (RFC 7143 11.13.5).
    pub(crate) fn redirect(&self, address: &str) -> LoginStep {
        let status = LoginStatus::TargetMovedTemporarily;
        let mut text = Vec::new();
        emit(&mut text, "TargetAddress", address);
        LoginStep::Refuse(self.final_response(status.class_and_detail()), text, status)
    }

    fn final_response(&self, class_and_detail: [u8; 2]) -> Bhs {
        let mut bhs = self.response();
        bhs.0[1] = 0;
        bhs.0[36..38].copy_from_slice(&class_and_detail);
        bhs
    }

    fn take_request(&mut self, data: &[u8]) -> Result<LoginStep, LoginStatus> {
        self.check_header()?;
        self.incoming.extend(data).map_err(initiator_error)?;
        if self.request.flags() & CONTINUE != 0 {
            return Ok(self.respond_empty());
        }
        let text = self.incoming.finish();
        if !self.reply.is_finished() {
            return if text.is_empty() {
                Ok(self.respond())
            } else {
                Err(LoginStatus::InitiatorError)
            };
        }
        match self.verdict {
            Verdict::NotAsked => self.ask(text),
            Verdict::Admitted => self.negotiate(&text),
            Verdict::AskedForTerms | Verdict::AskedForSession => Err(LoginStatus::InitiatorError),
        }
    }

    fn check_header(&mut self) -> Result<(), LoginStatus> {
        let request = self.request;
        self.requests += 1;
        if self.requests > LOGIN_REQUESTS_MAX {
            return Err(LoginStatus::InitiatorError);
        }
        // Version-min: only version 0 exists.
        if request.0[3] != 0 {
            return Err(LoginStatus::UnsupportedVersion);
        }
        let (transit, continues) = (request.is_final(), request.flags() & CONTINUE != 0);
        let current = self.current_stage().ok_or(LoginStatus::InitiatorError)?;
        if transit && (continues || self.next_stage().is_none_or(|next| next <= current)) {
            return Err(LoginStatus::InitiatorError);
        }
        self.check_identity(current)
    }

    /// The first request names session, connection and stage; later ones may not differ.
    fn check_identity(&mut self, current: Stage) -> Result<(), LoginStatus> {
        let mut isid = [0; 6];
        isid.copy_from_slice(&self.request.0[8..14]);
        let cid = self.request.u16(20);
        match self.stage {
            None if current == Stage::FullFeature => Err(LoginStatus::InitiatorError),
            None => {
                self.parameters.isid = isid;
                self.parameters.cid = cid;
                self.parameters.tsih = self.request.u16(14);
                self.stage = Some(current);
                Ok(())
            }
            Some(stage)
                if (stage, self.parameters.isid, self.parameters.cid) == (current, isid, cid) =>
            {
                Ok(())
            }
            Some(_) => Err(LoginStatus::InitiatorError),
        }
    }

    fn current_stage(&self) -> Option<Stage> {
        Stage::from_field(self.request.flags() >> 2)
    }

    fn next_stage(&self) -> Option<Stage> {
        Stage::from_field(self.request.flags())
    }

    /// Reads from the first text who wants what.
    fn ask(&mut self, text: Vec<u8>) -> Result<LoginStep, LoginStatus> {
        let pairs = parse(&text).map_err(initiator_error)?;
        let value_of = |wanted: &str| {
            pairs.iter().find(|(key, _)| *key == wanted).map(|(_, value)| (*value).to_owned())
        };
        self.parameters.discovery = match value_of("SessionType").as_deref() {
            None | Some("Normal") => false,
            Some("Discovery") => true,
            Some(_) => return Err(LoginStatus::SessionTypeNotSupported),
        };
        self.parameters.initiator_name =
            name(value_of("InitiatorName"))?.ok_or(LoginStatus::MissingParameter)?;
        // Text that is no iSCSI name cannot be the name of a target.
        self.parameters.target_name =
            name(value_of("TargetName")).map_err(|_| LoginStatus::NotFound)?;
        if self.parameters.target_name.is_none() && !self.parameters.discovery {
            return Err(LoginStatus::MissingParameter);
        }
        self.first_text = text;
        self.verdict = Verdict::AskedForTerms;
        Ok(LoginStep::Ask(Box::new(self.login_request())))
    }

    fn login_request(&self) -> LoginRequest {
        LoginRequest {
            initiator_name: self.parameters.initiator_name.clone(),
            target_name: self.parameters.target_name.clone(),
            discovery: self.parameters.discovery,
            isid: self.parameters.isid,
            tsih: self.parameters.tsih,
            cid: self.parameters.cid,
        }
    }

    fn negotiate(&mut self, text: &[u8]) -> Result<LoginStep, LoginStatus> {
        let mut reply = Vec::new();
        let pairs = parse(text).map_err(initiator_error)?;
        self.authenticate(&pairs, &mut reply)?;
        for (key, value) in pairs.into_iter().filter(|(key, _)| !is_security_key(key)) {
            self.settle(key, value, &mut reply)?;
        }
        self.declare(&mut reply);
        self.reply = Outgoing::new(reply);
        Ok(self.respond())
    }

    /// The keys of the security stage, and nothing of the next stage without them. A method that is
    /// offered again there, as some initiators do, is answered if it is the one in force.
    fn authenticate(
        &mut self,
        pairs: &[(&str, &str)],
        reply: &mut Vec<u8>,
    ) -> Result<(), LoginStatus> {
        if self.stage == Some(Stage::Security) {
            let taken = self.authentication.take(pairs, reply);
            return taken.map_err(|NotAuthentic| LoginStatus::AuthenticationFailure);
        }
        if !self.authentication.is_done() {
            return Err(LoginStatus::AuthenticationFailure);
        }
        pairs.iter().filter(|(key, _)| is_security_key(key)).try_for_each(|(key, value)| {
            let repeated = *key == "AuthMethod" && self.authentication.repeat(value, reply);
            if repeated { Ok(()) } else { Err(LoginStatus::InitiatorError) }
        })
    }

    fn settle(&mut self, key: &str, value: &str, reply: &mut Vec<u8>) -> Result<(), LoginStatus> {
        self.negotiation
            .settle((key, value), &self.limits, &mut self.parameters, reply)
            .map_err(|_| LoginStatus::InitiatorError)
    }

    /// Adds the keys that the target declares unasked.
    fn declare(&mut self, reply: &mut Vec<u8>) {
        if !self.group_tag_sent && !self.parameters.discovery {
            emit(reply, "TargetPortalGroupTag", &self.target_portal_group_tag.to_string());
        }
        self.group_tag_sent = true;
        if self.stage == Some(Stage::Operational) && !self.declared {
            let length = self.limits.max_recv_data_segment_length;
            self.parameters.target_max_recv_data_segment_length = length;
            emit(reply, "MaxRecvDataSegmentLength", &length.to_string());
            self.declared = true;
        }
    }

    /// Sends the reply or its next part, and goes to the next stage if both sides are ready.
    fn respond(&mut self) -> LoginStep {
        let part = self.reply.next_part(LOGIN_SEGMENT_MAX);
        let mut bhs = self.response();
        if !self.reply.is_finished() {
            bhs.0[1] |= CONTINUE;
            return LoginStep::Respond(bhs, part);
        }
        let next = self.next_stage().filter(|_| self.request.is_final());
        let Some(next) = next.filter(|_| self.authentication.is_done()) else {
            return LoginStep::Respond(bhs, part);
        };
        self.stage = Some(next);
        if next == Stage::FullFeature {
            return self.ask_for_session(part);
        }
        bhs.0[1] |= FINAL | next as u8;
        LoginStep::Respond(bhs, part)
    }

    fn ask_for_session(&mut self, part: Vec<u8>) -> LoginStep {
        let parameters = &mut self.parameters;
        parameters.first_burst_length =
            parameters.first_burst_length.min(parameters.max_burst_length);
        self.last_part = part;
        self.verdict = Verdict::AskedForSession;
        LoginStep::Authenticated(Box::new(self.login_request()))
    }

    fn respond_empty(&self) -> LoginStep {
        LoginStep::Respond(self.response(), Vec::new())
    }

    /// A login response in the request's stage that stays there.
    fn response(&self) -> Bhs {
        let request = &self.request;
        let mut bhs = Bhs::response(response::LOGIN, request.initiator_task_tag());
        bhs.0[1] = request.flags() & 0x0c;
        bhs.0[8..16].copy_from_slice(&request.0[8..16]);
        bhs
    }
}

fn initiator_error(_: Malformed) -> LoginStatus {
    LoginStatus::InitiatorError
}

/// An iSCSI name, as names are compared.
fn name(value: Option<String>) -> Result<Option<String>, LoginStatus> {
    value.map(|name| fold_name(&name)).transpose().map_err(|_| LoginStatus::InitiatorError)
}
