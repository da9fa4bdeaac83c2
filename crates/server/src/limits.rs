//! Limits of the daemon: how much it takes on, and what happens beyond it.

use std::time::Duration;

/// Bytes read from one connection before the others get their turn, hosts one after the other.
pub const RECEIVE_BUDGET: usize = 256 << 10;

/// Bytes offered to one socket before the others get their turn, hosts one after the other.
pub const SEND_BUDGET: usize = 256 << 10;

/// How long one turn of the reactor's loop reads from sockets, starts commands and requests, and
/// sends: so long for each. What is left comes in the next turn, after what came meanwhile. Each
/// does one thing at least.
pub const TURN_TIME: Duration = Duration::from_millis(1);

/// Bytes of work that go to the engine in one turn of the loop, besides small requests; further ones
/// wait for the next turn. One request always goes.
pub const TURN_BYTES: u64 = 4 << 20;

/// Blocks whose place in a pool's map changes in one turn of the loop, about; what is left of the
/// changes that are on the devices comes in the next turn.
pub const BLOCKS_PER_TURN: u64 = 1024;

/// Requests that cost less, in bytes of work, go to the engine as soon as their command starts.
pub const SMALL_REQUEST_BYTES: u64 = 64 << 10;

/// Bytes of larger requests that the engine of a pool has at once; further ones wait for their turn.
/// A host alone has half of that. One request of a host that has none there always goes.
pub const LANE_BYTES_MAX: i64 = 32 << 20;

/// Bytes that wait to be sent on one connection before nothing more is read from it.
pub const SEND_QUEUE_BYTES_MAX: usize = 8 << 20;

/// Bytes that a socket takes which are not yet on their way; then more waits on our side.
pub const UNSENT_BYTES_MAX: u32 = 256 << 10;

/// How long initiators may take to log out when they are asked to, before their connections are
/// closed.
pub const LOGOUT_PATIENCE: Duration = Duration::from_secs(2);

/// How long a clean stop waits for commands under way; then their connections are closed.
pub const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Time over which the rates of a session are measured.
pub const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// Events that are kept for queries; the oldest one makes room.
pub const EVENTS_MAX: usize = 1000;

/// Bytes of the log of events. A longer file is rotated once, to `.old.jsonl`.
pub const EVENTS_BYTES_MAX: u64 = 4 << 20;

/// Entries that wait to be written to the log of events, and to the audit log; further ones are
/// not kept over a restart, and counted.
pub const RECORD_ENTRIES_MAX: usize = 1000;

/// How often an entry of a rotating log is tried again that could not be written.
pub const RECORD_RETRY: Duration = Duration::from_secs(1);

/// How long a request to resume a pool waits for its devices to end what they were asked before;
/// then it is answered, and the pool goes on by itself when they have.
pub const RESUME_PATIENCE: Duration = Duration::from_secs(5);

/// How long the write of an entry takes before the administrator is told.
pub const RECORD_STALL_MIN: Duration = Duration::from_secs(5);

/// Bytes of a line of a rotating log that are read at once; a longer line is none.
pub const RECORD_LINE_BYTES_MAX: u64 = 64 << 10;

/// Seconds from the first of equal events on in which the others are counted with it.
pub const EVENT_FOLD_SECONDS: u64 = 300;

/// Events of one class (kind, severity, and what it is about) that may come at once; then one a
/// second. Further ones are only counted.
pub const EVENT_BURST_MAX: u64 = 100;

/// Classes of events that are told apart; further ones share a limit.
pub const EVENT_CLASSES_MAX: usize = 64;

/// How often the counts of events that came again are written to the record, in seconds.
pub const EVENT_COUNT_INTERVAL: u64 = 10;

/// How often pools and volumes are compared with their thresholds, and schedules with the clock.
pub const FILL_INTERVAL: Duration = Duration::from_secs(1);

/// Damaged generations of one file of the data directory that are kept; the oldest one goes.
pub const DAMAGED_FILES_MAX: usize = 8;

/// New data is refused for want of space below a pool when less than this is left of what is backed.
pub const BACKING_FULL_BELOW_BYTES: u64 = 1 << 20;

