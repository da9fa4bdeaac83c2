use array::{Access, Configuration, Credential, Host, Schedule, Secret, Secrets, Tags};

use super::*;

const V: VolumeId = VolumeId(7);

fn draft(name: &str) -> Draft {
    let mut array = Configuration::new(name.to_owned());
    array.uuid = name.repeat(2);
    Draft { array, secrets: Secrets::default() }
}

fn host(number: u64, chap_name: Option<&str>) -> Host {
    let initiators = BTreeSet::from([format!("iqn.2026-01.org.example:{number}")]);
    Host { initiators, chap_name: chap_name.map(str::to_owned), ..Host::default() }
}

fn device(path: &str) -> PoolDevice {
    PoolDevice { device: format!("file:/{path}").parse().unwrap(), size_bytes: 1 << 30 }
}

/// An array with a pool of which everything is used that travels.
fn origin() -> Draft {
    let mut draft = draft("iqn.2026-11.io.gantry:origin");
    let array = &mut draft.array;
    array.generation = 9;
    let pool = Pool {
        uuid: [3; 16],
        devices: vec![device("old")],
        thresholds: array::Thresholds { soft_percent: 50, hard_percent: 60 },
        delete_scheduled_snapshots: true,
        read_only: false,
        mirroring: Mirroring::default(),
        departure: None,
        fail_back: array::FailBack { preferred_controller: Some(2), after_seconds: Some(60) },
    };
    array.pools.insert("fast".to_owned(), pool);
    array.create_host("esx", host(1, Some("esx"))).unwrap();
    array.create_host("other", host(2, None)).unwrap();
    array.set_host_group("all", ["esx", "other"].map(str::to_owned).into(), &REST).unwrap();
    array.map_volume(V, "all", (Some(5), Access::ReadWrite), &REST).unwrap();
    let tags = Tags::from([("a".to_owned(), "b".to_owned())]);
    array.set_tags(Tagged::Volume(V), tags.clone()).unwrap();
    array.set_tags(Tagged::Pool("fast"), tags).unwrap();
    let schedule = Schedule {
        pool: "fast".to_owned(),
        volumes: BTreeSet::from(["v".to_owned()]),
        every_seconds: 60,
        offset_seconds: 0,
        keep: 3,
        lock_seconds: Some(1000),
        enabled: true,
    };
    array.set_schedule("hourly", schedule, 600).unwrap();
    array.begin_run("hourly", 660, &[VolumeId(8)]).unwrap();
    let secret = Secret::new("a secret of twelve".to_owned()).unwrap();
    let chap = Chap { initiator: Credential { name: "esx".to_owned(), secret }, target: None };
    draft.secrets.hosts.insert("esx".to_owned(), chap);
    draft
}

fn found(origin: &Draft, owner: Option<OwnerRecord>) -> FoundPool {
    let seal = |key: &RecordKey| Some(format!("sealed {key:?}"));
    let keys = origin.array.record_keys("fast", |_| true);
    let version = origin.array.generation;
    let mut records: BTreeMap<RecordKey, Found> = keys
        .into_iter()
        .map(|key| {
            let mut record = origin.array.record(&key);
            if let Some(Record::Host(record)) = &mut record {
                record.chap = record.host.chap_name.as_ref().and_then(|_| seal(&key));
            }
            (key, Found { version, record })
        })
        .collect();
    if let Some(owner) = owner {
        let record = Some(Record::Owner(owner));
        records.insert(RecordKey::Owner, Found { version, record });
    }
    let volumes = BTreeMap::from([(V, "v".to_owned()), (VolumeId(8), "s".to_owned())]);
    FoundPool {
        uuid: [3; 16],
        devices: vec![device("new")],
        members: vec![],
        mirrors: vec![],
        volumes,
        records,
    }
}

fn owner(exported: bool) -> OwnerRecord {
    let target_name = "iqn.2026-11.io.gantry:origin".to_owned();
    let array = target_name.repeat(2);
    OwnerRecord { array, target_name, machine: Some("m".to_owned()), exported, controller: 0 }
}

fn opened(key: &RecordKey, sealed: &str) -> Account {
    assert_eq!(sealed, format!("sealed {key:?}"));
    Account::Known(origin().secrets.hosts["esx"].clone())
}

fn closed(_: &RecordKey, _: &str) -> Account {
    Account::Unknown("another key sealed it")
}

fn solutions(report: &PoolImport) -> Vec<&str> {
    report.collisions.iter().map(|collision| collision.solution.as_str()).collect()
}

