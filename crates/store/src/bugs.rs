//! Fault injection for the simulator: deliberate mistakes, each of which it must notice.

/// A mistake in the commit protocol.
#[cfg(feature = "planted-bugs")]
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
}

/// Which mistake is active; none in the product.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bugs {
    #[cfg(feature = "planted-bugs")]
    pub(crate) planted: Option<PlantedBug>,
}

/// Whether a mistake is active.
macro_rules! planted {
    ($bugs:expr, $bug:ident) => {{
        #[cfg(feature = "planted-bugs")]
        {
            $bugs.planted == Some($crate::bugs::PlantedBug::$bug)
        }
        #[cfg(not(feature = "planted-bugs"))]
        {
            let _ = &$bugs;
            false
        }
    }};
}
pub(crate) use planted;
