//! Switches of primitives: the four offloads (VAAI) that administrators can turn off, for the whole
//! array, for a host and for a volume. One is on only where none of the three turns it off.

/// A primitive with a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Switch {
    /// COMPARE AND WRITE (ATS).
    CompareAndWrite,
    /// EXTENDED COPY with all that belongs to it, and copies by ROD tokens (Full Copy, ODX).
    ExtendedCopy,
    /// WRITE SAME (Block Zero).
    WriteSame,
    /// UNMAP, and WRITE SAME that unmaps (Delete).
    Unmap,
}

impl Switch {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::CompareAndWrite, Self::ExtendedCopy, Self::WriteSame, Self::Unmap];

    /// Its name in the interface and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CompareAndWrite => "compare_and_write",
            Self::ExtendedCopy => "extended_copy",
            Self::WriteSame => "write_same",
            Self::Unmap => "unmap",
        }
    }

    /// The switch of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|switch| switch.name() == name)
    }
}

/// Where a primitive is turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SwitchLevel {
    /// For one volume, whoever asks.
    Volume,
    /// For one host, on all volumes.
    Host,
    /// For everybody.
    Array,
}

impl SwitchLevel {
    /// Its name in the interface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Host => "host",
            Self::Array => "array",
        }
    }
}

/// A primitive that is off, and where that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnedOff {
    /// The primitive.
    pub switch: Switch,
    /// Where it is turned off; the narrowest of several places.
    pub level: SwitchLevel,
}

/// The primitives that are turned off at one place: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchesOff(u8);

impl SwitchesOff {
    /// Everything is on.
    pub const NONE: Self = Self(0);

    /// Whether everything is on.
    pub const fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Whether a primitive is off.
    pub const fn contains(self, switch: Switch) -> bool {
        self.0 & bit(switch) != 0
    }

    /// The same with a primitive off.
    #[must_use]
    pub const fn with(self, switch: Switch) -> Self {
        Self(self.0 | bit(switch))
    }

    /// The same with a primitive on.
    #[must_use]
    pub const fn without(self, switch: Switch) -> Self {
        Self(self.0 & !bit(switch))
    }

    /// What is off at one of two places.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The primitives that are off.
    pub fn iter(self) -> impl Iterator<Item = Switch> {
        Switch::ALL.into_iter().filter(move |switch| self.contains(*switch))
    }
}

impl FromIterator<Switch> for SwitchesOff {
    fn from_iter<I: IntoIterator<Item = Switch>>(switches: I) -> Self {
        switches.into_iter().fold(Self::NONE, Self::with)
    }
}

/// What is turned off at each place that counts for one host on one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchPlaces {
    /// For the volume.
    pub volume: SwitchesOff,
    /// For the host.
    pub host: SwitchesOff,
    /// For the array.
    pub array: SwitchesOff,
}

impl SwitchPlaces {
    /// Where a primitive is turned off: at the narrowest place; `None` if it is on.
    pub const fn turned_off(self, switch: Switch) -> Option<TurnedOff> {
        let level = if self.volume.contains(switch) {
            SwitchLevel::Volume
        } else if self.host.contains(switch) {
            SwitchLevel::Host
        } else if self.array.contains(switch) {
            SwitchLevel::Array
        } else {
            return None;
        };
        Some(TurnedOff { switch, level })
    }

    /// What is off at any of them.
    pub const fn all(self) -> SwitchesOff {
        self.volume.or(self.host).or(self.array)
    }
}

const fn bit(switch: Switch) -> u8 {
    1 << switch as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primitive_is_on_only_where_no_place_turns_it_off() {
        let unmap = SwitchesOff::NONE.with(Switch::Unmap);
        let level = |places: SwitchPlaces| {
            assert_eq!(places.turned_off(Switch::WriteSame), None);
            places.turned_off(Switch::Unmap).map(|off| off.level)
        };
        let mut places = SwitchPlaces::default();
        assert_eq!((level(places), places.all().is_empty()), (None, true));
        places.array = unmap;
        assert_eq!(level(places), Some(SwitchLevel::Array));
        places.host = unmap;
        assert_eq!(level(places), Some(SwitchLevel::Host));
        places.volume = unmap;
        assert_eq!((level(places), places.all()), (Some(SwitchLevel::Volume), unmap));
    }

    #[test]
    fn every_switch_has_a_name_and_a_bit_of_its_own() {
        let all: SwitchesOff = Switch::ALL.into_iter().collect();
        for switch in Switch::ALL {
            assert_eq!(Switch::named(switch.name()), Some(switch));
            let rest = all.without(switch);
            assert!(all.contains(switch) && !rest.contains(switch));
            assert_eq!(rest.iter().count(), 3);
            assert_eq!(rest.with(switch), all);
        }
        assert_eq!(Switch::named("read"), None);
    }
}
