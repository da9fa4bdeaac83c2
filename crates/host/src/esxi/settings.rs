//! Advanced settings and claim rules, as ESXi names them.

use serde::{Deserialize, Serialize};

/// A host's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// /DataMover/HardwareAcceleratedMove: copy by EXTENDED COPY.
    pub hardware_accelerated_move: bool,
    /// /DataMover/HardwareAcceleratedInit: zero by WRITE SAME.
    pub hardware_accelerated_init: bool,
    /// /VMFS3/HardwareAcceleratedLocking: lock by COMPARE AND WRITE.
    pub hardware_accelerated_locking: bool,
    /// /DataMover/MaxHWTransferSize, in KiB.
    pub max_hw_transfer_size: u64,
    /// /VMFS3/UseATSForHBOnVMFS5.
    pub ats_for_heartbeat: bool,
    /// /VMFS3/UseATSForHBOnVMFS3; there are no such volumes here.
    pub ats_for_heartbeat_vmfs3: bool,
    /// /VMFS3/EnableBlockDelete: a guest's UNMAP reaches the array.
    pub enable_block_delete: bool,
    /// /Misc/APDHandlingEnable: after a time without any path commands fail.
    pub apd_handling: bool,
    /// /Misc/APDTimeout: that time, in seconds.
    pub apd_timeout: u64,
    /// VMW_PSP_RR: commands on a path before the next one.
    pub round_robin_iops: u64,
    /// Commands of a copy or of an UNMAP that are outstanding at once.
    pub outstanding: u64,
    /// Commands that zero, offloaded or not, that are outstanding at once.
    pub outstanding_zeroes: u64,
    /// Claim rule -a: sizes of EXTENDED COPY as the array reports them.
    pub use_array_values: bool,
    /// Claim rule -s: several segments in one command.
    pub use_multiple_segments: bool,
    /// Claim rule -m: bytes of one command, in MiB; 0: the array's.
    pub claim_max_transfer_mib: u64,
    /// Claim rule -k: the same in KiB, instead of -m.
    pub claim_max_transfer_kib: u64,
    /// VAAI claim rules as they are saved, in the order of their numbers.
    pub claim_rules: Vec<ClaimRule>,
    /// Those that are loaded: the others count from the next load on.
    pub loaded_claim_rules: Vec<ClaimRule>,
}

/// A VAAI claim rule: how devices of some arrays are copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimRule {
    /// Its number: of the rules that match a device, that with the smallest counts.
    pub number: u64,
    /// VENDOR IDENTIFICATION, or `*`.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION, or `*`.
    pub model: String,
    /// VMW_VAAIP_T10, or another plug-in's name.
    pub plugin: String,
    /// -a.
    pub use_array_values: bool,
    /// -s.
    pub use_multiple_segments: bool,
    /// -m, in MiB.
    pub max_transfer_mib: u64,
    /// -k, in KiB.
    pub max_transfer_kib: u64,
}

impl ClaimRule {
    fn matches(&self, vendor: &str, model: &str) -> bool {
        (self.vendor == "*" || self.vendor == vendor) && (self.model == "*" || self.model == model)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hardware_accelerated_move: true,
            hardware_accelerated_init: true,
            hardware_accelerated_locking: true,
            max_hw_transfer_size: 4096,
            ats_for_heartbeat: true,
            ats_for_heartbeat_vmfs3: false,
            enable_block_delete: false,
            apd_handling: true,
            apd_timeout: 140,
            round_robin_iops: 1000,
            outstanding: 8,
            outstanding_zeroes: 32,
            use_array_values: false,
            use_multiple_segments: false,
            claim_max_transfer_mib: 0,
            claim_max_transfer_kib: 0,
            claim_rules: Vec::new(),
            loaded_claim_rules: Vec::new(),
        }
    }
}

/// One setting as `esxcli system settings advanced` knows it.
pub struct Advanced {
    /// Its path.
    pub path: &'static str,
    /// Its default.
    pub default: u64,
    /// Its smallest value.
    pub min: u64,
    /// Its largest value.
    pub max: u64,
    /// What ESXi says of it.
    pub description: &'static str,
    place: fn(&mut Settings) -> Place<'_>,
}

