//! What an administrator is told about parked requests.

use super::park::{Kept, Parking};

const RULE: &str = "key = 'header.x-key', limits = '1/h'";

#[tokio::test]
async fn a_wrong_selection_of_parked_requests_is_refused() {
    for kept in Kept::each() {
        let parking = Parking::new(&kept, RULE).await;
        assert_eq!(parking.post("/0", "a").await.status, 200);
        parking.parked("/1", "a").await;
        for (query, status, told) in [
            ("status=dead", 400, "`status`"),
            ("most=0", 400, "from 1 to 1000"),
            ("most=1001", 400, "from 1 to 1000"),
            ("most=-1", 400, "from 1 to 1000"),
            ("most", 400, "from 1 to 1000"),
            ("after=x", 400, "`after`"),
            ("state=lost", 400, "parked, sent, expired, dead or cancelled"),
            ("rule=bogus", 404, "there is no such rule"),
        ] {
            let answer = parking.ask("GET", &format!("/admin/parked?{query}")).await;
            assert_eq!(answer.status, status, "{query}");
            let text = String::from_utf8_lossy(&answer.body);
            assert!(text.contains(told), "{query}: {text}");
        }
        for query in ["most=1", "most=1000", "rule=later", "rule=later&state=dead"] {
            assert_eq!(parking.ask("GET", &format!("/admin/parked?{query}")).await.status, 200, "{query}");
        }
    }
}
