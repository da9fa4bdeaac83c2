//! Clock, devices, wires and links that controllers and hosts share, and messages on their way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use block::{BLOCK, DeviceOperation};
use control::take_over::OwnerBeat;

use super::device::{Client, OWNER_BEAT_OFFSET, Reply, SharedDevice};
use super::figures::Figures;
use super::history::{History, Value};
use super::mistake::Mistake;
use super::profile::Profile;
use crate::random::{Random, mix};

/// What a host asks of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// READ.
    Read,
    /// WRITE.
    Write(Value),
    /// COMPARE AND WRITE.
    Replace { expected: Value, value: Value },
    /// PERSISTENT RESERVE OUT: a change of what the controller keeps in memory and in the pool.
    Reserve(Value),
    /// PERSISTENT RESERVE IN: answered from memory.
    Reservation,
}

impl Ask {
    /// What it leaves in its block, if it changes that.
    pub(super) const fn value(self) -> Option<Value> {
        match self {
            Self::Write(value) | Self::Reserve(value) | Self::Replace { value, .. } => Some(value),
            Self::Read | Self::Reservation => None,
        }
    }
}

/// A command on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) host: usize,
    pub(super) session: u64,
    pub(super) id: u64,
    pub(super) block: usize,
    pub(super) ask: Ask,
    /// When the host sent it.
    pub(super) asked: u64,
}

/// An answer to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// GOOD, with what was read.
    Good(Option<Value>),
    /// MISCOMPARE.
    Differs,
    /// Another path, or later.
    NotReady,
    /// Later.
    Busy,
}

/// What a controller says of itself on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) from: u16,
    pub(super) life: u64,
    pub(super) standing: Standing,
}

/// How a controller stands to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Active,
    Transitioning,
    Standby,
}

/// What reaches a controller's process.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Login {
        host: usize,
        session: u64,
    },
    Command(Command),
    Said(Said),
    /// The connection of the link to that controller has ended.
    Missed {
        from: u16,
    },
    /// The process of that controller has ended.
    Ended {
        from: u16,
        life: u64,
    },
    Told {
        client: Client,
        device: usize,
        told: Told,
    },
}

/// How a device answered an attempt to open it.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Open,
    Held {
        holder: Option<Client>,
        beat: Option<OwnerBeat>,
    },
    /// It is not reached.
    Absent,
}

/// What is asked of a device besides I/O.
#[derive(Clone, Debug)]
pub(super) enum Opening {
    /// If nobody has it.
    Respectful,
    /// Whoever of these has it is fenced.
    Breaking(Vec<Client>),
    /// Whoever has it is fenced.
    BreakingAny,
}

/// What goes over the wire between a controller and a device.
pub(super) enum OnWire {
    Io { client: Client, io: u64, operation: DeviceOperation },
    Open { client: Client, how: Opening },
    Release { client: Client },
    Reply(Reply),
    Told { client: Client, told: Told },
}

/// What happens later.
pub(super) enum Event {
    ToController { to: usize, message: Message },
    ToHost { host: usize, session: (usize, u64), id: u64, answer: Answer },
    AtDevice { from: usize, device: usize, what: OnWire },
    Tick { controller: usize, life: u64 },
    Wake { host: usize },
    AskOn { host: usize },
    Resume { controller: usize },
    EndNoticed { controller: usize, life: u64 },
    Restart { controller: usize },
    HealWire { controller: usize, device: usize },
    HealLink { between: (usize, usize) },
    HealPath { host: usize, controller: usize },
    ForgetFences { device: usize },
    Trouble,
    Administrator,
}

/// The scene.
pub(super) struct Scene {
    pub(super) now: u64,
    pub(super) profile: Profile,
    pub(super) random: Random,
    pub(super) devices: Vec<SharedDevice>,
    pub(super) history: History,
    pub(super) figures: Figures,
    pub(super) queue: BTreeMap<(u64, u64), Event>,
    pub(super) cut_wires: BTreeSet<(usize, usize)>,
    pub(super) cut_links: BTreeSet<(usize, usize)>,
    pub(super) cut_paths: BTreeSet<(usize, usize)>,
    /// What waits at a cut wire, in its order.
    held: Vec<(usize, usize, OnWire)>,
    /// Which controller a client is of.
    clients: BTreeMap<Client, usize>,
    /// Answers of devices that reach their controllers now.
    pub(super) arrived: VecDeque<(usize, OnWire, usize)>,
    numbers: u64,
    events: u64,
    /// When a controller served last.
    pub(super) served: u64,
    /// When a host was answered last.
    pub(super) answered: u64,
    pub(super) sum: u64,
    /// The last events in words, if somebody wants them.
    story: Option<VecDeque<String>>,
    story_events: usize,
}