enum Place<'a> {
    Switch(&'a mut bool),
    Number(&'a mut u64),
}

/// All that can be listed and set.
pub const ADVANCED: [Advanced; 9] = [
    Advanced {
        path: "/DataMover/HardwareAcceleratedMove",
        default: 1,
        min: 0,
        max: 1,
        description: "Enable hardware accelerated VMFS data movement (requires compliant hardware)",
        place: |settings| Place::Switch(&mut settings.hardware_accelerated_move),
    },
    Advanced {
        path: "/DataMover/HardwareAcceleratedInit",
        default: 1,
        min: 0,
        max: 1,
        description: "Enable hardware accelerated VMFS data initialization (requires compliant hardware)",
        place: |settings| Place::Switch(&mut settings.hardware_accelerated_init),
    },
    Advanced {
        path: "/DataMover/MaxHWTransferSize",
        default: 4096,
        min: 64,
        max: 16_384,
        description: "Maximum transfer size in KB for hardware accelerated data movement",
        place: |settings| Place::Number(&mut settings.max_hw_transfer_size),
    },
    Advanced {
        path: "/VMFS3/HardwareAcceleratedLocking",
        default: 1,
        min: 0,
        max: 1,
        description: "Enable hardware accelerated VMFS locking (requires compliant hardware)",
        place: |settings| Place::Switch(&mut settings.hardware_accelerated_locking),
    },
    Advanced {
        path: "/VMFS3/UseATSForHBOnVMFS5",
        default: 1,
        min: 0,
        max: 1,
        description: "Use ATS for HB on ATS supported VMFS5 volumes",
        place: |settings| Place::Switch(&mut settings.ats_for_heartbeat),
    },
    Advanced {
        path: "/VMFS3/UseATSForHBOnVMFS3",
        default: 0,
        min: 0,
        max: 1,
        description: "Use ATS for HB on ATS supported VMFS3 volumes",
        place: |settings| Place::Switch(&mut settings.ats_for_heartbeat_vmfs3),
    },
    Advanced {
        path: "/VMFS3/EnableBlockDelete",
        default: 0,
        min: 0,
        max: 1,
        description: "Enable VMFS block delete",
        place: |settings| Place::Switch(&mut settings.enable_block_delete),
    },
    Advanced {
        path: "/Misc/APDHandlingEnable",
        default: 1,
        min: 0,
        max: 1,
        description: "Enable Storage APD Handling",
        place: |settings| Place::Switch(&mut settings.apd_handling),
    },
    Advanced {
        path: "/Misc/APDTimeout",
        default: 140,
        min: 20,
        max: 99_999,
        description: "Number of seconds a device can be in APD before failing I/O",
        place: |settings| Place::Number(&mut settings.apd_timeout),
    },
];

impl Advanced {
    /// The setting at a path, whatever the case of its letters: vendors write them differently.
    pub fn find(path: &str) -> Option<&'static Self> {
        ADVANCED.iter().find(|setting| setting.path.eq_ignore_ascii_case(path))
    }

    /// The last part of its path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }

    /// Its value.
    pub fn get(&self, settings: &Settings) -> u64 {
        match (self.place)(&mut settings.clone()) {
            Place::Switch(value) => u64::from(*value),
            Place::Number(value) => *value,
        }
    }

    /// Changes it, if the value is allowed.
    pub fn set(&self, settings: &mut Settings, value: u64) -> bool {
        let allowed = (self.min..=self.max).contains(&value);
        if allowed {
            match (self.place)(settings) {
                Place::Switch(place) => *place = value == 1,
                Place::Number(place) => *place = value,
            }
        }
        allowed
    }
}

/// How EXTENDED COPY is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyShape {
    /// Bytes of a segment at most: what 16 bits of blocks can say.
    pub segment_bytes: u64,
    /// Segments of a command at most.
    pub segments: u64,
    /// Bytes of a command at most.
    pub command_bytes: u64,
}

