//! The mutants: the protocol with one thought left out or changed.

/// The change to the protocol; `None` is the protocol itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutant {
    /// The protocol itself.
    #[default]
    None,
    /// A charge of the overflow word moves the header before the word, and looks at it again
    /// afterwards. The protocol did so until this search found that an insertion in between may
    /// miss the charge.
    ShareMovesHeaderFirst,
    /// An insertion commits by the current header, not by the one that it read.
    CommitIgnoresTheHeader,
    /// A claim does not flip the parity of the word.
    ClaimKeepsParity,
    /// An insertion claims its slot without looking whether the header has changed since it was
    /// read.
    ClaimBlindly,
    /// The fast path reads the header once it has read the fingerprints.
    RecycleReadsTheHeaderLate,
    /// The fast path goes by the time at which its check began.
    RecycleReadsTheClockEarly,
    /// The fast path reads the clock after the header, and before the fingerprints.
    RecycleReadsTheClockBeforeTheNames,
    /// The fast path does not ask whether the header commits all words.
    RecyclePassesSkewedWords,
    /// The fast path does not ask whether the header commits the word of the slot that it takes.
    RecycleTakesASkewedWord,
    /// The fast path takes a slot that is claimed or held, or whose key is about to move.
    RecycleTakesAClaim,
    /// The fast path takes a slot whose owner is in debt.
    RecycleTakesASlotInDebt,
    /// The fast path takes a slot of a bucket that is being split.
    RecycleInASplit,
    /// The fast path takes a slot of whichever bucket the hint led to.
    RecycleInAnyBucket,
    /// The fast path ignores the overflow word.
    RecycleForgetsTheOverflow,
    /// A slot that is given up gets its old word back.
    AbandonKeepsTheWord,
    /// A slot that is given up gets its old name back.
    AbandonRestoresTheName,
    /// A claim takes the slot from any word at rest, not from the one that the scan saw.
    ClaimTakesAnyWord,
    /// The name is written once the header has committed.
    RenameAfterCommit,
    /// A thread that charged the word does not ask whose it was.
    NoLookAfterCharge,
    /// A denial does not ask whether the word is still the same.
    NoLookAfterDenial,
    /// The word is published before the header commits.
    PublishBeforeCommit,
    /// A committed word is charged without reading the name again.
    NoNameAfterHeader,
    /// A frozen word under the key's name is charged though the header has not committed it.
    ChargePending,
    /// The time of an insertion is read before its scan.
    ClockBeforeScan,
    /// A helper drops keys that have run out by its own clock.
    HelperDropsExpired,
    /// A helper takes a pending insertion along.
    HelperMovesPending,
    /// A word is copied, and its parity stays.
    ParityNotFlipped,
    /// The word's parity flips before the name says that the key moves.
    WordPartsFirst,
    /// A key's name arrives before its word.
    NameArrivesFirst,
    /// The sibling's header is written before its slots.
    SiblingOpensFirst,
    /// The slot that a key has left gets a word of the wrong parity.
    VacateFlips,
    /// The slot that a key has left is vacated although another key is claiming it.
    VacatesAClaim,
    /// The slot that a key has left keeps its payload.
    VacateKeepsTheWord,
    /// The fast path claims a slot that another thread is emptying.
    RecycleTakesAnEmptiedSlot,
    /// A word at rest that does not count is taken as it is.
    SkewedTaken,
    /// A split does not announce itself: insertions commit meanwhile.
    SplitUnannounced,
    /// Who takes the key out of a slot does not look whether the split is over.
    PartBlindly,
    /// An insertion ignores the overflow word's debt.
    OverflowForgotten,
    /// A charge of the overflow word does not move the header.
    ShareWithoutHeader,
    /// A charge of the overflow word does not look at the header again.
    NoLookAfterShare,
    /// A slot is handed over and its debt not left behind.
    NoPartWith,
    /// A new key tries to evict another for as long as it takes. The protocol did so until this
    /// search found how long two new keys abort each other.
    HandoversForever,
    /// The debt is left behind once the slot is claimed.
    PartWithAfterClaim,
    /// A refund lowers the word without holding it.
    RefundWithoutHold,
    /// A refund lowers the word of any fingerprint.
    RefundAnyName,
    /// Refunds take no notice of each other.
    NoMarks,
    /// A log's ring has one entry less than its limit.
    RingOneShort,
    /// The head moves before the times are written.
    HeadBeforeTime,
    /// A time is proposed without a look whether the head has moved.
    NoLookBeforePropose,
    /// A time is proposed over the current entry, not over the one that was read.
    ProposalOverwrites,
    /// A time that was proposed earlier is not raised to one's own.
    ProposalsStay,
    /// Times that were proposed and not won count.
    ProposalsCount,
    /// A proposal does not say that it lies over a time that is still inside the window.
    LiveUnsaid,
    /// A request that rests on a proposal goes by its own earlier time. The protocol was so until
    /// this search found that its slot was then thought to have run out before it had.
    ProposalTimeIgnored,
    /// A request goes by its own time, also when a later one was logged.
    NewestIgnored,
    /// A new key is refused by a ring without a look whether its slot is another's by then.
    NewcomerRefusedBlindly,
    /// A reset erases times that were proposed, too. The protocol did so until this search found
    /// that they may be of a thread that is about to win the slot.
    EraseProposals,
    /// A reset erases times without a look whether the head has moved.
    EraseBlindly,
    /// A reset zeroes the word's time.
    ResetZeroesTheTime,
    /// The fast path reads the clock before the fingerprints, and does not ask whether the header
    /// commits all words.
    RecycleBesideAClaim,
    /// The fast path asks of no word whether the header commits it.
    RecycleAnyParity,
    /// The fast path takes a slot that is claimed, held or about to be left, with any parity.
    RecycleAnyClaim,
}

impl Mutant {
    /// The mutants that this one is together.
    pub(crate) fn parts(self) -> &'static [Self] {
        match self {
            Self::RecycleBesideAClaim => {
                &[Self::RecycleReadsTheClockBeforeTheNames, Self::RecyclePassesSkewedWords]
            }
            Self::RecycleAnyParity => &[Self::RecyclePassesSkewedWords, Self::RecycleTakesASkewedWord],
            Self::RecycleAnyClaim => {
                &[Self::RecyclePassesSkewedWords, Self::RecycleTakesASkewedWord, Self::RecycleTakesAClaim]
            }
            _ => &[],
        }
    }
}
