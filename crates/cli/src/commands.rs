//! One function per subcommand: a request, and how its answer is shown.

use anyhow::{Result, bail};
use api::{CreateVolume, Event, LunMap, MapVolume, ResizeVolume, SetReservations, Target, Volume};
use reqwest::Method;
use serde::Serialize;

use crate::arguments::{
    Arguments, Object, SessionCommand, TargetCommand, VisibilityArgument, VolumeCommand,
};
use crate::client::Client;
use crate::tables::{
    Table, events_table, session_details, session_keys_table, sessions_table, target_details,
    volume_details, volumes_table,
};

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let invocation =
        Invocation { client: Client::new(&arguments.global)?, json: arguments.global.json };
    match &arguments.object {
        Object::Pool(command) => invocation.pool(command),
        Object::Volume(command) => invocation.volume(command),
        Object::Snapshot(command) => invocation.snapshot(command),
        Object::Completions { .. } | Object::ManPages { .. } | Object::SupportBundle(_) => {
            unreachable!("main does these, which need no daemon")
        }
        Object::Configuration(command) => invocation.configuration(command),
        Object::Task(command) => invocation.task(command),
        Object::Alert(command) => invocation.alert(command),
        Object::Schedule(command) => invocation.schedule(command),
        Object::Scrub(command) => invocation.scrub(command),
        Object::Events => invocation
            .show(&invocation.client.get::<Vec<Event>>("/v1/events")?, |list| events_table(list)),
        Object::User(command) => invocation.user(command),
        Object::Token(command) => invocation.token(command),
        Object::Audit(arguments) => invocation.audit(arguments),
        Object::Offload(command) => invocation.offload(command),
        Object::Top(arguments) => invocation.top(arguments),
        Object::Locks => invocation.locks(),
        Object::Reclaim => invocation.reclaim(),
        Object::Forecast => invocation.forecast(),
        Object::RecoveryKey(command) => invocation.recovery_key(command),
        Object::Host(command) => invocation.host(command),
        Object::Group(command) => invocation.group(command),
        Object::Controller(command) => invocation.controller(command),
        Object::Portal(command) => invocation.portal(command),
        Object::Discovery(command) => invocation.discovery(command),
        Object::Session(SessionCommand::List { keys }) => invocation.list_sessions(*keys),
        Object::Session(SessionCommand::Show { tsih }) => invocation.show_session(*tsih),
        Object::Session(SessionCommand::Close { tsih, iqn }) => {
            invocation.close_sessions(*tsih, iqn)
        }
        Object::Target(TargetCommand::Identification { identification }) => {
            invocation.identification(identification)
        }
        Object::Target(TargetCommand::Primitives { primitives }) => {
            invocation.primitives(primitives)
        }
        Object::Target(TargetCommand::Show) => {
            invocation.show(&invocation.client.get::<Target>("/v1/target")?, target_details)
        }
    }
}

/// What every command needs.
pub(crate) struct Invocation {
    pub(crate) client: Client,
    json: bool,
}

