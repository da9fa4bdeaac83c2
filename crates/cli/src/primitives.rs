//! Subcommands that turn primitives (offloads) off and on: for the array, a host, a volume.

use anyhow::{Result, bail};
use api::{Host, Primitives, SetPrimitives, Volume};
use clap::{Args, ValueEnum};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::commands::{Invocation, check_segment, volume_route};
use crate::tables::{Table, table};

const ROUTE: &str = "/v1/primitives";

/// A primitive with a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum PrimitiveArgument {
    /// COMPARE AND WRITE (ATS).
    CompareAndWrite,
    /// EXTENDED COPY, and copies by tokens (Full Copy, ODX).
    ExtendedCopy,
    /// WRITE SAME (Block Zero).
    WriteSame,
    /// UNMAP (Delete).
    Unmap,
}

impl PrimitiveArgument {
    /// As it is written on the command line.
    const fn name(self) -> &'static str {
        match self {
            Self::CompareAndWrite => "compare_and_write",
            Self::ExtendedCopy => "extended_copy",
            Self::WriteSame => "write_same",
            Self::Unmap => "unmap",
        }
    }
}

/// What is to be off and on; what is not named stays.
#[derive(Debug, Args)]
pub(crate) struct PrimitiveArguments {
    /// Turn these off, separated by commas; hosts that see a change are told.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PRIMITIVE")]
    off: Vec<PrimitiveArgument>,
    /// Turn these on, as far as nothing else has them off.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PRIMITIVE")]
    on: Vec<PrimitiveArgument>,
}

impl PrimitiveArguments {
    /// `None` if nothing is to be changed.
    fn wanted(&self) -> Result<Option<SetPrimitives>> {
        if self.off.is_empty() && self.on.is_empty() {
            return Ok(None);
        }
        if let Some(both) = self.off.iter().find(|primitive| self.on.contains(primitive)) {
            bail!("{} cannot be turned off and on at once", both.name());
        }
        let mut wanted = SetPrimitives::default();
        let off = self.off.iter().map(|primitive| (primitive, false));
        for (primitive, on) in off.chain(self.on.iter().map(|primitive| (primitive, true))) {
            let place = match primitive {
                PrimitiveArgument::CompareAndWrite => &mut wanted.compare_and_write,
                PrimitiveArgument::ExtendedCopy => &mut wanted.extended_copy,
                PrimitiveArgument::WriteSame => &mut wanted.write_same,
                PrimitiveArgument::Unmap => &mut wanted.unmap,
            };
            *place = Some(on);
        }
        Ok(Some(wanted))
    }
}

impl Invocation {
    pub(crate) fn primitives(&self, arguments: &PrimitiveArguments) -> Result<()> {
        match arguments.wanted()? {
            None => self.show(&self.client.get(ROUTE)?, primitives_table),
            Some(body) => self.changed::<Primitives>(Method::PATCH, ROUTE, &body, |now| {
                format!("For everybody: {}.", primitives_text(*now))
            }),
        }
    }

    pub(crate) fn host_primitives(&self, name: &str, wanted: &PrimitiveArguments) -> Result<()> {
        check_segment("host", name)?;
        let (route, whose) = (format!("/v1/hosts/{name}"), format!("host {name}"));
        self.own_primitives(&route, &whose, wanted, |host: &Host| host.primitives)
    }

    pub(crate) fn volume_primitives(&self, path: &str, wanted: &PrimitiveArguments) -> Result<()> {
        let (route, whose) = (volume_route(path)?, format!("volume {path}"));
        self.own_primitives(&route, &whose, wanted, |volume: &Volume| volume.primitives)
    }

    /// Shows or changes the switches of one host or volume, which are a part of what its route answers.
    fn own_primitives<T: DeserializeOwned + Serialize>(
        &self,
        route: &str,
        whose: &str,
        wanted: &PrimitiveArguments,
        of: impl Fn(&T) -> Primitives,
    ) -> Result<()> {
        match wanted.wanted()? {
            None => self.show(&of(&self.client.get(route)?), primitives_table),
            Some(body) => {
                let route = format!("{route}/primitives");
                self.changed::<T>(Method::PATCH, &route, &body, |now| {
                    format!("For {whose}: {}.", primitives_text(of(now)))
                })
            }
        }
    }
}

const fn each(of: Primitives) -> [(&'static str, bool); 4] {
    [
        ("compare_and_write", of.compare_and_write),
        ("extended_copy", of.extended_copy),
        ("write_same", of.write_same),
        ("unmap", of.unmap),
    ]
}

/// What is off, in words.
pub(crate) fn primitives_text(of: Primitives) -> String {
    let off: Vec<&str> = each(of).into_iter().filter(|(_, on)| !on).map(|(name, _)| name).collect();
    if off.is_empty() { "all on".to_owned() } else { format!("{} off", off.join(", ")) }
}

fn primitives_table(of: &Primitives) -> Table {
    let mut rows = table(&["PRIMITIVE", "HERE"]);
    for (name, on) in each(*of) {
        rows.add_row([name, if on { "on" } else { "off" }]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays_and_nothing_named_changes_nothing() {
        let both = PrimitiveArguments {
            off: vec![PrimitiveArgument::Unmap, PrimitiveArgument::WriteSame],
            on: vec![PrimitiveArgument::ExtendedCopy],
        };
        let wanted = both.wanted().unwrap().unwrap();
        assert_eq!((wanted.unmap, wanted.write_same), (Some(false), Some(false)));
        assert_eq!((wanted.extended_copy, wanted.compare_and_write), (Some(true), None));
        let none = PrimitiveArguments { off: Vec::new(), on: Vec::new() };
        assert_eq!(none.wanted().unwrap(), None);
        let unmap = || vec![PrimitiveArgument::Unmap];
        assert!(PrimitiveArguments { off: unmap(), on: unmap() }.wanted().is_err());
    }

    #[test]
    fn what_is_off_is_named() {
        assert_eq!(primitives_text(Primitives::default()), "all on");
        let some = Primitives { unmap: false, extended_copy: false, ..Primitives::default() };
        assert_eq!(primitives_text(some), "extended_copy, unmap off");
    }
}