/// Free bytes that end the condition 'file system full' (hysteresis).
pub const BACKING_ROOM_AGAIN_BYTES: u64 = 64 << 20;

/// The least memory for the maps of all pools, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 256 << 20;

/// Bytes per second that a scrub reads at most, unless the administrator says otherwise.
pub const SCRUB_RATE_DEFAULT: u64 = 200 << 20;

/// The least that can be said; slower, it would never end.
pub const SCRUB_RATE_MIN: u64 = 1 << 20;

/// How often time is told to the rooms.
pub const TICK: Duration = Duration::from_millis(100);

/// How long the reactor looks for a command before it sleeps, if that often comes so soon.
pub const POLL_TIME_MAX: Duration = Duration::from_micros(50);

/// Commands under way with which it does so.
pub const EXPECTING_COMMANDS_MAX: usize = 2;

/// Commands of one pool that are under way at once; further ones wait for their turn. A host alone
/// has half of that. One command of a host that has none under way always starts.
pub const LANE_COMMANDS_MAX: usize = 2048;

/// Commands that are started in one turn of the loop; further ones wait for the next.
pub const STARTS_PER_TURN: usize = 1024;

/// Bytes that one host moves in a lane before another has its turn.
pub const SHARE_BYTES: i64 = 64 << 10;

/// Cost of a command in its host's share besides its data, in bytes.
pub const COMMAND_COST: i64 = 4 << 10;

/// Bytes of work that count as one I/O where I/Os are limited; a larger command counts as so many.
pub const OPERATION_BYTES: u64 = 256 << 10;

/// Commands that limits let go on in one turn of the loop; further ones go on in the next.
pub const RELEASES_PER_TURN: usize = 1024;

/// Highest cost of one command or request, in bytes of work: twice the longest transfer.
pub const COST_MAX: u64 = 64 << 20;

/// How long the reactor may be silent before the daemon is not healthy.
pub const HEARTBEAT_MAX: Duration = Duration::from_secs(10);

/// Ranges per volume that are shown of those that hosts contend for.
pub const CONTENDED_SHOWN_MAX: usize = 32;

/// How long the reactor may take to say whether it serves.
pub const READINESS_MAX: Duration = Duration::from_secs(5);

/// Events that wait for one receiver of alerts; further ones are not told, and noted as not
/// delivered.
pub const ALERT_QUEUE_MAX: usize = 100;

/// Attempts to tell one receiver of one event; then it is given up.
pub const ALERT_ATTEMPTS_MAX: u32 = 8;

/// Time from the first attempt to the second; it doubles with each further one.
pub const ALERT_BACKOFF_MIN: Duration = Duration::from_secs(1);

/// The longest time between two attempts.
pub const ALERT_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// How long a receiver may take to accept an alert.
pub const ALERT_TIMEOUT: Duration = Duration::from_secs(10);

/// Delivery attempts of alerts that are kept for queries; the oldest one makes room.
pub const DELIVERIES_MAX: usize = 100;

/// Characters of what a receiver says that are kept.
pub const DELIVERY_DETAIL_MAX: usize = 200;

/// Bytes of the audit log. A longer file is rotated once, to `.old.jsonl`.
pub const AUDIT_BYTES_MAX: u64 = 16 << 20;

/// Changes that the management interface shows; the log holds more.
pub const AUDIT_SHOWN_MAX: usize = 1000;

/// Bytes of a configuration file that is imported; a larger one is answered 413.
pub const IMPORT_BYTES_MAX: usize = 16 << 20;

/// Names of deleted volumes that are kept for the ledger; of others it tells the identifier.
pub const GONE_NAMES_MAX: usize = 4096;

/// The largest body of a request to the management interface, in bytes; a larger one is refused.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// How long such a body may take to arrive.
pub const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Answers that are kept for repeated requests; the oldest one of the user who has most makes room.
/// When all of them are still under way, a further request is answered 503.
pub const ANSWERS_KEPT_MAX: usize = 1000;

/// Bytes of all such answers; then the oldest one of the user who has most makes room.
pub const ANSWERS_KEPT_BYTES_MAX: usize = 16 << 20;

