//! What an administrator is told about parked requests.

use super::park::{Journal, Kept, Parking};

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

#[tokio::test]
async fn each_conflict_of_a_parked_request_has_its_own_text() {
    for kept in Kept::each() {
        let rule = "key = 'client', limits = '1/s,burst=1', park = { tries = 1, age = '1h' }";
        let parking = Parking::over(&kept, rule, Journal::answering(&[200, 200, 500])).await;
        let told = async |method: &str, id: &str| {
            let answer = parking.ask(method, &format!("/admin/parked/{id}")).await;
            (answer.status.as_u16(), String::from_utf8_lossy(&answer.body).into_owned())
        };
        assert_eq!(parking.post("/0", "").await.status, 200);
        let [sent, dead] = [parking.parked("/1", "").await, parking.parked("/2", "").await];
        let (status, text) = told("POST", &dead).await;
        assert!(status == 409 && text.contains("not dead: it waits"), "{text}");
        parking.becomes(&sent, "sent").await;
        for method in ["POST", "DELETE"] {
            let (status, text) = told(method, &sent).await;
            assert!(status == 409 && text.contains("an upstream has answered it"), "{text}");
        }
        parking.becomes(&dead, "dead").await;
        assert_eq!(told("DELETE", &dead).await.0, 200);
        for method in ["POST", "DELETE"] {
            let (status, text) = told(method, &dead).await;
            assert!(status == 409 && text.contains("it was cancelled"), "{text}");
        }
    }
}
