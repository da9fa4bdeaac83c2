//! The published cases: what each document did and published, and how it is done here.

mod controllers;
mod copying;
mod full;
mod locking;
mod reclaim;
mod switches;
mod zeroing;

use anyhow::Result;

use super::Context;
use super::bench::Vaai;
use super::model::{Run, Target, Variant};

/// How a variant of a case is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its name in the report.
    pub name: &'static str,
    /// The host's settings; none where they do not matter.
    pub vaai: Option<Vaai>,
    /// Which of the case's scenarios.
    pub scenario: &'static str,
}

const fn off(name: &'static str, scenario: &'static str) -> Way {
    Way { name, vaai: Some(Vaai::Off), scenario }
}

const fn on(name: &'static str, scenario: &'static str) -> Way {
    Way { name, vaai: Some(Vaai::On), scenario }
}

const OFF_ON: &[Way] = &[off("off", ""), on("on", "")];

/// What two variants are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Seconds: fewer are better.
    Seconds,
    /// A figure, with its unit: more is better.
    More(&'static str),
}

/// A pair of variants that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Its name in the report.
    pub name: &'static str,
    /// The variant with the offloads off.
    pub off: &'static str,
    /// The one with them on.
    pub on: &'static str,
    /// By what.
    pub by: By,
    /// How many times better it was published to be.
    pub published: Option<f64>,
}

const fn seconds(
    name: &'static str,
    off: &'static str,
    on: &'static str,
    published: Option<f64>,
) -> Pair {
    Pair { name, off, on, by: By::Seconds, published }
}

/// Sizes: tiny for tests, scaled for minutes, full as published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scale {
    /// A few megabytes: shows that it works, measures little.
    Tiny,
    /// Minutes on a small machine.
    Scaled,
    /// The documents' sizes.
    Full,
}

impl Scale {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Scaled => "scaled",
            Self::Full => "full",
        }
    }

    /// Bytes for a published number of GiB (in tenths), divided as the case wants it when scaled;
    /// a multiple of 1 MiB.
    fn bytes(self, tenths_of_gib: u64, divisor: u64) -> u64 {
        let full = (tenths_of_gib << 30) / 10;
        let bytes = match self {
            Self::Tiny => (full / divisor / 8).clamp(16 << 20, 64 << 20),
            Self::Scaled => full / divisor,
            Self::Full => full,
        };
        bytes >> 20 << 20
    }

    /// Milliseconds of one measurement of a rate.
    fn window_ms(self) -> u64 {
        match self {
            Self::Tiny => 400,
            Self::Scaled => 2000,
            Self::Full => 30_000,
        }
    }
}

/// Gibibytes or mebibytes, for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 10 << 30 => format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30)),
        bytes if bytes >= 1 << 30 => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        bytes => format!("{} MiB", bytes >> 20),
    }
}

/// A published case.
pub struct Spec {
    /// Q1 … M3, C1.
    pub id: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// The document.
    pub source: &'static str,
    /// What it did.
    pub scenario: &'static str,
    /// What it published.
    pub published: &'static str,
    /// The sizes, as published and here.
    pub sizes: fn(Scale) -> String,
    /// The ways to run it.
    pub ways: &'static [Way],
    /// What is compared.
    pub pairs: &'static [Pair],
    /// Bytes that each LUN must have.
    pub needs: fn(Scale) -> u64,
    /// Why it cannot be run here, if that is so.
    pub obstacle: fn(&Context) -> Option<String>,
    /// Makes what all its runs need; also when some of them are done already.
    pub prepare: fn(&Context) -> Result<()>,
    /// One run.
    pub run: fn(&Context, Way) -> Result<Run>,
    /// What was to be shown.
    pub judge: fn(&Context, &[Variant]) -> Vec<Target>,
    /// What else to know.
    pub notes: &'static [Note],
}

/// What else is to be known of a case, and when that is true.
pub type Note = (&'static str, fn(&Context) -> bool);

fn always(_: &Context) -> bool {
    true
}

fn nothing_in_the_way(_: &Context) -> Option<String> {
    None
}

fn no_targets(_: &Context, _: &[Variant]) -> Vec<Target> {
    Vec::new()
}

/// The order of the documents, and then ours.
pub(super) const ORDER: [&str; 16] = [
    "Q1", "Q2", "Q3", "Q4", "E1", "N1", "I1", "I2", "I3", "I4", "I5", "I6", "M1", "M2", "M3", "C1",
];

/// All cases, in the order of the documents.
pub fn all() -> Vec<Spec> {
    let groups = [
        reclaim::cases(),
        copying::cases(),
        zeroing::cases(),
        full::cases(),
        locking::cases(),
        switches::cases(),
        controllers::cases(),
    ];
    let mut cases: Vec<Spec> = groups.into_iter().flatten().collect();
    cases.sort_by_key(|spec| ORDER.iter().position(|id| *id == spec.id));
    cases
}

#[cfg(test)]
mod tests;
