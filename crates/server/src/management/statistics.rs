//! Routes of statistics: rates, latencies, history, locks, reclaimed space and forecasts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use api::{
    Forecast, Holder, HolderKind, Live, LockAttempt, LockMap, LockOutcome, LockRange, NamedRates,
    PrimitiveRate, PrimitiveRates, Problem, Reclaim, Route, RowRates, SeriesHistory, SeriesName,
};
use block::VolumeId;
use ledger::{Columns, FlowSample, HostId, Primitive, SpaceSample, Subject};
use serde::{Deserialize, Serialize};
use store::Health;

use super::gathering::{EachVolume, Scene};
use super::problems::{bad_request, not_found, unavailable};
use super::{Management, Parameters, Progress};
use crate::data_plane::DataPlane;
use crate::described::Described;
use crate::iscsi::Places;
use crate::limits::CONTENDED_SHOWN_MAX;
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::rod_token_spaces::is_hidden;
use crate::yielding::{pause, sort_by};

/// Seconds of history that are shown unless others are asked for.
const HISTORY_SECONDS: u64 = 300;

/// POOL/NAME of volumes; each is looked up when it is asked for.
pub(super) struct VolumeNames<'a> {
    plane: &'a DataPlane,
}

impl<'a> VolumeNames<'a> {
    pub(super) const fn new(plane: &'a DataPlane) -> Self {
        Self { plane }
    }

    /// The name of a volume that is there.
    pub(super) fn get(&self, id: VolumeId) -> Option<String> {
        self.plane.pools.iter().find_map(|(_, pool)| {
            let volume = pool.store.volume(id).filter(|volume| !is_hidden(volume))?;
            Some(format!("{}/{}", pool.name, volume.spec.name))
        })
    }

    /// The name; of a volume that is gone with its identifier, as another one may have the name.
    pub(super) fn name(&self, id: VolumeId) -> String {
        match (self.get(id), self.plane.feed.gone().get(&id)) {
            (Some(name), _) => name,
            (None, Some(name)) => format!("{name} (deleted {:016x})", id.0),
            (None, None) => format!("{:016x}", id.0),
        }
    }

    fn find(&self, name: &str) -> Option<VolumeId> {
        let there = || {
            let (pool, volume) = name.split_once('/')?;
            let (_, pool) = self.plane.pool_named(pool)?;
            pool.store.volume_named(volume).filter(|volume| !is_hidden(volume))
        };
        // As `name` calls one that is gone.
        let gone = || {
            let (_, id) = name.strip_suffix(')')?.rsplit_once(" (deleted ")?;
            let id = VolumeId(u64::from_str_radix(id, 16).ok()?);
            Some(id).filter(|&id| self.name(id) == name)
        };
        there().map(|volume| volume.spec.id).or_else(gone)
    }
}

/// What is to be said of the room for sessions, if something is.
///
/// # Errors
/// That nobody finds room.
fn room(places: Places) -> Result<Option<&'static str>, Problem> {
    match (places.known_hosts, places.strangers) {
        (false, _) => Err(unavailable(&"there is no room for another session: --connections-max")),
        (true, false) => Ok(Some(
            "there is room for sessions of configured hosts only; other initiators are refused",
        )),
        (true, true) => Ok(None),
    }
}

/// What `/readyz` goes by while every pool serves.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Readiness {
    /// Where hosts log in.
    pub(crate) portals: Vec<SocketAddr>,
    /// The answer if a login succeeds.
    pub(crate) message: String,
}

impl Management {
    /// The portals at which hosts log in and 'ok', if every configured pool serves. What an
    /// administrator should look at although all serve follows 'ok'.
    pub(super) fn readiness(&self, plane: &DataPlane) -> Result<Readiness, Problem> {
        for name in self.configuration.pools.keys() {
            let pool = plane.pool_named(name);
            let health = pool.map(|(_, pool)| pool.health());
            if health != Some(Health::Ready) {
                let state = health.map_or("unavailable".to_owned(), |health| health.to_string());
                return Err(unavailable(&format!("pool '{name}' is {state}")));
            }
        }
        let messages = plane.pools.iter().filter_map(|(_, pool)| {
            let message = pool.backing.message(&pool.space())?;
            Some(format!("pool '{}': {message}", pool.name))
        });
        let mirrors = plane.pools.iter().flat_map(|(_, pool)| self.mirror_messages(pool));
        let room = room(plane.places)?.map(str::to_owned);
        let findings = self.findings.iter().cloned();
        let ok = std::iter::once("ok".to_owned());
        let all = ok.chain(messages).chain(mirrors).chain(room).chain(findings);
        let message = all.collect::<Vec<_>>().join("; ");
        Ok(Readiness { portals: self.portals().into_keys().collect(), message })
    }
}

