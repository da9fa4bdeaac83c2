//! Limits of the configuration: how many objects an array may hold, and what happens beyond.

/// Pools in one array. One more is refused.
pub const POOLS_MAX: usize = 64;

/// The greatest number of a controller.
pub const CONTROLLER_NUMBER_MAX: u16 = 256;

/// Seconds for which a pool's preferred controller must have been ready before the pool is given back to
/// it. Another time is refused. Less than the 10 s for which a controller leaves a pool alone that it gave
/// up would move a pool whose last move has not settled; after more than a day an administrator decides.
pub const FAIL_BACK_SECONDS: core::ops::RangeInclusive<u32> = 10..=86_400;

/// Percent by which something must fall below a threshold before it can be reached again.
pub const FILL_HYSTERESIS_PERCENT: u8 = 2;

/// Devices of one pool. One more is refused.
pub const DEVICES_PER_POOL_MAX: usize = 32;

/// Hosts in one array. One more is refused.
pub const HOSTS_MAX: usize = 1024;

/// Initiator names of one host. One more is refused.
pub const INITIATORS_PER_HOST_MAX: usize = 64;

/// Groups of hosts in one array. One more is refused.
pub const HOST_GROUPS_MAX: usize = 256;

/// Portals created while the array runs. One more is refused.
pub const PORTALS_MAX: usize = 64;

/// The shortest CHAP secret, in bytes (RFC 7143 9.2.1: 96 bits). A shorter one is refused.
pub const SECRET_BYTES_MIN: usize = 12;

/// The longest CHAP secret, in bytes. A longer one is refused.
pub const SECRET_BYTES_MAX: usize = 255;

/// LUN numbers are below this: the flat space of SAM-5 4.7.7.3. It bounds the volumes that one host
/// sees, and those that it saw a short while ago; beyond it, mapping one more to that host is
/// refused.
pub const LUN_NUMBERS: u16 = 16_384;

/// Tags of one object. One more is refused.
pub const TAGS_PER_OBJECT_MAX: usize = 16;

/// Tags of all objects together: about 3 MiB of the configuration. One more is refused.
pub const TAGS_MAX: usize = 16_384;

/// Bytes in the key of a tag. A longer one is refused.
pub const TAG_KEY_BYTES_MAX: usize = 63;

/// Characters in the value of a tag. A longer one is refused.
pub const TAG_VALUE_CHARACTERS_MAX: usize = 128;

/// Bytes in the name of a pool, volume or host.
pub const NAME_BYTES_MAX: usize = 63;

/// The smallest pool, in bytes.
pub const POOL_BYTES_MIN: u64 = 1 << 30;

/// Schedules of snapshots in one array. One more is refused.
pub const SCHEDULES_MAX: usize = 256;

/// Volumes of one schedule, whose snapshots are of one moment. More are refused.
pub const SCHEDULE_VOLUMES_MAX: usize = 256;

/// Runs of a schedule whose snapshots are kept. More are refused.
pub const SCHEDULE_KEEP_MAX: u32 = 1000;

/// Runs of a schedule whose snapshots cannot be deleted, because they are locked or mapped, beside
/// those that are kept. With more of them the schedule makes no new ones.
pub const SCHEDULE_SURPLUS_MAX: usize = 1000;

/// Runs of a schedule that are looked at for the newest one whose snapshots are there. If none of
/// them is, no snapshot of the schedule is deleted for want of space until its next run.
pub const NEWEST_RUNS_LOOKED_AT: usize = 16;

/// The longest time between two runs of a schedule, in seconds: ten years.
pub const SCHEDULE_SECONDS_MAX: u64 = 3653 * 86_400;

/// The longest time for which a snapshot is locked, in seconds: 100 years. More is refused, because
/// it is most likely a number of milliseconds.
pub const LOCK_SECONDS_MAX: u64 = 36_525 * 86_400;

/// Webhooks that are told of events. More are refused.
pub const WEBHOOKS_MAX: usize = 16;

/// Receivers of e-mail about events. More are refused.
pub const MAIL_RECEIVERS_MAX: usize = 32;

/// The longest URL of a webhook, in bytes. A longer one is refused.
pub const URL_BYTES_MAX: usize = 2048;

/// The least limit of I/Os per second; a lower one is refused, since commands would time out.
pub const IOPS_MIN: u32 = 10;

/// The highest limit of I/Os per second; a higher one is refused.
pub const IOPS_MAX: u32 = 10_000_000;

/// The least limit of bandwidth in bytes per second; a lower one is refused.
pub const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

/// The highest limit of bandwidth in bytes per second; a higher one is refused.
pub const BYTES_PER_SECOND_MAX: u64 = 1 << 40;

/// The shortest time, in milliseconds, for which unused work is saved up; a shorter one is refused.
pub const BURST_MS_MIN: u32 = 10;

/// The same where nothing is said.
pub const BURST_MS_DEFAULT: u32 = 100;

/// The longest such time; a longer one is refused.
pub const BURST_MS_MAX: u32 = 600_000;

/// The largest share of a host; a larger one is refused.
pub const SHARE_MAX: u8 = 100;