/// Seconds for which such answers are kept.
pub const ANSWERS_KEPT_SECONDS: u64 = 24 * 3600;

/// Bytes of an answer that is worth compressing.
pub const COMPRESSED_BYTES_MIN: usize = 1 << 10;

/// Bytes of the largest answer that is compressed; a larger one is sent as it is.
pub const COMPRESSED_BYTES_MAX: usize = 16 << 20;

/// Large answers that are compressed at a time, each by a core; one more is sent as it is.
pub const COMPRESSED_AT_ONCE_MAX: usize = 1;

/// Streams of events at a time; one more is refused.
pub const STREAMS_MAX: usize = 64;

/// Streams of one user at a time; one more is refused.
pub const STREAMS_PER_USER_MAX: usize = 16;

/// Things to tell that wait for a slow reader of a stream; then it misses some.
pub const STREAM_BACKLOG: usize = 64;

/// Passwords that wait to be looked at, of users who are known and of strangers; one more is answered
/// 429.
pub const PASSWORDS_WAITING_MAX: usize = 16;

/// Those of them that one address, or one user who is known, sent; one more is answered 429.
pub const PASSWORDS_WAITING_OF_ONE_MAX: usize = 4;

/// Files of devices that are made, grown, closed or removed at once, each by a thread; further ones
/// wait.
pub const JOBS_MAX: usize = 8;

/// After so long whoever waits for such a job is told so by 409, and others begin in its place.
pub const JOB_PATIENCE: Duration = Duration::from_secs(30);

/// Jobs whose devices do not answer, each with a thread; with more, a request for another job is answered 503.
pub const JOBS_LATE_MAX: usize = 64;

/// Such jobs that wait; a request for one more is answered 503.
pub const JOBS_WAITING_MAX: usize = 256;

/// Requests to the management interface that wait for the reactor; a further one is answered 503.
pub const CALLS_WAITING_MAX: usize = 4096;

/// Niceness of the threads that answer administrators and save what they change, setpriority(2): where a processor is wanted by
/// both, the thread that serves hosts has about nine tenths of it.
pub const NICENESS: i32 = 10;

/// How long a thread that writes a long answer keeps a processor that others want, about: then it
/// yields, at the border of the next element.
pub const WORK_TIME_MAX: Duration = Duration::from_micros(50);

/// Small steps of such a thread, a comparison or a piece of JSON, between two looks at the clock.
pub const WORKED_BETWEEN_LOOKS: u32 = 32;

/// Bytes of an answer that are looked at by the thread that serves all administrators; a longer one
/// is shown by a thread of its own.
pub const SHOWN_AT_ONCE_BYTES_MAX: usize = 32 << 10;

/// Requests that the reactor begins in one turn of its loop; further ones wait for the next.
pub const CALLS_PER_TURN: usize = 16;

/// Time after which a turn of the loop begins no further request.
pub const CALLS_TIME_PER_TURN: Duration = Duration::from_micros(50);

/// Objects of long lists that are looked at in one turn of the event loop, before hosts have theirs
/// again.
pub const GATHERED_PER_TURN: usize = 64;

/// Time that one turn of the event loop spends on them; the object that is being looked at is looked
/// at to its end.
pub const GATHERING_TIME_PER_TURN: Duration = Duration::from_micros(30);

/// Volumes that are looked at with each tick: how full they are, and what hosts are told of it. Others
/// have their turn with the next ticks.
pub const VOLUMES_PER_TICK: usize = 512;

/// Time in which one turn of the loop tells sessions that their LUNs changed, at least one of them;
/// others have their turn with the next, or when they ask for something.
pub const LUNS_TIME_PER_TURN: Duration = Duration::from_micros(50);

/// iSCSI connections that have not finished login, at most; fewer with a small `--connections-max`.
/// The oldest one of the address that has most of them makes room.
pub const LOGINS_UNDER_WAY_MAX: usize = 512;

/// Discovery sessions, at most; fewer with a small `--connections-max`. The oldest one of the address
/// that has most of them makes room.
pub const DISCOVERY_SESSIONS_MAX: usize = 512;

/// Discovery sessions of one initiator name; its oldest one makes room.
pub const DISCOVERY_PER_INITIATOR_MAX: usize = 64;

