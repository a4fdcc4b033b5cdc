//! How many requests each key of a rule made, and how many of them the rule refused.

use std::cmp::Reverse;
use std::collections::HashMap;

use tollgate_rules::{Attribute, Key, Rule};

use crate::by_rules::Client;
use crate::report::KeyTally;

/// A tally for every key of a rule.
#[derive(Debug)]
pub(super) struct KeyTallies {
    numbers: HashMap<Box<[u8]>, u32, ahash::RandomState>,
    tallies: Vec<KeyTally>,
    /// Of a rule whose key is the client alone: by the client's number, one more than the number of
    /// its tally. Saves the look-up of the key.
    of_clients: Option<Vec<u32>>,
}

impl KeyTallies {
    pub(super) fn new(rule: &Rule) -> Self {
        let is_client =
            matches!(&rule.key, Key::Attributes(parts) if matches!(parts[..], [Attribute::Client]));
        let of_clients = is_client.then(Vec::new);
        Self { numbers: HashMap::default(), tallies: Vec::new(), of_clients }
    }

    /// Counts a request.
    #[inline]
    pub(super) fn count(&mut self, key: &[u8], client: Option<Client>, is_refused: bool) {
        let known = self.of_clients.as_ref().zip(client).and_then(|(of, client)| of.get(client.number));
        let number = match known {
            Some(number @ 1..) => number - 1,
            _ => self.number(key, client),
        };
        let tally = &mut self.tallies[number as usize];
        tally.requests += 1;
        tally.denied += u64::from(is_refused);
    }

    #[inline(never)]
    fn number(&mut self, key: &[u8], client: Option<Client>) -> u32 {
        let number = match self.numbers.get(key) {
            Some(&number) => number,
            None => {
                let number = self.tallies.len() as u32;
                self.tallies.push(KeyTally { requests: 0, denied: 0 });
                self.numbers.insert(key.into(), number);
                number
            }
        };
        if let (Some(of), Some(Client { number: client, .. })) = (&mut self.of_clients, client) {
            if client >= of.len() {
                of.resize(client + 1, 0);
            }
            of[client] = number + 1;
        }
        number
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.tallies.len()
    }

    /// How many keys were ever refused.
    pub(super) fn refused(&self) -> usize {
        self.tallies.iter().filter(|tally| tally.denied > 0).count()
    }

    /// At most `count` refused keys, the most refused first; equal keys in byte order.
    pub(super) fn top_refused(&self, count: usize) -> Vec<(&[u8], KeyTally)> {
        let mut keys: Vec<(&[u8], KeyTally)> =
            self.numbers.iter().map(|(key, &number)| (&**key, self.tallies[number as usize])).collect();
        keys.retain(|(_, tally)| tally.denied > 0);
        keys.sort_unstable_by_key(|&(key, tally)| (Reverse(tally.denied), key));
        keys.truncate(count);
        keys
    }
}