#[test]
fn an_empty_array_becomes_the_one_that_hosts_know() {
    let origin = origin();
    let mut after = draft("iqn.2026-11.io.gantry:new");
    let choices = Choices { machine: Some("m".to_owned()), ..Choices::default() };
    let pool = found(&origin, Some(owner(false)));
    let report = take(&pool, &mut after, (&choices, 700), &opened);
    assert_eq!((solutions(&report), &report.missing), (vec![], &vec![]), "{report:?}");
    assert_eq!(report.target_name, "iqn.2026-11.io.gantry:origin");
    let mut expected = origin.clone();
    expected.array.pools.get_mut("fast").unwrap().devices = vec![device("new")];
    assert_eq!(after.array, expected.array);
    assert_eq!(after.secrets, expected.secrets);
}

#[test]
fn without_the_key_accounts_come_without_secrets_and_stay_sealed() {
    let mut after = draft("iqn.2026-11.io.gantry:new");
    let pool = found(&origin(), Some(owner(true)));
    let report = take(&pool, &mut after, (&Choices::default(), 700), &closed);
    assert_eq!(solutions(&report), Vec::<&str>::new());
    assert!(report.missing[0].contains("CHAP secret of host esx"), "{:?}", report.missing);
    assert_eq!(after.array.hosts["esx"].chap_name.as_deref(), Some("esx"), "nobody gets in");
    assert!(after.secrets.hosts.is_empty());
    assert!(after.secrets.sealed.contains_key("esx"));
}

#[test]
fn a_pool_that_another_array_used_last_is_refused_unless_that_was_here_or_gave_it_away() {
    let origin = origin();
    for (exported, machine, force, refused) in [
        (false, None, Owner::Asked, true),
        (false, Some("other"), Owner::Asked, true),
        (false, Some("m"), Owner::Asked, false),
        (true, None, Owner::Asked, false),
        (false, None, Owner::Overruled, false),
    ] {
        let machine = machine.map(str::to_owned);
        let choices = Choices { machine, owner: force, ..Choices::default() };
        let mut after = draft("iqn.2026-11.io.gantry:new");
        let pool = found(&origin, Some(owner(exported)));
        let report = take(&pool, &mut after, (&choices, 700), &opened);
        assert_eq!(!report.collisions.is_empty(), refused, "{choices:?}");
    }
}

/// Each collision names what solves it, and that does.
#[test]
fn what_collides_is_told_with_what_solves_it() {
    let pool = found(&origin(), Some(owner(true)));
    let here = || {
        let mut here = draft("iqn.2026-11.io.gantry:here");
        let array = &mut here.array;
        let other = Pool { uuid: [4; 16], ..origin().array.pools["fast"].clone() };
        array.pools.insert("fast".to_owned(), other);
        array.create_host("esx", host(9, None)).unwrap();
        array.create_host("third", host(2, None)).unwrap();
        array.map_volume(VolumeId(1), ANY_HOST, (Some(5), Access::ReadWrite), &REST).unwrap();
        let schedule = origin().array.schedules["hourly"].schedule.clone();
        array.set_schedule("hourly", schedule, 600).unwrap();
        here
    };
    let report = take(&pool, &mut here(), (&Choices::default(), 700), &opened);
    let all = solutions(&report).join("; ");
    for option in [
        "--rename",
        "--adopt-target-name",
        "--keep-target-name",
        "--existing-hosts",
        "--new-luns",
        "--skip-schedules",
    ] {
        assert!(all.contains(option), "{option}: {all}");
    }
    let solved = Choices {
        rename: Some("second".to_owned()),
        target_name: TargetName::Keep,
        hosts: Hosts::KeepExisting,
        luns: Luns::New,
        schedules: Schedules::Skip,
        ..Choices::default()
    };
    let mut after = here();
    let report = take(&pool, &mut after, (&solved, 700), &opened);
    assert_eq!(solutions(&report), Vec::<&str>::new(), "{report:?}");
    assert_eq!(after.array.target_name, "iqn.2026-11.io.gantry:here");
    assert_eq!(after.array.hosts["esx"], host(9, None), "as it was here");
    assert_ne!(after.array.lun_of(V), Some(5));
    assert!(after.array.maps_of(V).any(|map| map.host == "all"));
    let skipped = Choices { hosts: Hosts::Skip, target_name: TargetName::Adopt, ..solved };
    let mut after = here();
    let report = take(&pool, &mut after, (&skipped, 700), &opened);
    assert_eq!(solutions(&report), Vec::<&str>::new());
    assert_eq!(after.array.target_name, "iqn.2026-11.io.gantry:origin");
    assert_eq!(after.array.maps_of(V).count(), 0);
    assert_eq!(after.array.tags(Tagged::Volume(V)).len(), 1);
}

