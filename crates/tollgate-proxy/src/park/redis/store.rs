//! What the rest of the server asks of a store, by Redis.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tollgate_rules::Park as Bounds;

use super::super::index::Counts;
use super::super::{Entry, Filter, First, Id, Later, NotKept, ParkError, ParkStore, QueueName, Unchanged};
use super::RedisPark;

impl ParkStore for RedisPark {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn begun(&self) -> Option<UnboundedReceiver<QueueName>> {
        if std::mem::replace(&mut self.0.state().has_begun, true) {
            return None;
        }
        let (sender, begun) = unbounded_channel();
        tokio::spawn(Arc::clone(&self.0).look(sender));
        Some(begun)
    }

    fn keep<'a>(
        &'a self,
        entry: Entry,
        bounds: &'a Bounds,
        request: Vec<u8>,
    ) -> Later<'a, Result<usize, NotKept>> {
        // A task of its own: the client may leave meanwhile. When the server ends, it does not wait
        // for the task, and need not: the 202 comes after it.
        let added = tokio::spawn(Arc::clone(&self.0).add(entry, bounds.clone(), request));
        Box::pin(async { added.await.unwrap_or(Err(NotKept::Store(ParkError::Closed))) })
    }

    fn first<'a>(&'a self, queue: &'a QueueName) -> Later<'a, Result<Option<First>, ParkError>> {
        Box::pin(self.0.take_first(queue))
    }

    fn lost<'a>(&'a self, first: &'a First) -> Later<'a, ()> {
        Box::pin(self.0.renew(first))
    }

    fn finish<'a>(
        &'a self,
        first: &'a First,
        entry: Entry,
        pause: Duration,
    ) -> Later<'a, Result<(), Unchanged>> {
        Box::pin(self.0.finish(first, entry, pause))
    }

    fn change(
        &self,
        id: Id,
        change: fn(&mut Entry, now: u64) -> bool,
    ) -> Later<'_, Result<Entry, Unchanged>> {
        Box::pin(self.0.change_entry(id, change))
    }

    fn entry(&self, id: Id) -> Later<'_, Result<Option<Entry>, ParkError>> {
        Box::pin(async move { Ok(self.0.stored(id).await?.map(|stored| stored.entry)) })
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Later<'a, Result<Vec<(u64, Entry)>, ParkError>> {
        Box::pin(self.0.page(filter))
    }

    fn counts(&self) -> Vec<(Box<str>, Counts)> {
        self.0.state().counts.iter().map(|(rule, counts)| (rule.clone(), *counts)).collect()
    }

    fn close(&self) -> Later<'_, ()> {
        self.retire();
        Box::pin(async {})
    }
}
