//! Checking a pool offline, without changing it.

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Sentences, each one fault; none if the pool is sound.
    pub faults: Vec<String>,
}

/// Checks.
pub fn verify() -> Report {
    Report::default()
}
