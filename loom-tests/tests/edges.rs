//! The happens-before edges of the engine's ledgers, one by one: the models are beside the code, in `src/table/edges/`.
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
    fn a_published_word_has_its_name();
    fn a_word_that_a_charge_published_has_its_name();
    fn a_claimed_word_knows_what_its_last_owner_left();
    fn a_word_that_was_given_up_is_nobodys();
    fn an_arrived_word_has_its_name();
    fn a_charge_knows_whose_word_it_was();
    fn a_charge_of_several_limits_knows_whose_word_it_was();
    fn a_refund_knows_whose_word_it_lowers();
    fn a_refusal_is_by_the_keys_own_word();
    fn a_refund_knows_of_the_refund_before();
    fn a_new_name_says_that_the_word_was_claimed();
    fn a_word_that_was_booked_knows_it();
    fn a_refund_knows_who_has_booked();
    fn what_was_given_back_is_over();
    fn what_was_given_back_is_over_where_the_slot_was_vacated();
    fn a_name_that_moves_knows_its_header();
    fn a_parted_word_has_a_name_that_moves();
    fn an_arrived_name_has_its_word();
    fn a_header_knows_the_slots_that_it_commits();
    fn an_open_sibling_has_what_moved_there();
    fn a_split_bucket_knows_that_its_keys_have_arrived();
    fn a_sealed_version_knows_the_next();
    fn a_head_has_its_times();
    fn a_head_that_was_reset_has_no_times();
    fn a_time_of_a_later_lap_says_that_the_head_moved();
    fn an_erased_time_says_that_the_head_moved();
    fn a_late_reset_erases_no_time_of_a_later_lap();
}