/// What goes on in this second.
pub(super) fn show_live(plane: &DataPlane) -> Progress {
    let look = |_: &Management, scene: Scene<'_>, (host, volume)| {
        let ledger = &scene.plane.feed.ledger;
        let row = ledger.row(host, volume)?;
        let rates = rates(row.rates());
        (!rates.is_empty())
            .then(|| RowRates {
                host: ledger.host_name(host).to_owned(),
                volume: VolumeNames::new(scene.plane).name(volume),
                lun: None,
                rates,
            })
            .map(|rates| (volume, rates))
    };
    let describe = |management: &Management, scene: Scene<'_>, rows: Vec<(VolumeId, RowRates)>| {
        let configuration = Arc::clone(&management.configuration);
        let live = without_rows(scene.plane);
        Described::later(move || {
            let with_lun = |(volume, rates): (VolumeId, RowRates)| RowRates {
                lun: configuration.lun_seen_by(&rates.host, volume),
                ..rates
            };
            let rows = rows.into_iter().map(with_lun).inspect(|_| pause());
            Live { rows: rows.collect(), ..live }
        })
    };
    Progress::gather(Route::ShowLive, row_keys(plane), look, describe)
}

/// The pairs of host and volume of which the ledger knows something.
pub(super) fn row_keys(plane: &DataPlane) -> std::vec::IntoIter<(HostId, VolumeId)> {
    let keys: Vec<_> = plane.feed.ledger.rows().map(|row| (row.host, row.volume)).collect();
    keys.into_iter()
}

fn without_rows(plane: &DataPlane) -> Live {
    let (ledger, names) = (&plane.feed.ledger, VolumeNames::new(plane));
    let rates_of = |subject| {
        let last = ledger.history().flow(subject).and_then(|series| series.last());
        last.map(rates).unwrap_or_default()
    };
    let named = |subject| -> Option<(String, PrimitiveRates)> {
        let rates = Some(rates_of(subject)).filter(|rates| !rates.is_empty())?;
        match subject {
            Subject::Total => None,
            Subject::Volume(id) => Some((names.name(id), rates)),
            Subject::Host(host) => Some((ledger.host_name(host).to_owned(), rates)),
        }
    };
    let of_kind = |is_volume: bool| {
        let subjects = ledger.history().subjects();
        let alike = subjects.filter(|subject| matches!(subject, Subject::Volume(_)) == is_volume);
        alike.filter_map(named).map(|(name, rates)| NamedRates { name, rates }).collect()
    };
    Live {
        time: crate::events::now(),
        interval_seconds: 1,
        total: rates_of(Subject::Total),
        volumes: of_kind(true),
        hosts: of_kind(false),
        rows: Vec::new(),
    }
}

fn rates(flows: &FlowSample) -> PrimitiveRates {
    let pairs = Primitive::ALL.into_iter().zip(flows);
    let busy = pairs.filter(|(_, flow)| flow.commands > 0.0 || flow.bytes > 0.0);
    let rate = |(primitive, flow): (Primitive, &ledger::Flow)| {
        let latency_us = flow.latency_us();
        let rate = PrimitiveRate { commands: flow.commands, bytes: flow.bytes, latency_us };
        (primitive.name().to_owned(), rate)
    };
    busy.map(rate).collect()
}

pub(super) fn describe_series(plane: &DataPlane) -> Vec<SeriesName> {
    let (ledger, names) = (&plane.feed.ledger, VolumeNames::new(plane));
    let name = |subject| match subject {
        Subject::Total => "total".to_owned(),
        Subject::Volume(id) => format!("volume:{}", names.name(id)),
        Subject::Host(host) => format!("host:{}", ledger.host_name(host)),
    };
    let pools = ledger.history().pools().map(|name| format!("pool:{name}"));
    let series = ledger.history().subjects().map(name).chain(pools);
    series.map(|series| SeriesName { series }).collect()
}

