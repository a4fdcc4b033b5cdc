//! Attempts to log in, until the limit refuses one. All processes that run this share the limit.
//!
//! `cargo run -p tollgate-redis --example login -- redis://127.0.0.1`

use tollgate::{FixedWindow, Quota, Rate, TokenBucket};
use tollgate_redis::Redis;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".to_owned());
    let redis = Redis::builder(url).build().await?;
    let quotas: [Quota; 2] =
        [TokenBucket::new(Rate::per_minute(5)).into(), FixedWindow::new(Rate::per_day(100)).into()];
    let login = redis.limiter("login", quotas).build()?;
    loop {
        let answer = login.check("alice").await?;
        if !answer.is_allowed() {
            println!("refused by limit {:?}: try again in {:?}", answer.refused_by(), answer.retry_after());
            return Ok(());
        }
        println!("admitted, {} attempts are left", answer.remaining());
    }
}
