//! Results of a validation, as they stand in result.json.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::esxi::counters::Counters;

/// The format of result.json; other numbers are refused by `compare`.
pub const FORMAT: u32 = 1;

/// A whole validation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// Program and version.
    pub program: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Seconds that were measured and prepared, over all runs of the program.
    pub seconds: f64,
    /// Which sizes: tiny, scaled or full.
    pub scale: String,
    /// Rounds.
    pub rounds: u32,
    /// The machine of the host.
    pub machine: String,
    /// The array.
    pub array: Array,
    /// The published cases.
    pub cases: Vec<Case>,
    /// The honesty card.
    pub honesty: Vec<Probe>,
    /// Lock health.
    pub locks: Option<LockHealth>,
}

/// The array, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// VENDOR, PRODUCT and revision.
    pub product: String,
    /// The LUNs.
    pub luns: Vec<LunWords>,
}

/// A LUN, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LunWords {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Addresses, without passwords.
    pub paths: Vec<String>,
    /// What it advertises.
    pub advertised: Vec<(String, String)>,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "reason")]
pub enum State {
    /// It was measured, and all contents were right.
    Done,
    /// It cannot be measured here; why.
    NotMeasured(String),
    /// Something failed, or contents were wrong; what.
    Failed(String),
}

/// A published case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    /// Q1 … M3.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// What is done.
    pub scenario: String,
    /// What was published, in words.
    pub published: String,
    /// Sizes of the publication and of this run.
    pub sizes: String,
    /// What became of it.
    #[serde(flatten)]
    pub state: State,
    /// The variants, in order.
    pub variants: Vec<Variant>,
    /// Off against on, per group of variants.
    pub ratios: Vec<Ratio>,
    /// What was to be shown.
    pub targets: Vec<Target>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// One way to run a case, and how often it was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Its runs, by round.
    pub runs: Vec<Run>,
}

/// One measurement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Round, from 0.
    pub round: u32,
    /// Seconds from the beginning of the validation, for the order of things.
    pub at: f64,
    /// Seconds measured.
    pub seconds: f64,
    /// What the host did meanwhile.
    pub counters: Counters,
    /// SCSI commands.
    pub commands: u64,
    /// Space that the array uses for the LUNs, before and after; none if it does not say.
    pub space: [Option<u64>; 2],
    /// Whether the contents were read back and right; none if there was nothing to compare.
    pub verified: Option<bool>,
    /// Other figures, by name with unit.
    pub figures: BTreeMap<String, f64>,
    /// Reasons for which the host copied, with bytes.
    pub fallbacks: BTreeMap<String, u64>,
    /// Rates over time, by name with unit; those of the array's own counters among them.
    pub series: Vec<Series>,
    /// Processor time.
    #[serde(default)]
    pub processor: Processor,
}

/// Processor time that a measurement took, and the bytes that it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Processor {
    /// Seconds of the host: of this program, with all simulated hosts.
    pub host: Option<f64>,
    /// Seconds of the array; none where nothing tells.
    pub array: Option<f64>,
    /// Bytes that volumes took, by whatever command, or gave, if these are more.
    pub bytes: u64,
}

impl Processor {
    /// Seconds of the host per GB.
    pub fn host_per_gb(&self) -> Option<f64> {
        self.per_gb(self.host)
    }

    /// Seconds of the array per GB.
    pub fn array_per_gb(&self) -> Option<f64> {
        self.per_gb(self.array)
    }

    fn per_gb(&self, seconds: Option<f64>) -> Option<f64> {
        seconds.filter(|_| self.bytes > 0).map(|seconds| seconds / (self.bytes as f64 / 1e9))
    }
}

/// A rate over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name with unit.
    pub name: String,
    /// Seconds between two values.
    pub step: f64,
    /// Values.
    pub values: Vec<f64>,
}

