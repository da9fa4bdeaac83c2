//! Two controllers of one array on this machine: started, paired, asked, and sent signals.

use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::array::{Array, free_address};
use crate::machines::Machines;
use crate::path::Path;
use crate::pdu::RawSession;
use crate::text;
use crate::waiting::wait_until;

/// Two daemons of one array: the first has the pool, the second a copy of its data directory.
#[derive(Debug)]
pub struct Pair {
    _folder: TempDir,
    /// Controller 1.
    pub first: Array,
    /// Controller 2.
    pub second: Array,
    /// The name of the target.
    pub target: String,
    /// The LUN of the volume 'p/v', of 64 MiB.
    pub lun: u8,
    /// Where each listens for the other one.
    links: [SocketAddr; 2],
    /// Where each of them runs, if not here.
    pub machines: Option<Machines>,
}

/// Where the two controllers are, and what their command lines begin with.
struct Places<'a> {
    data: &'a TempDir,
    portals: [SocketAddr; 2],
    links: [SocketAddr; 2],
    machines: Option<&'a Machines>,
}

impl Places<'_> {
    fn controller(&self, side: usize) -> Result<Array> {
        let number = (side + 1).to_string();
        let peer = format!("{}={}", 2 - side, self.portals[1 - side]);
        let link = self.links[side].to_string();
        let words = ["--controller", &number, "--peer-portal", &peer, "--link", &link];
        let prefix = self.machines.map(|machines| machines.prefix(side));
        let prefix = prefix.as_ref().map_or(&[][..], |prefix| prefix);
        let array = Array::at(&self.data.path().join(&number), self.portals[side])?;
        Ok(array.with_words(prefix, &words))
    }
}

impl Pair {
    /// Two controllers that are not paired yet, with pool 'p' on a file.
    ///
    /// # Errors
    /// When one of them does not start, or does not become standby.
    pub fn start() -> Result<Self> {
        Self::start_with(|first| first.create_pool("p", "1G").map(drop))
    }

    /// The same with a pool 'p' that the caller makes.
    ///
    /// # Errors
    /// When one of them does not start, or does not become standby.
    pub fn start_with(create_pool: impl FnOnce(&Array) -> Result<()>) -> Result<Self> {
        Self::start_on(None, create_pool)
    }

    /// The same, each on a machine of its own.
    ///
    /// # Errors
    /// When one of them does not start, or does not become standby.
    pub fn start_on(
        machines: Option<Machines>,
        create_pool: impl FnOnce(&Array) -> Result<()>,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-test-").tempdir()?;
        let address = |side| -> Result<SocketAddr> {
            let local = free_address()?;
            Ok(machines.as_ref().map_or(local, |machines| machines.at(side, local)))
        };
        let portals = [address(0)?, address(1)?];
        let links = [address(0)?, address(1)?];
        let places = Places { data: &folder, portals, links, machines: machines.as_ref() };
        let (mut first, mut second) = (places.controller(0)?, places.controller(1)?);
        first.restart()?;
        create_pool(&first)?;
        let lun = u8::try_from(first.create_lun("p/v", "64M")?)?;
        let target = first.target_name()?;
        copy_directory(&first, &second)?;
        second.restart()?;
        let pair = Self { _folder: folder, first, second, target, lun, links, machines };
        pair.wait_for(&pair.second, "standby")?;
        Ok(pair)
    }

    /// Starts both again so that they do not hear each other, though each of them serves and they stay
    /// paired: as when the cable between them is cut. The first one has the pool then.
    ///
    /// # Errors
    /// When one of them does not start, or the first one does not take the pool.
    pub fn cut_link(&mut self) -> Result<()> {
        self.link_through([free_address()?, free_address()?])
    }

    /// Starts both again so that they reach each other's link through relays of the caller's. The first one has
    /// the pool then.
    ///
    /// # Errors
    /// As for [`Self::cut_link`], or when there is no port for a relay.
    pub fn relay_link(&mut self) -> Result<[Path; 2]> {
        let relays = [Path::start(self.links[0])?, Path::start(self.links[1])?];
        self.link_through(relays.each_ref().map(Path::address))?;
        Ok(relays)
    }

    /// Where each of them seems to listen to the other one.
    fn link_through(&mut self, [first, second]: [SocketAddr; 2]) -> Result<()> {
        self.second.stop()?;
        self.first.stop()?;
        self.first.add_arguments(&["--peer", &format!("2={second}")]);
        self.second.add_arguments(&["--peer", &format!("1={first}")]);
        self.first.restart()?;
        self.wait_for(&self.first, "active-optimized")?;
        self.second.restart()?;
        self.wait_for(&self.second, "standby")
    }

