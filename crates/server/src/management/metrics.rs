//! Metrics in the text format of Prometheus (version 0.0.4), from one table of names.

mod facts;
mod held_back;
mod mirrors;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use api::Route;
use array::Configuration;
use ledger::{Histogram, Latency, Primitive, Row, UPPER_BOUNDS_US};
use rustix::time::{ClockId, clock_gettime};

use super::gathering::{EachVolume, Scene};
use super::statistics::row_keys;
use super::{Management, Progress};
use crate::backing::FileSystem;
use crate::data_plane::DataPlane;
use crate::described::Described;
use crate::device_times::OPERATIONS;
use crate::http::{Closed, certificate_expires};
use crate::iscsi::Reason;
use crate::log_writer;
use crate::logs;
use crate::yielding::{free, pause_seldom};
use facts::{DeviceFacts, Facts, Key, Keyed, PoolFacts, RowFacts, VolumeFacts, look};

/// One metric. docs/metrics.md lists every one of them.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) help: &'static str,
}

macro_rules! metrics {
    ($($name:ident = $text:literal $kind:literal $help:literal;)*) => {
        $(const $name: Metric = Metric { name: $text, kind: $kind, help: $help };)*

        /// Every metric there is.
        #[cfg(test)]
        const METRICS: &[Metric] = &[$($name),*];
    };
}

