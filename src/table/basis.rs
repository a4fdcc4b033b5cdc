//! On what a request was decided.

/// Whose word a request was decided on, and whether that was charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Basis {
    /// The key's own: charged, if the request was admitted.
    #[default]
    Own,
    /// The key's own, and not charged: the payload is that after a request that was peeked at.
    Foreseen,
    /// That of another key: the bucket is full, and its slot is the first to run out.
    Full,
    /// That of the keys which have no slot: they share an allowance.
    Shared,
    /// A debt that the key inherits from others.
    Inherited,
    /// None: admitted uncounted. The payload is that of a key without debt.
    Uncounted,
}

impl Basis {
    /// All of them, by their numbers.
    const ALL: [Self; 6] =
        [Self::Own, Self::Foreseen, Self::Full, Self::Shared, Self::Inherited, Self::Uncounted];

    /// The one of this number.
    #[inline]
    pub(crate) fn numbered(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// Whether an admitted request has been charged.
    #[inline]
    pub(crate) fn is_charged(self) -> bool {
        !matches!(self, Self::Foreseen | Self::Uncounted)
    }

    /// Whether a refused key has no slot, because its bucket is full.
    pub(crate) fn refuses_full(self) -> bool {
        matches!(self, Self::Full | Self::Shared | Self::Inherited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_number() {
        Basis::ALL.iter().for_each(|&basis| assert_eq!(Basis::numbered(basis as u8), basis));
    }
}
