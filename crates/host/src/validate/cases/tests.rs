use super::*;

#[test]
fn every_published_case_is_there_once_and_in_order() {
    let ids: Vec<&str> = all().iter().map(|spec| spec.id).collect();
    assert_eq!(ids, ORDER);
}

#[test]
fn pairs_name_variants_that_the_case_has() {
    for spec in all() {
        let has = |name: &str| spec.ways.iter().any(|way| way.name == name);
        for pair in spec.pairs {
            assert!(has(pair.off) && has(pair.on), "{} {}", spec.id, pair.name);
        }
        let mut names: Vec<_> = spec.ways.iter().map(|way| way.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), spec.ways.len(), "{}: two variants of one name", spec.id);
    }
}

#[test]
fn sizes_are_whole_blocks_and_full_sizes_are_the_published_ones() {
    assert_eq!(Scale::Full.bytes(770, 200), 77 << 30);
    assert_eq!(Scale::Scaled.bytes(2000, 200), 1 << 30);
    for scale in [Scale::Tiny, Scale::Scaled, Scale::Full] {
        for tenths in [40, 104, 770, 2000] {
            assert_eq!(scale.bytes(tenths, 200) % (1 << 20), 0);
        }
    }
    assert_eq!((size(3 << 20), size(3 << 29), size(77 << 30)).2, "77 GiB");
}
