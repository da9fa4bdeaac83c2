//! Task set of a logical unit (SAM-5 8): decides which command may run now, by task attributes.

use std::collections::VecDeque;

use crate::command::Ordering;

/// The slot of a task in the target's table.
pub(crate) type Slot = usize;

/// How a task stands to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) attribute: Attribute,
    pub(crate) ordering: Ordering,
}

/// SAM-5 8.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribute {
    Simple,
    /// After all older tasks, before all younger ones.
    Ordered,
    /// At once, before all that do not run yet.
    HeadOfQueue,
}

/// Tasks that run, counted, and tasks that wait (dormant), in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct TaskSet {
    running: Counts,
    dormant: VecDeque<(Slot, Class)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    all: usize,
    barriers: usize,
    compare_and_writes: usize,
    reserves: usize,
}

impl Counts {
    fn add(&mut self, class: Class) {
        self.all += 1;
        self.barriers += usize::from(class.attribute != Attribute::Simple);
        self.compare_and_writes += usize::from(class.ordering == Ordering::CompareAndWrite);
        self.reserves += usize::from(class.ordering == Ordering::Reserve);
    }

    fn remove(&mut self, class: Class) {
        self.all -= 1;
        self.barriers -= usize::from(class.attribute != Attribute::Simple);
        self.compare_and_writes -= usize::from(class.ordering == Ordering::CompareAndWrite);
        self.reserves -= usize::from(class.ordering == Ordering::Reserve);
    }

    /// Whether a task may start while these run or wait before it.
    fn admit(self, class: Class) -> bool {
        let attribute_admits = match class.attribute {
            Attribute::HeadOfQueue => true,
            Attribute::Ordered => self.all == 0,
            Attribute::Simple => self.barriers == 0,
        };
        attribute_admits
            && match class.ordering {
                Ordering::CompareAndWrite => self.reserves == 0,
                Ordering::Reserve => self.compare_and_writes == 0 && self.reserves == 0,
                Ordering::Simple | Ordering::Immediate | Ordering::Alone => true,
            }
    }
}

impl TaskSet {
    /// Tasks that run or wait.
    pub(crate) fn len(&self) -> usize {
        self.running.all + self.dormant.len()
    }

    /// Takes a task in; returns whether it runs at once.
    pub(crate) fn enter(&mut self, slot: Slot, class: Class) -> bool {
        let is_head = class.attribute == Attribute::HeadOfQueue;
        let ahead = if is_head || self.dormant.is_empty() { self.running } else { self.ahead() };
        let starts = ahead.admit(class);
        match starts {
            true => self.running.add(class),
            false if is_head => self.dormant.push_front((slot, class)),
            false => self.dormant.push_back((slot, class)),
        }
        starts
    }

    /// Removes a task that ran.
    pub(crate) fn leave(&mut self, class: Class) {
        self.running.remove(class);
    }

    /// Removes a task that waited; returns whether it did.
    pub(crate) fn withdraw(&mut self, slot: Slot) -> bool {
        let before = self.dormant.len();
        self.dormant.retain(|(waiting, _)| *waiting != slot);
        self.dormant.len() != before
    }

    /// Starts the first waiting task that may run now.
    pub(crate) fn start_next(&mut self) -> Option<Slot> {
        let mut ahead = self.running;
        let mut startable = None;
        for (index, &(_, class)) in self.dormant.iter().enumerate() {
            if ahead.admit(class) {
                startable = Some(index);
                break;
            }
            if class.attribute == Attribute::Ordered {
                break;
            }
            ahead.add(class);
        }
        let (slot, class) = self.dormant.remove(startable?)?;
        self.running.add(class);
        Some(slot)
    }

    /// All that waits, removed.
    pub(crate) fn drain_dormant(&mut self) -> Vec<Slot> {
        self.dormant.drain(..).map(|(slot, _)| slot).collect()
    }

    fn ahead(&self) -> Counts {
        let mut ahead = self.running;
        for &(_, class) in &self.dormant {
            ahead.add(class);
        }
        ahead
    }
}

#[cfg(test)]
mod tests;