/// How many times better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Of what.
    pub name: String,
    /// The median with the offloads off.
    pub off: f64,
    /// The median with them on.
    pub on: f64,
    /// The unit of both.
    pub unit: String,
    /// How many times better on is.
    pub factor: f64,
    /// The worst and the best pair of runs.
    pub range: [f64; 2],
    /// How many times better it was published to be.
    pub published: Option<f64>,
    /// Bytes on the wire with the offloads on, as a fraction of those with them off.
    pub wire: Option<f64>,
    /// Processor time of the host, seconds per GB, off and on.
    #[serde(default)]
    pub host_processor: Option<[f64; 2]>,
    /// The same of the array.
    #[serde(default)]
    pub array_processor: Option<[f64; 2]>,
}

impl Ratio {
    /// What the offloads save, for people: a part of the time, or how much more there is of a rate.
    pub fn saved(&self) -> String {
        match self.unit == "s" {
            true if self.factor >= 1.0 => {
                format!("{:.1} % saved", (1.0 - 1.0 / self.factor) * 100.0)
            }
            true => format!("{:.1} % more time", (1.0 / self.factor - 1.0) * 100.0),
            // Plus zero: a rounded -0.3 would be shown as -0.
            false => format!("{:+.0} %", ((self.factor - 1.0) * 100.0).round() + 0.0),
        }
    }
}

/// Something that was to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// What.
    pub what: String,
    /// The value wanted.
    pub wanted: String,
    /// The value found.
    pub found: String,
    /// Whether it is enough; none when it could not be found out.
    pub met: Option<bool>,
}

/// How a promise was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does what it says.
    Honest,
    /// It does not do what it says.
    Lie,
    /// It does not promise this, and does not do it.
    NotClaimed,
    /// It cannot be told from outside.
    Unclear,
    /// It did not answer, or could not be reached.
    NoAnswer,
}

impl Verdict {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Lie => "LIE",
            Self::NotClaimed => "not claimed",
            Self::Unclear => "unclear",
            Self::NoAnswer => "did not answer",
        }
    }
}

/// One promise, and how it was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// What is asked.
    pub question: String,
    /// What the array says.
    pub claim: String,
    /// What it did.
    pub found: String,
    /// How that fits.
    pub verdict: Verdict,
}

/// How locks fare.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LockHealth {
    /// COMPARE AND WRITE under each storm.
    pub storms: Vec<Storm>,
    /// Aborted and retried.
    pub aborts: Option<Aborts>,
    /// Whether the history of some blocks makes sense.
    pub history: Option<History>,
    /// What was to be shown.
    pub targets: Vec<Target>,
    /// Why nothing was measured.
    pub reason: Option<String>,
}

/// Latency of COMPARE AND WRITE while something else goes on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Storm {
    /// What else.
    pub name: String,
    /// Commands of the storm per second.
    pub storm_per_second: f64,
    /// COMPARE AND WRITEs.
    pub count: u64,
    /// Microseconds that half of them took at most.
    pub p50_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// 9,999 of 10,000.
    pub p9999_us: u64,
    /// The slowest.
    pub max_us: u64,
    /// Those that would have lost the datastore: 8 s or more.
    pub beyond_8s: u64,
    /// Those that failed, or missed what nobody else writes.
    pub failed: u64,
    /// Upper edge in microseconds, and count, of each class of latencies.
    pub histogram: Vec<(u64, u64)>,
}

/// The abort-and-retry scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aborts {
    /// Rounds.
    pub rounds: u64,
    /// Answers 'function complete'.
    pub complete: u64,
    /// Answers 'task does not exist': the command had ended.
    pub ended_before: u64,
    /// Other answers, which are refusals.
    pub refused: u64,
    /// Rounds after which the block had its old content.
    pub old: u64,
    /// Rounds after which it had its new one.
    pub new: u64,
    /// Rounds in which it had neither, changed after the answer, or is not as the command's status says.
    pub wrong: u64,
    /// Retries that failed otherwise than by a MISCOMPARE: not judged.
    pub retries_failed: u64,
    /// Rounds of both kinds, in words; the first few.
    #[serde(default)]
    pub findings: Vec<String>,
}

/// Whether a recorded history makes sense.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Clients.
    pub clients: u64,
    /// Blocks.
    pub blocks: u64,
    /// Operations.
    pub operations: u64,
    /// Blocks whose history has no order that explains it.
    pub impossible: Vec<u64>,
    /// Blocks that were too hard to decide.
    pub undecided: Vec<u64>,
}
