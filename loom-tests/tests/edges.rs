//! The happens-before edges of the engine's ledgers, one by one: the models are beside the code, in
//! `src/table/edges/`.
#![cfg(loom)]

macro_rules! run {
    ($(fn $model:ident();)*) => {
        $(#[test]
        fn $model() {
            tollgate::edges::$model();
        })*
    };
}

run! {
    fn a_published_word_has_its_fingerprint();
    fn a_charge_publishes_a_word_with_its_fingerprint();
    fn a_claimed_word_carries_the_debt_from_the_overflow_word();
    fn an_abandoned_word_comes_with_its_fingerprint();
    fn an_arrived_word_has_its_fingerprint();
    fn a_charge_knows_the_owner_of_its_word();
    fn a_charge_of_several_limits_knows_its_words_owner();
    fn a_refund_knows_the_owner_of_its_word();
    fn a_refusal_is_by_the_keys_own_word();
    fn a_refund_knows_of_the_refund_before();
    fn a_refund_comes_after_those_beside_a_reset();
    fn a_new_fingerprint_comes_after_the_claim();
    fn a_booked_word_knows_that_a_caller_booked();
    fn a_refund_knows_that_a_caller_booked();
    fn a_release_is_seen_by_the_next_charge();
    fn a_release_is_seen_in_a_vacated_slot();
    fn a_migrating_fingerprint_comes_after_the_header();
    fn a_detached_word_has_a_migrating_fingerprint();
    fn an_arrived_fingerprint_has_its_word();
    fn a_vacated_slot_has_its_word();
    fn a_vacated_word_has_no_key();
    fn a_header_knows_the_slots_that_it_commits();
    fn an_open_sibling_has_its_migrated_keys();
    fn a_split_bucket_knows_that_its_keys_have_arrived();
    fn a_sealed_version_knows_the_next();
    fn a_head_has_its_times();
    fn a_head_that_was_reset_has_no_times();
    fn a_time_of_a_later_lap_shows_the_moved_head();
    fn an_erased_time_says_that_the_head_moved();
    fn a_late_reset_erases_no_time_of_a_later_lap();
}
