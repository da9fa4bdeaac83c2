//! Text of a readiness report, laid out as xcopy-validate prints it.

use std::fmt::Write;

use super::{DeviceReport, Level, Line, Readiness};

/// Whether lines are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// For a terminal.
    Ansi,
    /// For files and programs.
    None,
}

impl Colors {
    fn paint(self, level: Level, text: &str) -> String {
        let color = match level {
            Level::Pass => 32,
            Level::Warn => 33,
            Level::Fail => 31,
            Level::Info => 36,
        };
        match self {
            Self::Ansi => format!("\x1b[0;{color}m{text}\x1b[0m"),
            Self::None => text.to_owned(),
        }
    }
}

impl Level {
    fn mark(self) -> &'static str {
        match self {
            Self::Pass => "[PASS]",
            Self::Warn => "[WARN]",
            Self::Fail => "[FAIL]",
            Self::Info => "[INFO]",
        }
    }
}

fn counts(lines: &[Line]) -> [usize; 3] {
    [Level::Pass, Level::Warn, Level::Fail]
        .map(|level| lines.iter().filter(|line| line.level == level).count())
}

/// Level of a summary, and its remark.
fn verdict([_, warn, fail]: [usize; 3]) -> (Level, &'static str) {
    match (warn, fail) {
        (0, 0) => (Level::Pass, "XCOPY should work"),
        (_, 0) => (Level::Warn, "XCOPY may work but check warnings"),
        _ => (Level::Fail, "XCOPY configuration issues"),
    }
}

impl Readiness {
    /// As text.
    pub fn text(&self, colors: Colors) -> String {
        let mut out = String::new();
        let _ = write!(
            out,
            "\n=== XCOPY Readiness Validation ===\nHost: {}\n\n--- Global ESXi Settings ---\n",
            self.host
        );
        print_lines(&mut out, &self.settings, colors);
        for device in &self.devices {
            self.print_device(&mut out, device, colors);
        }
        out
    }

    fn print_device(&self, out: &mut String, found: &DeviceReport, colors: Colors) {
        let named =
            |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        let DeviceReport { datastore, device, vendor, model, satp, lines } = found;
        if self.devices.len() > 1 {
            let _ = write!(out, "\n=== Datastore: {datastore} ===\n");
        }
        let _ = write!(
            out,
            "\n--- Device-Specific Checks ---\nDevice:    {device}\nVendor:    {}\n",
            named(vendor)
        );
        if !model.is_empty() {
            let _ = writeln!(out, "Model:     {model}");
        }
        let _ = write!(out, "SATP:      {}\n\n", named(satp));
        print_lines(out, lines, colors);
        let [pass, warn, fail] = counts(lines);
        let (level, remark) = verdict([pass, warn, fail]);
        let summary = format!(
            "=== Summary [{datastore}]: {pass} PASS, {warn} WARN, {fail} FAIL -- {remark} ==="
        );
        let _ = write!(out, "\n{}\n", colors.paint(level, &summary));
        let fixes: Vec<&String> = lines.iter().flat_map(|line| &line.fixes).collect();
        if !fixes.is_empty() {
            let host = &self.host;
            let _ = write!(out, "\n--- How to fix [{datastore}] (run on ESXi host {host}) ---\n");
            fixes.iter().for_each(|fix| {
                let _ = writeln!(out, "  {fix}");
            });
        }
    }
}

fn print_lines(out: &mut String, lines: &[Line], colors: Colors) {
    for line in lines {
        let mark = colors.paint(line.level, line.level.mark());
        let _ = writeln!(out, "{mark} {}", line.text);
        line.details.iter().for_each(|detail| {
            let _ = writeln!(out, "       {detail}");
        });
    }
}
