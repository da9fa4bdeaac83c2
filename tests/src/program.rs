//! Running a program to its end, with a deadline.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a waiting test looks again.
pub const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What a program left behind.
#[derive(Debug)]
pub struct Finished {
    /// The command line, for messages.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// How long it ran.
    pub elapsed: Duration,
}

impl Finished {
    /// Whether it says that it did what it was asked for.
    pub fn is_success(&self) -> bool {
        self.status.success()
    }

    /// What it printed, if it succeeded.
    ///
    /// # Errors
    /// When it failed: both of its outputs.
    pub fn success(self) -> Result<String> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        bail!("'{}' failed ({})\n{}{}", self.command, self.status, self.stdout, self.stderr)
    }

    /// What it complained about, if it failed.
    ///
    /// # Errors
    /// When it succeeded.
    pub fn failure(self) -> Result<String> {
        if !self.status.success() {
            return Ok(self.stderr);
        }
        bail!("'{}' succeeded and should not have\n{}", self.command, self.stdout)
    }
}

/// A program that runs beside the test. It is killed when this value goes.
#[derive(Debug)]
pub struct Running {
    command: String,
    child: Child,
    started: Instant,
    stdout: File,
    stderr: File,
}

impl Running {
    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Result<Self> {
        let stdout = tempfile::tempfile()?;
        let stderr = tempfile::tempfile()?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .spawn()
            .with_context(|| format!("starting {} ('cargo xtask setup')", program.display()))?;
        let arguments = arguments.iter().map(|argument| argument.as_ref().to_string_lossy());
        let words: Vec<_> = [program.to_string_lossy()].into_iter().chain(arguments).collect();
        Ok(Self { command: words.join(" "), child, started: Instant::now(), stdout, stderr })
    }

    /// The process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// What it has complained about so far (its standard error).
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn complaints(&self) -> Result<String> {
        // The program writes at the offset that it shares with this file: it must not move.
        let mut bytes = vec![0; usize::try_from(self.stderr.metadata()?.len())?];
        self.stderr.read_exact_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not end in time; it is then killed.
    pub fn wait(mut self, timeout: Duration) -> Result<Finished> {
        let deadline = Instant::now() + timeout;
        while self.is_running()? {
            if Instant::now() > deadline {
                self.child.kill()?;
                self.child.wait()?;
                let output = [contents(&mut self.stdout)?, contents(&mut self.stderr)?].concat();
                bail!("'{}' did not end within {timeout:?}\n{output}", self.command);
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(Finished {
            command: self.command.clone(),
            status: self.child.wait()?,
            stdout: contents(&mut self.stdout)?,
            stderr: contents(&mut self.stderr)?,
            elapsed: self.started.elapsed(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a program that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn contents(file: &mut File) -> Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs a program to its end.
///
/// # Errors
/// When it cannot be started or does not end in time.
pub fn run<S: AsRef<OsStr>>(
    program: &Path,
    arguments: &[S],
    timeout: Duration,
) -> Result<Finished> {
    Running::start(program, arguments)?.wait(timeout)
}