pub(super) fn describe_history(
    plane: &DataPlane,
    parameters: &Parameters,
) -> Result<SeriesHistory, Problem> {
    let series = parameters.get("series");
    let seconds = match parameters.get("seconds") {
        "" => HISTORY_SECONDS,
        text => text.parse().map_err(|_| {
            bad_request(&format!("'{text}' is not a number of seconds: write for example 3600"))
        })?,
    };
    let not_there =
        || not_found(&format!("there is no series '{series}': /v1/statistics/series lists them"));
    let started = plane.feed.seconds(std::time::Duration::ZERO) as u64;
    let (start, step, columns) = match series.strip_prefix("pool:") {
        Some(pool) => {
            let series = plane.feed.ledger.history().pool(pool).ok_or_else(not_there)?;
            let part = series.last_seconds(seconds);
            (part.start, part.step, space_columns(&part))
        }
        None => {
            let subject = subject(plane, series).ok_or_else(not_there)?;
            let series = plane.feed.ledger.history().flow(subject).ok_or_else(not_there)?;
            let part = series.last_seconds(seconds);
            (part.start, part.step, flow_columns(&part))
        }
    };
    Ok(SeriesHistory { series: series.to_owned(), start: started + start, step, columns })
}

fn subject(plane: &DataPlane, series: &str) -> Option<Subject> {
    match series.split_once(':') {
        None => (series == "total").then_some(Subject::Total),
        Some(("volume", name)) => {
            let id = VolumeNames::new(plane).find(name);
            let gone = || u64::from_str_radix(name, 16).ok().map(VolumeId);
            id.or_else(gone).map(Subject::Volume)
        }
        Some(("host", name)) => plane.feed.ledger.find_host(name).map(Subject::Host),
        Some(_) => None,
    }
}

fn flow_columns(part: &Columns<FlowSample>) -> BTreeMap<String, Vec<f64>> {
    let mut columns = BTreeMap::new();
    for primitive in Primitive::ALL {
        let flows = || part.values.iter().map(|flows| &flows[primitive.index()]);
        let mut add = |what: &str, values: Vec<f64>| {
            columns.insert(format!("{}_{what}", primitive.name()), values);
        };
        add("commands", flows().map(|flow| f64::from(flow.commands)).collect());
        add("bytes", flows().map(|flow| f64::from(flow.bytes)).collect());
        add("latency_us", flows().map(|flow| f64::from(flow.latency_us())).collect());
    }
    columns
}

fn space_columns(part: &Columns<SpaceSample>) -> BTreeMap<String, Vec<f64>> {
    let column = |name: &str, value: fn(&SpaceSample) -> f64| {
        (format!("{name}_bytes"), part.values.iter().map(value).collect())
    };
    BTreeMap::from([
        column("used", |space| space.used),
        column("pending", |space| space.pending),
        column("reserve", |space| space.reserve),
        column("free", |space| space.free),
        column("shared", |space| space.shared),
        column("total", |space| space.total),
    ])
}

/// Who contends for which blocks.
pub(super) fn list_locks(plane: &DataPlane) -> Progress {
    let volumes: Vec<VolumeId> = plane.feed.ledger.locks().map(|(volume, _)| volume).collect();
    let look = |_: &Management, scene: Scene<'_>, volume| describe_locks(scene.plane, volume);
    Progress::gather(Route::ListLocks, volumes.into_iter(), look, |_, _, locks| {
        Described::later(move || locks)
    })
}

