//! Subcommands for the controllers of an array.

use std::io;

use anyhow::{Context, Result};
use api::{Controller, JoinController, Maintenance, PairController, Paired, PairingCode, Pool};
use notation::format_time;
use reqwest::Method;

use crate::arguments::{ControllerCommand, MaintenanceArgument};
use crate::commands::Invocation;
use crate::pools::pool_route;
use crate::tables::{Table, table};

const ROUTE: &str = "/v1/controllers";

/// Stands for the standard input.
const STANDARD_INPUT: &str = "-";

impl Invocation {
    pub(crate) fn controller(&self, command: &ControllerCommand) -> Result<()> {
        match command {
            ControllerCommand::List => {
                let controllers = self.client.get::<Vec<Controller>>(ROUTE)?;
                self.show(&controllers, |controllers| list(controllers))
            }
            ControllerCommand::Switch { pool, force } => {
                let force = if *force { "?force=true" } else { "" };
                let route = format!("{}/switch{force}", pool_route(pool)?);
                let body = serde_json::json!({});
                self.changed::<Pool>(Method::POST, &route, &body, |pool| {
                    format!(
                        "Gave pool {} up: another controller takes it; 'gantry controller list' there \
                         shows when it has. If none does within 10 s it opens here again.",
                        pool.name
                    )
                })
            }
            ControllerCommand::Pair { address } => {
                let route = format!("{ROUTE}/pair");
                let body = PairController { address: address.clone() };
                self.changed::<PairingCode>(Method::POST, &route, &body, |pairing| {
                    format!(
                        "At the other controller, once and before {}:\n\n    gantry controller join \
                         {}\n\nWhoever has this code can become a controller of the array.",
                        format_time(pairing.expires),
                        pairing.code
                    )
                })
            }
            ControllerCommand::Join { code } => {
                let body = JoinController { code: read_code(code)? };
                let route = format!("{ROUTE}/join");
                self.changed::<Paired>(Method::POST, &route, &body, |paired| {
                    format!("Paired with controller {}.", paired.number)
                })
            }
            ControllerCommand::Maintenance { state } => {
                let body = Maintenance { on: *state == MaintenanceArgument::On };
                let route = format!("{ROUTE}/maintenance");
                self.changed::<Maintenance>(Method::PUT, &route, &body, |maintenance| {
                    let told = if maintenance.on {
                        "In maintenance: its pools go to other controllers, and it takes none; 'gantry \
                         controller list' shows when they are there."
                    } else {
                        "Not in maintenance any more: it takes pools that others let go."
                    };
                    told.to_owned()
                })
            }
            ControllerCommand::Forget { controller } => {
                let sentence = format!(
                    "Forgot controller {controller}. Do the same there, or it goes on trying to be heard."
                );
                self.delete(&format!("{ROUTE}/{controller}"), &sentence)
            }
        }
    }
}

fn read_code(code: &str) -> Result<String> {
    if code != STANDARD_INPUT {
        return Ok(code.to_owned());
    }
    let mut line = String::new();
    io::stdin().read_line(&mut line).context("cannot read the code from the standard input")?;
    Ok(line.trim().to_owned())
}

fn list(controllers: &[Controller]) -> Table {
    let mut rows = table(&["CONTROLLER", "LINK", "VERSION", "PORTALS", "POOL", "STATE"]);
    for controller in controllers {
        let this = match (controller.is_this, controller.maintenance) {
            (true, Some(true)) => " (this, in maintenance)",
            (true, Some(false) | None) => " (this)",
            (false, Some(true)) => " (in maintenance)",
            (false, Some(false) | None) => "",
        };
        let number = format!("{}{this}", controller.number);
        let link = link(controller);
        let version = controller.version.as_deref().unwrap_or("-");
        let portals = controller.portals.join(" ");
        for one in &controller.pools {
            let preferred = if one.preferred { ", preferred" } else { "" };
            let state = one.state.map_or("ask it", |state| state.name());
            let state = format!("{state}{preferred}");
            rows.add_row([&number, &link, version, &portals, &one.pool, &state]);
        }
        if controller.pools.is_empty() {
            rows.add_row([&number, &link, version, &portals, "-", "-"]);
        }
    }
    rows
}

/// Whether a controller is heard, and if not since when and why.
fn link(controller: &Controller) -> String {
    let Controller { is_this, reachable, ended, paired, heard_at, problem, .. } = controller;
    if *is_this {
        let address = controller.link.as_deref().unwrap_or("-");
        return match controller.take_over_after {
            Some(seconds) => format!("{address}, takes over after {seconds} s"),
            None => address.to_owned(),
        };
    }
    let silent = match (paired, heard_at) {
        (false, _) => "not paired".to_owned(),
        (true, _) if *ended => "its process has ended".to_owned(),
        (true, _) if *reachable => return "heard".to_owned(),
        (true, Some(since)) => format!("silent since {}", format_time(*since)),
        (true, None) => "not heard yet".to_owned(),
    };
    match problem {
        Some(problem) => format!("{silent}: {problem}"),
        None => silent,
    }
}
