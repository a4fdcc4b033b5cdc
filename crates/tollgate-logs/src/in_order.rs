//! Puts the batches of parser threads back into the order of the input.

use std::thread;

use crossbeam_channel::{Receiver, Sender};

use crate::batch::Batch;
use crate::error::Problem;

/// What a parser thread sends to the caller.
pub(super) enum Message {
    /// The parsed block with this number, or the error of reading it.
    Block(u64, Result<Batch, Problem>),
    /// The parser thread panicked, and its block is lost.
    Panicked,
}

/// Sends [`Message::Panicked`] when its thread panics: the caller would wait for its block for
/// ever.
pub(super) struct PanicAlarm(Sender<Message>);

impl PanicAlarm {
    pub(super) fn new(caller: Sender<Message>) -> Self {
        Self(caller)
    }
}

impl Drop for PanicAlarm {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(Message::Panicked);
        }
    }
}

/// Batches in the order of their numbers.
pub(super) struct InOrder {
    fulls: Receiver<Message>,
    /// Batches that came before their turn; at most as many as exist.
    early: Vec<(u64, Result<Batch, Problem>)>,
    next: u64,
}

impl InOrder {
    pub(super) fn new(fulls: Receiver<Message>) -> Self {
        Self { fulls, early: Vec::new(), next: 0 }
    }
}

impl Iterator for InOrder {
    type Item = Result<Batch, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(at) = self.early.iter().position(|(number, _)| *number == self.next) {
                self.next += 1;
                return Some(self.early.swap_remove(at).1);
            }
            match self.fulls.recv() {
                Ok(Message::Block(number, outcome)) => self.early.push((number, outcome)),
                Ok(Message::Panicked) => panic!("a parser thread panicked; its message stands above"),
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    #[test]
    fn batches_come_in_the_order_of_their_numbers() {
        let (full, fulls) = bounded(4);
        for number in [2, 0, 3, 1] {
            let mut batch = Batch::default();
            batch.lines = number;
            assert!(full.send(Message::Block(number, Ok(batch))).is_ok());
        }
        drop(full);
        let lines: Vec<_> = InOrder::new(fulls).map(|batch| batch.expect("no errors").lines).collect();
        assert_eq!(lines, [0, 1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "a parser thread panicked")]
    fn a_parser_that_panics_does_not_leave_the_caller_waiting() {
        let (full, fulls) = bounded(1);
        let kept = full.clone();
        let parser = thread::spawn(move || {
            let _alarm = PanicAlarm::new(full);
            panic!("on purpose");
        });
        assert!(parser.join().is_err());
        InOrder::new(fulls).for_each(drop);
        drop(kept);
    }
}