/// 65,535 blocks.
const SEGMENT_BYTES_MAX: u64 = 65_535 * 512;

impl Settings {
    /// The settings for a device of a vendor and model: with the loaded claim rule for it.
    #[must_use]
    pub fn for_device(&self, vendor: &str, model: &str) -> Self {
        let mut settings = self.clone();
        if let Some(rule) = self.claim_rule(vendor, model) {
            settings.use_array_values = rule.use_array_values;
            settings.use_multiple_segments = rule.use_multiple_segments;
            settings.claim_max_transfer_mib = rule.max_transfer_mib;
            settings.claim_max_transfer_kib = rule.max_transfer_kib;
        }
        settings
    }

    /// The loaded claim rule for devices of a vendor and model.
    pub fn claim_rule(&self, vendor: &str, model: &str) -> Option<&ClaimRule> {
        self.loaded_claim_rules.iter().find(|rule| rule.matches(vendor, model))
    }

    /// The shape for a LUN that reports these limits (segments, bytes of a segment).
    pub fn copy_shape(&self, reported: Option<(u16, u32)>) -> CopyShape {
        let plain = self.max_hw_transfer_size * 1024;
        let Some((segments, length)) = reported.filter(|_| self.use_array_values) else {
            let segment_bytes = plain.min(SEGMENT_BYTES_MAX);
            return CopyShape { segment_bytes, segments: 1, command_bytes: segment_bytes };
        };
        let length = if length == 0 { SEGMENT_BYTES_MAX } else { u64::from(length) / 512 * 512 };
        let segment_bytes = length.clamp(512, SEGMENT_BYTES_MAX);
        let segments = if self.use_multiple_segments { u64::from(segments) } else { 1 };
        let whole = segment_bytes * segments;
        let command_bytes = match (self.claim_max_transfer_mib, self.claim_max_transfer_kib) {
            (0, 0) => whole,
            (0, kib) => whole.min(kib << 10),
            (mib, _) => whole.min(mib << 20),
        };
        CopyShape { segment_bytes: segment_bytes.min(command_bytes), segments, command_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(number: u64, vendor: &str, model: &str) -> ClaimRule {
        let (vendor, model) = (vendor.to_owned(), model.to_owned());
        ClaimRule {
            number,
            vendor,
            model,
            use_array_values: true,
            max_transfer_mib: number,
            ..ClaimRule::default()
        }
    }

    #[test]
    fn the_first_loaded_rule_that_matches_counts() {
        let rules = vec![rule(1, "ONE", "A"), rule(2, "ONE", "*"), rule(3, "*", "C")];
        let settings = Settings { loaded_claim_rules: rules, ..Settings::default() };
        for (vendor, model, size) in
            [("ONE", "A", 1), ("ONE", "B", 2), ("TWO", "C", 3), ("TWO", "A", 0)]
        {
            let found = settings.for_device(vendor, model);
            assert_eq!(found.claim_max_transfer_mib, size, "{vendor} {model}");
            assert_eq!(found.use_array_values, size != 0);
        }
    }

    #[test]
    fn without_a_rule_copies_have_one_segment_of_the_setting_and_with_one_the_arrays() {
        let limits = Some((64, 65_535 * 512));
        let mut settings = Settings::default();
        let plain = CopyShape { segment_bytes: 4 << 20, segments: 1, command_bytes: 4 << 20 };
        assert_eq!(settings.copy_shape(limits), plain);
        settings.use_array_values = true;
        assert_eq!(settings.copy_shape(limits).command_bytes, 65_535 * 512);
        settings.use_multiple_segments = true;
        settings.claim_max_transfer_mib = 240;
        assert_eq!(settings.copy_shape(limits).command_bytes, 240 << 20);
        settings.claim_max_transfer_mib = 0;
        settings.claim_max_transfer_kib = 256;
        assert_eq!(settings.copy_shape(limits).segment_bytes, 256 << 10);
        // What the array does not report is not used.
        assert_eq!(settings.copy_shape(None), plain);
    }
}