/// Connections that one portal accepts in one turn of the loop; further ones wait for the next.
pub const ACCEPTS_PER_TURN: usize = 64;

/// How long a portal rests after the system could not give it a connection; then it tries again.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Open files that are kept for pools, the data directory and the daemon itself.
pub const DESCRIPTORS_KEPT: u64 = 128;

/// Reasons and addresses for which refusals are told apart in the log; those beyond share a line.
pub const REFUSAL_SOURCES_MAX: usize = 256;

/// Lines about refusals for one reason and address; then they are only counted until
/// [`REFUSAL_LOG_INTERVAL`] is over.
pub const REFUSAL_LOG_BURST: u32 = 5;

/// How often what was left out is told, by its number.
pub const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The least time between two events about refusals for one reason and address.
pub const REFUSAL_EVENT_INTERVAL: Duration = Duration::from_secs(60);

/// Events about refusals, of all reasons and addresses, in that time.
pub const REFUSAL_EVENTS_PER_INTERVAL: u32 = 10;

/// Lines about sessions that begin, end or fail in [`REFUSAL_LOG_INTERVAL`]; then only their number.
pub const SESSION_LINES_PER_INTERVAL: u32 = 200;

/// How long all of a large body may take, whatever its speed.
pub const BODY_LASTS_MAX: Duration = Duration::from_secs(600);

/// Bytes of a connection's requests that are held before they are looked at; a longer head is
/// refused.
pub const HTTP_BUFFER_BYTES_MAX: usize = 64 << 10;

/// Connections at once to the daemon's own socket; the one that has been idle longest makes room.
pub const SOCKET_CONNECTIONS_MAX: usize = 256;

/// Lines of the log that wait to be written; further ones are lost and counted.
pub const LOG_LINES_MAX: usize = 8192;

/// Bytes of the lines of the log that wait to be written; further lines are lost and counted.
pub const LOG_BYTES_MAX: usize = 4 << 20;

/// Bytes of one message for syslog; what is longer is cut off. Receivers take 2,048 at least (RFC 5424
/// 6.1), and most of them 8 KiB.
pub const SYSLOG_BYTES_MAX: usize = 8 << 10;

/// Bytes of one line of the log; what is longer is cut off.
pub const LOG_LINE_BYTES_MAX: usize = 16 << 10;

/// How long the daemon waits for the reader of its output: for the last lines of its log when it
/// ends, and for the first password when it starts.
pub const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);

/// How long an operation of a device takes before the administrator is told that it stalls.
pub const DEVICE_STALL_MIN: Duration = Duration::from_secs(5);

/// Failures of devices of a pool that wait to be told; further ones are only counted.
pub const DEVICE_FAILURES_MAX: usize = 64;

/// How long an answer to /readyz counts, so that many who ask cost one login.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// How long one portal may take to answer the login of a probe.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Portals that are probed, the first of them.
pub const PROBED_PORTALS_MAX: usize = 8;

/// Slots of a pool; a device that finds none free does not join.
pub const SLOTS_MAX: u8 = 96;

/// Mirrors of which the newest membership list is kept; of further ones, members that are missing when
/// the pool is opened are missed.
pub const WITNESSES_MAX: usize = 4096;

/// How long hosts wait for the data directory to keep a membership list; then they go on, and the
/// administrator is told.
pub const WITNESS_PATIENCE: Duration = Duration::from_secs(2);

/// How long the members of mirrors may take to be opened; without those that do not answer the pool is
/// opened degraded, if the others are current.
pub const MEMBER_PATIENCE: Duration = Duration::from_secs(3);
/// How long administrators wait at most until pools have the records of what they changed; it is in
/// the data directory by then.
pub const RECORDS_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a pool's records that are read at once.
pub const RECORDS_READ_BYTES: u64 = 1 << 20;

/// Records that are being written to a pool at once; further ones wait.
pub const RECORDS_WRITTEN_AT_ONCE: usize = 16;

/// Records that changed whose pools are looked for in one turn; further ones in the next.
pub const RECORDS_ROUTED_AT_ONCE: usize = 256;

