//! Diagnosis of host-side copies: why a host did itself what the array could have done.

use block::{Primitive, TurnedOff};

use crate::limits::ZEROED_BYTES_MIN;
use crate::reason::Reason;
use crate::rows::{Refusal, Row};

/// Facts about source and destination of a copy that a host made itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a condition of VMware's list or of ours")]
pub struct Facts {
    /// EXTENDED COPY is turned off at one of the ends, for the host or for everybody.
    pub turned_off: Option<TurnedOff>,
    /// Both say the same VENDOR and PRODUCT IDENTIFICATION.
    pub same_product: bool,
    /// Both have logical blocks of the same length.
    pub same_block_length: bool,
    /// Both are in one pool.
    pub same_pool: bool,
    /// One session of the host sees both.
    pub seen_together: bool,
    /// Data moved by a distance that is no multiple of 4 KiB.
    pub misaligned: bool,
    /// The last EXTENDED COPY of the host to the destination, or from the source, that was refused
    /// lately and was followed by none that succeeded.
    pub refusal: Option<Refusal>,
    /// Most zeros that the host read from the source while it copied were not written.
    pub skips_zeros: bool,
    /// An EXTENDED COPY of the host between the same two volumes succeeded, lately or since.
    pub copies_here: bool,
    /// One of the host succeeded on any volume.
    pub copies_elsewhere: bool,
    /// The host uses COMPARE AND WRITE or WRITE SAME.
    pub offloads_else: bool,
}

/// SPC-4 6.4.4: the copy manager does not find the other end, since the session that sent the
/// command does not see it.
const UNREACHABLE: (u8, u8, u8) = (0xa, 0x08, 0x04);
const NOT_REACHABLE: (u8, u8, u8) = (0xa, 0x0d, 0x02);

impl Facts {
    /// The first reason that applies: what makes an offload impossible before what was tried,
    /// before what the host decides. Of that an array sees no more than what the host does; a thick
    /// disk that becomes thin goes first, since it is copied by the host whatever is set.
    pub fn reason(&self) -> Reason {
        let conflict = "RESERVATION CONFLICT";
        if let Some(off) = self.turned_off {
            return Reason::TurnedOff(off);
        }
        match self.refusal {
            _ if !self.same_product => Reason::DifferentProduct,
            _ if !self.same_block_length => Reason::BlockSize,
            _ if !self.same_pool => Reason::DifferentPool,
            _ if !self.seen_together => Reason::Mapping,
            Some(Refusal { turned_off: Some(off), .. }) => Reason::TurnedOff(off),
            Some(refusal) if refusal.status == conflict => Reason::Reservation,
            Some(Refusal { sense: Some(UNREACHABLE | NOT_REACHABLE), .. }) => Reason::Mapping,
            Some(refusal) => Reason::Refused(refusal),
            None if self.misaligned => Reason::Misaligned,
            None if self.skips_zeros => Reason::ThickToThin,
            None if self.copies_here => Reason::HostChose { datastores_fit: true },
            None if self.copies_elsewhere => Reason::HostChose { datastores_fit: false },
            None => Reason::SettingOff { attached: self.offloads_else },
        }
    }
}

/// Why a host writes zeros itself; `None` if it does not, or too few to speak of. A host that uses
/// WRITE SAME does so now and then. `turned_off` is what an administrator has off of WRITE SAME for this
/// host and volume.
pub fn zero_reason(row: &Row, turned_off: Option<TurnedOff>) -> Option<Reason> {
    if row.effects.host_zeroed_bytes < ZEROED_BYTES_MIN {
        return None;
    }
    let refused = row.refusals.iter().filter(|refused| refused.primitive == Primitive::WriteSame);
    let refused = refused.max_by_key(|refused| refused.last).map(|refused| refused.refusal);
    let asks = row.zeroed_since < ZEROED_BYTES_MIN;
    if let Some(off) = turned_off {
        return Some(Reason::TurnedOff(off));
    }
    Some(match refused {
        _ if asks => Reason::GuestZeros,
        Some(Refusal { turned_off: Some(off), .. }) => Reason::TurnedOff(off),
        Some(refusal) => Reason::Refused(refusal),
        None => Reason::ZeroingOff,
    })
}

#[cfg(test)]
mod tests {
    use block::{Switch, SwitchLevel};

    use super::*;

    const OFF: TurnedOff = TurnedOff { switch: Switch::ExtendedCopy, level: SwitchLevel::Volume };

