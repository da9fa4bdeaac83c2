//! Rate limits (QoS): administrators limit what volumes and hosts get done, and an event says who did.

use api::{Problem, SetHostLimits, SetRateLimits, Severity};
use array::limits::BURST_MS_DEFAULT;
use array::{RateLimits, Share};

use crate::Effect;
use crate::change::{Answer, Applied, ConfigurationChange, Draft, Place, Touched, View};
use crate::hosts::describe_host;
use crate::problems::refused;
use crate::volumes::Found;

/// Who changed limits that came with an import.
pub(crate) const BY_IMPORT: &str = "by an import";

/// Changes limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    of: Object,
    wanted: SetHostLimits,
    /// 'by NAME'.
    by: String,
}

/// What has them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Object {
    Host(String),
    Volume(Place),
}

/// Of one host, as that user wants it.
pub fn set_of_host(name: &str, wanted: SetHostLimits, user: &str) -> Change {
    Change { of: Object::Host(name.to_owned()), wanted, by: format!("by {user}") }
}

/// Of one volume or snapshot.
pub fn set_of_volume(found: &Found, wanted: SetRateLimits, user: &str) -> Change {
    let SetRateLimits { iops, bytes_per_second, burst_ms } = wanted;
    let wanted = SetHostLimits { iops, bytes_per_second, burst_ms, share: None };
    Change { of: Object::Volume(found.place()), wanted, by: format!("by {user}") }
}

impl ConfigurationChange for Change {
    fn apply(&self, draft: &mut Draft, _: u64, view: &dyn View) -> Result<Applied, Problem> {
        let array = &mut draft.array;
        match &self.of {
            Object::Host(name) => {
                let before = array.limits_of_host(name);
                let share = self.wanted.share.map_or(Ok(before.1), Share::new);
                let share = share.map_err(|error| refused(&error))?;
                let after = (self.applied_to(before.0), share);
                array.set_limits_of_host(name, after).map_err(|error| refused(&error))?;
                let host = describe_host(array, &draft.secrets, name);
                let applied = Applied::new(Touched::Nobody, Answer::of(&host)?);
                Ok(applied.with(notes(&format!("host {name}"), before, after, &self.by)))
            }
            Object::Volume(place) => {
                let before = array.presentation(place.id).limits;
                let after = self.applied_to(before);
                let set = array.set_limits_of_volume(place.id, after);
                set.map_err(|error| refused(&error))?;
                let applied = Applied::new(Touched::Nobody, Answer::Volume(place.clone()));
                let change = |limits| (limits, Share::default());
                let name = view.name_of(place.id);
                Ok(applied.with(notes(&name, change(before), change(after), &self.by)))
            }
        }
    }
}

impl Change {
    /// The limits after the change; what it does not name stays.
    fn applied_to(&self, before: RateLimits) -> RateLimits {
        let SetRateLimits { iops, bytes_per_second, burst_ms } = self.wanted.limits();
        RateLimits {
            iops: iops.map_or(before.iops, |iops| (iops > 0).then_some(iops)),
            bytes_per_second: bytes_per_second
                .map_or(before.bytes_per_second, |bytes| (bytes > 0).then_some(bytes)),
            burst_ms: match burst_ms {
                None => before.burst_ms,
                Some(0) => BURST_MS_DEFAULT,
                Some(burst_ms) => burst_ms,
            },
        }
    }
}

/// An event about limits that changed, and who changed them.
pub(crate) fn notes(
    object: &str,
    before: (RateLimits, Share),
    after: (RateLimits, Share),
    by: &str,
) -> Vec<Effect> {
    let limits = (before.0 != after.0).then(|| format!("{} {by}", text(after.0)));
    let share = (before.1 != after.1).then(|| format!("was given share {} {by}", after.1.get()));
    let object = object.to_owned();
    let note = move |text| Effect::note(Severity::Information, object.clone(), text);
    limits.into_iter().chain(share).map(note).collect()
}

/// Limits in words.
fn text(limits: RateLimits) -> String {
    let iops = limits.iops.map(|iops| format!("{iops} IOPS"));
    let bytes = limits.bytes_per_second.map(|bytes| format!("{bytes} bytes per second"));
    match (iops, bytes) {
        (None, None) => "was left without limits".to_owned(),
        (iops, bytes) => {
            let both: Vec<String> = iops.into_iter().chain(bytes).collect();
            format!("was limited to {}, in bursts of {} ms,", both.join(" and "), limits.burst_ms)
        }
    }
}

/// Limits as administrators see them.
pub const fn describe(limits: RateLimits) -> api::RateLimits {
    let RateLimits { iops, bytes_per_second, burst_ms } = limits;
    api::RateLimits { iops, bytes_per_second, burst_ms }
}

/// The limits that are written so; their ranges are checked where they are set.
pub const fn parse(limits: api::RateLimits) -> RateLimits {
    let api::RateLimits { iops, bytes_per_second, burst_ms } = limits;
    RateLimits { iops, bytes_per_second, burst_ms }
}

#[cfg(test)]
mod tests;
