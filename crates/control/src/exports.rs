//! Export events: what changes about the volumes that hosts see, said once to every front end
//! (docs/decisions/0108).

use std::collections::BTreeMap;

use array::{AccessState, BlockForm, Identification};
use block::{SwitchesOff, VolumeId};

/// What hosts see of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// NAA type 6 identifier, unique in the world.
    pub naa: [u8; 16],
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its blocks.
    pub blocks: BlockForm,
    /// Takes space as it is written; false if all its space is promised.
    pub thin: bool,
    /// Refuses every change: a snapshot.
    pub write_protected: bool,
    /// Whether hosts find no reservations.
    pub reservations_hidden: bool,
    /// Vendor and product, if others than the array's.
    pub identification: Option<Identification>,
    /// Primitives that are off for whoever sees it.
    pub switches_off: SwitchesOff,
}

/// Where a volume's space stands, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeSpace {
    /// What it can still take from its pool.
    pub available: u64,
    /// What of it is mapped.
    pub used: u64,
    /// Hosts are warned when no more than this is available; `None` for a volume that cannot run
    /// out of space.
    pub warn_at: Option<u64>,
}

/// A volume that no host sees, where the data of ROD tokens rests. It is all zeros at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RodTokenSpace {
    /// The volume, in the same pool as those whose data rests there.
    pub volume: VolumeId,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// A change of what the array exports. It is told when it is in effect and, for a volume that shrinks
/// or goes, before the pool begins: hosts never see more than there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportEvent {
    /// Hosts reach a volume from now on, or see it in another form.
    Added(VolumeId, Export),
    /// Hosts know a volume whose pool is not open: it has its names, no size, and no medium yet.
    Absent(VolumeId, Export),
    /// All pools are open: a volume that is still absent does not come.
    AllPoolsOpen,
    /// A volume has another size, in bytes.
    Resized(VolumeId, u64),
    /// Hosts reach a volume no more; commands that wait for it end.
    Removed(VolumeId),
    /// A volume has other content than before, and no host wrote it.
    ContentReplaced(VolumeId),
    /// Where the space of a volume stands. It is told again and again.
    Space(VolumeId, VolumeSpace),
    /// A volume, or the pool under it, is as full as an administrator wants hosts to know.
    ThresholdReached(VolumeId),
    /// Whether hosts may use reservations of a volume.
    ReservationsHidden(VolumeId, bool),
    /// The vendor and product that every volume tells which has none of its own.
    Identification(Identification),
    /// Those of one volume; `None` for what all tell.
    OwnIdentification(VolumeId, Option<Identification>),
    /// Primitives that are off for everybody.
    SwitchesOff(SwitchesOff),
    /// Those that are off for one volume.
    VolumeSwitchesOff(VolumeId, SwitchesOff),
    /// How well a target port group serves.
    PathState {
        /// The number of the group.
        group: u16,
        /// Its state.
        state: AccessState,
    },
    /// All target ports, each with its group.
    Ports {
        /// Those of this controller.
        own: BTreeMap<u16, u16>,
        /// Those of other controllers of the same array.
        others: BTreeMap<u16, u16>,
    },
    /// How this controller serves a volume, where others may serve it, too.
    UnitAccess(VolumeId, AccessState),
    /// How other controllers serve a volume, by target port group, as they say themselves; a group that
    /// is missing says nothing.
    PeerAccess(VolumeId, BTreeMap<u16, AccessState>),
    /// The hidden volume that holds what ROD tokens of a volume stand for.
    RodTokenSpace(VolumeId, RodTokenSpace),
}
