//! Which scenario catches which mutant, and which mutants none does.

use crate::mutant::Mutant;

/// The mutants, each with a scenario that catches it.
#[must_use]
pub fn catchers() -> &'static [(Mutant, &'static str)] {
    &[
        (Mutant::CommitIgnoresTheHeader, "one key is inserted by three"),
        (Mutant::AbandonKeepsTheWord, "two keys want one slot"),
        (Mutant::AbandonRestoresTheName, "two keys want one slot"),
        (Mutant::ClaimTakesAnyWord, "one key is inserted by three"),
        (Mutant::RenameAfterCommit, "one key is inserted by three"),
        (Mutant::NoLookAfterCharge, "a charge meets the word under its third owner"),
        (Mutant::NoLookAfterDenial, "two keys want one slot"),
        (Mutant::PublishBeforeCommit, "one key is inserted twice and charged"),
        (Mutant::NoNameAfterHeader, "an owner charges while its slot is recycled"),
        (Mutant::ChargePending, "short: a slot is recycled beside its owner"),
        (Mutant::ClockBeforeScan, "a key enters twice beside an owner who comes back"),
        (Mutant::HelperDropsExpired, "a reset of a key that moves"),
        (Mutant::ParityNotFlipped, "a key is charged while it moves"),
        (Mutant::WordPartsFirst, "a key is charged while it moves"),
        (Mutant::NameArrivesFirst, "a key is charged while it moves"),
        (Mutant::SiblingOpensFirst, "helpers agree on what moves"),
        (Mutant::VacateFlips, "a claim beside stalled helpers of a split"),
        (Mutant::RecycleTakesAClaim, "short: a key that stays enters while its bucket splits"),
        (Mutant::ClaimBlindly, "short: a word comes back in a slot that a key left"),
        (Mutant::VacatesAClaim, "short: a word comes back in a slot that a key left"),
        (Mutant::RecycleTakesAnEmptiedSlot, "short: a key that stays enters while its bucket splits"),
        (Mutant::VacateKeepsTheWord, "short: a word comes back in a slot that a key left"),
        (Mutant::SplitUnannounced, "a key enters while its bucket splits"),
        (Mutant::SkewedTaken, "short: a key enters beside a word detached twice"),
        (Mutant::OverflowForgotten, "a slot empties beside a share"),
        (Mutant::ShareWithoutHeader, "a slot empties beside a share"),
        (Mutant::ShareMovesHeaderFirst, "a key handed out comes back beside a refund"),
        (Mutant::NoLookAfterShare, "the shared word comes around"),
        (Mutant::NoPartWith, "a key handed out comes back beside a reset"),
        (Mutant::HandoversForever, "newcomers are handed one slot"),
        (Mutant::PartWithAfterClaim, "a key is handed out while a better slot empties"),
        (Mutant::RefundWithoutHold, "two refunds beside a charge"),
        (Mutant::RefundAnyName, "a refund holds the word of a third owner"),
        (Mutant::NoMarks, "two refunds beside a charge"),
        (Mutant::RingOneShort, "a new key has a log"),
        (Mutant::HeadBeforeTime, "two admit at a log's limit"),
        (Mutant::NoLookBeforePropose, "a stalled proposer comes back a lap later"),
        (Mutant::ProposalOverwrites, "a stalled proposer comes back a lap later"),
        (Mutant::ProposalsStay, "proposals of three while time passes"),
        (Mutant::ProposalsCount, "two newcomers want one log"),
        (Mutant::LiveUnsaid, "refused requests count"),
        (Mutant::ProposalTimeIgnored, "a log is admitted over what a newcomer proposed"),
        (Mutant::NewestIgnored, "proposals of three while time passes"),
        (Mutant::NewcomerRefusedBlindly, "a newcomer stalls while its slot goes to others"),
        (Mutant::EraseProposals, "a log is reset that goes to others"),
        (Mutant::EraseBlindly, "a log is reset that goes to others"),
        (Mutant::ResetZeroesTheTime, "a log's word before a reset does not come back"),
        (Mutant::ClaimKeepsParity, "short: one key is inserted by three"),
        (Mutant::RecycleReadsTheHeaderLate, "short: one key is inserted by three"),
        (Mutant::RecycleReadsTheClockEarly, "short: a key comes back and loses its slot"),
        (Mutant::RecycleBesideAClaim, "short: a hit and an abandoned claim"),
        (Mutant::RecyclePassesSkewedWords, "short: a key enters beside a word detached twice"),
        (Mutant::RecycleAnyParity, "short: a key enters beside a word detached twice"),
        (Mutant::RecycleAnyClaim, "short: a slot is recycled beside its owner"),
        (Mutant::RecycleTakesASlotInDebt, "short: two recovered keys want one slot"),
        (Mutant::RecycleInASplit, "short: a key that leaves recovers in a split"),
        (Mutant::RecycleInAnyBucket, "short: a key that stays enters while its bucket splits"),
        (Mutant::RecycleForgetsTheOverflow, "short: a slot empties beside a share"),
        // The fast path has these steps of the long one.
        (Mutant::CommitIgnoresTheHeader, "short: one key is inserted by three"),
        (Mutant::AbandonKeepsTheWord, "short: a hit and an abandoned claim"),
        (Mutant::AbandonRestoresTheName, "short: a key comes back and loses its slot"),
        (Mutant::ClaimTakesAnyWord, "short: a slot is recycled beside its owner"),
        (Mutant::RenameAfterCommit, "short: one key is inserted by three"),
        (Mutant::PublishBeforeCommit, "short: two recovered keys want one slot"),
    ]
}

/// The mutants that no scenario catches, each with what covers for it.
#[must_use]
pub fn uncaught() -> &'static [(Mutant, &'static str)] {
    &[
        (
            Mutant::HelperMovesPending,
            "the claim does not commit any more, so its key pays twice: a refusal too many",
        ),
        (Mutant::PartBlindly, "the next owner's words have another parity than those of the key that left"),
        (Mutant::RecycleReadsTheClockBeforeTheNames, "the look at all parities: RecycleBesideAClaim"),
        (Mutant::RecycleTakesASkewedWord, "the look at all parities: RecycleAnyParity"),
    ]
}