    const FACTS: Facts = Facts {
        turned_off: None,
        same_product: true,
        same_block_length: true,
        same_pool: true,
        seen_together: true,
        misaligned: false,
        refusal: None,
        skips_zeros: false,
        copies_here: false,
        copies_elsewhere: false,
        offloads_else: false,
    };

    const INVALID: Refusal = Refusal {
        status: "CHECK CONDITION",
        sense: Some((5, 0x26, 0)),
        reason: "INVALID_FIELD_IN_PARAMETER_LIST",
        turned_off: None,
    };

    const CONFLICT: Refusal =
        Refusal { status: "RESERVATION CONFLICT", sense: None, reason: "", turned_off: None };

    #[test]
    fn every_reason_has_its_case() {
        for (facts, code) in [
            (Facts { turned_off: Some(OFF), same_product: false, ..FACTS }, "turned_off"),
            (
                Facts { refusal: Some(Refusal { turned_off: Some(OFF), ..INVALID }), ..FACTS },
                "turned_off",
            ),
            (Facts { same_product: false, ..FACTS }, "different_product"),
            (Facts { same_block_length: false, ..FACTS }, "block_size"),
            (Facts { same_pool: false, ..FACTS }, "different_pool"),
            (Facts { seen_together: false, ..FACTS }, "mapping"),
            (Facts { refusal: Some(CONFLICT), ..FACTS }, "reservation"),
            (Facts { refusal: Some(INVALID), ..FACTS }, "refused"),
            (
                Facts { refusal: Some(Refusal { sense: Some(NOT_REACHABLE), ..INVALID }), ..FACTS },
                "mapping",
            ),
            (Facts { misaligned: true, ..FACTS }, "misaligned"),
            (Facts { skips_zeros: true, ..FACTS }, "thick_to_thin"),
            (FACTS, "setting_off"),
            (Facts { offloads_else: true, ..FACTS }, "setting_off"),
            (Facts { copies_elsewhere: true, ..FACTS }, "host_chose"),
            (Facts { copies_elsewhere: true, copies_here: true, ..FACTS }, "host_chose"),
        ] {
            let reason = facts.reason();
            assert_eq!(reason.code(), code);
            assert!(!reason.text().is_empty() && !reason.advice().is_empty());
        }
    }

    #[test]
    fn causes_that_the_data_rules_out_are_not_named() {
        let elsewhere = Facts { copies_elsewhere: true, offloads_else: true, ..FACTS };
        let here = Facts { copies_here: true, ..elsewhere };
        let off = FACTS.reason().advice();
        assert!(off.contains("claim rule") && off.contains("HardwareAcceleratedMove"), "{off}");
        let attached = Facts { offloads_else: true, ..FACTS }.reason().advice();
        assert!(!attached.contains("claim rule") && attached.contains("-i 1"), "{attached}");
        for advice in [off, attached, elsewhere.reason().advice()] {
            for cause in ["eager zeroed", "redo logs", "block sizes", "RDM"] {
                assert!(advice.contains(cause), "{cause}: {advice}");
            }
        }
        let here = here.reason().advice();
        assert!(here.contains("eager zeroed") && !here.contains("block sizes"), "{here}");
        let thin = Facts { skips_zeros: true, ..elsewhere }.reason();
        assert_eq!(thin, Reason::ThickToThin);
    }

    #[test]
    fn what_an_administrator_turned_off_is_named_with_its_place() {
        let text = Reason::TurnedOff(OFF).text();
        assert_eq!(text, "extended_copy is turned off by the administrator: volume");
        for (level, word) in [(SwitchLevel::Host, "host"), (SwitchLevel::Array, "target")] {
            let advice = Reason::TurnedOff(TurnedOff { level, ..OFF }).advice();
            assert!(advice.contains(&format!("gantry {word} primitives")), "{advice}");
        }
    }

    #[test]
    fn what_makes_an_offload_impossible_goes_before_what_was_tried() {
        let all = Facts { same_pool: false, refusal: Some(INVALID), misaligned: true, ..FACTS };
        assert_eq!(all.reason(), Reason::DifferentPool);
        let refused = Facts { same_pool: true, ..all }.reason();
        assert_eq!(refused.text(), "the array refused: invalid field in parameter list");
        let conflict = Reason::Refused(CONFLICT).text();
        assert_eq!(conflict, "the array answered RESERVATION CONFLICT");
    }
}
