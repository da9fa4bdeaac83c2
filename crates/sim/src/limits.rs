//! Limits of the simulated world, and what happens beyond each.

/// Bytes of the largest simulated device.
pub const DEVICE_BYTES_MAX: u64 = 320 << 20;

/// Virtual nanoseconds after which a command that did not come to its end is a lost wake-up.
pub const COMMAND_NANOSECONDS_MAX: u64 = 120_000_000_000;

/// Events that are kept for the story of a failure unless asked otherwise; older ones are
/// forgotten.
pub const TRACE_EVENTS: usize = 200;

/// Device operations of one recovery, beyond which it is taken for endless.
pub const RECOVERY_OPERATIONS_MAX: u64 = 2_000_000;

/// Crashes in a row during recovery; then one recovery is left alone.
pub const RECOVERY_CRASHES_MAX: u64 = 5;

/// Slots of the simulated array; with all of them in use no copy joins.
pub const SLOTS_MAX: usize = 96;

/// Bytes that one check read asks for.
pub const CHECK_BYTES: u64 = 1 << 20;