metrics! {
    BUILD = "gantry_build_info" "gauge" "Always 1; the version is a label.";
    STARTED = "gantry_start_time_seconds" "gauge" "When the daemon started, seconds since 1970.";
    PROCESSOR = "process_cpu_seconds_total" "counter" "Processor time of all threads of the daemon, in user and in system mode.";
    CONTROLLER = "gantry_controller_reachable" "gauge" "1 while another controller of the array is heard on the link.";
    PATHS_MISSING = "gantry_hosts_without_path" "gauge" "Hosts that have had a session here for a minute and none at another controller that is heard.";
    POOLS_LOST = "gantry_pools_lost_total" "counter" "Pools that another controller took from this one, which is fenced.";
    TAKE_OVERS = "gantry_take_overs_total" "counter" "Pools that this controller took by itself from others that were gone without letting go.";
    FOLLOWED = "gantry_pools_given_to_hosts_total" "counter" "Pools that this controller gave to another one because all their hosts were there and none here.";
    FAIL_BACKS = "gantry_fail_backs_total" "counter" "Pools that this controller gave back by itself to the one that should have them.";
    SESSIONS = "gantry_sessions" "gauge" "Sessions in full-feature phase.";
    CONNECTIONS = "gantry_connections" "gauge" "TCP connections of initiators, by what they are.";
    CONNECTIONS_MAX = "gantry_connections_max" "gauge" "As many TCP connections of initiators there may be.";
    CONNECTIONS_REFUSED = "gantry_connections_refused_total" "counter" "Logins and connections of initiators that were refused or closed to make room.";
    HTTP_CONNECTIONS = "gantry_http_connections" "gauge" "TCP connections to the management interface.";
    HTTP_CONNECTIONS_MAX = "gantry_http_connections_max" "gauge" "As many TCP connections to the management interface there may be.";
    HTTP_REFUSED = "gantry_http_connections_refused_total" "counter" "Connections to the management interface that were refused, given up or closed to make room.";
    RECEIVED = "gantry_received_bytes_total" "counter" "Bytes received from all initiators.";
    SENT = "gantry_sent_bytes_total" "counter" "Bytes sent to all initiators.";
    COMMANDS = "gantry_commands_total" "counter" "Commands that ended.";
    REFUSED = "gantry_commands_refused_total" "counter" "Commands that were not done.";
    ASKED = "gantry_asked_bytes_total" "counter" "Bytes that commands named.";
    DONE = "gantry_done_bytes_total" "counter" "Bytes for which it was done.";
    BUSY = "gantry_command_seconds_total" "counter" "Time that commands took together.";
    CLONED = "gantry_cloned_bytes_total" "counter" "Bytes copied to a volume by reference.";
    COPIED = "gantry_copied_bytes_total" "counter" "Bytes copied to a volume by reading and writing in the array.";
    SOURCE = "gantry_clone_source_bytes_total" "counter" "Bytes copied from a volume by the array.";
    ZEROED = "gantry_zeroed_bytes_total" "counter" "Bytes made holes by WRITE SAME and UNMAP.";
    MISCOMPARES = "gantry_miscompares_total" "counter" "COMPARE AND WRITE that found another content.";
    HOST_COPIED = "gantry_host_copied_bytes_total" "counter" "Estimate of bytes that hosts copied themselves.";
    HOST_ZEROED = "gantry_host_zeroed_bytes_total" "counter" "Zeros that hosts wrote themselves.";
    DURATION = "gantry_command_duration_seconds" "histogram" "How long commands took in the array.";
    FAILED = "gantry_commands_failed_total" "counter" "Commands whose status was not GOOD.";
    POOL_UP = "gantry_pool_up" "gauge" "1 while a pool serves reads and writes.";
    POOL_SPACE = "gantry_pool_bytes" "gauge" "Where the space of a pool is; the states add up to the total.";
    POOL_TOTAL = "gantry_pool_total_bytes" "gauge" "The space of a pool.";
    POOL_SHARED = "gantry_pool_shared_bytes" "gauge" "What volumes hold more than once but occupies the pool only once.";
    POOL_METADATA_LEFT = "gantry_pool_metadata_left_bytes" "gauge" "What is left of the reserve for locks and metadata of hosts.";
    POOL_FULL = "gantry_pool_full_seconds" "gauge" "Forecast of the time until nothing is free.";
    BACKING_FREE = "gantry_backing_free_bytes" "gauge" "What a file system under pools has left, once per file system.";
    BACKING_SIZE = "gantry_backing_size_bytes" "gauge" "Size of a file system under pools.";
    BACKING_FULL = "gantry_pool_backing_full" "gauge" "1 while a pool refuses new data because the file system under it is full.";
    POOL_SNAPSHOTS_DELETED = "gantry_pool_scheduled_snapshots_deleted_total" "counter" "Scheduled snapshots that a pool at its hard threshold deleted by itself.";
    POOL_COMMITS = "gantry_pool_commits_total" "counter" "Groups of changes made durable.";
    POOL_CHECKPOINTS = "gantry_pool_checkpoints_total" "counter" "Checkpoints.";
    POOL_JOURNAL = "gantry_pool_journal_bytes_total" "counter" "Bytes written to the journal.";
    POOL_READ = "gantry_pool_read_bytes_total" "counter" "Bytes of data read from devices.";
    POOL_READ_AHEAD = "gantry_pool_read_ahead_bytes_total" "counter" "Those of them that were read before hosts asked for them.";
    POOL_READ_MEMORY = "gantry_pool_memory_read_bytes_total" "counter" "Bytes of data that hosts asked for and that were in memory.";
    POOL_WRITTEN = "gantry_pool_written_bytes_total" "counter" "Bytes of data written to devices.";
    DEVICE_DURATION = "gantry_device_operation_duration_seconds" "histogram" "How long devices took.";
    DEVICE_FAILED = "gantry_device_errors_total" "counter" "Operations that a device failed to do.";
    DEVICE_OLDEST = "gantry_device_oldest_operation_seconds" "gauge" "How long the oldest operation under way has taken.";
    POOL_UNREADABLE = "gantry_pool_medium_errors_total" "counter" "Data and maps that were not read as they were written.";
    POOL_SCRUB_BAD = "gantry_pool_scrub_bad" "gauge" "What the last scrub, or the one under way, found bad.";
    MEMBER_STATE = "gantry_mirror_member_state" "gauge" "1 for the state that a member of a mirror is in: current, resilvering, absent.";
    MEMBER_ERRORS = "gantry_mirror_member_errors_total" "counter" "I/O of a member that failed, and blocks that were not what was written.";
    MEMBER_HEALED = "gantry_mirror_member_healed_blocks_total" "counter" "Blocks of a member that were written again from another one.";
    MIRROR_DEGRADED = "gantry_mirror_degraded" "gauge" "1 while a member of a mirror is not current.";
    RESILVER_COPIED = "gantry_mirror_resilver_copied_bytes" "gauge" "Bytes that were copied to a member that is being filled.";
    RESILVER_LEFT = "gantry_mirror_resilver_left_bytes" "gauge" "Bytes that are yet to be copied to it, as far as it is known.";
    RESILVER_PAUSED = "gantry_mirror_resilver_paused" "gauge" "1 while the filling rests because an administrator said so.";
    DEPARTURE_LEFT = "gantry_pool_departure_left_bytes" "gauge" "Bytes that are yet to be moved from a device that leaves its pool.";
    DEPARTURE_COPIED = "gantry_pool_departure_copied_bytes" "gauge" "Bytes that were copied from it since it began to leave, or since the pool was opened.";
    DEPARTURE_PAUSED = "gantry_pool_departure_paused" "gauge" "1 while it rests because an administrator said so.";
    DEPARTURE_WAITS = "gantry_pool_departure_waits_for_space" "gauge" "1 while the other devices have no room for what is on it.";
    DEPARTURE_UNREADABLE = "gantry_pool_departure_unreadable_blocks" "gauge" "Blocks of it that cannot be read, and keep it.";
    SPARES = "gantry_pool_spares" "gauge" "Spares that a pool with mirrors has.";
    SPARE_MISSING = "gantry_pool_spare_missing" "gauge" "1 while a spare is not there, or smaller than it should be.";
    EVENTS = "gantry_events_total" "counter" "Events, also those that are counted with equal ones.";
    LOG_LOST = "gantry_log_lines_lost_total" "counter" "Lines of the log that could not be written.";
    RECORD_WAITING = "gantry_record_entries_waiting" "gauge" "Entries that wait to be written to a record.";
    RECORD_LOST = "gantry_record_entries_lost_total" "counter" "Entries of a record that could not be written.";
    UNSAVED = "gantry_configuration_unsaved" "gauge" "1 while the last change of the configuration could not be saved, and was taken back.";
    UNSAVED_SINCE = "gantry_configuration_unsaved_since_timestamp_seconds" "gauge" "Since when the configuration cannot be saved, seconds since 1970.";
    SAVE_SECONDS = "gantry_configuration_save_seconds" "gauge" "How long the save of the configuration that is under way has taken.";
    CERTIFICATE = "gantry_certificate_expiry_timestamp_seconds" "gauge" "When the certificate of --https expires, seconds since 1970.";
    VOLUME_SIZE = "gantry_volume_size_bytes" "gauge" "Size that hosts see.";
    VOLUME_MAPPED = "gantry_volume_mapped_bytes" "gauge" "Bytes that hold data, shared or not.";
    RECLAIM_ASKED = "gantry_volume_reclaim_asked_bytes_total" "counter" "Bytes that were to become free.";
    RECLAIM_UNMAPPED = "gantry_volume_reclaim_unmapped_bytes_total" "counter" "Those of them that held data.";
    RECLAIM_HELD = "gantry_volume_reclaim_held_bytes" "gauge" "Those of these that snapshots, clones or copies still use.";
    VOLUME_HELD = "gantry_volume_held_back_commands_total" "counter" "Commands and requests of copies that waited for the limits (QoS) of a volume.";
    VOLUME_HELD_TIME = "gantry_volume_held_back_seconds_total" "counter" "How long those waited together that went on.";
    VOLUME_WAITING = "gantry_volume_held_back_commands" "gauge" "Those that wait now.";
    HOST_HELD = "gantry_host_held_back_commands_total" "counter" "Commands and requests of copies that waited for the limits (QoS) of a host.";
    HOST_HELD_TIME = "gantry_host_held_back_seconds_total" "counter" "How long those waited together that went on.";
    HOST_WAITING = "gantry_host_held_back_commands" "gauge" "Those that wait now.";
}

