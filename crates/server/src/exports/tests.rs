use array::{BlockForm, Identification};
use block::SwitchesOff;

use super::*;

const VOLUME: VolumeId = VolumeId(7);

fn export() -> Export {
    Export {
        naa: [6; 16],
        size_bytes: 1 << 30,
        blocks: BlockForm::B4096,
        thin: true,
        write_protected: false,
        reservations_hidden: false,
        identification: None,
        switches_off: SwitchesOff::NONE,
    }
}

fn exports() -> Exports {
    Exports::new(DeviceServer::new(scsi::Identity::gantry("iqn.2026-01.example:a")))
}

fn identification(product: &str) -> Identification {
    Identification::new("VENDOR", product).unwrap()
}

#[test]
fn a_volume_is_known_from_added_to_removed() {
    let mut exports = exports();
    assert_eq!(exports.block_bytes(VOLUME), None);
    exports.tell(&ExportEvent::Added(VOLUME, export()));
    assert_eq!(exports.block_bytes(VOLUME), Some(4096));
    assert_eq!(exports.erasure(VOLUME), Erasure::None);
    exports.tell(&ExportEvent::Removed(VOLUME));
    assert_eq!(exports.block_bytes(VOLUME), None);
}

/// Management tells events of volumes that may have gone meanwhile.
#[test]
fn events_of_volumes_that_are_not_served_change_nothing() {
    let mut exports = exports();
    let space = VolumeSpace { available: 1, used: 1, warn_at: Some(1) };
    for event in [
        ExportEvent::Resized(VOLUME, 4096),
        ExportEvent::Removed(VOLUME),
        ExportEvent::ContentReplaced(VOLUME),
        ExportEvent::Space(VOLUME, space),
        ExportEvent::ThresholdReached(VOLUME),
        ExportEvent::ReservationsHidden(VOLUME, true),
        ExportEvent::OwnIdentification(VOLUME, Some(identification("P"))),
        ExportEvent::VolumeSwitchesOff(VOLUME, SwitchesOff::NONE),
    ] {
        exports.tell(&event);
        assert_eq!(exports.block_bytes(VOLUME), None, "{event:?}");
    }
}

#[test]
fn volumes_tell_alike_until_one_has_a_product_of_its_own() {
    let (mut exports, other) = (exports(), VolumeId(8));
    assert_eq!(exports.tell_alike([VOLUME, other]), None);
    for volume in [VOLUME, other] {
        exports.tell(&ExportEvent::Added(volume, export()));
    }
    assert_eq!(exports.tell_alike([VOLUME, other]), Some(true));
    exports.tell(&ExportEvent::OwnIdentification(other, Some(identification("P"))));
    assert_eq!(exports.tell_alike([VOLUME, other]), Some(false));
    exports.tell(&ExportEvent::Identification(identification("P")));
    assert_eq!(exports.tell_alike([VOLUME, other]), Some(true));
}
