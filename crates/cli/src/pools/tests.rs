use block::{DeviceKind, device_forms};

#[test]
fn the_interface_describes_every_kind_of_device_wherever_it_describes_one() {
    let document = api::document().to_string();
    let (forms, first) = (device_forms(), DeviceKind::ALL[0].form());
    assert_eq!(document.matches(&first).count(), document.matches(&forms).count());
    assert!(document.contains(&forms));
}

#[test]
fn the_page_offers_every_kind_of_device() {
    let rows = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/data/devices.ts");
    let rows = std::fs::read_to_string(rows).unwrap();
    let offered = rows.split("prefix: '").skip(1).filter_map(|rest| rest.split('\'').next());
    let kinds = DeviceKind::ALL.iter().map(|kind| kind.form());
    let prefixes: Vec<_> =
        kinds.map(|form| form.split(':').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(offered.collect::<Vec<_>>(), prefixes);
}