type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of metrics being written.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Begins a metric; its samples follow.
    fn begin(&mut self, metric: &Metric) {
        let Metric { name, kind, help } = metric;
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.0.push_str(name);
        for (number, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if number == 0 { '{' } else { ',' });
            escape(&mut self.0, text);
            self.0.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
        pause_seldom();
    }

    /// All samples of a histogram.
    fn histogram(&mut self, metric: &Metric, labels: Labels<'_>, histogram: &Histogram) {
        let named = |end| format!("{}{end}", metric.name);
        let bounds = UPPER_BOUNDS_US.iter().map(|&us| (us as f64 / 1e6).to_string());
        let bounds = bounds.chain(std::iter::once("+Inf".to_owned()));
        for (bound, count) in bounds.zip(histogram.cumulative()) {
            let labels = [labels, &[("le", &bound)]].concat();
            self.sample(&named("_bucket"), &labels, count as f64);
        }
        self.sample(&named("_sum"), labels, histogram.sum_us() as f64 / 1e6);
        self.sample(&named("_count"), labels, histogram.count() as f64);
    }

    /// A metric of one sample.
    fn single(&mut self, metric: &Metric, labels: Labels<'_>, value: f64) {
        self.begin(metric);
        self.sample(metric.name, labels, value);
    }
}

