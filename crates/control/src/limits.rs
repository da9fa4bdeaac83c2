//! Limits of what the array does by itself, and what happens at each.

use std::time::Duration;

/// Snapshots of one schedule that are deleted after one of its runs; further ones after the next.
pub const EXPIRED_PER_RUN_MAX: usize = 512;

/// Snapshots that are looked at, at most, in one look for the oldest one that may be deleted where a
/// pool is at its hard threshold; further ones in the next look.
pub const SNAPSHOTS_SEARCHED_PER_LOOK: usize = 512;

/// Looks until such a deletion that failed is tried again.
pub const DELETION_RETRY_LOOKS: u32 = 60;

/// LUN numbers that sessions held which ended a short while ago. With more of them the oldest is
/// forgotten, and may go to another volume earlier.
pub const HELD_BY_ENDED_MAX: usize = 65_536;

/// Reasons that are named when an import is refused; of further ones the number.
pub const IMPORT_PROBLEMS_MAX: usize = 20;

/// Bytes per second that are moved at least from a device that leaves its pool; less is refused.
pub const DEPARTURE_RATE_MIN: u64 = 1 << 20;

/// Tasks that have ended and are kept for queries; the oldest one makes room.
pub const TASKS_MAX: usize = 256;

/// Volumes that the configuration knows something of and that are looked up in the pools, at most,
/// in one look for those that no pool holds; further ones in the next look.
pub const KNOWN_VOLUMES_PER_LOOK: usize = 512;

/// Time between two tries of a pool that is not open. A try that takes longer delays the next one of
/// its pool alone.
pub const REOPEN_PAUSE: Duration = Duration::from_secs(2);

/// Time after which devices that were refused for their content are opened again although they look
/// the same.
pub const REOPEN_PAUSE_UNCHANGED: Duration = Duration::from_secs(60);

/// How long a try may take before administrators, and whoever asked for it, are told that a device
/// does not answer; it goes on.
pub const OPENING_PATIENCE: Duration = Duration::from_secs(5);

/// Time from the loss of a member of a mirror, or a try, to the next try to take it back.
pub const RETURN_PAUSE: Duration = Duration::from_secs(2);

/// The longest such time, of a member that comes back and fails again and again.
pub const RETURN_PAUSE_MAX: Duration = Duration::from_secs(600);

/// The same of a member that was left out because it answered many reads with errors.
pub const UNRELIABLE_PAUSE: Duration = Duration::from_secs(3600);

/// Time without a fault after which it is forgotten that a member was lost.
pub const STEADY_AFTER: Duration = Duration::from_secs(600);

/// How long a member may be lost before a spare steps in: one that comes back soon is filled faster.
pub const SPARE_PATIENCE: Duration = Duration::from_secs(10);

/// Time after which a spare is tried again that could not step in.
pub const SPARE_PAUSE: Duration = Duration::from_secs(60);
/// Blocks of 4 KiB of one record in a pool: 2 MiB. A larger one is not kept, which is told.
pub const RECORD_BLOCKS_MAX: usize = 512;

/// Blocks of 4 KiB of a pool's volume of records: 1 GiB, of which only what is used takes space. A
/// record beyond it is not kept, which is told.
pub const RECORDS_BLOCKS: u64 = 262_144;

/// Records of deleted objects that a pool keeps, so that an earlier data directory does not bring them
/// back; the oldest one is forgotten.
pub const TOMBSTONES_MAX: usize = 4096;

/// Gaps between records that are looked at for one that fits; beyond them a record goes to the end.
pub const GAPS_SEARCHED_MAX: usize = 256;

/// How often newer records of a pool are gone through; what cannot be taken then is told.
pub const MERGE_PASSES_MAX: usize = 3;

/// How often a controller tells the others how it is, if that did not change.
pub const LINK_BEAT: Duration = Duration::from_millis(500);

/// Numbers of tasks of one controller of several: those of controller 2 follow twice as many.
pub const TASKS_OF_CONTROLLER: u64 = 100_000_000;

/// Pools that a controller has given away and tells of, at most.
pub const LINK_GONE_MAX: usize = 256;

/// How long a controller may be silent on the link before what it said last is not told any more.
pub const LINK_SILENCE: Duration = Duration::from_secs(3);

