//! Planted mistakes of controllers: what a take-over must not do, each of which the search must notice.

use clap::ValueEnum;

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Mistake {
    /// A pool is opened beside its owner, whom nobody has fenced.
    OpensBeforeFence,
    /// Only the first device is fenced, and the pool opened with the others as they are.
    FencesOneDevice,
    /// A fence ends by itself after a minute.
    FenceExpires,
    /// An owner that was fenced registers again, and goes on with what it has in memory.
    RegistersAgain,
    /// An owner serves however old its heartbeat is.
    ServesWithoutLease,
    /// After a standstill what hosts sent meanwhile is done before anything is looked at.
    CommandsBeforeLook,
    /// Heartbeats that came while the owner was being fenced are not looked at.
    IgnoresFreshBeats,
    /// Reservations are taken from memory, not from the pool.
    ReservationForgotten,
    /// A mirror is opened without a member and without the witness.
    OpensWithoutWitness,
    /// The witness of a mirror is not fenced.
    SparesWitness,
    /// The owner of a mirror with a witness serves as long as any one device takes its heartbeat.
    AnyBeatIsEnough,
    /// The witness answers that it has written a list, and has not.
    WitnessForgets,
    /// An owner that is to give the pool up lets its devices go, and serves on.
    LetsGoServing,
    /// Of a process that only stands still others are told that it has ended.
    TellsEndOfLiving,
}

impl Mistake {
    /// Every one.
    pub const ALL: [Self; 14] = [
        Self::OpensBeforeFence,
        Self::FencesOneDevice,
        Self::FenceExpires,
        Self::RegistersAgain,
        Self::ServesWithoutLease,
        Self::CommandsBeforeLook,
        Self::IgnoresFreshBeats,
        Self::ReservationForgotten,
        Self::OpensWithoutWitness,
        Self::SparesWitness,
        Self::AnyBeatIsEnough,
        Self::WitnessForgets,
        Self::LetsGoServing,
        Self::TellsEndOfLiving,
    ];
}