fn escape(page: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => page.push_str("\\\\"),
            '"' => page.push_str("\\\""),
            '\n' => page.push_str("\\n"),
            c => page.push(c),
        }
    }
}

/// Everything that is counted.
pub(super) fn show_metrics(plane: &DataPlane) -> Progress {
    let rows = row_keys(plane).map(Key::Row);
    let pools = plane.pools.ids().into_iter().map(Key::Pool);
    let keys = Keyed {
        few: rows.chain(pools).collect::<Vec<_>>().into_iter(),
        volumes: EachVolume::default(),
    };
    Progress::gather(Route::ShowMetrics, keys, look, |management, scene, facts| {
        let mut page = Page::default();
        management.daemon_metrics(&mut page, scene);
        let latencies: Vec<Latency> = scene.plane.feed.ledger.latencies().copied().collect();
        let held_hosts = scene.plane.throttle.held_hosts();
        let configuration = Arc::clone(&management.configuration);
        Described::plain(move || {
            let facts = Facts::sorted(facts);
            row_metrics(&mut page, &facts.rows);
            latency_metrics(&mut page, &latencies);
            pool_metrics(&mut page, &facts.pools, &configuration);
            volume_metrics(&mut page, &facts.volumes);
            held_back::volumes(&mut page, &facts.volumes);
            held_back::hosts(&mut page, &held_hosts);
            free(facts.volumes);
            page.0
        })
    })
}

