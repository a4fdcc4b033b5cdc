//! Backends that panic or hang: errors that `OnBackendError` judges.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tollgate::{Outcome, Quota};
use tollgate_tower::{Backend, BackendFault, OnBackendError, Rule, StoreReply, TollgateLayer};

use crate::support::{hourly_bucket, layer_with, statuses};

const DEADLINE: Duration = Duration::from_millis(10);

#[derive(Clone, Copy)]
enum Faulty {
    Panics,
    Hangs,
    AnswersAfter(Duration),
}

impl Backend for Faulty {
    type Error = Infallible;
    type Receipt = ();

    async fn decide(&self, _: &[u8], _: u64) -> Result<StoreReply, Infallible> {
        tokio::task::yield_now().await;
        match *self {
            Self::Panics => panic!("out of tape"),
            Self::Hangs => pending().await,
            Self::AnswersAfter(time) => tokio::time::sleep(time).await,
        }
        Ok(StoreReply::new(Outcome::Allowed, 1, 0, Duration::ZERO))
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }
}

/// A layer and the faults that its hook saw.
fn layer(backend: Faulty, on_error: OnBackendError) -> (TollgateLayer, Arc<Mutex<Vec<BackendFault>>>) {
    let faults = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&faults);
    let layer = layer_with(Rule::backend("there", backend, on_error))
        .timer(tokio::time::sleep)
        .on_backend_error(move |_, error| {
            let fault = error.downcast_ref::<BackendFault>().expect("a fault");
            seen.lock().unwrap().push(fault.clone());
        })
        .build()
        .unwrap();
    (layer, faults)
}

/// What happens at an error, and the statuses of three requests then.
fn judgements() -> [(OnBackendError, [u16; 3]); 3] {
    [
        (OnBackendError::Allow, [200, 200, 200]),
        (OnBackendError::Refuse, [503, 503, 503]),
        (OnBackendError::LimitLocally(vec![Quota::from(hourly_bucket(2)[0])]), [200, 200, 429]),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_panicking_backend_is_an_error() {
    for (on_error, expected) in judgements() {
        let (layer, faults) = layer(Faulty::Panics, on_error);
        assert_eq!(statuses(&layer, 3, &[]).await, expected);
        let panic = BackendFault::Panicked { message: "out of tape".into() };
        assert_eq!(*faults.lock().unwrap(), [panic.clone(), panic.clone(), panic]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_backend_is_an_error_at_its_deadline() {
    for (on_error, expected) in judgements() {
        let (layer, faults) = layer(Faulty::Hangs, on_error);
        let begun = Instant::now();
        let answers = timeout(Duration::from_secs(9), statuses(&layer, 3, &[])).await;
        assert_eq!(answers.expect("the deadlines pass"), expected);
        assert_eq!(begun.elapsed(), 3 * DEADLINE);
        let late = BackendFault::TimedOut { deadline: DEADLINE };
        assert_eq!(*faults.lock().unwrap(), [late.clone(), late.clone(), late]);
    }
    let in_time = Faulty::AnswersAfter(DEADLINE - Duration::from_millis(1));
    let (layer, faults) = layer(in_time, OnBackendError::Refuse);
    assert_eq!(statuses(&layer, 2, &[]).await, [200, 200]);
    assert_eq!(*faults.lock().unwrap(), []);
}
