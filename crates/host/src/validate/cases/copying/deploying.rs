//! N1: a template is deployed to a cluster of datastores; initial placement chooses which.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use anyhow::{Context as _, Result};
use vmfs::vmdk::DiskFormat;

use super::{READ_BACK, account, blank, machine, room, swap_bytes, swap_file};
use crate::esxi::cluster;
use crate::esxi::datastore::Datastore;
use crate::esxi::mover::{self, Clone, MachineState};
use crate::validate::Context;
use crate::validate::bench::{Bench, Vaai};
use crate::validate::cases::{Spec, Way, off, on, seconds};
use crate::validate::content;
use crate::validate::judge::{at_least, ratio_of, target};
use crate::validate::meter::Meter;
use crate::validate::model::{Run, Target, Variant};

/// Datastores of the published cluster.
const CLUSTER: usize = 4;

/// On the first datastore.
const TEMPLATE: &str = "template.vmdk";

/// A deployed machine's disk, while it is measured and read back.
const DEPLOYED: &str = "deployed.vmdk";

/// Of the figure in the report; datastores count from 1.
const PLACED: &str = "placed on datastore";

pub(super) fn n1() -> Spec {
    Spec {
        id: "N1",
        title: "Full Copy: deploy from a template to a datastore cluster over two paths",
        source: "NexentaStor 3.1.1",
        scenario: "A thin template is deployed, with a swap file, to a cluster of four datastores: to the one that then has the largest share free. Two iSCSI sessions, round robin, a new path every 10 commands.",
        published: "488 s off (best of three), 248 s on (worst of three)",
        sizes: |scale| machine("N1", scale).sizes("40 GB thin, 10.4 GB data; 4 GB swap"),
        needs: |scale| room("N1", scale),
        prepare,
        run: deploy,
        ways: const { &[off("off", "deploy"), on("on", "deploy")] },
        pairs: const { &[seconds("deploy", "off", "on", Some(488.0 / 248.0))] },
        judge,
        notes: &[
            READ_BACK,
            (
                "One address was given: both sessions went to the same portal. Give the second portal's address too (--url2) to use both.",
                |context| context.bench.paths(0).len() == 1,
            ),
            (
                "Fewer than four LUNs were given: the cluster has as many datastores as there are LUNs. Give four (--url2) for the published one.",
                |context| context.bench.count() < CLUSTER,
            ),
        ],
        ..blank()
    }
}

fn size(bench: &Bench) -> usize {
    bench.count().min(CLUSTER)
}

fn prepare(context: &Context) -> Result<()> {
    let bench = &context.bench;
    (0..size(bench)).try_for_each(|unit| bench.format(unit))?;
    let machine = machine("N1", context.scale);
    let mut stores = vec![bench.mount(0, "esx1", &Vaai::On.settings())?];
    content::create(&mut stores[0], TEMPLATE, &machine.disks[0], machine.format)?;
    context.unmount(stores)
}

/// What stands for a machine that was deployed before: its number, and the datastore.
struct Placed {
    number: u64,
    unit: usize,
}

impl Placed {
    fn path(&self) -> String {
        format!("placed{}.vmdk", self.number)
    }
}

/// In the order in which they were deployed.
fn placed(stores: &mut [Datastore]) -> Result<Vec<Placed>> {
    let mut found = Vec::new();
    for (unit, store) in stores.iter_mut().enumerate() {
        for entry in store.volume.list("")? {
            let number =
                entry.name.strip_prefix("placed").and_then(|rest| rest.strip_suffix(".vmdk"));
            let number = number.and_then(|number| number.parse().ok());
            found.extend(number.map(|number| Placed { number, unit }));
        }
    }
    found.sort_by_key(|placed| placed.number);
    Ok(found)
}

