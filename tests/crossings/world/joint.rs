//! Joint charges: each limit of the request is charged its own cost, or none is.

use super::World;
use crate::judge::Asked;

impl World {
    /// The rule by which this limit decides.
    fn rule(&self, asked: Asked) -> usize {
        let met = self.met(asked.tier).into_iter().find(|(slot, _)| *slot == asked.slot);
        met.expect("the tier has such a limit").1
    }

    /// The limit was charged, as by a request that it decides alone.
    pub(super) fn offered(
        &mut self,
        id: usize,
        asked: Asked,
        at: u64,
        delay: Option<u64>,
    ) -> Result<(), String> {
        let at = self.clamped(at);
        let Asked { key, tier, slot, cost } = asked;
        if cost == 0 {
            return Ok(());
        }
        let rule = self.rule(asked);
        let found = self.find(key, slot, rule, at, cost, None);
        if cost > self.limit(rule).most || !found.fits {
            let shown = self.shown(key);
            return Err(format!("key {key} was charged {cost} at {at}, beyond limit {slot}: {shown}"));
        }
        let (least, most) = found.wait;
        if let Some(delay) = delay
            && (delay < least || self.rules.is_roomy && delay > most)
        {
            return Err(format!("a delay of {delay} is not between {least} and {most}"));
        }
        self.count(id, key, (slot, rule), at, cost, found.next);
        self.took(id, key, tier, Some(slot), at, cost);
        Ok(())
    }

    /// Not where all of them have room: each alone, as it is offered, and one after the other, as
    /// they are charged.
    pub(super) fn jointly_refused(&mut self, all: &[Asked], at: u64, judges: bool) -> Result<(), String> {
        let at = self.clamped(at);
        if !judges || !self.rules.is_roomy {
            return Ok(());
        }
        let mut after = self.clone();
        for asked in all.iter().filter(|asked| asked.cost > 0) {
            let rule = self.rule(*asked);
            let find = |world: &Self| world.find(asked.key, asked.slot, rule, at, asked.cost, None);
            let (alone, found) = (find(self), find(&after));
            if asked.cost > self.limit(rule).most || !alone.must_fit || !found.must_fit {
                return Ok(());
            }
            after.states[asked.key][asked.slot] = found.next;
        }
        let shown: Vec<String> = all.iter().map(|asked| self.shown(asked.key)).collect();
        Err(format!("{all:?} were refused at {at}, where there was room: {shown:?}"))
    }
}
