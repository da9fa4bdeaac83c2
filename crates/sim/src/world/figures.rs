//! Counts of what runs did.

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Commands that came to their end.
    pub operations: u64,
    /// Power failures in all.
    pub crashes: u64,
    /// Power failures during recovery.
    pub recovery_crashes: u64,
    /// Power failures during the making of the pool.
    pub format_crashes: u64,
    /// Power failures while a checkpoint was being written.
    pub checkpoint_crashes: u64,
    /// Checkpoints that became durable.
    pub checkpoints: u64,
    /// Device operations.
    pub device_operations: u64,
    /// Faults that the disk injected.
    pub faults: u64,
    /// Commands that failed for want of space.
    pub out_of_space: u64,
    /// Commands found done after a power failure although nobody had been told.
    pub unannounced: u64,
    /// Times the pool became read-only, or could not be opened, because of a fault.
    pub refusals: u64,
    /// Walks through everything on the disk.
    pub audits: u64,
    /// Damaged copies that were opened.
    pub probes: u64,
    /// Commands that came to their end in runs with mirrors.
    pub mirrored: u64,
    /// Things that happened to copies.
    pub troubles: u64,
    /// Openings without all copies.
    pub degraded_openings: u64,
    /// Blocks of copies that the engine wrote again.
    pub healed: u64,
    /// Commands that came to their end in runs in which devices leave.
    pub departing: u64,
    /// Devices that began to leave.
    pub departures: u64,
    /// Devices that have left.
    pub departed: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.crashes += other.crashes;
        self.recovery_crashes += other.recovery_crashes;
        self.format_crashes += other.format_crashes;
        self.checkpoint_crashes += other.checkpoint_crashes;
        self.checkpoints += other.checkpoints;
        self.device_operations += other.device_operations;
        self.faults += other.faults;
        self.out_of_space += other.out_of_space;
        self.unannounced += other.unannounced;
        self.refusals += other.refusals;
        self.audits += other.audits;
        self.probes += other.probes;
        self.mirrored += other.mirrored;
        self.troubles += other.troubles;
        self.degraded_openings += other.degraded_openings;
        self.healed += other.healed;
        self.departing += other.departing;
        self.departures += other.departures;
        self.departed += other.departed;
    }
}
