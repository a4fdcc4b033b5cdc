//! When a request that is kept for later is about to be sent, as its client is told.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::park::{Kept, Parking};

#[tokio::test]
async fn the_estimate_goes_by_the_limits_rate() {
    for kept in Kept::each() {
        let parking = Parking::new(&kept, "key = 'client', limits = '1/min,burst=1'").await;
        let began = Instant::now();
        assert_eq!(parking.post("/0", "").await.status, 200);
        sleep(Duration::from_secs(3)).await;
        for number in 1..=4 {
            let answer = parking.post("/", "").await;
            let estimate: u64 = answer.header("retry-after").parse().unwrap();
            let latest = 60 * number - 3;
            let about = latest - began.elapsed().as_secs() + 2..=latest;
            assert!(about.contains(&estimate), "{number} in {estimate} s, not {about:?}");
        }
    }
}
