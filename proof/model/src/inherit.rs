//! What keys keep when their limit is replaced.

/// What each key keeps over [`Model::change`](crate::Model::change).
///
/// *Available* is the cost that could be admitted at that time. Reservations beyond a full bucket
/// remain as additional debt, except with `Reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// The available cost stays, up to the new limit.
    AsIs,
    /// The available cost is scaled by the new limit over the old one.
    Proportional,
    /// The available cost changes by the difference of the limits, but not below zero.
    Additive,
    /// All of the new limit is available.
    Reset,
}

/// A debt of `amount / unit` units of cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debt {
    pub(crate) amount: u128,
    pub(crate) unit: u128,
}

impl Debt {
    /// This debt under a limit of `old`, as inherited under a limit of `new`.
    pub(crate) fn inherited(self, inherit: Inherit, old: u64, new: u64) -> Self {
        let Self { amount, unit } = self;
        let (old, new) = (u128::from(old), u128::from(new));
        let amount = match inherit {
            // Available: old - debt, at most new. The new debt is new - available.
            Inherit::AsIs => (amount + new * unit).saturating_sub(old * unit),
            // Available: (old - debt) * new / old.
            Inherit::Proportional => return Self { amount: amount * new, unit: unit * old },
            Inherit::Additive => {
                let reserved_ahead = amount.saturating_sub(old * unit);
                (amount - reserved_ahead).min(new * unit) + reserved_ahead
            }
            Inherit::Reset => 0,
        };
        Self { amount, unit }
    }

    /// The amount in other units, rounded up.
    pub(crate) fn in_units_of(self, unit: u128) -> u128 {
        (self.amount * unit).div_ceil(self.unit)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Inherit, Model};

    fn bucket(count: u64, period_ns: u64, burst: u64) -> Algorithm {
        Algorithm::TokenBucket { count, period_ns, burst, initial: burst, grains: None }
    }

    #[test]
    fn each_variant_keeps_what_it_documents() {
        for (inherit, expected) in
            [(Inherit::AsIs, 1), (Inherit::Proportional, 36), (Inherit::Additive, 58), (Inherit::Reset, 60)]
        {
            let mut model = Model::new(bucket(3, 5, 3));
            assert!(model.check("k", 0, 3).allowed);
            model.change(bucket(60, 1_000, 60), inherit, 3); // 1.8 of 3
            assert_eq!(model.peek("k", 3, 0).remaining, expected, "{inherit:?}");
        }
    }

    #[test]
    fn a_key_never_seen_had_all_of_the_old_limit() {
        for (inherit, expected) in
            [(Inherit::AsIs, 3), (Inherit::Proportional, 60), (Inherit::Additive, 60), (Inherit::Reset, 60)]
        {
            let mut model = Model::new(bucket(3, 5, 3));
            model.change(bucket(60, 1_000, 60), inherit, 7);
            assert_eq!(model.peek("k", 7, 0).remaining, expected, "{inherit:?}");
        }
    }

    #[test]
    fn a_smaller_limit_leaves_no_less_than_zero() {
        for inherit in [Inherit::AsIs, Inherit::Proportional, Inherit::Additive] {
            let mut model = Model::new(bucket(500, 1_000, 500));
            assert!(model.check("k", 0, 500).allowed);
            model.change(bucket(200, 1_000, 200), inherit, 0);
            assert_eq!(model.peek("k", 0, 0).remaining, 0, "{inherit:?}");
            assert_eq!(model.peek("k", 5, 0).remaining, 1, "{inherit:?}");
        }
    }
}
