//! Subcommands for the controllers of an array.

use anyhow::Result;
use api::{Controller, Pool};
use reqwest::Method;

use crate::arguments::ControllerCommand;
use crate::commands::Invocation;
use crate::pools::pool_route;
use crate::tables::table;

impl Invocation {
    pub(crate) fn controller(&self, command: &ControllerCommand) -> Result<()> {
        match command {
            ControllerCommand::List => {
                let controllers = self.client.get::<Vec<Controller>>("/v1/controllers")?;
                self.show(&controllers, |controllers| {
                    let mut rows = table(&["CONTROLLER", "PORTALS", "POOL", "STATE"]);
                    for controller in controllers {
                        let this = if controller.is_this { " (this)" } else { "" };
                        let number = format!("{}{this}", controller.number);
                        for one in &controller.pools {
                            let state = one.state.map_or("ask it", |state| state.name());
                            let portals = controller.portals.join(" ");
                            rows.add_row([&number, &portals, &one.pool, state]);
                        }
                        if controller.pools.is_empty() {
                            rows.add_row([&number, &controller.portals.join(" "), "-", "-"]);
                        }
                    }
                    rows
                })
            }
            ControllerCommand::Switch { pool } => {
                let route = format!("{}/switch", pool_route(pool)?);
                let body = serde_json::json!({});
                self.changed::<Pool>(Method::POST, &route, &body, |pool| {
                    format!(
                        "Gave pool {} up: another controller takes it; 'gantry controller list' there \
                         shows when it has. If none does within 10 s it opens here again.",
                        pool.name
                    )
                })
            }
        }
    }
}
