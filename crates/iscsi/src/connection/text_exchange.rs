//! Text requests in full-feature phase: SendTargets, and the few keys that may still be negotiated.

use block::Rope;
use bytes::Bytes;

use super::Connection;
use crate::event::{Event, TargetRecord, TargetSelection};
use crate::name::fold_name;
use crate::negotiation::settle_in_full_feature_phase;
use crate::pdu::{Bhs, CONTINUE, FINAL, NO_TAG, RejectReason, response};
use crate::text::{Incoming, Outgoing, emit, parse};

/// The tag that names the one text negotiation a connection may have under way.
const TEXT_TAG: u32 = 1;

/// A text negotiation.
#[derive(Default)]
pub(super) struct TextExchange {
    incoming: Incoming,
    reply: Outgoing,
    /// Answers to other keys, and the request, while the owner lists the targets.
    awaiting: Option<(Bhs, Vec<u8>)>,
    /// The initiator is to go on with `TEXT_TAG`.
    is_open: bool,
}

impl Connection {
    pub(super) fn take_text(&mut self, bhs: &Bhs, text: &[u8]) {
        let continues_ours = bhs.target_transfer_tag() == TEXT_TAG && self.text.is_open;
        let is_new = bhs.target_transfer_tag() == NO_TAG;
        if self.text.awaiting.is_some() || (bhs.is_final() && bhs.flags() & CONTINUE != 0) {
            self.reject(bhs, RejectReason::ProtocolError);
        } else if is_new {
            // RFC 7143 11.10.4: a request without a tag abandons what was under way.
            self.text = TextExchange::default();
            self.extend_text(bhs, text);
        } else if continues_ours && !self.text.reply.is_finished() {
            self.send_text_part(bhs);
        } else if continues_ours {
            self.extend_text(bhs, text);
        } else {
            self.reject(bhs, RejectReason::InvalidPduField);
        }
    }

    fn extend_text(&mut self, bhs: &Bhs, text: &[u8]) {
        if self.text.incoming.extend(text).is_err() {
            self.reject(bhs, RejectReason::OutOfResources);
        } else if bhs.flags() & CONTINUE != 0 {
            self.send_text_part(bhs);
        } else {
            let whole = self.text.incoming.finish();
            self.negotiate_text(bhs, &whole);
        }
    }

    fn negotiate_text(&mut self, bhs: &Bhs, text: &[u8]) {
        let Ok(pairs) = parse(text) else {
            self.reject(bhs, RejectReason::ProtocolError);
            return;
        };
        let mut reply = Vec::new();
        let mut selection = None;
        for pair in pairs {
            match pair {
                ("SendTargets", value) => selection = Some(self.selection(value)),
                pair => settle_in_full_feature_phase(pair, &mut self.parameters, &mut reply),
            }
        }
        match selection {
            Some(Some(selection)) => {
                self.text.awaiting = Some((*bhs, reply));
                self.events.push_back(Event::SendTargets(selection));
            }
            Some(None) => {
                emit(&mut reply, "SendTargets", "Reject");
                self.send_text(bhs, reply);
            }
            None => self.send_text(bhs, reply),
        }
    }

    /// RFC 7143 appendix C: "All" belongs to discovery sessions, "" to normal ones.
    fn selection(&self, value: &str) -> Option<TargetSelection> {
        match value {
            "All" if self.parameters.discovery => Some(TargetSelection::All),
            "All" => None,
            "" if self.parameters.discovery => None,
            "" => Some(TargetSelection::Current),
            name => {
                Some(TargetSelection::Named(fold_name(name).unwrap_or_else(|_| name.to_owned())))
            }
        }
    }

    pub(super) fn answer_send_targets(&mut self, targets: &[TargetRecord]) {
        if self.is_closed() {
            return;
        }
        let Some((bhs, mut reply)) = self.text.awaiting.take() else { return };
        for target in targets {
            emit(&mut reply, "TargetName", &target.name);
            for (address, group_tag) in &target.addresses {
                emit(&mut reply, "TargetAddress", &format!("{address},{group_tag}"));
            }
        }
        self.send_text(&bhs, reply);
    }

    fn send_text(&mut self, bhs: &Bhs, reply: Vec<u8>) {
        self.text.reply = Outgoing::new(reply);
        self.send_text_part(bhs);
    }

    /// Answers with what fits; an empty answer asks the initiator to go on.
    fn send_text_part(&mut self, request: &Bhs) {
        let length_max = self.parameters.initiator_max_recv_data_segment_length as usize;
        let part = self.text.reply.next_part(length_max);
        let mut bhs = Bhs::response(response::TEXT, request.initiator_task_tag());
        let is_finished = self.text.reply.is_finished();
        bhs.0[1] = match (is_finished, request.is_final()) {
            (true, true) => FINAL,
            (true, false) => 0,
            (false, _) => CONTINUE,
        };
        self.text.is_open = bhs.0[1] != FINAL;
        bhs.set_lun(request.lun());
        bhs.set_u32(20, if self.text.is_open { TEXT_TAG } else { NO_TAG });
        self.send_status(bhs, Rope::from(Bytes::from(part)));
    }
}