impl Scene {
    /// A scene with devices that are as new.
    pub(super) fn new(profile: Profile, mut random: Random, story_events: usize) -> Self {
        let bytes = profile.device_bytes;
        let device = |random: &mut Random| SharedDevice::new(bytes, profile.refuses_reads, random);
        let devices = (0..profile.slots()).map(|_| device(&mut random)).collect();
        Self {
            now: 0,
            history: History::new(profile.blocks),
            profile,
            random,
            devices,
            figures: Figures::default(),
            queue: BTreeMap::new(),
            cut_wires: BTreeSet::new(),
            cut_links: BTreeSet::new(),
            cut_paths: BTreeSet::new(),
            held: Vec::new(),
            clients: BTreeMap::new(),
            arrived: VecDeque::new(),
            numbers: 0,
            events: 0,
            served: 0,
            answered: 0,
            sum: 0,
            story: (story_events > 0).then(VecDeque::new),
            story_events,
        }
    }

    /// A number that nothing else has.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A name for a controller at the devices.
    pub(super) fn new_client(&mut self, controller: usize) -> Client {
        let client = self.number();
        self.clients.insert(client, controller);
        client
    }

    /// Whether this mistake is planted.
    pub(super) fn has(&self, mistake: Mistake) -> bool {
        self.profile.mistake == Some(mistake)
    }

    /// Something happens after some nanoseconds.
    pub(super) fn after(&mut self, nanoseconds: u64, event: Event) {
        self.events += 1;
        self.queue.insert((self.now + nanoseconds, self.events), event);
    }

    /// A message takes its time, on a network that is there.
    pub(super) fn send(&mut self, to: usize, message: Message) {
        let latency = self.random.between(20_000, 150_000);
        self.after(latency, Event::ToController { to, message });
    }

    /// Tells what happens to whoever wants the story.
    pub(super) fn tell(&mut self, kind: u64, words: impl FnOnce() -> String) {
        self.sum = mix(self.sum ^ mix(self.now ^ kind << 48));
        let Some(story) = &mut self.story else { return };
        if story.len() == self.story_events {
            story.pop_front();
        }
        story.push_back(format!("{:>13} us  {}\n", self.now / 1000, words()));
    }

    /// The story so far.
    pub(super) fn story(&self) -> String {
        self.story.iter().flatten().map(String::as_str).collect()
    }

    /// A controller asks something of a device; while the wire is cut that waits. One that is to be opened is not
    /// there then.
    pub(super) fn send_to_device(&mut self, from: usize, device: usize, what: OnWire) {
        if self.cut_wires.contains(&(from, device)) {
            let OnWire::Open { client, .. } = what else {
                return self.held.push((from, device, what));
            };
            let latency = self.random.between(20_000, 150_000);
            let message = Message::Told { client, device, told: Told::Absent };
            return self.after(latency, Event::ToController { to: from, message });
        }
        match what {
            OnWire::Io { client, io, operation } => self.submit(device, (client, io), operation),
            OnWire::Open { .. } | OnWire::Release { .. } => {
                let latency = self.random.below(self.profile.fence_latency) + 1000;
                self.after(latency, Event::AtDevice { from, device, what });
            }
            OnWire::Reply(_) | OnWire::Told { .. } => self.arrived.push_back((from, what, device)),
        }
    }