fn describe_locks(plane: &DataPlane, volume: VolumeId) -> Option<LockMap> {
    let feed = &plane.feed;
    let map = feed.ledger.locks_of(volume)?;
    let host = |id| feed.ledger.host_name(id).to_owned();
    let block = plane.exports.block_bytes(volume).unwrap_or(512);
    let range = |range: &ledger::LockRange| LockRange {
        lba: range.lba,
        blocks: range.bytes / block,
        attempts: range.attempts,
        miscompares: range.miscompares,
        hosts: range.hosts.iter().copied().map(host).collect(),
        last: feed.seconds(range.last) as u64,
    };
    let attempt = |attempt: &ledger::Attempt| LockAttempt {
        time: (feed.seconds(attempt.at) * 1e3).round() / 1e3,
        host: host(attempt.host),
        lba: attempt.lba,
        blocks: attempt.bytes / block,
        outcome: match attempt.outcome {
            ledger::LockOutcome::Done => LockOutcome::Done,
            ledger::LockOutcome::Miscompare => LockOutcome::Miscompare,
            ledger::LockOutcome::Refused => LockOutcome::Refused,
        },
    };
    Some(LockMap {
        volume: VolumeNames::new(plane).name(volume),
        attempts: map.attempts,
        miscompares: map.miscompares,
        contended: map.contended().into_iter().take(CONTENDED_SHOWN_MAX).map(range).collect(),
        recent: map.recent.iter().rev().map(attempt).collect(),
    })
}

/// What UNMAP was asked for of each volume, and what came of it.
pub(super) fn list_reclaim() -> Progress {
    let look = |_: &Management, scene: Scene<'_>, key: (PoolId, VolumeId)| {
        let (pool, volume) = scene.plane.volume(key)?;
        Some(describe_reclaim(scene.plane, pool, volume))
    };
    Progress::gather(Route::ListReclaim, EachVolume::default(), look, |_, _, mut list| {
        Described::list(move |described| {
            sort_by(&mut list, |a: &Reclaim, b| a.volume.cmp(&b.volume));
            list.into_iter().for_each(|reclaim| described.push(&reclaim));
        })
    })
}

fn describe_reclaim(plane: &DataPlane, pool: &Pool, volume: &store::Volume) -> Reclaim {
    let names = VolumeNames::new(plane);
    let reclaim = pool.store.reclaimed(volume.spec.id);
    Reclaim {
        volume: format!("{}/{}", pool.name, volume.spec.name),
        asked_bytes: reclaim.asked_bytes,
        already_free_bytes: reclaim.asked_bytes - reclaim.unmapped_bytes,
        unmapped_bytes: reclaim.unmapped_bytes,
        freed_bytes: reclaim.freed_bytes(),
        held_bytes: reclaim.held_bytes(),
        held_by: reclaim.held.iter().map(|held| holder(pool, &names, volume, held)).collect(),
    }
}

fn holder(
    pool: &Pool,
    names: &VolumeNames<'_>,
    volume: &store::Volume,
    held: &store::Held,
) -> Holder {
    let other = held.holder.and_then(|id| pool.store.volume(id));
    let kind = match other {
        None => HolderKind::Copies,
        Some(other) if volume.origin == Some(other.spec.id) => HolderKind::Origin,
        Some(other) if other.spec.snapshot => HolderKind::Snapshot,
        Some(_) => HolderKind::Clone,
    };
    let name = other.and_then(|other| names.get(other.spec.id));
    Holder { name, kind, bytes: held.bytes }
}

/// When each pool will be full.
pub(super) fn list_forecasts(plane: &DataPlane) -> Progress {
    let look = |_: &Management, scene: Scene<'_>, pool: PoolId| {
        Some(describe_forecast(scene.plane, scene.plane.pools.get(pool)?))
    };
    let pools = plane.pools.ids().into_iter();
    Progress::gather(Route::ListForecasts, pools, look, |_, _, mut forecasts| {
        Described::later(move || {
            forecasts.sort_by(|a: &Forecast, b| a.pool.cmp(&b.pool));
            forecasts
        })
    })
}

fn describe_forecast(plane: &DataPlane, pool: &Pool) -> Forecast {
    let space = pool.space();
    let series = plane.feed.ledger.history().pool(&pool.name);
    let forecast = series.and_then(ledger::forecast);
    let until = forecast.and_then(|forecast| forecast.seconds_until_full);
    let until = until.filter(|seconds| *seconds < 1e10).map(|seconds| seconds as u64);
    Forecast {
        pool: pool.name.clone(),
        total_bytes: space.total,
        used_bytes: space.used,
        bytes_per_second: forecast.map(|forecast| forecast.bytes_per_second),
        window_seconds: forecast.map(|forecast| forecast.window_seconds),
        seconds_until_full: until,
        full_at: until.map(|seconds| crate::events::now() + seconds),
    }
}