/// The greatest number of a controller.
pub const LINK_NUMBER_MAX: u16 = array::limits::CONTROLLER_NUMBER_MAX;

/// Portals that a controller may tell; a message with more is refused.
pub const LINK_PORTALS_MAX: usize = 128;

/// Bytes of the version of a program in a message; a message with a longer one is refused.
pub const LINK_VERSION_BYTES_MAX: usize = 64;

/// Bytes of an address (HOST:PORT), and of other texts in a message; longer ones are refused.
pub const LINK_ADDRESS_BYTES_MAX: usize = 256;

/// Bytes of the descriptions of pools in a message; pools that do not fit in are left out.
pub const LINK_POOLS_BYTES_MAX: usize = 48 << 10;

/// Bytes of descriptions of pools and of records in a message. Records that do not fit in are told in the next
/// one; one that is longer by itself than what descriptions leave is not told, and is found in the pool.
pub const LINK_RECORDS_BYTES_MAX: usize = 48 << 10;

/// Records of a pool in a message.
pub const LINK_RECORDS_MAX: usize = 256;

/// How long a code that pairs two controllers may be used.
pub const PAIRING_LIFE: Duration = Duration::from_secs(600);

/// Wrong secrets after which a code may not be used any more.
pub const PAIRING_ATTEMPTS_MAX: u32 = 5;

/// Looks at a pool that another controller has, at least, in which nothing moved before it is taken.
pub const TAKE_OVER_LOOKS_MIN: u32 = 3;

/// After a standstill of that length administrators are told of an owner from which pools are not taken
/// by themselves.
pub const STANDSTILL_TOLD: Duration = Duration::from_secs(5);

/// Time between two tries of a pool that another controller has, where a try costs little: files.
pub const STANDBY_PAUSE: Duration = Duration::from_millis(200);

/// Time for which a controller that gave a pool up leaves it to the others; then it opens the pool again
/// if none has.
pub const SWITCH_PATIENCE: Duration = Duration::from_secs(10);

/// Time between two looks at a pool whose controller is silent on the link.
pub const TAKE_OVER_PAUSE: Duration = Duration::from_millis(300);

/// How long a controller is silent on the link when its pools begin to be looked at more often.
pub const TAKE_OVER_SUSPICION: Duration = Duration::from_secs(1);

/// How often the owner of a pool writes its heartbeat, a block, into each of the pool's devices, where an
/// array has several controllers; four times in its lease, if that is more often.
pub const OWNER_BEAT: Duration = Duration::from_secs(1);

/// How long before others may take a pool its owner stops serving that could not write its heartbeat:
/// for clocks that go differently, and for a turn of its loop.
pub const LEASE_MARGIN: Duration = Duration::from_secs(1);

/// How much longer a controller waits for each one that may take the same pool and has a smaller number.
pub const TAKE_OVER_TURN: Duration = Duration::from_secs(1);

/// How long a controller that was fenced leaves a pool alone at first: twice as long each time that it is
/// fenced again within [`TAKE_OVER_REST_MAX`], which is also the longest rest.
pub const TAKE_OVER_REST: Duration = Duration::from_secs(60);

/// See [`TAKE_OVER_REST`].
pub const TAKE_OVER_REST_MAX: Duration = Duration::from_secs(3600);

/// How long none of a pool's hosts has a session at the controller that has the pool, and some have one at another
/// controller, before the pool is given to that one.
pub const HOSTS_AWAY: Duration = Duration::from_secs(5);

/// How long a host has a session at one controller and none at another one that is heard before administrators are
/// told: longer than one that was restarted needs to log in everywhere.
pub const PATH_MISSED: Duration = Duration::from_secs(60);

/// Hosts of a controller of which others are told; with more they are told nothing, and no pool goes after its hosts.
pub const LINK_HOSTS_MAX: usize = 512;

/// A controller that had a pool for less, or for less than it was waited for, after it was given back, has
/// lost it again soon: it is waited for twice as long the next time.
pub const FAIL_BACK_SOON: Duration = Duration::from_secs(3600);

/// The longest time that a pool's preferred controller is waited for because it lost the pool again.
pub const FAIL_BACK_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Bytes of a holder's name in a heartbeat; one with a longer name is nobody's to fence by itself.
pub const BEAT_HOLDER_BYTES_MAX: usize = 128;
