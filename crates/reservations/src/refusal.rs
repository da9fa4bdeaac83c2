//! Reasons for which an action on reservations is refused. Nothing changed then.

/// Why an action was refused; each front end has a status of its own for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Whoever asks is not registered, or with another key than it gave.
    #[error("the key is not that of a registration of whoever asks")]
    NotRegistered,
    /// Another registrant holds the reservation, or it is held with another type.
    #[error("the volume is reserved already")]
    Reserved,
    /// Whoever asks does not hold what it wants to pass on, or all registrants do.
    #[error("the reservation is not held by whoever asks alone")]
    NotHeldAlone,
    /// No registration has the key that is to be preempted.
    #[error("no registration has that key")]
    UnknownKey,
    /// A key of zero where it names nobody.
    #[error("a key of zero names no registrant")]
    ZeroKey,
    /// Others can be registered only by who is not registered and registers (SPC-4 table 48).
    #[error("registrants cannot register others")]
    RegistersOthers,
    /// The reservation is to be passed on to who holds it.
    #[error("the reservation is moved to its holder")]
    MovedToItself,
    /// The reservation that is to be released has another type.
    #[error("the reservation has another type")]
    OtherType,
    /// A reservation is to be taken over with a type that does not exist.
    #[error("there is no such type of reservation")]
    NoSuchType,
    /// There are as many registrations as may be ([`crate::limits::REGISTRATIONS_MAX`]).
    #[error("there are as many registrations as may be")]
    OutOfResources,
}
