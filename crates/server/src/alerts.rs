//! Alert delivery: sends events to webhooks and e-mail receivers, in a thread of its own.
//!
//! The reactor puts an event into the bounded queue of each receiver and goes on; a queue that is
//! full takes none. Each receiver has a task that sends one after the other, and tries again. A
//! failure here becomes no event, since that would have to be delivered in turn.

mod mail;
mod webhook;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use api::{AlertMessage, Delivery, Event, EventKind, Severity};
use array::{AlertLevel, Alerts as Settings, Secrets};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::described::Described;
use crate::events::now;
use crate::http::Reply;
use crate::limits::{
    ALERT_ATTEMPTS_MAX, ALERT_BACKOFF_MAX, ALERT_BACKOFF_MIN, ALERT_QUEUE_MAX, ALERT_TIMEOUT,
    DELIVERIES_MAX, DELIVERY_DETAIL_MAX,
};
use crate::trust;

/// Tells receivers of events.
pub(crate) struct Alerts {
    array: String,
    runtime: Handle,
    receivers: Vec<Receiver>,
    deliveries: Deliveries,
    testing: Arc<AtomicBool>,
}

/// One receiver, and the task that delivers to it.
struct Receiver {
    address: Address,
    level: AlertLevel,
    queue: mpsc::Sender<AlertMessage>,
    task: JoinHandle<()>,
}

/// Address of a receiver.
#[derive(Clone, PartialEq, Eq)]
enum Address {
    Webhook(webhook::Webhook),
    Mail(mail::Mail),
}

/// Why a message was not taken.
struct Failure {
    reason: String,
    /// Whether it would not be taken later either.
    is_final: bool,
}

/// The latest attempts, newest first.
#[derive(Clone, Default)]
struct Deliveries(Arc<Mutex<VecDeque<Delivery>>>);

impl Alerts {
    /// Starts the thread; nobody is told yet. `array` tells arrays apart.
    pub(crate) fn start(array: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("alerts".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(Self {
            array: array.to_owned(),
            runtime: handle,
            receivers: Vec::new(),
            deliveries: Deliveries::default(),
            testing: Arc::new(AtomicBool::new(false)),
        })
    }

    /// Other receivers. One that is told as before keeps what waits for it.
    pub(crate) fn configure(&mut self, settings: &Settings, secrets: &Secrets) {
        let mut before = std::mem::take(&mut self.receivers);
        for (address, level) in addresses(settings, secrets) {
            let known = before.iter().position(|receiver| receiver.address == address);
            let receiver = match known {
                Some(known) => Receiver { level, ..before.swap_remove(known) },
                None => self.begin(address, level),
            };
            self.receivers.push(receiver);
        }
        before.into_iter().for_each(|receiver| receiver.task.abort());
    }

    fn begin(&self, address: Address, level: AlertLevel) -> Receiver {
        let (queue, waiting) = mpsc::channel(ALERT_QUEUE_MAX);
        let task = self.runtime.spawn(tell(address.clone(), waiting, self.deliveries.clone()));
        Receiver { address, level, queue, task }
    }

    /// Lets everybody be told who wants to know.
    pub(crate) fn offer(&self, event: &Event) {
        let wanted = self.receivers.iter().filter(|r| level(event.severity) >= r.level);
        for receiver in wanted {
            let message = self.message(event);
            if receiver.queue.try_send(message).is_err() {
                let reason = "not told: too many events wait already";
                self.deliveries.note(&receiver.address, event.number, Err(reason.to_owned()));
            }
        }
    }

    /// Tells every receiver something at once, and answers with what became of it.
    pub(crate) fn test(&self, reply: oneshot::Sender<Reply>) {
        if self.testing.swap(true, Ordering::Relaxed) {
            let detail = "another test is under way: wait for its end";
            let _ = reply.send(Err(api::Problem::new(api::ProblemKind::Conflict, detail)));
            return;
        }
        let time = now();
        let event = Event {
            number: 0,
            time,
            severity: Severity::Information,
            object: "alerts".to_owned(),
            message: "this is a test".to_owned(),
            kind: EventKind::General,
            count: 1,
            last_time: time,
        };
        let message = AlertMessage { test: true, ..self.message(&event) };
        let addresses = self.receivers.iter().map(|receiver| receiver.address.clone()).collect();
        let (deliveries, testing) = (self.deliveries.clone(), Arc::clone(&self.testing));
        self.runtime.spawn(async move {
            let outcomes = test_each(addresses, &message, &deliveries).await;
            testing.store(false, Ordering::Relaxed);
            let _ = reply.send(Ok(Described::later(move || outcomes)));
        });
    }

    /// The latest attempts, newest first.
    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().iter().cloned().collect()
    }

    fn message(&self, event: &Event) -> AlertMessage {
        AlertMessage {
            array: self.array.clone(),
            number: event.number,
            time: event.time,
            severity: event.severity,
            object: event.object.clone(),
            message: event.message.clone(),
            test: false,
        }
    }
}

