//! Counts of what runs of several controllers did.

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Commands of hosts that were answered.
    pub operations: u64,
    /// Operations of the devices.
    pub device_operations: u64,
    /// Openings after which hosts were served.
    pub openings: u64,
    /// Pools that a controller decided to take by itself.
    pub take_overs: u64,
    /// Openings by force that an administrator asked for.
    pub asked: u64,
    /// Openings of mirrors without all of their current members.
    pub degraded: u64,
    /// Members and witnesses that came back.
    pub returns: u64,
    /// Holders of a device that were fenced.
    pub fences: u64,
    /// Owners that learned that they were.
    pub lost: u64,
    /// Writes under way at an opening that it found done, or not.
    pub settled: u64,
    /// Processes that stood still.
    pub pauses: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Processes that ended by themselves.
    pub ends: u64,
    /// Pools that were given up for another controller.
    pub given_up: u64,
    /// Wires to devices, links between controllers, and paths of hosts that were cut.
    pub cuts: u64,
    /// Commands that were not taken since the lease was over, or the pool not here.
    pub not_ready: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.device_operations += other.device_operations;
        self.openings += other.openings;
        self.take_overs += other.take_overs;
        self.asked += other.asked;
        self.degraded += other.degraded;
        self.returns += other.returns;
        self.fences += other.fences;
        self.lost += other.lost;
        self.settled += other.settled;
        self.pauses += other.pauses;
        self.kills += other.kills;
        self.ends += other.ends;
        self.given_up += other.given_up;
        self.cuts += other.cuts;
        self.not_ready += other.not_ready;
    }
}