    fn submit(&mut self, device: usize, (client, io): (Client, u64), operation: DeviceOperation) {
        self.figures.device_operations += 1;
        let is_write = matches!(operation, DeviceOperation::Write { .. });
        self.tell(10, || {
            format!("  io {client}.{io} at device {device}: {}", words_of(&operation))
        });
        let forgets = self.has(Mistake::WitnessForgets)
            && self.profile.witness_slot() == Some(device)
            && matches!(operation, DeviceOperation::Write { offset, .. } if offset != OWNER_BEAT_OFFSET);
        if forgets {
            return self.device_answers(device, Reply { client, io, result: Ok(None) });
        }
        if is_write && self.has(Mistake::RegistersAgain) {
            self.devices[device].admit(client);
        }
        if let Some(reply) = self.devices[device].submit(self.now, (client, io), operation) {
            self.device_answers(device, reply);
        }
    }

    /// A device has answered an I/O.
    pub(super) fn device_answers(&mut self, device: usize, reply: Reply) {
        let Reply { client, io, result } = &reply;
        let (client, io, is_well) = (*client, *io, result.is_ok());
        self.tell(11, || {
            format!("  io {client}.{io} ends {}", if is_well { "well" } else { "BADLY" })
        });
        if let Some(&controller) = self.clients.get(&reply.client) {
            self.send_to_device(controller, device, OnWire::Reply(reply));
        }
    }

    /// A request to open or release a device has come there.
    pub(super) fn at_device(&mut self, from: usize, device: usize, what: OnWire) {
        match what {
            OnWire::Open { client, how } => {
                let told = self.open_device(device, client, &how);
                self.send_to_device(from, device, OnWire::Told { client, told });
            }
            OnWire::Release { client } => self.devices[device].release(client),
            OnWire::Io { .. } | OnWire::Reply(_) | OnWire::Told { .. } => {}
        }
    }

    fn open_device(&mut self, device: usize, client: Client, how: &Opening) -> Told {
        let holder = self.devices[device].holder();
        let is_broken = match (how, holder) {
            (Opening::Respectful, _) | (Opening::Breaking(_), None) => false,
            (Opening::Breaking(holders), Some(holder)) => holders.contains(&holder),
            (Opening::BreakingAny, _) => true,
        };
        if !self.devices[device].is_free() && !is_broken {
            let beat = OwnerBeat::parse(&self.devices[device].beat_block());
            return Told::Held { holder, beat };
        }
        self.fence_holder(device, holder);
        self.devices[device].admit(client);
        self.tell(3, || format!("device {device} is client {client}'s, before {holder:?}'s"));
        Told::Open
    }

    fn fence_holder(&mut self, device: usize, holder: Option<Client>) {
        let is_spared =
            self.has(Mistake::OpensBeforeFence) || self.has(Mistake::FencesOneDevice) && device > 0;
        let is_witness = self.profile.witness_slot() == Some(device);
        let is_spared = is_spared || is_witness && self.has(Mistake::SparesWitness);
        let Some(holder) = holder.filter(|_| !is_spared) else { return };
        self.devices[device].fence(holder);
        self.figures.fences += 1;
        if self.has(Mistake::FenceExpires) {
            self.after(60_000_000_000, Event::ForgetFences { device });
        }
    }

    /// What waited at a wire goes on.
    pub(super) fn heal_wire(&mut self, controller: usize, device: usize) {
        self.cut_wires.remove(&(controller, device));
        let held = std::mem::take(&mut self.held);
        let (freed, others): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(from, to, _)| (*from, *to) == (controller, device));
        self.held = others;
        for (from, to, what) in freed {
            self.send_to_device(from, to, what);
        }
    }

    /// When and at which device the next I/O ends.
    pub(super) fn next_completion(&self) -> Option<(u64, usize)> {
        let times = self.devices.iter().enumerate();
        times.filter_map(|(index, device)| Some((device.next_time()?, index))).min()
    }
}

fn words_of(operation: &DeviceOperation) -> String {
    let blocks = |offset: u64, length: u64| format!("block {}+{}", offset / BLOCK, length / BLOCK);
    match operation {
        DeviceOperation::Read { offset, buffer } => {
            format!("read {}", blocks(*offset, buffer.len() as u64))
        }
        DeviceOperation::Write { offset, data } => {
            format!("write {}", blocks(*offset, data.len() as u64))
        }
        DeviceOperation::Flush => "flush".to_owned(),
        DeviceOperation::Reserve { offset, length } => {
            format!("reserve {}", blocks(*offset, *length))
        }
    }
}