    /// A third controller, paired with both.
    ///
    /// # Errors
    /// When it does not start, does not become standby, or is not heard.
    pub fn add_third(&self) -> Result<Array> {
        let data = self.first.data().with_file_name("3");
        let link = free_address()?.to_string();
        let portals = [(1, &self.first), (2, &self.second)]
            .map(|(number, array)| format!("{number}={}", array.portal()));
        let words = ["--controller", "3", "--link", &link];
        let portals = ["--peer-portal", &portals[0], "--peer-portal", &portals[1]];
        let mut third =
            Array::at(&data, free_address()?)?.with_words(&[], &[&words[..], &portals].concat());
        copy_directory(&self.first, &third)?;
        third.restart()?;
        self.wait_for(&third, "standby")?;
        for array in [&self.first, &self.second] {
            let code = array.gantry_json(&["controller", "pair"])?;
            third.gantry(&["controller", "join", text(&code, "/code")?])?;
            wait_until("the third is heard", || hears(array, 3))?;
        }
        Ok(third)
    }

    /// A session of a host with one of them.
    ///
    /// # Errors
    /// When the login fails.
    pub fn host(&self, array: &Array, name: &str) -> Result<RawSession> {
        let name = format!("iqn.2026-01.org.example:{name}");
        RawSession::log_in(array.portal(), &name, &self.target)
    }

    /// Waits until a controller serves the pool so.
    ///
    /// # Errors
    /// When it does not in time.
    pub fn wait_for(&self, array: &Array, state: &str) -> Result<()> {
        wait_until(state, || Ok(standing(array)?.as_deref() == Some(state)))
    }
}

/// Has a controller give the pool to another one, as soon as it has heard that one would take it.
///
/// # Errors
/// When none would in time.
pub fn switch(array: &Array) -> Result<()> {
    wait_until("another one would take the pool", || {
        Ok(array.try_gantry(&["controller", "switch", "p"])?.status.success())
    })
}

/// Whether a controller hears another one.
///
/// # Errors
/// When it cannot be asked.
pub fn hears(array: &Array, number: u64) -> Result<bool> {
    let controllers = array.gantry_json(&["controller", "list"])?;
    let mut controllers = controllers.as_array().into_iter().flatten();
    Ok(controllers.any(|one| one["number"] == number && one["reachable"] == true))
}

/// What a controller says of itself, or of the other one.
///
/// # Errors
/// When it cannot be asked.
pub fn listed(array: &Array, is_this: bool) -> Result<Value> {
    let controllers = array.gantry_json(&["controller", "list"])?;
    let controllers = controllers.as_array().context("a list")?;
    let found = controllers.iter().find(|one| one["is_this"] == Value::Bool(is_this));
    found.cloned().context("it is in the list")
}

fn state_of(controller: &Value) -> Option<String> {
    let state = controller.pointer("/pools/0/state").and_then(Value::as_str);
    state.map(str::to_owned)
}

/// How a controller serves the pool, as it says itself.
///
/// # Errors
/// When it cannot be asked.
pub fn standing(array: &Array) -> Result<Option<String>> {
    Ok(state_of(&listed(array, true)?))
}

/// How the other controller serves the pool, as it said on the link; `None` while that is silent.
///
/// # Errors
/// When the one that heard it cannot be asked.
pub fn told(array: &Array) -> Result<Option<String>> {
    Ok(state_of(&listed(array, false)?))
}

/// Pairs the two by a code, as an administrator does.
///
/// # Errors
/// When they do not hear each other in time, or the code works twice.
pub fn pair_up(pair: &Pair) -> Result<()> {
    let code = pair.first.gantry_json(&["controller", "pair"])?;
    let code = text(&code, "/code")?.to_owned();
    pair.second.gantry(&["controller", "join", &code])?;
    for array in [&pair.first, &pair.second] {
        wait_until("the other one is heard", || Ok(listed(array, false)?["reachable"] == true))?;
    }
    let again = pair.second.try_gantry(&["controller", "join", &code])?.failure()?;
    ensure!(again.contains("not the code"), "it works once: {again}");
    Ok(())
}

/// Sends a signal to a daemon of ours.
///
/// # Errors
/// When it does not run.
pub fn signal(array: &Array, signal: Signal) -> Result<()> {
    let id = Pid::from_raw(array.process_id()?.try_into()?).context("a process id")?;
    Ok(kill_process(id, signal)?)
}

/// As an administrator sets a second controller up: it begins with a copy of the first's directory.
fn copy_directory(from: &Array, to: &Array) -> Result<()> {
    fs::create_dir_all(to.data())?;
    for entry in fs::read_dir(from.data())? {
        let entry = entry?;
        let name = entry.file_name();
        let is_kept = name.to_str().is_some_and(|name| name.ends_with(".json"));
        if is_kept && entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.data().join(name))?;
        }
    }
    Ok(())
}
