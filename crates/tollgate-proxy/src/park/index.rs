//! All entries in memory: queues, bounds, counts. The bodies are in the file only.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tollgate_rules::Park as Bounds;

use super::entry::{Entry, Id, State};
use super::{Filter, QueueName, queue_name};

/// How many ended entries a store remembers.
pub(super) const ENDED: usize = 10_000;

/// The most entries that a list looks at in one go, under the lock that parking needs.
pub(super) const AT_ONCE: usize = 256;

/// What can become of a request, as labels say it.
pub const EVENTS: [&str; 6] = ["parked", "drained", "expired", "dead", "cancelled", "full"];

/// The parked requests of one rule, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that wait.
    pub parked: usize,
    /// Those that failed too often.
    pub dead: usize,
    pub(super) bytes: u64,
    /// How often each of [`EVENTS`] happened.
    pub events: [u64; EVENTS.len()],
}

impl Counts {
    /// Counts an event, which is one of [`EVENTS`].
    pub(super) fn tell(&mut self, event: &str) {
        let known = EVENTS.iter().zip(&mut self.events).find(|(known, _)| **known == event);
        if let Some((_, count)) = known {
            *count += 1;
        }
    }
}

/// A bound of the rule is reached.
pub(super) struct Full;

#[derive(Default)]
pub(super) struct Index {
    entries: BTreeMap<u64, Slot>,
    numbers: HashMap<Id, u64>,
    queues: HashMap<QueueName, Queue>,
    counts: BTreeMap<Box<str>, Counts>,
    /// The ended entries, the oldest first.
    ended: VecDeque<u64>,
    /// The next number of an entry, and the next turn.
    next: u64,
    /// The queues that have begun to have a request.
    begun: Vec<QueueName>,
}

struct Slot {
    entry: Entry,
    /// Whether the file has it.
    is_stored: bool,
    is_sending: bool,
}

#[derive(Default)]
struct Queue {
    /// The numbers of the entries that wait, by their turns.
    waiting: BTreeMap<u64, u64>,
    /// How many entries are dead.
    dead: usize,
    /// How many bytes both take.
    bytes: u64,
    /// Whether a task drains it, or is told to.
    is_drained: bool,
}

impl Index {
    fn count(&mut self, rule: &str) -> &mut Counts {
        if !self.counts.contains_key(rule) {
            self.counts.insert(rule.into(), Counts::default());
        }
        self.counts.entry(rule.into()).or_default()
    }

    fn tell(&mut self, rule: &str, event: &str) {
        self.count(rule).tell(event);
    }

    /// Puts an entry into its queue and the counts of its rule, or among the ended.
    fn enter(&mut self, number: u64) {
        let Some(Slot { entry, is_stored, .. }) = self.entries.get(&number) else { return };
        let (state, turn, is_stored, bytes) = (entry.state, entry.turn, *is_stored, entry.bytes);
        let (rule, name) = (entry.rule.clone(), queue_name(&entry.rule, &entry.key));
        if !state.is_held() {
            self.ended.push_back(number);
            return;
        }
        let counts = self.count(&rule);
        counts.bytes += bytes;
        let queue = self.queues.entry(QueueName::clone(&name)).or_default();
        queue.bytes += bytes;
        if state == State::Dead {
            queue.dead += 1;
            self.count(&rule).dead += 1;
            return;
        }
        queue.waiting.insert(turn, number);
        self.count(&rule).parked += 1;
        if is_stored {
            self.begin_queue(&name);
        }
    }

    /// Takes an entry out of its queue and the counts of its rule.
    fn leave(&mut self, number: u64) {
        let Some(Slot { entry, .. }) = self.entries.get(&number) else { return };
        let (state, turn, bytes) = (entry.state, entry.turn, entry.bytes);
        let (rule, name) = (entry.rule.clone(), queue_name(&entry.rule, &entry.key));
        if !state.is_held() {
            return;
        }
        let counts = self.count(&rule);
        counts.bytes -= bytes;
        match state {
            State::Dead => counts.dead -= 1,
            _ => counts.parked -= 1,
        }
        let Some(queue) = self.queues.get_mut(&name) else { return };
        queue.bytes -= bytes;
        match state {
            State::Dead => queue.dead -= 1,
            _ => drop(queue.waiting.remove(&turn)),
        }
        if queue.waiting.is_empty() && queue.dead == 0 && !queue.is_drained {
            self.queues.remove(&name);
        }
    }