/// One machine is deployed where the cluster places it.
fn deploy(context: &Context, way: Way) -> Result<Run> {
    let bench = context.bench.with_two_paths();
    let machine = machine("N1", context.scale);
    let mut settings = way.vaai.unwrap_or(Vaai::On).settings();
    settings.round_robin_iops = 10;
    let units = 0..size(&bench);
    let mut stores: Vec<Datastore> =
        units.map(|unit| bench.mount(unit, "esx1", &settings)).collect::<Result<_>>()?;
    let number = make_room(&mut stores)?;
    let taken = machine.data() + swap_bytes(&machine);
    let unit = choose(&mut stores, taken)?;
    let others = (1..stores.len()).rev().filter(|other| *other != unit);
    let others = others.map(|other| stores.remove(other)).collect();
    context.unmount(others)?;
    let space = bench.space(unit);
    // The template's store is the first, and the chosen one the last, which may be the same.
    let destination = stores.len() - 1;
    let (report, mut run) = Meter::measure(&mut stores, |stores| {
        swap_file(&mut stores[destination], &machine)?;
        let order = Clone {
            source: (0, TEMPLATE),
            destination: (destination, DEPLOYED),
            format: machine.format,
            machine: MachineState::Still,
        };
        mover::clone(stores, order, &mut |_, _| ControlFlow::Continue(()))
    })?;
    account(&mut run, &[report]);
    run.space = [space, bench.space(unit)];
    run.figures.insert("datastores in the cluster".to_owned(), size(&bench) as f64);
    run.figures.insert(PLACED.to_owned(), unit as f64 + 1.0);
    context.unmount(stores)?;
    read_back(context, &Placed { number, unit }, taken)?;
    run.verified = Some(true);
    Ok(run)
}

/// Of those deployed before, the cluster keeps one fewer than it has datastores. Returns the
/// number of the next one.
fn make_room(stores: &mut [Datastore]) -> Result<u64> {
    let before = placed(stores)?;
    let too_many = before.len().saturating_sub(stores.len() - 1);
    for old in &before[..too_many] {
        stores[old.unit].volume.remove_disk(&old.path())?;
    }
    Ok(before.last().map_or(1, |last| last.number + 1))
}

fn choose(stores: &mut [Datastore], bytes: u64) -> Result<usize> {
    let mut spaces = Vec::new();
    for store in stores {
        let space = store.volume.space()?;
        spaces.push((space.free_bytes, space.total_bytes));
    }
    cluster::choose(&spaces, bytes).context("the machine fits on no datastore of the cluster")
}

/// Another host reads the machine. Then its space goes back to the array; a disk that was never
/// written takes its place, so that the next placement sees a datastore that is as full.
fn read_back(context: &Context, new: &Placed, taken: u64) -> Result<()> {
    let bench = &context.bench;
    let machine = machine("N1", context.scale);
    let mut stores = vec![bench.mount(new.unit, "esx2", &Vaai::On.settings())?];
    content::check(&mut stores[0], DEPLOYED, &machine.disks[0])?;
    for path in [DEPLOYED, "swap.vmdk"] {
        super::remove(bench, new.unit, &mut stores[0], path)?;
    }
    let file = stores[0].volume.create_disk(&new.path(), taken, DiskFormat::ZeroedThick)?;
    stores[0].volume.close(file)?;
    context.unmount(stores)
}

fn judge(context: &Context, variants: &[Variant]) -> Vec<Target> {
    let runs = variants.iter().flat_map(|variant| &variant.runs);
    let places = runs.filter_map(|run| run.figures.get(PLACED)).map(|unit| *unit as u64);
    let (all, distinct) = places.fold((0, BTreeSet::new()), |(count, mut distinct), unit| {
        distinct.insert(unit);
        (count + 1, distinct)
    });
    let wanted = size(&context.bench).min(all);
    let found = (all > 0).then(|| format!("{} datastores, {all} machines", distinct.len()));
    vec![
        at_least("deploy", 20.0, ratio_of(variants, "off", "on")),
        target(
            "the cluster places machines on all of its datastores",
            &format!("{wanted} datastores"),
            found,
            (all > 0).then_some(distinct.len() >= wanted),
        ),
    ]
}
