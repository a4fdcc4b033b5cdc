//! Boundaries, rotation, late threads, and the worked examples of the window algorithms.

use tollgate::{CountPolicy, FixedWindow, SlidingLog, SlidingWindow};

use super::{HOUR, MINUTE, MS, One, SECOND, per};

/// Seen in rate-net RN-COR-03.
#[test]
fn a_late_thread_cannot_roll_the_window_back() {
    let limit = One::new(FixedWindow::new(per(5, SECOND)));
    assert!(limit.check_n(1_000 * MS, 5));
    assert!(!limit.check(999 * MS));
    assert!(!limit.check(1_001 * MS));
    assert_eq!(limit.remaining(1_001 * MS), 0);
}

#[test]
fn around_a_boundary_a_fixed_window_admits_twice_its_limit() {
    let limit = One::new(FixedWindow::new(per(5, SECOND)));
    assert_eq!(limit.drain(999 * MS), 5);
    assert_eq!(limit.drain(1_000 * MS), 5);
    assert_eq!(limit.wait(1_000 * MS, 1), Some(SECOND));
}

#[test]
fn an_entry_leaves_a_log_exactly_one_window_later() {
    let limit = One::new(SlidingLog::new(per(5, SECOND)));
    assert_eq!(limit.drain(0), 5);
    assert_eq!(limit.wait(999_999_999, 1), Some(1));
    assert_eq!(limit.drain(SECOND), 5);
}

#[test]
fn only_the_previous_window_counts_in_the_current_one() {
    let limit = One::new(SlidingWindow::new(per(10, SECOND)));
    assert!(limit.check_n(0, 10));
    assert_eq!(limit.drain(2 * SECOND), 10);
    let limit = One::new(SlidingWindow::new(per(10, SECOND)));
    assert!(limit.check_n(0, 10));
    assert_eq!(limit.drain(SECOND), 0);
    assert_eq!(limit.drain(1_500 * MS), 5);
}

/// 84 * 3/4 + 36 = 99.
#[test]
fn the_estimate_weighs_the_previous_window_by_its_overlap() {
    let limit = One::new(SlidingWindow::new(per(100, HOUR)));
    assert!(limit.check_n(30 * MINUTE, 84));
    let quarter = HOUR + 15 * MINUTE;
    assert!(limit.check_n(quarter, 36));
    assert_eq!(limit.remaining(quarter), 1);
    assert!(limit.check(quarter));
    assert!(!limit.check(quarter));
}

/// 11.75 is too much, 9.5 is not. At a quarter of the current minute there are four requests, one
/// of them refused.
#[test]
fn the_fifth_request_passes_at_half_of_the_minute() {
    let limit = One::new(SlidingWindow::new(per(10, MINUTE)).count(CountPolicy::All));
    assert!(limit.check_n(0, 9));
    let quarter = MINUTE + 15 * SECOND;
    assert_eq!([(); 4].map(|()| limit.check(quarter)), [true, true, true, false]);
    assert!(limit.wait(quarter, 1).is_some());
    assert!(limit.check(MINUTE + 30 * SECOND));
}

/// A log that counts refusals.
#[test]
fn a_log_with_count_all_refuses_persistent_retries() {
    let limit = One::new(SlidingLog::new(per(2, MINUTE)).count(CountPolicy::All));
    let granted = [12, 24, 36, 85].map(|second| limit.check(second * SECOND));
    assert_eq!(granted, [true, true, false, true]);
    // 1:25 and 0:36 are still in the window. If the refusal had not counted, 1:26 would be
    // admitted.
    assert!(!limit.check(86 * SECOND));
}

/// Sub-windows never admit more than the limit in any window.
#[test]
fn sub_windows_do_not_double_at_a_boundary() {
    let limit = One::new(SlidingWindow::new(per(5, SECOND)).subwindows(4));
    assert_eq!(limit.drain(999 * MS), 5);
    assert_eq!((1_000..1_999).map(|ms| limit.drain(ms * MS)).sum::<u64>(), 0);
    assert_eq!(limit.drain(2_000 * MS), 5);
}