/// Prometheus' clients in all languages have this figure, by this name.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Management {
    /// What does not grow with the number of objects.
    fn daemon_metrics(&self, page: &mut Page, scene: Scene<'_>) {
        let Scene { plane, sessions, .. } = scene;
        let (received, sent) = scene.traffic();
        page.single(&BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        page.single(&STARTED, &[], plane.feed.seconds(std::time::Duration::ZERO));
        page.single(&PROCESSOR, &[], processor_seconds());
        page.begin(&CONTROLLER);
        for (number, view) in self.peers.paired() {
            let labels = [("controller", &*number.to_string())];
            page.sample(CONTROLLER.name, &labels, f64::from(u8::from(view.is_reachable)));
        }
        page.begin(&PATHS_MISSING);
        for (number, hosts) in self.peers.following.missing.counts() {
            let labels = [("controller", &*number.to_string())];
            page.sample(PATHS_MISSING.name, &labels, hosts as f64);
        }
        page.single(&TAKE_OVERS, &[], self.peers.take_over.taken as f64);
        page.single(&POOLS_LOST, &[], self.peers.take_over.lost as f64);
        page.single(&FAIL_BACKS, &[], self.peers.fail_back.given_back as f64);
        page.single(&FOLLOWED, &[], self.peers.following.given as f64);
        page.single(&SESSIONS, &[], sessions.len() as f64);
        admission_metrics(page, plane);
        page.single(&RECEIVED, &[], received as f64);
        page.single(&SENT, &[], sent as f64);
        self.output_metrics(page);
    }

    /// Events, and what became of what the daemon writes about itself.
    fn output_metrics(&self, page: &mut Page) {
        page.begin(&EVENTS);
        for (severity, count) in self.events.counts() {
            page.sample(EVENTS.name, &[("severity", severity)], count as f64);
        }
        page.single(&UNSAVED, &[], f64::from(u8::from(self.saving.failing_since().is_some())));
        page.begin(&UNSAVED_SINCE);
        if let Some(since) = self.saving.failing_since() {
            page.sample(UNSAVED_SINCE.name, &[], since as f64);
        }
        page.single(&SAVE_SECONDS, &[], self.saving.under_way().as_secs_f64());
        page.begin(&CERTIFICATE);
        if let Some(expires) = certificate_expires() {
            page.sample(CERTIFICATE.name, &[], expires as f64);
        }
        page.single(&LOG_LOST, &[], logs::lost() as f64);
        let records = [&log_writer::EVENTS, &log_writer::AUDIT];
        page.begin(&RECORD_WAITING);
        for record in records {
            let labels = [("record", record.name)];
            page.sample(RECORD_WAITING.name, &labels, record.waiting() as f64);
        }
        page.begin(&RECORD_LOST);
        for record in records {
            page.sample(RECORD_LOST.name, &[("record", record.name)], record.lost() as f64);
        }
    }
}

fn pool_metrics(page: &mut Page, pools: &[PoolFacts], configuration: &Configuration) {
    page.begin(&POOL_UP);
    for name in configuration.pools.keys() {
        let is_up = pools.iter().any(|pool| pool.name == *name && pool.is_up);
        page.sample(POOL_UP.name, &[("pool", name)], f64::from(u8::from(is_up)));
    }
    pool_spaces(page, pools);
    backing_metrics(page, pools);
    page.begin(&POOL_FULL);
    for pool in pools {
        if let Some(seconds) = pool.seconds_until_full {
            page.sample(POOL_FULL.name, &[("pool", &pool.name)], seconds);
        }
    }
    page.begin(&POOL_SNAPSHOTS_DELETED);
    for pool in pools {
        let labels = [("pool", pool.name.as_str())];
        page.sample(POOL_SNAPSHOTS_DELETED.name, &labels, pool.snapshots_deleted as f64);
    }
    pool_counters(page, pools);
    pool_errors(page, pools);
    mirrors::member_metrics(page, pools);
    mirrors::mirror_metrics(page, pools);
    mirrors::departure_metrics(page, pools);
    mirrors::spare_metrics(page, pools);
    device_metrics(page, pools);
}

fn device_metrics(page: &mut Page, pools: &[PoolFacts]) {
    page.begin(&DEVICE_DURATION);
    for (pool, device) in devices(pools) {
        for (operation, durations) in OPERATIONS.into_iter().zip(device.durations.iter().flatten())
        {
            let labels =
                [("pool", pool.name.as_str()), ("device", &device.name), ("operation", operation)];
            page.histogram(&DEVICE_DURATION, &labels, durations);
        }
    }
    page.begin(&DEVICE_FAILED);
    for (pool, device) in devices(pools) {
        for (operation, count) in OPERATIONS.into_iter().zip(device.failures) {
            let labels =
                [("pool", pool.name.as_str()), ("device", &device.name), ("operation", operation)];
            page.sample(DEVICE_FAILED.name, &labels, count as f64);
        }
    }
    page.begin(&DEVICE_OLDEST);
    for (pool, device) in devices(pools) {
        let labels = [("pool", pool.name.as_str()), ("device", &device.name)];
        page.sample(DEVICE_OLDEST.name, &labels, device.oldest.as_secs_f64());
    }
}

