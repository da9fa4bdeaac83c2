//! Fallback rules of the data mover: when a clone is not offloaded, by VMware's list.

use std::fmt;

use crate::esxi::vaai::Status;

/// What the decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a line of VMware's list")]
pub struct CloneFacts {
    /// /DataMover/HardwareAcceleratedMove.
    pub enabled: bool,
    /// What is believed of EXTENDED COPY on the destination.
    pub clone_status: Status,
    /// Both LUNs have an NAA identifier.
    pub identified: bool,
    /// Both say the same VENDOR and PRODUCT IDENTIFICATION.
    pub same_array: bool,
    /// Block sizes of the file systems.
    pub block_sizes: [u64; 2],
    /// The source is a raw device mapping and the destination is not.
    pub only_source_is_rdm: bool,
    /// The source is eager zeroed and the destination thin.
    pub eager_to_thin: bool,
    /// Source or destination is sparse or hosted.
    pub sparse: bool,
    /// The virtual machine is powered on, and quiesced with disk.EnableUUID.
    pub quiesced: bool,
    /// The virtual machine has a snapshot.
    pub has_snapshot: bool,
    /// Logical address and length are aligned as the device wants it.
    pub aligned: bool,
    /// The datastore has extents on different arrays.
    pub extents_on_other_arrays: bool,
}

/// Why a clone is read and written by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The setting says so.
    Disabled,
    /// The array refused it before.
    Unsupported,
    /// A LUN has no identifier by which the array could find it.
    NotIdentified,
    /// Vendor or product differ.
    OtherArray,
    /// The file systems have blocks of different sizes.
    BlockSizes,
    /// Only the source is a raw device mapping.
    Rdm,
    /// From eager zeroed to thin.
    EagerToThin,
    /// Sparse or hosted.
    Sparse,
    /// Powered on, and quiesced with disk.EnableUUID.
    Quiesced,
    /// The virtual machine has a snapshot.
    Snapshot,
    /// Not aligned.
    Alignment,
    /// Extents on other arrays.
    Extents,
    /// The array failed a command.
    Failed,
}

impl Fallback {
    /// All reasons, in the order in which they are looked for; the last is found while copying.
    pub const ALL: [Self; 13] = [
        Self::Disabled,
        Self::Unsupported,
        Self::BlockSizes,
        Self::Rdm,
        Self::EagerToThin,
        Self::Sparse,
        Self::Quiesced,
        Self::Snapshot,
        Self::Alignment,
        Self::Extents,
        Self::NotIdentified,
        Self::OtherArray,
        Self::Failed,
    ];
}

impl fmt::Display for Fallback {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Disabled => "/DataMover/HardwareAcceleratedMove is 0",
            Self::Unsupported => "the array does not support EXTENDED COPY",
            Self::NotIdentified => "a LUN has no NAA identifier",
            Self::OtherArray => "source and destination are on different arrays",
            Self::BlockSizes => "source and destination VMFS volumes have different block sizes",
            Self::Rdm => "the source file type is RDM and the destination file type is non-RDM",
            Self::EagerToThin => "the source VMDK type is eagerzeroedthick and the destination VMDK type is thin",
            Self::Sparse => "the source or destination VMDK is in sparse or hosted format",
            Self::Quiesced => "the source virtual machine is powered on and quiesced (disk.EnableUUID is TRUE)",
            Self::Snapshot => "the source virtual machine has a snapshot",
            Self::Alignment => "the logical address and transfer length are not aligned to the minimum alignment required by the storage device",
            Self::Extents => "the VMFS datastore has multiple LUNs or extents on different arrays",
            Self::Failed => "the array failed EXTENDED COPY",
        })
    }
}

/// Whether a clone is offloaded, and if not, why.
pub fn decide(facts: &CloneFacts) -> Option<Fallback> {
    let cases = [
        (!facts.enabled, Fallback::Disabled),
        (facts.clone_status == Status::Unsupported, Fallback::Unsupported),
        (facts.block_sizes[0] != facts.block_sizes[1], Fallback::BlockSizes),
        (facts.only_source_is_rdm, Fallback::Rdm),
        (facts.eager_to_thin, Fallback::EagerToThin),
        (facts.sparse, Fallback::Sparse),
        (facts.quiesced, Fallback::Quiesced),
        (facts.has_snapshot, Fallback::Snapshot),
        (!facts.aligned, Fallback::Alignment),
        (facts.extents_on_other_arrays, Fallback::Extents),
        (!facts.identified, Fallback::NotIdentified),
        (!facts.same_array, Fallback::OtherArray),
    ];
    cases.into_iter().find(|(applies, _)| *applies).map(|(_, fallback)| fallback)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: CloneFacts = CloneFacts {
        enabled: true,
        clone_status: Status::Unknown,
        identified: true,
        same_array: true,
        block_sizes: [1 << 20; 2],
        only_source_is_rdm: false,
        eager_to_thin: false,
        sparse: false,
        quiesced: false,
        has_snapshot: false,
        aligned: true,
        extents_on_other_arrays: false,
    };

    #[test]
    fn a_plain_clone_is_offloaded_before_and_after_it_is_known_to_work() {
        assert_eq!(decide(&GOOD), None);
        assert_eq!(decide(&CloneFacts { clone_status: Status::Supported, ..GOOD }), None);
    }

    #[test]
    fn every_case_of_the_list_falls_back_and_says_why() {
        for (facts, fallback) in [
            (CloneFacts { enabled: false, ..GOOD }, Fallback::Disabled),
            (CloneFacts { clone_status: Status::Unsupported, ..GOOD }, Fallback::Unsupported),
            (CloneFacts { identified: false, ..GOOD }, Fallback::NotIdentified),
            (CloneFacts { same_array: false, ..GOOD }, Fallback::OtherArray),
            (CloneFacts { block_sizes: [1 << 20, 8 << 20], ..GOOD }, Fallback::BlockSizes),
            (CloneFacts { only_source_is_rdm: true, ..GOOD }, Fallback::Rdm),
            (CloneFacts { eager_to_thin: true, ..GOOD }, Fallback::EagerToThin),
            (CloneFacts { sparse: true, ..GOOD }, Fallback::Sparse),
            (CloneFacts { quiesced: true, ..GOOD }, Fallback::Quiesced),
            (CloneFacts { has_snapshot: true, ..GOOD }, Fallback::Snapshot),
            (CloneFacts { aligned: false, ..GOOD }, Fallback::Alignment),
            (CloneFacts { extents_on_other_arrays: true, ..GOOD }, Fallback::Extents),
        ] {
            assert_eq!(decide(&facts), Some(fallback));
            assert!(!fallback.to_string().is_empty());
        }
    }
}
