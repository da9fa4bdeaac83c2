//! Time series of the array, its volumes, hosts and pools: which exist, and which makes room for a
//! new one.

use std::collections::BTreeMap;

use block::VolumeId;

use crate::hosts::HostId;
use crate::limits::{HOST_SERIES_MAX, POOL_SERIES_MAX, VOLUME_SERIES_MAX};
use crate::series::{FlowSample, Series, SpaceSample};

/// Subject of a series of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The whole array.
    Total,
    /// One volume.
    Volume(VolumeId),
    /// One host.
    Host(HostId),
}

/// A week of everything.
#[derive(Debug)]
pub struct History {
    flows: BTreeMap<Subject, Watched>,
    pools: BTreeMap<String, Series<SpaceSample>>,
}

#[derive(Debug)]
struct Watched {
    series: Series<FlowSample>,
    /// The second in which anything was done last.
    busy: u64,
}

impl Default for History {
    fn default() -> Self {
        let total = Watched { series: Series::starting_at(0), busy: 0 };
        Self { flows: BTreeMap::from([(Subject::Total, total)]), pools: BTreeMap::new() }
    }
}

impl History {
    /// Adds what was done in a second; who did nothing is not among it.
    pub(crate) fn push(&mut self, second: u64, flows: &BTreeMap<Subject, FlowSample>) {
        for subject in flows.keys() {
            if !self.flows.contains_key(subject) {
                self.make_room(*subject);
                let series = Series::starting_at(second);
                self.flows.insert(*subject, Watched { series, busy: second });
            }
        }
        for (subject, watched) in &mut self.flows {
            let flow = flows.get(subject);
            if watched.series.next() != second {
                watched.series = Series::starting_at(second);
            }
            watched.series.push(flow.copied().unwrap_or_default());
            if flow.is_some() {
                watched.busy = second;
            }
        }
    }

    fn make_room(&mut self, new: Subject) {
        let max = match new {
            Subject::Total => return,
            Subject::Volume(_) => VOLUME_SERIES_MAX,
            Subject::Host(_) => HOST_SERIES_MAX,
        };
        let is_alike =
            |subject: &Subject| std::mem::discriminant(subject) == std::mem::discriminant(&new);
        let alike = self.flows.iter().filter(|(subject, _)| is_alike(subject));
        let (count, idle) = (alike.clone().count(), alike.min_by_key(|(_, watched)| watched.busy));
        if let Some((&idle, _)) = idle.filter(|_| count >= max) {
            self.flows.remove(&idle);
        }
    }

    /// Adds where the space of pools is; those that are not named are forgotten.
    pub(crate) fn push_pools(&mut self, second: u64, pools: &BTreeMap<String, SpaceSample>) {
        self.pools.retain(|name, _| pools.contains_key(name));
        for (name, space) in pools {
            if self.pools.len() < POOL_SERIES_MAX || self.pools.contains_key(name) {
                let series = self.pools.entry(name.clone());
                let series = series.or_insert_with(|| Series::starting_at(second));
                if series.next() != second {
                    *series = Series::starting_at(second);
                }
                series.push(*space);
            }
        }
    }

    /// The series of a subject.
    pub fn flow(&self, subject: Subject) -> Option<&Series<FlowSample>> {
        self.flows.get(&subject).map(|watched| &watched.series)
    }

    /// Everything that has a series of flows.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> {
        self.flows.keys().copied()
    }

    /// The series of a pool.
    pub fn pool(&self, name: &str) -> Option<&Series<SpaceSample>> {
        self.pools.get(name)
    }

    /// The names of pools that have one.
    pub fn pools(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_that_was_idle_longest_makes_room() {
        let mut history = History::default();
        let flows = |ids: std::ops::Range<u64>| {
            ids.map(|id| (Subject::Volume(VolumeId(id)), FlowSample::default())).collect()
        };
        history.push(0, &flows(0..VOLUME_SERIES_MAX as u64));
        history.push(1, &flows(1..VOLUME_SERIES_MAX as u64));
        history.push(2, &flows(1000..1001));
        assert!(history.flow(Subject::Volume(VolumeId(0))).is_none());
        assert!(history.flow(Subject::Volume(VolumeId(1))).is_some());
        assert!(history.flow(Subject::Volume(VolumeId(1000))).is_some());
        assert_eq!(history.subjects().count(), VOLUME_SERIES_MAX + 1);
        assert!(history.flow(Subject::Total).is_some());
    }

    #[test]
    fn a_pool_that_is_gone_is_forgotten() {
        let mut history = History::default();
        let named = |name: &str| BTreeMap::from([(name.to_owned(), SpaceSample::default())]);
        history.push_pools(0, &named("a"));
        history.push_pools(1, &named("b"));
        assert_eq!(history.pools().collect::<Vec<_>>(), ["b"]);
        assert!(history.pool("a").is_none());
    }
}