/// Every device that is served, with its pool.
fn devices(pools: &[PoolFacts]) -> impl Iterator<Item = (&PoolFacts, &DeviceFacts)> {
    pools.iter().flat_map(|pool| pool.devices.iter().map(move |device| (pool, device)))
}

fn pool_errors(page: &mut Page, pools: &[PoolFacts]) {
    page.begin(&POOL_UNREADABLE);
    for PoolFacts { name, statistics, .. } in pools {
        for (cause, count) in
            [("device", statistics.read_errors), ("checksum", statistics.checksum_errors)]
        {
            let labels = [("pool", name.as_str()), ("cause", cause)];
            page.sample(POOL_UNREADABLE.name, &labels, count as f64);
        }
    }
    page.begin(&POOL_SCRUB_BAD);
    for PoolFacts { name, scrub, .. } in pools {
        for (what, count) in [("blocks", scrub.bad_blocks), ("pages", scrub.bad_pages)] {
            let labels = [("pool", name.as_str()), ("what", what)];
            page.sample(POOL_SCRUB_BAD.name, &labels, count as f64);
        }
    }
}

/// Connections, and who did not get one.
fn admission_metrics(page: &mut Page, plane: &DataPlane) {
    page.begin(&CONNECTIONS);
    for (kind, count) in ["login", "discovery", "session"].into_iter().zip(plane.connections) {
        page.sample(CONNECTIONS.name, &[("kind", kind)], count as f64);
    }
    page.single(&CONNECTIONS_MAX, &[], plane.places.connections_max as f64);
    page.begin(&CONNECTIONS_REFUSED);
    for &reason in Reason::ALL {
        let count = plane.refusals.count(reason) as f64;
        page.sample(CONNECTIONS_REFUSED.name, &[("reason", reason.label())], count);
    }
    page.single(&HTTP_CONNECTIONS, &[], plane.http_doors.len() as f64);
    page.single(&HTTP_CONNECTIONS_MAX, &[], plane.http_doors.connections_max() as f64);
    page.begin(&HTTP_REFUSED);
    for closed in Closed::ALL {
        let count = plane.http_doors.closed(closed) as f64;
        page.sample(HTTP_REFUSED.name, &[("reason", closed.label())], count);
    }
}

fn pool_spaces(page: &mut Page, pools: &[PoolFacts]) {
    page.begin(&POOL_SPACE);
    for pool in pools {
        let space = pool.space;
        for (state, bytes) in [
            ("used", space.used),
            ("pending", space.pending),
            ("reserve", space.reserve),
            ("free", space.free),
            ("unbacked", space.unbacked),
        ] {
            let labels = [("pool", pool.name.as_str()), ("state", state)];
            page.sample(POOL_SPACE.name, &labels, bytes as f64);
        }
    }
    for (metric, bytes) in [
        (&POOL_TOTAL, (|space| space.total) as fn(store::Space) -> u64),
        (&POOL_SHARED, |space| space.shared),
        (&POOL_METADATA_LEFT, |space| space.metadata_left),
    ] {
        page.begin(metric);
        for pool in pools {
            page.sample(metric.name, &[("pool", &pool.name)], bytes(pool.space) as f64);
        }
    }
}

/// Each file system once, however many pools are on it.
fn backing_metrics(page: &mut Page, pools: &[PoolFacts]) {
    let systems = pools.iter().flat_map(|pool| &pool.file_systems);
    let systems: BTreeMap<u64, &FileSystem> = systems.map(|system| (system.id, system)).collect();
    for (metric, bytes) in [
        (&BACKING_FREE, (|system| system.free_bytes) as fn(&FileSystem) -> u64),
        (&BACKING_SIZE, |system| system.size_bytes),
    ] {
        page.begin(metric);
        for system in systems.values() {
            let place = system.mount_point.display().to_string();
            page.sample(metric.name, &[("file_system", &place)], bytes(system) as f64);
        }
    }
    page.begin(&BACKING_FULL);
    for pool in pools {
        let is_full = f64::from(u8::from(pool.is_backing_full));
        page.sample(BACKING_FULL.name, &[("pool", &pool.name)], is_full);
    }
}

