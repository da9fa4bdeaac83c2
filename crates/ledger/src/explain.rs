//! Why a host did itself what the array could have done.

use crate::limits::ZEROED_BYTES_MIN;
use crate::primitive::Primitive;
use crate::rows::{Refusal, Row};

/// What is known of the two ends of a copy that a host made itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a condition of VMware's list or of ours")]
pub struct Facts {
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
    /// An EXTENDED COPY of the host succeeded on any volume, lately or since.
    pub copies_elsewhere: bool,
}

/// SPC-4 6.4.4: the copy manager does not find the other end, since the session that sent the
/// command does not see it.
const UNREACHABLE: (u8, u8, u8) = (0xa, 0x08, 0x04);
const NOT_REACHABLE: (u8, u8, u8) = (0xa, 0x0d, 0x02);

/// The likely reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Hosts offload only between LUNs of equal vendor and product identification.
    DifferentProduct,
    /// Hosts offload only between LUNs of equal block length.
    BlockSize,
    /// The array refers to data only inside of one pool.
    DifferentPool,
    /// No session sees both LUNs.
    Mapping,
    /// A reservation of another host kept the copy out.
    Reservation,
    /// The array refused.
    Refused(Refusal),
    /// Hosts offload only what is aligned.
    Misaligned,
    /// The host never asks.
    SettingOff,
    /// The host asks elsewhere, so it decided against it here.
    HostChose,
}

impl Facts {
    /// The first reason that applies: what makes an offload impossible before what was tried,
    /// before what the host decides.
    pub fn reason(&self) -> Reason {
        let conflict = "RESERVATION CONFLICT";
        match self.refusal {
            _ if !self.same_product => Reason::DifferentProduct,
            _ if !self.same_block_length => Reason::BlockSize,
            _ if !self.same_pool => Reason::DifferentPool,
            _ if !self.seen_together => Reason::Mapping,
            Some(refusal) if refusal.status == conflict => Reason::Reservation,
            Some(Refusal { sense: Some(UNREACHABLE | NOT_REACHABLE), .. }) => Reason::Mapping,
            Some(refusal) => Reason::Refused(refusal),
            None if self.misaligned => Reason::Misaligned,
            None if !self.copies_elsewhere => Reason::SettingOff,
            None => Reason::HostChose,
        }
    }
}

/// Why a host writes zeros itself; `None` if it does not, or too few to speak of. A host that uses
/// WRITE SAME does so now and then.
pub fn zero_reason(row: &Row) -> Option<Reason> {
    if row.effects.host_zeroed_bytes < ZEROED_BYTES_MIN {
        return None;
    }
    let refused = row.refusals.iter().filter(|refused| refused.primitive == Primitive::WriteSame);
    let refused = refused.max_by_key(|refused| refused.last).map(|refused| refused.refusal);
    let asks = row.zeroed_since < ZEROED_BYTES_MIN;
    Some(match refused {
        _ if asks => Reason::HostChose,
        Some(refusal) => Reason::Refused(refusal),
        None => Reason::SettingOff,
    })
}

impl Reason {
    /// Its name in the interface.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::DifferentProduct => "different_product",
            Self::BlockSize => "block_size",
            Self::DifferentPool => "different_pool",
            Self::Mapping => "mapping",
            Self::Reservation => "reservation",
            Self::Refused(_) => "refused",
            Self::Misaligned => "misaligned",
            Self::SettingOff => "setting_off",
            Self::HostChose => "host_chose",
        }
    }

    /// The reason of a copy in a sentence.
    pub fn text(&self) -> String {
        match self {
            Self::DifferentProduct => {
                "the LUNs tell different vendor or product identifications".into()
            }
            Self::BlockSize => "the LUNs have logical blocks of different lengths".into(),
            Self::DifferentPool => "the volumes are in different pools".into(),
            Self::Mapping => "no session of the host sees both LUNs".into(),
            Self::Reservation => {
                "another host holds a reservation, so EXTENDED COPY was refused".into()
            }
            Self::Refused(refusal) if refusal.reason.is_empty() => {
                format!("the array answered {}", refusal.status)
            }
            Self::Refused(refusal) => {
                format!("the array refused: {}", refusal.reason.to_lowercase().replace('_', " "))
            }
            Self::Misaligned => {
                "source and destination do not lie alike within blocks of 4 KiB".into()
            }
            Self::SettingOff => {
                "the host never asks for the offload, though nothing here stands in its way".into()
            }
            Self::HostChose => {
                "the host asks for the offload elsewhere, so it decided against it here".into()
            }
        }
    }

    /// What can be done about a copy.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::DifferentProduct => {
                "give both LUNs the same vendor and product identification, then rescan the host"
            }
            Self::BlockSize => "keep both datastores on LUNs of the same logical block length",
            Self::DifferentPool => {
                "move one of the volumes: inside of one pool a clone takes no space and no time"
            }
            Self::Mapping => {
                "map both volumes to the same host entry, so that every initiator of the host sees \
                 both"
            }
            Self::Reservation => {
                "see who holds the reservation; clustered disks that are in use cannot be cloned \
                 by another host"
            }
            Self::Refused(_) => {
                "'gantry offload list' shows how often; a host that was refused may not ask again \
                 until it is told to: rescan it, or restart the copy"
            }
            Self::Misaligned => {
                "align the partitions to 1 MiB, as current file systems do; ESXi offloads nothing \
                 that is misaligned"
            }
            Self::SettingOff => {
                "on ESXi: esxcli system settings advanced set -o \
                 /DataMover/HardwareAcceleratedMove -i 1 (for zeros: HardwareAcceleratedInit), and \
                 see that a VAAI claim rule applies: esxcli storage core device vaai status get"
            }
            Self::HostChose => {
                "ESXi copies itself if the disk is eager zeroed and becomes thin, is an RDM that \
                 becomes a file, is sparse, or has snapshots, or if the datastores' block sizes \
                 differ, or if the setting was changed since; zeros may also come from inside of a \
                 guest"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        same_product: true,
        same_block_length: true,
        same_pool: true,
        seen_together: true,
        misaligned: false,
        refusal: None,
        copies_elsewhere: false,
    };

    const INVALID: Refusal = Refusal {
        status: "CHECK CONDITION",
        sense: Some((5, 0x26, 0)),
        reason: "INVALID_FIELD_IN_PARAMETER_LIST",
    };

    const CONFLICT: Refusal = Refusal { status: "RESERVATION CONFLICT", sense: None, reason: "" };

    #[test]
    fn every_reason_has_its_case() {
        for (facts, code) in [
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
            (FACTS, "setting_off"),
            (Facts { copies_elsewhere: true, ..FACTS }, "host_chose"),
        ] {
            let reason = facts.reason();
            assert_eq!(reason.code(), code);
            assert!(!reason.text().is_empty() && !reason.advice().is_empty());
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
