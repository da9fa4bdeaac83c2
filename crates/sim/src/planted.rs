//! Names of the deliberate mistakes, each of which the simulator must notice. The crate `mutants`
//! says where each is made, in a file of its name.

/// A mistake in the commit protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A freed block is handed out again at once.
    FreedReusableAtOnce,
    /// A commit is not verified by the checksums of its data when it is recovered.
    NoTailVerification,
    /// Space maps are written to the slot that the durable checkpoint uses.
    SpaceMapInPlace,
    /// Recovery goes on in the same epoch.
    NoEpochBump,
    /// A commit is answered when it is written, before the flush.
    AcknowledgeBeforeFlush,
    /// Checkpoints use one superblock slot.
    SingleSuperblock,
    /// A checkpoint switches over without a flush of its pages.
    SwitchBeforeFlush,
    /// A clone of single blocks does not count its references.
    ForgetCloneReferences,
    /// The checksum of data that is read is not looked at.
    TrustData,
    /// The journal's head moves to where new units go, not to the first unit not applied.
    CutForgetsUnapplied,
    /// A checkpoint's cut may fall into a commit of which only some records are applied.
    CutInsideCommit,
    /// References to data in groups whose maps are not in memory are forgotten when they come.
    ForgetDeltas,
    /// Of the two copies of a page only one is written.
    CopyNotWritten,
    /// A page that is damaged is not read from its copy.
    CopyNeverRead,
    /// The members of a consistency group are committed one by one.
    GroupTornApart,
    /// A snapshot does not count its reference to the root of the map.
    SnapshotUncounted,
    /// Whatever is written to a full pool is lent what is kept back.
    LendEverything,
    /// What the reaper has still to do is not in the checkpoint.
    ReaperForgets,
    /// A commit is flushed on the first device alone.
    FlushFirstDeviceOnly,
    /// A device joins the pool before its label is flushed.
    LabelNotFlushed,
    /// One read of the journal that goes wrong ends it.
    MisreadEndsJournal,
    /// A block that is kept in memory is shown although another was written to its place.
    KeepsWhatIsGone,
    /// Rewinding a damaged journal gives up the units before the damage, too.
    RewindForgetsIntact,
    /// Rewinding a damaged journal goes on in the same epoch.
    RewindKeepsEpoch,
    /// New data may take what the metadata reserve has drawn.
    MetadataNotRefilled,
    /// A snapshot is made although the metadata reserve is not whole.
    SnapshotUnchecked,
    /// Any short write, also one of new data, may take the last block of the metadata reserve.
    MetadataForAnyone,
    /// What an overwrite frees is counted as coming after it was freed, too.
    ReturnsCountedTwice,
    /// A group counts as backed although the space for it was refused.
    RefusalIgnored,
    /// A volume's new name is answered before the checkpoint that holds it.
    RenameAnsweredEarly,
    /// A copy that is not current is read.
    StaleCopyRead,
    /// What a copy missed is answered before the list without that copy is durable.
    DroppedAfterAnswer,
    /// A write to a degraded mirror does not mark its region.
    RegionNotMarked,
    /// A region counts as equal before what was copied is flushed.
    RegionClearedEarly,
    /// Resilvering leaves out blocks that are freed and still referred to by the durable
    /// checkpoint, or used and not in the bitmap yet.
    RebuildMissesQuarantined,
    /// A copy that was pulled again while it came back is resilvered all the same.
    ReturnsWithoutDevice,
    /// A copy that another one replaces is one that this is filled from like any other.
    FilledFromLeaving,
    /// A bad copy is written over a good one.
    HealedFromBadCopy,
    /// What heals a copy goes over a write that began meanwhile.
    HealOverwritesNewer,
    /// A flush of a mirror flushes one copy.
    FlushOneCopy,
    /// A mirror is opened with an older list than the newest known.
    OpenedWithoutWitness,
    /// A copy that joins counts as current before it holds everything.
    CurrentTooEarly,
    /// A mirror grows, and its bitmap of regions does not.
    BitmapNotEnlarged,
    /// Subtrees of two snapshots count as the same if as many blocks are mapped below them.
    ComparedByCount,
    /// Blocks that became holes are not told when snapshots are compared.
    ComparedWithoutHoles,
    /// Whether a range is holes already is judged by its first block.
    HoleByFirstBlock,
    /// A device is no part of the pool any more before the checkpoint without it is durable.
    DepartedBeforeCheckpoint,
    /// New data goes to a device that leaves.
    LeavingIsAllocated,
    /// What is moved is not compared with its checksum.
    MovedUnchecked,
    /// After a cancelled departure the device is not used again.
    CancelForgets,
    /// After a restart a device that was leaving is used again.
    LeavingForgottenByRestart,
    /// A device counts as empty although the durable checkpoint refers to it.
    VacantTooEarly,
    /// Where a block was moved is forgotten although others refer to it.
    SharedMovedAgain,
    /// A page that was changed is taken for what became of the page that others share yet.
    NoteOutlivesChange,
}

