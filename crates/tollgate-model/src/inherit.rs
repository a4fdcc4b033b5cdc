//! What a key's state becomes when its limit is replaced by another.

/// What each key keeps over [`Model::reconfigure`](crate::Model::reconfigure). *Available* is what could be admitted at that
/// moment; what is booked ahead beyond a full bucket stays owed on top, but with `Reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// What is available stays, up to the new limit.
    AsIs,
    /// What is available is scaled by the new limit over the old one.
    Proportional,
    /// What is available changes by the difference of the limits, not below nothing.
    Additive,
    /// Everything is available.
    Reset,
}

/// What is owed: `owed / unit` units of cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debt {
    pub(crate) owed: u128,
    pub(crate) unit: u128,
}

impl Debt {
    /// What is owed at a limit of `new` by who owed this at a limit of `old`.
    pub(crate) fn inherited(self, inherit: Inherit, old: u64, new: u64) -> Self {
        let Self { owed, unit } = self;
        let (old, new) = (u128::from(old), u128::from(new));
        let owed = match inherit {
            // Available: old - owed, at most new. Owed is what is missing to new.
            Inherit::AsIs => (owed + new * unit).saturating_sub(old * unit),
            // Available: (old - owed) * new / old.
            Inherit::Proportional => return Self { owed: owed * new, unit: unit * old },
            Inherit::Additive => {
                let booked = owed.saturating_sub(old * unit);
                (owed - booked).min(new * unit) + booked
            }
            Inherit::Reset => 0,
        };
        Self { owed, unit }
    }

    /// The same in steps of `1 / unit`, rounded up.
    pub(crate) fn in_steps_of(self, unit: u128) -> u128 {
        (self.owed * unit).div_ceil(self.unit)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Inherit, Model};

    fn bucket(count: u64, period_ns: u64, burst: u64) -> Algorithm {
        Algorithm::TokenBucket { count, period_ns, burst, initial: burst, grains: None }
    }

    #[test]
    fn each_meaning_is_what_it_says() {
        for (inherit, expected) in
            [(Inherit::AsIs, 1), (Inherit::Proportional, 36), (Inherit::Additive, 58), (Inherit::Reset, 60)]
        {
            let mut model = Model::new(bucket(3, 5, 3));
            assert!(model.check("k", 0, 3).allowed);
            model.reconfigure(bucket(60, 1_000, 60), inherit, 3); // 1.8 of 3
            assert_eq!(model.peek("k", 3, 0).remaining, expected, "{inherit:?}");
        }
    }

    #[test]
    fn a_key_never_seen_had_all_of_the_old_limit() {
        for (inherit, expected) in
            [(Inherit::AsIs, 3), (Inherit::Proportional, 60), (Inherit::Additive, 60), (Inherit::Reset, 60)]
        {
            let mut model = Model::new(bucket(3, 5, 3));
            model.reconfigure(bucket(60, 1_000, 60), inherit, 7);
            assert_eq!(model.peek("k", 7, 0).remaining, expected, "{inherit:?}");
        }
    }

    #[test]
    fn a_limit_that_shrinks_leaves_no_less_than_nothing() {
        for inherit in [Inherit::AsIs, Inherit::Proportional, Inherit::Additive] {
            let mut model = Model::new(bucket(500, 1_000, 500));
            assert!(model.check("k", 0, 500).allowed);
            model.reconfigure(bucket(200, 1_000, 200), inherit, 0);
            assert_eq!(model.peek("k", 0, 0).remaining, 0, "{inherit:?}");
            assert_eq!(model.peek("k", 5, 0).remaining, 1, "{inherit:?}");
        }
    }
}
