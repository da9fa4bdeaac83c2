//! Machines of a test's own: network namespaces on one bridge, whose cables can be pulled. The test itself, the hosts
//! that it plays and the cluster of `cargo xtask soak --controllers --machines` stay outside of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::program;

/// The network; 10.213.0.1 is the cluster's.
const NETWORK: [u8; 3] = [10, 213, 0];

/// The test's own address.
const OUTSIDE: &str = "10.213.0.254/24";

const BRIDGE: &str = "gantry-test";

/// A bridge without an address of its own takes that of one of its ports, and another one when that is pulled: the
/// other machine would miss it for seconds.
const BRIDGE_ADDRESS: &str = "02:00:0a:d5:00:fe";

/// How long a change may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two machines. They go when this value does.
#[derive(Debug)]
pub struct Machines {
    names: [&'static str; 2],
}

impl Machines {
    /// Makes them, in the place of those that an earlier test left; needs root. One test has them at a time.
    ///
    /// # Errors
    /// When the kernel does not.
    pub fn start() -> Result<Self> {
        let machines = Self { names: ["gantry-test-1", "gantry-test-2"] };
        machines.remove();
        ip(&["link", "add", BRIDGE, "address", BRIDGE_ADDRESS, "type", "bridge"])?;
        ip(&["addr", "add", OUTSIDE, "dev", BRIDGE])?;
        ip(&["link", "set", BRIDGE, "up"])?;
        for (side, name) in machines.names.iter().enumerate() {
            let address = format!("{}/24", machines.address(side));
            ip(&["netns", "add", name])?;
            ip(&["link", "add", &cable(side), "type", "veth", "peer", "eth0", "netns", name])?;
            ip(&["link", "set", &cable(side), "master", BRIDGE, "up"])?;
            ip(&["-n", name, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", name, "link", "set", "eth0", "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(machines)
    }

    /// What runs a program on a machine, as the words before its own.
    pub fn prefix(&self, side: usize) -> [&str; 4] {
        ["ip", "netns", "exec", self.names[side]]
    }

    fn address(&self, side: usize) -> Ipv4Addr {
        let [a, b, c] = NETWORK;
        Ipv4Addr::new(a, b, c, side as u8 + 2)
    }

    /// The same port at the address of a machine.
    pub fn at(&self, side: usize, local: SocketAddr) -> SocketAddr {
        (self.address(side), local.port()).into()
    }

    /// Pulls a machine's cable: nothing comes from or to it, and nobody is told.
    ///
    /// # Errors
    /// When the kernel does not.
    pub fn pull(&self, side: usize) -> Result<()> {
        ip(&["link", "set", &cable(side), "nomaster"])
    }

    /// Plugs it in again.
    ///
    /// # Errors
    /// When the kernel does not.
    pub fn plug(&self, side: usize) -> Result<()> {
        ip(&["link", "set", &cable(side), "master", BRIDGE])
    }

    /// Lets nothing pass between the machines, though everybody else reaches both; or again.
    ///
    /// # Errors
    /// When the kernel does not.
    pub fn keep_apart(&self, are_apart: bool) -> Result<()> {
        let word = if are_apart { "on" } else { "off" };
        (0..self.names.len()).try_for_each(|side| {
            run("bridge", &["link", "set", "dev", &cable(side), "isolated", word])
        })
    }

    fn remove(&self) {
        // What is not there is not missed.
        for name in self.names {
            let _ = ip(&["netns", "del", name]);
        }
        for side in 0..self.names.len() {
            let _ = ip(&["link", "del", &cable(side)]);
        }
        let _ = ip(&["link", "del", BRIDGE]);
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The end of a machine's cable that is outside.
fn cable(side: usize) -> String {
    format!("gantry-test-{}", side + 1)
}

fn ip(words: &[&str]) -> Result<()> {
    run("ip", words)
}

fn run(name: &str, words: &[&str]) -> Result<()> {
    let ended = program::run(Path::new(name), words, PATIENCE)?;
    ensure!(ended.status.success(), "{}: {}", ended.command, ended.stderr);
    Ok(())
}