/// Entries of a directory that are looked at for devices of pools; further ones are not.
pub const SCANNED_FILES_MAX: usize = 4096;

/// How often the daemon looks whether spares are there.
pub const SPARES_INTERVAL: Duration = Duration::from_secs(10);

/// Controllers of one array, at most; a higher number is refused at the start.
pub const CONTROLLERS_MAX: u16 = 256;

/// Portals of other controllers, at most; with more the daemon does not start.
pub const PEER_PORTALS_MAX: usize = 64;

/// The least time between two messages of the link on one connection: further ones wait.
pub const LINK_GAP: Duration = Duration::from_millis(50);

/// How long a handshake of the link, its first message, or an answer may take; then the connection is
/// closed.
pub const LINK_PATIENCE: Duration = Duration::from_secs(3);

/// Bytes of a message of the link, with its end; a connection with a longer one is closed.
pub const LINK_LINE_BYTES_MAX: u64 = 64 << 10;

/// Bytes of a request that one controller hands on to another: its body, as text in a message, and what
/// it is about.
pub const LINK_CALL_BYTES_MAX: u64 = 256 << 10;

/// Bytes of the answer to one.
pub const LINK_ANSWER_BYTES_MAX: u64 = 16 << 20;

/// A look at the devices of another controller's pool that takes so long is logged.
pub const SLOW_LOOK: Duration = Duration::from_secs(1);

/// Requests that wait for a controller's turn to change the configuration, at most.
pub const TURN_CALLS_MAX: usize = 1024;

/// How long a request waits for its controller's turn.
pub const TURN_PATIENCE: Duration = Duration::from_secs(10);

/// Requests that a controller hands on at once; others wait for [`LINK_PATIENCE`].
pub const LINK_CALLS_MAX: usize = 8;

/// Requests of other controllers that one answers at once.
pub const LINK_CALLS_TAKEN_MAX: usize = 16;

/// Connections to the link that there may be at once; one that has proved nothing yet makes room.
pub const LINK_CONNECTIONS_MAX: usize = 64;

/// Those of them that one IP address (of IPv6 one /64 network) may have.
pub const LINK_CONNECTIONS_PER_ADDRESS: usize = 16;

/// The pause before a peer is connected to again after that failed.
pub const LINK_RETRY: Duration = Duration::from_secs(1);

/// How often the process that tells of the daemon's end is looked after, and given its orders if they are new.
pub const END_NOTICE_LOOK: Duration = Duration::from_secs(1);

/// The pause after it could not be started or had ended.
pub const END_NOTICE_START_RETRY: Duration = Duration::from_secs(60);

/// Bytes of its orders.
pub const END_NOTICE_ORDERS_BYTES_MAX: u64 = 1 << 20;

/// How long it tries to tell other controllers; they notice by then themselves. A service manager waits for it before
/// it starts the daemon again.
pub const END_NOTICE_PATIENCE: Duration = Duration::from_secs(4);

/// The pause before it tries again.
pub const END_NOTICE_RETRY: Duration = Duration::from_millis(100);

/// Records of another controller's pools that could not be taken, of which administrators are told once each; then
/// what was told is forgotten.
pub const RECORD_PROBLEMS_MAX: usize = 256;

/// How long a controller whose configuration cannot be saved waits before it takes records of another one's
/// pools again.
pub const RECORDS_HEARD_AGAIN: Duration = Duration::from_secs(10);

/// How long the owner of an image of Ceph serves without its heartbeat at most, where an array has several
/// controllers: the cluster lets others break the lock of a client that it has not heard for 30 s
/// (osd_client_watch_timeout).
pub const CLUSTER_LEASE: Duration = Duration::from_secs(20);

/// The pause before a controller in maintenance tries again to give a pool to others that nobody took.
pub const HAND_OVER_PAUSE: Duration = Duration::from_secs(60);

/// Hosts that an event names; of further ones it says how many they are.
pub const HOSTS_NAMED_MAX: usize = 8;

/// Sessions that are looked at once a second, for whose hosts are where; with more no pool goes after its hosts.
pub const SESSIONS_LOOKED_AT_MAX: usize = 4096;
