//! Texts of the diagnosis: likely causes, and what can be done. An array sees neither the host's
//! settings nor its disks and file systems, so these texts name every cause that is left, the
//! likeliest first.

use block::{SwitchLevel, TurnedOff};

use crate::rows::Refusal;

/// The likely reason why a host did itself what the array could have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An administrator turned the primitive off.
    TurnedOff(TurnedOff),
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
    /// The host leaves zeros out: a thick disk becomes thin, and that hosts do themselves.
    ThickToThin,
    /// The host never asks the array to copy.
    SettingOff {
        /// Whether the host uses other offloads, so that they are attached.
        attached: bool,
    },
    /// The host asks elsewhere, so a rule of its own applies here.
    HostChose {
        /// The host asks between the same two LUNs, so neither the file systems nor the LUNs are
        /// the cause.
        datastores_fit: bool,
    },
    /// The host never asks the array to zero.
    ZeroingOff,
    /// The host asks the array to zero, so these zeros are somebody's data.
    GuestZeros,
}

impl Reason {
    /// Its name in the interface.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TurnedOff(_) => "turned_off",
            Self::DifferentProduct => "different_product",
            Self::BlockSize => "block_size",
            Self::DifferentPool => "different_pool",
            Self::Mapping => "mapping",
            Self::Reservation => "reservation",
            Self::Refused(_) => "refused",
            Self::Misaligned => "misaligned",
            Self::ThickToThin => "thick_to_thin",
            Self::SettingOff { .. } | Self::ZeroingOff => "setting_off",
            Self::HostChose { .. } | Self::GuestZeros => "host_chose",
        }
    }

    /// The reason in a sentence.
    pub fn text(&self) -> String {
        match self {
            Self::TurnedOff(off) => turned_off(*off),
            Self::Refused(refusal) if refusal.reason.is_empty() => {
                format!("the array answered {}", refusal.status)
            }
            Self::Refused(refusal) => {
                format!("the array refused: {}", refusal.reason.to_lowercase().replace('_', " "))
            }
            other => other.sentence().to_owned(),
        }
    }

    const fn sentence(&self) -> &'static str {
        match self {
            Self::TurnedOff(_) => "turned off by the administrator",
            Self::DifferentProduct => "the LUNs tell different vendor or product identifications",
            Self::BlockSize => "the LUNs have logical blocks of different lengths",
            Self::DifferentPool => "the volumes are in different pools",
            Self::Mapping => "no session of the host sees both LUNs",
            Self::Reservation => "another host holds a reservation, so EXTENDED COPY was refused",
            Self::Refused(_) => "the array refused",
            Self::Misaligned => "source and destination do not lie alike within blocks of 4 KiB",
            Self::ThickToThin => {
                "the host read zeros that it did not write, so a thick disk became thin: ESXi \
                 copies from eager zeroed to thin itself, whatever its settings"
            }
            Self::SettingOff { attached: true } => {
                "the host never asks for EXTENDED COPY, though it uses other offloads and nothing \
                 here stands in its way: most likely HardwareAcceleratedMove is off"
            }
            Self::SettingOff { attached: false } => {
                "the host asks for no offload at all, though nothing here stands in its way: most \
                 likely its offloads are off, or it has none"
            }
            Self::HostChose { datastores_fit: true } => {
                "the host had the array copy between these two LUNs within the hour, so a rule of \
                 its own for this disk applies"
            }
            Self::HostChose { datastores_fit: false } => {
                "the host had the array copy elsewhere within the hour, so its setting is on and a \
                 rule of its own applies here"
            }
            Self::ZeroingOff => {
                "the host never asks for WRITE SAME: HardwareAcceleratedInit is off, or the zeros \
                 are data of a guest"
            }
            Self::GuestZeros => {
                "the host uses WRITE SAME here, so most likely these zeros are data of a guest"
            }
        }
    }

    /// Advice: what can be done about it.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::TurnedOff(off) => match off.level {
                SwitchLevel::Volume => {
                    "to have it again: 'gantry volume primitives POOL/NAME --on PRIMITIVE'; \
                     'gantry events' says who turned it off"
                }
                SwitchLevel::Host => {
                    "to have it again: 'gantry host primitives NAME --on PRIMITIVE'; \
                     'gantry events' says who turned it off"
                }
                SwitchLevel::Array => {
                    "to have it again: 'gantry target primitives --on PRIMITIVE'; \
                     'gantry events' says who turned it off"
                }
            },
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
            _ => self.advice_on_the_host(),
        }
    }

    /// Advice about the host, whose settings the array cannot see.
    const fn advice_on_the_host(&self) -> &'static str {
        match self {
            Self::ThickToThin => {
                "clone to a thick format if the offload matters more than the space on the \
                 datastore: on this array zeros take no space in either"
            }
            Self::SettingOff { attached: true } => {
                "check on ESXi in this order: (1) esxcli system settings advanced set -o \
                 /DataMover/HardwareAcceleratedMove -i 1; (2) the disk is not cloned from eager \
                 zeroed to thin; (3) it has no snapshots (redo logs) and is not sparse; (4) the \
                 datastores have equal block sizes; (5) it is no RDM that becomes a file"
            }
            Self::SettingOff { attached: false } => {
                "check on ESXi in this order: (1) a VAAI claim rule applies: esxcli storage core \
                 device vaai status get; (2) esxcli system settings advanced set -o \
                 /DataMover/HardwareAcceleratedMove -i 1; (3) the disk is not cloned from eager \
                 zeroed to thin; (4) it has no snapshots (redo logs) and is not sparse; (5) the \
                 datastores have equal block sizes; (6) it is no RDM that becomes a file"
            }
            Self::HostChose { datastores_fit: true } => {
                "check on ESXi in this order: (1) the disk is not cloned from eager zeroed to \
                 thin; (2) it has no snapshots (redo logs) and is not sparse; (3) it is no RDM \
                 that becomes a file; (4) HardwareAcceleratedMove was not changed in between"
            }
            Self::HostChose { datastores_fit: false } => {
                "check on ESXi in this order: (1) the disk is not cloned from eager zeroed to \
                 thin; (2) it has no snapshots (redo logs) and is not sparse; (3) the datastores \
                 have equal block sizes; (4) it is no RDM that becomes a file; (5) \
                 HardwareAcceleratedMove was not changed in between"
            }
            Self::ZeroingOff => {
                "check in this order: (1) no guest formats or wipes a disk, as what guests write \
                 is never offloaded; (2) on ESXi: esxcli system settings advanced set -o \
                 /DataMover/HardwareAcceleratedInit -i 1; (3) a VAAI claim rule applies: esxcli \
                 storage core device vaai status get"
            }
            Self::GuestZeros => {
                "nothing needs to be done: what guests write is never offloaded, and zeros take no \
                 space here; if no guest wrote them, see that HardwareAcceleratedInit was not \
                 changed in between"
            }
            _ => "",
        }
    }
}

/// What is off, and where that is set.
pub fn turned_off(off: TurnedOff) -> String {
    format!("{} is turned off by the administrator: {}", off.switch.name(), off.level.name())
}