impl PlantedBug {
    /// Every one, in the order in which they are hunted.
    pub const ALL: [Self; 54] = [
        Self::FreedReusableAtOnce,
        Self::NoTailVerification,
        Self::SpaceMapInPlace,
        Self::NoEpochBump,
        Self::AcknowledgeBeforeFlush,
        Self::SingleSuperblock,
        Self::SwitchBeforeFlush,
        Self::ForgetCloneReferences,
        Self::TrustData,
        Self::CutForgetsUnapplied,
        Self::CutInsideCommit,
        Self::ForgetDeltas,
        Self::CopyNotWritten,
        Self::CopyNeverRead,
        Self::GroupTornApart,
        Self::SnapshotUncounted,
        Self::LendEverything,
        Self::ReaperForgets,
        Self::FlushFirstDeviceOnly,
        Self::LabelNotFlushed,
        Self::KeepsWhatIsGone,
        Self::MisreadEndsJournal,
        Self::RefusalIgnored,
        Self::RewindForgetsIntact,
        Self::RewindKeepsEpoch,
        Self::MetadataNotRefilled,
        Self::SnapshotUnchecked,
        Self::MetadataForAnyone,
        Self::ReturnsCountedTwice,
        Self::RenameAnsweredEarly,
        Self::StaleCopyRead,
        Self::DroppedAfterAnswer,
        Self::RegionNotMarked,
        Self::RegionClearedEarly,
        Self::RebuildMissesQuarantined,
        Self::ReturnsWithoutDevice,
        Self::FilledFromLeaving,
        Self::HealedFromBadCopy,
        Self::HealOverwritesNewer,
        Self::FlushOneCopy,
        Self::OpenedWithoutWitness,
        Self::CurrentTooEarly,
        Self::BitmapNotEnlarged,
        Self::ComparedByCount,
        Self::ComparedWithoutHoles,
        Self::HoleByFirstBlock,
        Self::DepartedBeforeCheckpoint,
        Self::LeavingIsAllocated,
        Self::MovedUnchecked,
        Self::CancelForgets,
        Self::LeavingForgottenByRestart,
        Self::VacantTooEarly,
        Self::SharedMovedAgain,
        Self::NoteOutlivesChange,
    ];

    /// Whether it is a mistake about the copies of a mirror.
    pub fn needs_mirrors(self) -> bool {
        matches!(
            self,
            Self::StaleCopyRead
                | Self::DroppedAfterAnswer
                | Self::RegionNotMarked
                | Self::RegionClearedEarly
                | Self::RebuildMissesQuarantined
                | Self::ReturnsWithoutDevice
                | Self::FilledFromLeaving
                | Self::HealedFromBadCopy
                | Self::HealOverwritesNewer
                | Self::FlushOneCopy
                | Self::OpenedWithoutWitness
                | Self::CurrentTooEarly
                | Self::BitmapNotEnlarged
        )
    }

    /// Whether it is a mistake about devices that leave.
    pub fn needs_departures(self) -> bool {
        matches!(
            self,
            Self::DepartedBeforeCheckpoint
                | Self::LeavingIsAllocated
                | Self::MovedUnchecked
                | Self::CancelForgets
                | Self::LeavingForgottenByRestart
                | Self::VacantTooEarly
                | Self::SharedMovedAgain
                | Self::NoteOutlivesChange
        )
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.name() == name)
    }

    /// Its name.
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}
