//! Report of the named checks: passed, failed, or not yet possible and why.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::Bench;

/// What a check needs of the target, which other rooms may not offer yet.
///
/// A check whose need is not met is named in the report, never left out; from the moment that the
/// target says it can, the check runs and may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the check always runs.
    None,
    /// An operation code that REPORT SUPPORTED OPERATION CODES names (SPC-4 6.35).
    Operation(u8),
    /// An operation code with a service action.
    Action(u8, u16),
    /// An option of a command of `gantry`, for example `host create`, `--chap-user`.
    Option(&'static [&'static str], &'static str),
}

impl Need {
    /// Why the check cannot run, if it cannot.
    fn missing(self, bench: &Bench) -> Result<Option<String>> {
        let (is_there, what) = match self {
            Self::None => return Ok(None),
            Self::Operation(code) => {
                let is_there = bench.operations.iter().any(|&(found, _)| found == code);
                (is_there, format!("operation code {code:02X}h is not reported"))
            }
            Self::Action(code, action) => {
                let is_there = bench.operations.contains(&(code, Some(action)));
                (is_there, format!("operation code {code:02X}h/{action:02X}h is not reported"))
            }
            Self::Option(command, option) => {
                let help = bench.array.gantry(&[command, &["--help"]].concat())?;
                (help.contains(option), format!("gantry {} has no {option}", command.join(" ")))
            }
        };
        Ok((!is_there).then_some(what))
    }
}

enum Verdict {
    Passed,
    NotYet(String),
    Failed(String),
}

struct Row {
    name: String,
    verdict: Verdict,
    elapsed: Duration,
}

/// The checks of one scenario, in the order in which they ran.
pub struct Report {
    title: &'static str,
    rows: Vec<Row>,
}

impl Report {
    /// A report without rows.
    pub fn new(title: &'static str) -> Self {
        Self { title, rows: Vec::new() }
    }

    /// Runs a check, if what it needs is there, and adds its row.
    pub fn check(
        &mut self,
        bench: &mut Bench,
        name: &str,
        need: Need,
        run: impl FnOnce(&mut Bench) -> Result<()>,
    ) {
        let started = Instant::now();
        let verdict = match need.missing(bench) {
            Ok(None) => match run(bench) {
                Ok(()) => Verdict::Passed,
                Err(error) => Verdict::Failed(format!("{error:#}")),
            },
            Ok(Some(reason)) => Verdict::NotYet(reason),
            Err(error) => Verdict::Failed(format!("{error:#}")),
        };
        let row = Row { name: name.to_owned(), verdict, elapsed: started.elapsed() };
        println!("{}", row.line());
        if let Some(failure) = row.failure() {
            println!("{failure}");
        }
        self.rows.push(row);
    }

    /// Prints the table, and keeps the logs if a check failed.
    ///
    /// # Errors
    /// When a check failed: what it said, and where the logs are.
    pub fn finish(self, bench: &Bench) -> Result<()> {
        println!("\n{}", self.table());
        let failures: Vec<_> = self.rows.iter().filter_map(Row::failure).collect();
        if failures.is_empty() {
            return Ok(());
        }
        let log = bench.keep_log(self.title)?;
        bail!(
            "{} of {} checks failed; log in {}\n{}",
            failures.len(),
            self.rows.len(),
            log.display(),
            failures.join("\n")
        )
    }

    fn table(&self) -> String {
        let mut table = format!("linux kernel, {}: {} checks\n", self.title, self.rows.len());
        for row in &self.rows {
            writeln!(table, "{}", row.line()).expect("a text grows");
        }
        table
    }
}

impl Row {
    fn line(&self) -> String {
        let seconds = self.elapsed.as_secs_f64();
        match &self.verdict {
            Verdict::Passed => format!("  passed   {seconds:5.1} s  {}", self.name),
            Verdict::NotYet(reason) => format!("  NOT YET           {}: {reason}", self.name),
            Verdict::Failed(_) => format!("  FAILED   {seconds:5.1} s  {}", self.name),
        }
    }

    fn failure(&self) -> Option<String> {
        match &self.verdict {
            Verdict::Failed(reason) => Some(format!("-- {}: {reason}", self.name)),
            _ => None,
        }
    }
}