    /// Tells of a queue, unless a task drains it.
    fn begin_queue(&mut self, name: &QueueName) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        if !std::mem::replace(&mut queue.is_drained, true) {
            self.begun.push(QueueName::clone(name));
        }
    }

    /// Adds an entry, which the file does not have yet. Returns it with its number and its turn.
    pub(super) fn add(&mut self, mut entry: Entry, bounds: &Bounds) -> Result<(u64, Entry), Full> {
        let Counts { parked, dead, bytes, .. } = *self.count(&entry.rule);
        let queue = self.queues.get(&queue_name(&entry.rule, &entry.key));
        let (of_key, bytes_of_key) =
            queue.map_or((0, 0), |queue| (queue.waiting.len() + queue.dead, queue.bytes));
        if parked + dead >= bounds.requests
            || of_key >= bounds.requests_per_key
            || bytes.saturating_add(entry.bytes) > bounds.bytes
            || bytes_of_key.saturating_add(entry.bytes) > bounds.bytes_per_key
        {
            self.tell(&entry.rule, "full");
            return Err(Full);
        }
        let number = self.next;
        (self.next, entry.turn) = (number + 1, number);
        self.numbers.insert(entry.id, number);
        self.entries.insert(number, Slot { entry: entry.clone(), is_stored: false, is_sending: false });
        self.enter(number);
        Ok((number, entry))
    }

    /// The file has the entry now, or could not be written.
    pub(super) fn stored(&mut self, number: u64, is_stored: bool) {
        let Some(slot) = self.entries.get_mut(&number) else { return };
        slot.is_stored = is_stored;
        let (rule, name) = (slot.entry.rule.clone(), queue_name(&slot.entry.rule, &slot.entry.key));
        if is_stored {
            self.tell(&rule, "parked");
        } else {
            self.leave(number);
            if let Some(slot) = self.entries.remove(&number) {
                self.numbers.remove(&slot.entry.id);
            }
        }
        // Also after a failure: the next one may have waited for it.
        self.begin_queue(&name);
    }

    /// Takes over an entry of the file.
    pub(super) fn restore(&mut self, number: u64, entry: Entry) {
        self.next = self.next.max(number + 1).max(entry.turn + 1);
        self.numbers.insert(entry.id, number);
        self.entries.insert(number, Slot { entry, is_stored: true, is_sending: false });
        self.enter(number);
    }

    /// The first entry of a queue, which is being sent from now on. `None`: there is none, or the
    /// file does not have it yet. Then no task drains the queue.
    pub(super) fn begin_front(&mut self, name: &QueueName) -> Option<(u64, Entry)> {
        let queue = self.queues.get_mut(name)?;
        let first = queue.waiting.first_key_value().map(|(_, number)| *number);
        let slot = first.and_then(|number| Some((number, self.entries.get_mut(&number)?)));
        if let Some((number, slot)) = slot.filter(|(_, slot)| slot.is_stored) {
            slot.is_sending = true;
            return Some((number, slot.entry.clone()));
        }
        queue.is_drained = false;
        if queue.waiting.is_empty() && queue.dead == 0 {
            self.queues.remove(name);
        }
        None
    }

    /// It is not being sent any more.
    pub(super) fn pause(&mut self, number: u64) {
        if let Some(slot) = self.entries.get_mut(&number) {
            slot.is_sending = false;
        }
    }

    /// Changes an entry, which ends that it is being sent.
    pub(super) fn change(
        &mut self,
        number: u64,
        change: impl FnOnce(&mut Entry) -> bool,
    ) -> Result<Entry, super::Unchanged> {
        let slot = self.entries.get(&number).ok_or(super::Unchanged::Unknown)?;
        let (mut entry, before) = (slot.entry.clone(), slot.entry.state);
        if !before.is_held() || !change(&mut entry) {
            return Err(super::Unchanged::Unfit);
        }
        self.leave(number);
        if before == State::Dead && entry.state == State::Parked {
            entry.turn = self.next;
            self.next += 1;
        }
        let (rule, state) = (entry.rule.clone(), entry.state);
        if let Some(slot) = self.entries.get_mut(&number) {
            (slot.entry, slot.is_sending) = (entry.clone(), false);
        }
        self.enter(number);
        if let Some(event) = state.event() {
            self.tell(&rule, event);
        }
        Ok(entry)
    }

    /// Forgets the ended entries that are too many. Returns their numbers.
    pub(super) fn forget_oldest(&mut self) -> impl Iterator<Item = u64> + use<> {
        let many = self.ended.len().saturating_sub(ENDED);
        let numbers: Vec<u64> = self.ended.drain(..many).collect();
        for number in &numbers {
            if let Some(slot) = self.entries.remove(number) {
                self.numbers.remove(&slot.entry.id);
            }
        }
        numbers.into_iter()
    }

    pub(super) fn waiting(&self) -> usize {
        self.counts.values().map(|counts| counts.parked).sum()
    }

    pub(super) fn waiting_in(&self, name: &QueueName) -> usize {
        self.queues.get(name).map_or(0, |queue| queue.waiting.len())
    }

    pub(super) fn take_begun(&mut self) -> Vec<QueueName> {
        std::mem::take(&mut self.begun)
    }

    pub(super) fn number(&self, id: Id) -> Option<u64> {
        self.numbers.get(&id).copied()
    }

    pub(super) fn entry(&self, number: u64) -> Option<&Entry> {
        self.entries.get(&number).map(|slot| &slot.entry)
    }

    /// Whether the file has the entry, and it is not being sent.
    pub(super) fn is_at_rest(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(|slot| slot.is_stored && !slot.is_sending)
    }

    /// Adds fitting entries to a page, beginning at this number. Returns where to go on; `None`:
    /// the page is full, or there are no more.
    pub(super) fn find(&self, filter: &Filter, from: u64, page: &mut Vec<(u64, Entry)>) -> Option<u64> {
        for (looked_at, (number, Slot { entry, is_stored, .. })) in self.entries.range(from..).enumerate() {
            if page.len() == filter.most {
                return None;
            }
            if looked_at == AT_ONCE {
                return Some(*number);
            }
            if *is_stored && filter.fits(entry) {
                page.push((*number, entry.clone()));
            }
        }
        None
    }

    pub(super) fn counts(&self) -> Vec<(Box<str>, Counts)> {
        self.counts.iter().map(|(rule, counts)| (rule.clone(), *counts)).collect()
    }
}
