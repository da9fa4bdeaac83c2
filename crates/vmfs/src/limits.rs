//! Limits of volumes and files, and what happens beyond each.

/// Bytes of a file block.
pub const FILE_BLOCK: u64 = 1 << 20;

/// Bytes of a sub-block: where small files and directories other than the root lie.
pub const SUB_BLOCK: u64 = 8192;

/// Hosts that mount a volume at once; a further one is refused.
pub const HOSTS_MAX: u64 = 64;

/// Bytes of a name in a directory; longer ones are refused.
pub const NAME_MAX: usize = 127;

/// Physical extents of 256 MiB on one disk of a volume: what one map of them holds. A larger LUN is
/// used up to that, 2 TiB.
pub const EXTENTS_MAX: u64 = 8192;

/// Bytes of a virtual disk, as ESXi has it: 62 TiB. A larger one is refused.
pub const DISK_MAX: u64 = 62 << 40;

/// Bytes of a volume's label: what its field holds. A longer one is refused.
pub const LABEL_MAX: usize = 127;

/// Disks of a volume: as many as the table of their names holds. A further one is refused.
pub const VOLUME_DISKS_MAX: u32 = 32;

/// File blocks of a volume: what bitmaps in the 256 blocks of their file cover, 49.9 TiB. A disk
/// that would go beyond is refused.
pub const FILE_BLOCKS_MAX: u64 = 8190 * 32 * 200;

/// Sectors that one transaction may change. Longer work is done in several.
pub const TRANSACTION_SECTORS_MAX: usize = 124;

/// Locks that a journal record names. A transaction with more clears its record when it is done.
pub const TRANSACTION_LOCKS_MAX: usize = 64;

/// Clusters from which one transaction takes or to which it gives. Longer work is done in several.
pub const TRANSACTION_CLUSTERS_MAX: usize = 40;

/// Blocks that one transaction takes or changes: six pointer blocks name them, the first and the
/// last in part.
pub const TRANSACTION_BLOCKS_MAX: u64 = 5 * 1024;

/// Sectors of a transaction that taking resources leaves for what names them: six pointer blocks
/// and three above them, of eight sectors, a cluster for each, and a descriptor.
pub const TRANSACTION_SECTORS_KEPT: usize = 86;

/// Attempts at an object's lock while others hold it for short; then the operation fails with
/// [`crate::Error::Contended`]. With the pauses between them it is about two minutes.
pub const LOCK_ATTEMPTS_MAX: u32 = 6000;

/// Attempts at a RESERVE that conflicts; then the operation fails.
pub const RESERVE_ATTEMPTS_MAX: u32 = 4000;

/// Attempts at a change under a reservation that was lost with its path.
pub const SWAP_ATTEMPTS_MAX: u32 = 4;

/// Looks at a directory that changes meanwhile; then it is locked to be read.
pub const DIRECTORY_LOOKS_MAX: u32 = 20;

/// Hosts that hold a shared lock at once; a further one waits.
pub const HOLDERS_MAX: usize = 8;

/// A heartbeat that does not change for so long is a dead host's: the default of a new volume, in
/// milliseconds.
pub const LEASE_MS: u32 = 16_000;

/// Layers of a virtual disk: the base and 32 snapshots. A further snapshot is refused.
pub const CHAIN_MAX: usize = 33;

/// Tables of a redo log that are kept in memory, 16 KiB each. Others are read again.
pub const REDO_TABLES_MAX: usize = 1024;
