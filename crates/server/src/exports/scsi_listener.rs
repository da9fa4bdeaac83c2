//! Applies export events to the SCSI device server (SCSI's listener at the seam).

use array::Identification;
use scsi::{DeviceServer, LogicalUnitSpec, UnitSpace};

use super::{Export, ExportEvent, Listener, RodTokenSpace};

impl Listener for DeviceServer {
    fn apply(&mut self, event: &ExportEvent) {
        match *event {
            ExportEvent::Added(volume, ref export) => {
                self.add_unit(volume, unit_spec(export));
                self.set_write_protected(volume, export.write_protected);
                self.set_reservations_hidden(volume, export.reservations_hidden);
                self.set_own_identification(volume, export.identification.map(to_scsi));
                self.set_switches_off_of_unit(volume, export.switches_off);
            }
            ExportEvent::Absent(volume, ref export) => {
                self.add_absent_unit(volume, unit_spec(export));
                self.set_own_identification(volume, export.identification.map(to_scsi));
                self.set_switches_off_of_unit(volume, export.switches_off);
            }
            ExportEvent::AllPoolsOpen => self.remove_absent_units(),
            ExportEvent::Resized(volume, size_bytes) => self.resize_unit(volume, size_bytes),
            ExportEvent::Removed(volume) => self.remove_unit(volume),
            ExportEvent::ContentReplaced(volume) => self.announce_medium_change(volume),
            ExportEvent::Space(volume, space) => {
                let unit_space =
                    UnitSpace { available_bytes: space.available, used_bytes: space.used };
                self.set_default_threshold(volume, space.warn_at);
                self.set_space(volume, unit_space);
            }
            ExportEvent::ThresholdReached(volume) => self.announce_threshold(volume),
            ExportEvent::ReservationsHidden(volume, hidden) => {
                self.set_reservations_hidden(volume, hidden);
            }
            ExportEvent::Identification(identification) => {
                self.set_identification(to_scsi(identification));
            }
            ExportEvent::OwnIdentification(volume, own) => {
                self.set_own_identification(volume, own.map(to_scsi));
            }
            ExportEvent::SwitchesOff(off) => self.set_switches_off(off),
            ExportEvent::VolumeSwitchesOff(volume, off) => {
                self.set_switches_off_of_unit(volume, off);
            }
            ExportEvent::PathState { group, state } => self.set_access_state(group, state),
            ExportEvent::Ports { ref own, ref others } => self.set_ports(own.clone(), others),
            ExportEvent::UnitAccess(volume, state) => self.set_unit_access(volume, state),
            ExportEvent::PeerAccess(volume, ref told) => self.set_peer_access(volume, told),
            ExportEvent::RodTokenSpace(of, RodTokenSpace { volume, size_bytes }) => {
                self.set_rod_token_space(of, scsi::RodTokenSpace { volume, size_bytes });
            }
        }
    }
}

const fn unit_spec(export: &Export) -> LogicalUnitSpec {
    LogicalUnitSpec {
        naa: export.naa,
        size_bytes: export.size_bytes,
        block_length: export.blocks.logical_block_length(),
        physical_block_exponent: export.blocks.physical_block_exponent(),
        thin: export.thin,
    }
}

/// As the device server has it.
pub(crate) fn to_scsi(identification: Identification) -> scsi::Identification {
    scsi::Identification {
        vendor: identification.vendor_field(),
        product: identification.product_field(),
    }
}
