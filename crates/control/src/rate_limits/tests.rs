use api::ProblemKind;
use array::Host;

use super::*;
use crate::change::tests::{World, empty, make, refusal, volume};

const SLOW: SetRateLimits =
    SetRateLimits { iops: Some(500), bytes_per_second: Some(10 << 20), burst_ms: None };

fn note(object: &str, message: &str) -> Effect {
    Effect::note(Severity::Information, object.to_owned(), message)
}

#[test]
fn what_is_not_named_stays_and_zero_takes_a_limit_away() {
    let (mut draft, world) = (empty(), World::new());
    let applied = make(&mut draft, &world, &set_of_volume(&volume(), SLOW, "ann")).unwrap();
    assert_eq!(applied.answer, Answer::Volume(volume().place()));
    let name = world.name_of(volume().id);
    let message =
        "was limited to 500 IOPS and 10485760 bytes per second, in bursts of 100 ms, by ann";
    assert_eq!(applied.effects, [note(&name, message)]);
    let less = SetRateLimits { iops: Some(0), burst_ms: Some(2000), ..SetRateLimits::default() };
    make(&mut draft, &world, &set_of_volume(&volume(), less, "ann")).unwrap();
    let left = RateLimits { iops: None, bytes_per_second: Some(10 << 20), burst_ms: 2000 };
    assert_eq!(draft.array.presentation(volume().id).limits, left);
    let none = SetRateLimits { bytes_per_second: Some(0), burst_ms: Some(0), iops: None };
    let applied = make(&mut draft, &world, &set_of_volume(&volume(), none, "bob")).unwrap();
    assert_eq!(draft.array.presentation(volume().id).limits, RateLimits::default());
    let message = "was left without limits by bob";
    assert_eq!(applied.effects, [note(&name, message)]);
    let again = make(&mut draft, &world, &set_of_volume(&volume(), none, "bob")).unwrap();
    assert_eq!(again.effects, []);
}

#[test]
fn a_host_has_limits_and_a_share_and_wrong_ones_change_nothing() {
    let (mut draft, world) = (empty(), World::new());
    let wanted = SetHostLimits { iops: Some(100), share: Some(4), ..SetHostLimits::default() };
    let change = set_of_host("esx", wanted, "ann");
    assert_eq!(refusal(&mut draft, &world, &change), ProblemKind::NotFound);
    draft.array.create_host("esx", Host::default()).unwrap();
    let applied = make(&mut draft, &world, &change).unwrap();
    assert_eq!(applied.touched, Touched::Nobody);
    let host = describe_host(&draft.array, &draft.secrets, "esx");
    assert_eq!((host.limits.iops, host.share), (Some(100), 4));
    assert_eq!(applied.effects.len(), 2);
    let before = draft.array.clone();
    for wrong in [
        SetHostLimits { iops: Some(9), ..SetHostLimits::default() },
        SetHostLimits { bytes_per_second: Some(1000), ..SetHostLimits::default() },
        SetHostLimits { burst_ms: Some(9), ..SetHostLimits::default() },
        SetHostLimits { share: Some(0), ..SetHostLimits::default() },
        SetHostLimits { share: Some(101), ..SetHostLimits::default() },
    ] {
        let kind = refusal(&mut draft, &world, &set_of_host("esx", wrong, "ann"));
        assert_eq!(kind, ProblemKind::InvalidRequest, "{wrong:?}");
    }
    assert_eq!(draft.array, before);
}

#[test]
fn what_is_described_is_read_back() {
    let limits = RateLimits { iops: Some(10), bytes_per_second: Some(1 << 20), burst_ms: 77 };
    assert_eq!(parse(describe(limits)), limits);
}
