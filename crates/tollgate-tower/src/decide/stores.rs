//! The stores of rules, if the feature `stores` is on. If not, no request is asked for: a rule that
//! names a store refuses all.

#[cfg(feature = "stores")]
pub(crate) use tollgate_redis::rules::{RuleStores, Stores};

#[cfg(not(feature = "stores"))]
pub(crate) use none::{RuleStores, Stores};

#[cfg(not(feature = "stores"))]
mod none {
    use std::sync::Arc;

    use tollgate_rules::{RuleSet, StoredAnswer, StoredAsk};

    #[derive(Default)]
    pub(crate) struct Stores;

    /// There are none.
    pub(crate) enum RuleStores {}

    impl Stores {
        pub(crate) fn of<C>(&self, _: &RuleSet<C>) -> Option<Arc<RuleStores>> {
            None
        }
    }

    impl RuleStores {
        pub(crate) async fn ask(&self, _: Vec<StoredAsk>) -> Vec<StoredAnswer> {
            match *self {}
        }
    }
}