impl Invocation {
    /// Whether answers are printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    fn list_sessions(&self, keys: bool) -> Result<()> {
        let sessions: Vec<api::Session> = self.client.get("/v1/sessions")?;
        let table = if keys { session_keys_table } else { sessions_table };
        self.show(&sessions, |list| table(list))
    }

    fn show_session(&self, tsih: u16) -> Result<()> {
        let session: api::Session = self.client.get(&format!("/v1/sessions/{tsih}"))?;
        self.show(&session, session_details)
    }

    /// Ends one session, or all of an initiator.
    fn close_sessions(&self, tsih: Option<u16>, iqn: &Option<String>) -> Result<()> {
        let close = |tsih: u16| self.client.delete(&format!("/v1/sessions/{tsih}"));
        let closed = match (tsih, iqn) {
            (Some(tsih), _) => close(tsih).map(|()| 1)?,
            (None, iqn) => {
                let sessions = self.client.get::<Vec<api::Session>>("/v1/sessions")?;
                let wanted = iqn.as_ref().map(|name| name.to_lowercase());
                let of_it = sessions.iter().filter(|one| Some(&one.initiator) == wanted.as_ref());
                let of_it: Vec<u16> = of_it.map(|session| session.tsih).collect();
                if of_it.is_empty() {
                    bail!("there is no session of that initiator: see 'gantry session list'");
                }
                of_it.iter().try_for_each(|&tsih| close(tsih))?;
                of_it.len()
            }
        };
        if !self.json {
            terminal::say!("Closed {closed} session(s).");
        }
        Ok(())
    }

    fn create_volume(&self, path: &str, body: &CreateVolume) -> Result<()> {
        self.changed::<Volume>(Method::POST, "/v1/volumes", body, |volume| {
            format!("Created volume {path} ({}).", volume.naa)
        })
    }

    fn volume(&self, command: &VolumeCommand) -> Result<()> {
        match command {
            VolumeCommand::Create { path, size, thick, block_size, tags } => {
                let (pool, name) = split(path)?;
                let body = CreateVolume {
                    pool,
                    name,
                    size_bytes: *size,
                    thick: *thick,
                    block_size: (*block_size).into(),
                    tags: tags.parse()?,
                };
                self.create_volume(path, &body)
            }
            VolumeCommand::List => self
                .show(&self.client.get::<Vec<Volume>>("/v1/volumes")?, |list| volumes_table(list)),
            VolumeCommand::Show { path } => {
                self.show(&self.client.get::<Volume>(&volume_route(path)?)?, volume_details)
            }
            VolumeCommand::Resize { path, size, shrink } => {
                let body = ResizeVolume { size_bytes: *size, shrink: *shrink };
                self.changed::<Volume>(Method::PATCH, &volume_route(path)?, &body, |_| {
                    format!("Resized volume {path}.")
                })
            }
            VolumeCommand::Clone { path, name, thick, tags } => {
                self.clone_volume(path, name, *thick, tags)
            }
            VolumeCommand::Revert { path, to, force, confirmation } => {
                confirmation.ask(&format!(
                    "Take volume {path} back to {to}? What was written since then is lost."
                ))?;
                self.revert_volume(path, to, *force)
            }
            VolumeCommand::Set { path, thresholds } => self.set_volume_thresholds(path, thresholds),
            VolumeCommand::Reservations { path, visibility } => {
                let hidden = *visibility == VisibilityArgument::Hidden;
                let route = format!("{}/reservations", volume_route(path)?);
                let body = SetReservations { hidden };
                self.changed::<Volume>(Method::PUT, &route, &body, |volume| {
                    let how = if volume.reservations_hidden { "cannot" } else { "can" };
                    format!("Hosts {how} reserve {path}.")
                })
            }
            VolumeCommand::Identification { path, identification, .. } => {
                self.volume_identification(path, identification)
            }
            VolumeCommand::Primitives { path, primitives } => {
                self.volume_primitives(path, primitives)
            }
            VolumeCommand::Limit { path, limits } => self.volume_limit(path, *limits),
            VolumeCommand::Rename(arguments) => self.rename_volume(arguments),
            VolumeCommand::Tag(arguments) => self.tag_volume(arguments),
            VolumeCommand::Delete { path, confirmation } => {
                confirmation.ask(&format!("Delete volume {path} and all its data?"))?;
                self.delete(&volume_route(path)?, &format!("Deleted volume {path}."))
            }
            VolumeCommand::Map { path, host, lun, read_only } => {
                let route = map_route(path, host)?;
                let body = MapVolume { lun: *lun, read_only: *read_only };
                self.changed::<LunMap>(Method::PUT, &route, &body, |map| {
                    let how = if map.read_only { ", for reading only" } else { "" };
                    format!("Mapped {} to {} as LUN {}{how}.", map.volume, map.host, map.lun)
                })
            }
            VolumeCommand::Unmap { path, host } => {
                self.delete(&map_route(path, host)?, &format!("Unmapped {path} from {host}."))
            }
        }
    }

    pub(crate) fn show<T: Serialize>(
        &self,
        object: &T,
        table: impl FnOnce(&T) -> Table,
    ) -> Result<()> {
        if self.json {
            terminal::say!("{}", serde_json::to_string_pretty(object)?);
            return Ok(());
        }
        let table = table(object);
        if table.is_empty() {
            terminal::say!("There are none yet.")
        } else {
            terminal::say!("{table}")
        }
        Ok(())
    }

    pub(crate) fn changed<T: Serialize + serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
        sentence: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        let object: T = self.client.send(method, path, body)?;
        self.tell(&object, sentence)
    }

    /// Prints what became of a change.
    pub(crate) fn tell<T: Serialize>(
        &self,
        object: &T,
        sentence: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        if self.json {
            terminal::say!("{}", serde_json::to_string_pretty(object)?)
        } else {
            terminal::say!("{}", sentence(object))
        }
        Ok(())
    }

    pub(crate) fn delete(&self, path: &str, sentence: &str) -> Result<()> {
        self.client.delete(path)?;
        if !self.json {
            terminal::say!("{sentence}");
        }
        Ok(())
    }
}

pub(crate) fn split(path: &str) -> Result<(String, String)> {
    match path.split_once('/') {
        Some((pool, volume)) => {
            check_segment("pool", pool)?;
            check_segment("volume", volume)?;
            Ok((pool.to_owned(), volume.to_owned()))
        }
        None => bail!("'{path}' does not name a volume: write POOL/NAME"),
    }
}

/// Names become parts of a URL, so a name that no object can have is refused here.
pub(crate) fn check_segment(kind: &str, name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        bail!("'{name}' is not a valid {kind} name: use letters, digits, '-', '_' and '.'");
    }
    Ok(())
}

pub(crate) fn volume_route(path: &str) -> Result<String> {
    let (pool, volume) = split(path)?;
    Ok(format!("/v1/volumes/{pool}/{volume}"))
}

fn map_route(path: &str, host: &str) -> Result<String> {
    check_segment("host", host)?;
    Ok(format!("{}/maps/{host}", volume_route(path)?))
}
