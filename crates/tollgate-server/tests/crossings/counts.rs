//! Naive models of what the rules do not decide.

use std::collections::BTreeMap;

/// The keys of `CL.THROTTLE`: when each is as good as new, in seconds of Unix time.
#[derive(Default)]
pub(crate) struct Calls(BTreeMap<String, i64>);

impl Calls {
    /// `CL.THROTTLE key burst 1 emission quantity`: the emission interval is in whole seconds.
    pub(crate) fn throttle(
        &mut self,
        key: &str,
        [burst, emission, quantity]: [i64; 3],
        now: i64,
    ) -> [i64; 5] {
        let debt = self.0.get(key).map_or(0, |tat| (tat - now).max(0));
        let (limit, increment) = (burst + 1, emission * quantity);
        let room = emission * limit;
        let left = |debt: i64| ((room - debt) / emission).max(0);
        if debt + increment <= room {
            let after = debt + increment;
            // A quantity of 0 looks. Units given back beyond the debt are lost.
            if increment != 0 && debt.max(increment) > 0 {
                self.0.insert(key.into(), now + after.max(0));
            }
            return [0, limit, left(after), -1, after];
        }
        let retry = if increment <= room { debt + increment - room } else { -1 };
        [1, limit, left(debt), retry, debt]
    }

    pub(crate) fn delete(&mut self, key: &str, now: i64) -> bool {
        // A key that is as good as new is left: a clock that goes back shows its debt again.
        let owed = self.0.get_mut(key).filter(|tat| **tat > now);
        owed.map(|tat| *tat = now).is_some()
    }
}

/// The hits of each key in its hour.
#[derive(Default)]
pub(crate) struct Hits(BTreeMap<String, (u64, u64)>);

/// A descriptor with a limit.
pub(crate) struct Asked {
    pub(crate) key: String,
    pub(crate) most: u64,
    pub(crate) hits: u64,
}

impl Hits {
    fn count(&mut self, key: &str, hour: u64) -> &mut u64 {
        let entry = self.0.entry(key.into()).or_insert((hour, 0));
        // A clock that goes back begins no window.
        if entry.0 < hour {
            *entry = (hour, 0);
        }
        &mut entry.1
    }

    /// A call with these descriptors: whether each is over its limit, and how many hits are left.
    pub(crate) fn call(&mut self, asked: &[Asked], hour: u64) -> Vec<(bool, u64)> {
        let is_over = |count: u64, one: &Asked| count > one.most;
        let looks: Vec<bool> =
            asked.iter().map(|one| is_over(*self.count(&one.key, hour) + one.hits, one)).collect();
        let is_together = asked.len() > 1;
        if is_together && looks.contains(&true) {
            let one = |(one, over): (&Asked, &bool)| {
                let count = self.count(&one.key, hour);
                *count += if *over { one.hits } else { 0 };
                (*over, if *over { 0 } else { one.most - (*count).min(one.most) })
            };
            return asked.iter().zip(&looks).map(one).collect();
        }
        let mut answers: Vec<(bool, u64)> = Vec::new();
        for one in asked {
            let count = self.count(&one.key, hour);
            *count += one.hits;
            answers.push((is_over(*count, one), one.most.saturating_sub(*count)));
        }
        if is_together && answers.iter().any(|(over, _)| *over) {
            for (one, (over, left)) in asked.iter().zip(&mut answers) {
                if !*over {
                    *self.count(&one.key, hour) -= one.hits;
                    *left = (*left + one.hits).min(one.most);
                }
            }
        }
        answers
    }
}