/// Everybody who can be told. Who should prove something and has no secret for it cannot.
fn addresses(settings: &Settings, secrets: &Secrets) -> Vec<(Address, AlertLevel)> {
    let webhooks = settings.webhooks.iter().filter_map(|(name, webhook)| {
        let secret = secrets.webhooks.get(name).filter(|_| webhook.signed).cloned();
        (secret.is_some() == webhook.signed).then(|| {
            let address = webhook::Webhook { name: name.clone(), url: webhook.url.clone(), secret };
            (Address::Webhook(address), webhook.level)
        })
    });
    let mail = settings.mail.iter().filter_map(|settings| {
        let password = secrets.mail.clone().filter(|_| settings.user.is_some());
        (password.is_some() == settings.user.is_some()).then(|| {
            let address = mail::Mail { settings: settings.clone(), password };
            (Address::Mail(address), settings.level)
        })
    });
    webhooks.chain(mail).collect()
}

/// Sends the messages of the queue, one after the other.
async fn tell(address: Address, mut waiting: mpsc::Receiver<AlertMessage>, deliveries: Deliveries) {
    while let Some(message) = waiting.recv().await {
        deliver(&address, &message, &deliveries).await;
    }
}

/// Tries until it is taken, is not going to be, or has been tried often enough. The first failure
/// and the end are noted.
async fn deliver(address: &Address, message: &AlertMessage, deliveries: &Deliveries) {
    let mut pause = ALERT_BACKOFF_MIN;
    for attempt in 1..=ALERT_ATTEMPTS_MAX {
        match address.send(message).await {
            Ok(()) => return deliveries.note(address, message.number, Ok(())),
            Err(failure) if failure.is_final || attempt == ALERT_ATTEMPTS_MAX => {
                let reason = format!("given up: {}", failure.reason);
                return deliveries.note(address, message.number, Err(reason));
            }
            Err(failure) => {
                if attempt == 1 {
                    let reason = format!("is tried again: {}", failure.reason);
                    deliveries.note(address, message.number, Err(reason));
                }
                tokio::time::sleep(pause).await;
                pause = next_pause(pause);
            }
        }
    }
}

fn next_pause(pause: Duration) -> Duration {
    (pause * 2).min(ALERT_BACKOFF_MAX)
}

/// Everybody at once, so that it takes no longer than the slowest.
async fn test_each(
    addresses: Vec<Address>,
    message: &AlertMessage,
    deliveries: &Deliveries,
) -> Vec<Delivery> {
    let attempts: Vec<_> = addresses
        .into_iter()
        .map(|address| {
            let (message, deliveries) = (message.clone(), deliveries.clone());
            tokio::spawn(async move {
                let outcome = address.send(&message).await.map_err(|failure| failure.reason);
                deliveries.note(&address, 0, outcome.clone());
                delivery(&address, 0, outcome)
            })
        })
        .collect();
    let mut outcomes = Vec::new();
    for attempt in attempts {
        outcomes.extend(attempt.await.ok());
    }
    outcomes
}

impl Address {
    async fn send(&self, message: &AlertMessage) -> Result<(), Failure> {
        let sending = async {
            match self {
                Self::Webhook(webhook) => webhook.send(message).await,
                Self::Mail(mail) => mail.send(message).await,
            }
        };
        let late = || Failure::temporary(format!("no answer within {ALERT_TIMEOUT:?}"));
        tokio::time::timeout(ALERT_TIMEOUT, sending).await.unwrap_or_else(|_| Err(late()))
    }

    fn name(&self) -> String {
        match self {
            Self::Webhook(webhook) => format!("webhook {}", webhook.name),
            Self::Mail(_) => "mail".to_owned(),
        }
    }
}

impl Failure {
    fn temporary(reason: String) -> Self {
        Self { reason: trust::explained(reason), is_final: false }
    }

    fn lasting(reason: String) -> Self {
        Self { reason, is_final: true }
    }
}

impl Deliveries {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Delivery>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, address: &Address, event: u64, outcome: Result<(), String>) {
        let delivery = delivery(address, event, outcome);
        if !delivery.ok {
            let (receiver, detail) = (&delivery.receiver, &delivery.detail);
            tracing::warn!(receiver, event, "{detail}");
        }
        let mut deliveries = self.lock();
        deliveries.truncate(DELIVERIES_MAX - 1);
        deliveries.push_front(delivery);
    }
}

fn delivery(address: &Address, event: u64, outcome: Result<(), String>) -> Delivery {
    let (ok, detail) = match outcome {
        Ok(()) => (true, String::new()),
        Err(detail) => (false, printable(&detail)),
    };
    Delivery { time: now(), receiver: address.name(), event, ok, detail }
}

/// Shortens text from outside to one printable line.
fn printable(text: &str) -> String {
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(DELIVERY_DETAIL_MAX).collect()
}

fn level(severity: Severity) -> AlertLevel {
    match severity {
        Severity::Information => AlertLevel::Information,
        Severity::Warning => AlertLevel::Warning,
        Severity::Error => AlertLevel::Error,
    }
}

/// How bad an event is, in one word.
pub(crate) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Information => "information",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

#[cfg(test)]
mod tests;