fn pool_counters(page: &mut Page, pools: &[PoolFacts]) {
    for (metric, count) in [
        (&POOL_COMMITS, (|s| s.commits) as fn(store::Statistics) -> u64),
        (&POOL_CHECKPOINTS, |s| s.checkpoints),
        (&POOL_JOURNAL, |s| s.journal_bytes),
        (&POOL_READ, |s| s.data_bytes_read),
        (&POOL_READ_AHEAD, |s| s.ahead_bytes_read),
        (&POOL_READ_MEMORY, |s| s.recent_bytes_read),
        (&POOL_WRITTEN, |s| s.data_bytes_written),
    ] {
        page.begin(metric);
        for pool in pools {
            let count = count(pool.statistics);
            page.sample(metric.name, &[("pool", &pool.name)], count as f64);
        }
    }
}

fn volume_metrics(page: &mut Page, volumes: &[VolumeFacts]) {
    for (metric, value) in [
        (&VOLUME_SIZE, (|volume| volume.size_bytes) as fn(&VolumeFacts) -> u64),
        (&VOLUME_MAPPED, |volume| volume.mapped_bytes),
        (&RECLAIM_ASKED, |volume| volume.reclaim_asked_bytes),
        (&RECLAIM_UNMAPPED, |volume| volume.reclaim_unmapped_bytes),
        (&RECLAIM_HELD, |volume| volume.reclaim_held_bytes),
    ] {
        page.begin(metric);
        for volume in volumes {
            page.sample(metric.name, &[("volume", &volume.name)], value(volume) as f64);
        }
    }
}

fn row_metrics(page: &mut Page, rows: &[RowFacts]) {
    for (metric, value) in [
        (&COMMANDS, (|sums| sums.commands as f64) as fn(&ledger::Sums) -> f64),
        (&REFUSED, |sums| sums.refused as f64),
        (&ASKED, |sums| sums.asked_bytes as f64),
        (&DONE, |sums| sums.done_bytes as f64),
        (&BUSY, |sums| sums.micros as f64 / 1e6),
    ] {
        page.begin(metric);
        for RowFacts { host, volume, row } in rows {
            for primitive in Primitive::ALL {
                let sums = row.of(primitive);
                if *sums != ledger::Sums::default() {
                    let primitive = primitive.name();
                    let labels = [("host", host), ("volume", volume)];
                    let labels = labels.map(|(label, text)| (label, text.as_str()));
                    let labels = [&labels[..], &[("primitive", primitive)]].concat();
                    page.sample(metric.name, &labels, value(sums));
                }
            }
        }
    }
    for (metric, value) in [
        (&CLONED, (|row| row.effects.referenced_bytes) as fn(&Row) -> u64),
        (&COPIED, |row| row.effects.copied_bytes),
        (&SOURCE, |row| row.effects.source_bytes),
        (&ZEROED, |row| row.effects.zeroed_bytes),
        (&MISCOMPARES, |row| row.effects.miscompares),
        (&HOST_COPIED, |row| row.effects.host_copied_bytes),
        (&HOST_ZEROED, |row| row.effects.host_zeroed_bytes),
    ] {
        page.begin(metric);
        for RowFacts { host, volume, row } in rows {
            let labels = [("host", host.as_str()), ("volume", volume)];
            page.sample(metric.name, &labels, value(row) as f64);
        }
    }
}

fn latency_metrics(page: &mut Page, latencies: &[Latency]) {
    page.begin(&DURATION);
    for Latency { name, histogram, .. } in latencies {
        page.histogram(&DURATION, &[("command", name)], histogram);
    }
    page.begin(&FAILED);
    for latency in latencies {
        page.sample(FAILED.name, &[("command", latency.name)], latency.failed as f64);
    }
}