#[test]
fn a_pool_that_is_here_and_one_without_records() {
    let mut here = origin();
    let report = take(&found(&here.clone(), None), &mut here, (&Choices::default(), 0), &opened);
    assert!(report.collisions[0].what.contains("already, as 'fast'"), "{report:?}");
    let mut pool = found(&origin(), None);
    pool.records.clear();
    let mut after = draft("iqn.2026-11.io.gantry:new");
    let report = take(&pool, &mut after, (&Choices::default(), 0), &opened);
    assert_eq!((report.pool.as_str(), report.collisions.len()), ("imported", 0));
    assert!(report.missing[0].contains("before pools kept records"));
    assert!(report.changes.iter().any(|change| change.contains("--no-pool-upgrade")), "{report:?}");
}

/// The data directory is an earlier one, of which the pool knows what came later.
#[test]
fn what_is_newer_in_a_pool_is_taken() {
    let mut earlier = origin();
    let mut later = origin();
    later.array.generation = 12;
    let array = &mut later.array;
    array.unmap_volume(V, None, 0).unwrap();
    array.set_host_group("all", BTreeSet::new(), &REST).unwrap();
    array.delete_host("other", 0).unwrap();
    array.create_host("fresh", host(2, None)).unwrap();
    array.map_volume(V, "fresh", (Some(5), Access::ReadOnly), &REST).unwrap();
    array.begin_run("hourly", 720, &[VolumeId(9)]).unwrap();
    array.schedule_reached("hourly", 720);
    array.pools.get_mut("fast").unwrap().mirroring.spares = vec![device("spare")];
    array.generation = 12;
    let newer = array.changed_since(&earlier.array).into_iter().map(|key| {
        let record = array.record(&key);
        (key, Found { version: 12, record })
    });
    let newer: BTreeMap<_, _> = newer.collect();
    let problems = merge("fast", &newer, &mut earlier, &opened);
    // A host that is gone and one that has its initiator cannot be there at once, whatever the order.
    assert_eq!(problems, Vec::<String>::new());
    let left = later.array.changed_since(&earlier.array);
    assert_eq!(left, BTreeSet::new(), "numbers that rest are not compared");
}

/// What was asked for before goes on: a device leaves when the one that replaces it is current, and a spare
/// steps in where it was one.
#[test]
fn replacements_and_spares_come_with_a_pool_that_was_used_here() {
    let known = |uuid, replaces| KnownMember {
        uuid: [uuid; 16],
        device: device("new").device,
        replaces,
        is_witness: false,
    };
    let mut before = origin();
    let pool = before.array.pools.get_mut("fast").unwrap();
    pool.mirroring.members = vec![known(1, None), known(2, Some([1; 16]))];
    pool.mirroring.spares = vec![device("spare"), device("taken")];
    let pool = |machine: &str| FoundPool {
        members: vec![known(1, None), known(2, None)],
        ..found(&before, Some(OwnerRecord { machine: Some(machine.to_owned()), ..owner(true) }))
    };
    let other = Pool { devices: vec![device("taken")], ..before.array.pools["fast"].clone() };
    let import = |machine| {
        let mut after = draft("iqn.2026-11.io.gantry:new");
        after.array.pools.insert("other".to_owned(), Pool { uuid: [9; 16], ..other.clone() });
        after.array.pools.get_mut("other").unwrap().mirroring = Mirroring::default();
        let choices = Choices { machine: Some("m".to_owned()), ..Choices::default() };
        let report = take(&pool(machine), &mut after, (&choices, 0), &opened);
        (after.array.pools["fast"].mirroring.clone(), report.changes)
    };
    let (here, changes) = import("m");
    assert_eq!(here.members, [known(1, None), known(2, Some([1; 16]))]);
    assert_eq!(here.spares, [device("spare")]);
    assert!(
        changes.iter().any(|change| change.contains("spare file:/spare stays one")),
        "{changes:?}"
    );
    assert!(changes.iter().any(|change| change.contains("taken does not come: another pool")));
    let (elsewhere, changes) = import("n");
    assert_eq!((elsewhere.members.len(), elsewhere.spares.len()), (2, 0));
    assert!(changes.iter().any(|change| change.contains("it was on another machine")));
}
