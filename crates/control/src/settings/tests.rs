use std::collections::BTreeMap;

use api::ProblemKind;
use serde_json::json;

use super::*;
use crate::change::tests::{World, make, refusal, with_pool, written};
use crate::hosts;

fn tags(key: &str) -> SetTags {
    SetTags { tags: BTreeMap::from([(key.to_owned(), "v".to_owned())]) }
}

const fn fail_back(
    preferred_controller: Option<u16>,
    fail_back_seconds: Option<u32>,
) -> SetFailBack {
    SetFailBack { preferred_controller, fail_back_seconds }
}

#[test]
fn objects_get_tags_that_nobody_sees_by_luns() {
    let (mut draft, world) = (with_pool(), World::new());
    let host = hosts::Change::CreateHost {
        name: "h".to_owned(),
        initiators: ["iqn.x:h".to_owned()].into(),
        chap: None,
    };
    make(&mut draft, &world, &host).unwrap();
    let hosts = ["h".to_owned()].into();
    make(&mut draft, &world, &hosts::Change::SetGroup { name: "g".to_owned(), hosts }).unwrap();
    let applied = make(&mut draft, &world, &tag_host("h", tags("env"))).unwrap();
    assert_eq!(written(&applied)["tags"], json!({ "env": "v" }));
    assert_eq!((applied.touched, applied.effects), (Touched::Nobody, Vec::new()));
    let applied = make(&mut draft, &world, &tag_group("g", tags("rack"))).unwrap();
    assert_eq!(*written(&applied), json!({ "name": "g", "hosts": ["h"], "tags": { "rack": "v" } }));
    let applied = make(&mut draft, &world, &tag_pool("p", tags("tier"))).unwrap();
    assert_eq!(applied.answer, Answer::Pool("p".to_owned()));
    assert!(draft.array.tags(Tagged::Pool("p")).contains_key("tier"));
}

#[test]
fn what_is_said_of_nothing_or_cannot_be_said_is_refused() {
    let (mut draft, world) = (with_pool(), World::new());
    let percent = |soft_percent, hard_percent| api::Thresholds { soft_percent, hard_percent };
    let deletes = SetSnapshotDeletion { delete_scheduled_snapshots: true };
    for (change, kind) in [
        (tag_pool("q", tags("env")), ProblemKind::NotFound),
        (tag_host("h", tags("env")), ProblemKind::NotFound),
        (tag_group("g", tags("env")), ProblemKind::NotFound),
        (tag_pool("p", tags("no key")), ProblemKind::InvalidRequest),
        (set_pool_thresholds("q", percent(0, 0)), ProblemKind::NotFound),
        (set_pool_thresholds("p", percent(0, 90)), ProblemKind::InvalidRequest),
        (set_pool_thresholds("p", percent(91, 90)), ProblemKind::InvalidRequest),
        (set_pool_thresholds("p", percent(50, 101)), ProblemKind::InvalidRequest),
        (set_snapshot_deletion("q", deletes), ProblemKind::NotFound),
        (set_read_only("q", true), ProblemKind::NotFound),
        (set_fail_back("q", fail_back(Some(1), None)), ProblemKind::NotFound),
        (set_fail_back("p", fail_back(None, Some(60))), ProblemKind::InvalidRequest),
        (set_fail_back("p", fail_back(Some(1), Some(9))), ProblemKind::InvalidRequest),
    ] {
        assert_eq!(refusal(&mut draft, &world, &change), kind, "{change:?}");
    }
}

#[test]
fn a_pool_with_other_thresholds_is_told_of_again() {
    let (mut draft, world) = (with_pool(), World::new());
    let change = set_pool_thresholds("p", api::Thresholds { soft_percent: 40, hard_percent: 50 });
    let applied = make(&mut draft, &world, &change).unwrap();
    assert_eq!(applied.effects, [Effect::Forget(Forgotten::PoolFill("p".to_owned()))]);
    assert_eq!(draft.array.pools["p"].thresholds.hard_percent, 50);
    let deletes = SetSnapshotDeletion { delete_scheduled_snapshots: true };
    let applied = make(&mut draft, &world, &set_snapshot_deletion("p", deletes)).unwrap();
    assert_eq!(applied.effects, []);
    assert!(draft.array.pools["p"].delete_scheduled_snapshots);
    let applied = make(&mut draft, &world, &set_read_only("p", true)).unwrap();
    assert_eq!(applied.answer, Answer::Pool("p".to_owned()));
    assert!(draft.array.pools["p"].read_only);
    let said = fail_back(Some(2), Some(60));
    let applied = make(&mut draft, &world, &set_fail_back("p", said)).unwrap();
    assert_eq!(applied.answer, Answer::Pool("p".to_owned()));
    let kept = draft.array.pools["p"].fail_back;
    assert_eq!((kept.preferred_controller, kept.after_seconds), (Some(2), Some(60)));
}
