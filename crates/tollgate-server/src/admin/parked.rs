//! Requests that are kept for later: listed, cancelled, sent again.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Admin, Failure, Who, bad, not_allowed, parameter};
use crate::park::{Entry, Filter, Id, Park, State, Unchanged};
use crate::web::{self, Answer};

/// The most entries of a page.
const PAGE: usize = 1_000;

const STATES: [State; 5] = [State::Parked, State::Sent, State::Expired, State::Dead, State::Cancelled];

impl Admin {
    fn park(&self) -> Result<&Park, Failure> {
        let none = || Failure(StatusCode::NOT_FOUND, "no requests are kept: there is no --park FILE".into());
        self.core.park.as_deref().ok_or_else(none)
    }

    /// `GET /admin/parked?rule=&key=&state=&after=&most=`: a page of entries, the oldest first.
    /// `key` is the hash that entries show.
    pub(super) fn list_parked(&self, query: Option<&str>) -> Result<Answer, Failure> {
        let number = |name: &str, default: u64| match parameter(query, name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| bad(format!("`{name}` is no number"))),
        };
        let state = parameter(query, "state").map(|name| {
            let found = STATES.into_iter().find(|state| state.name() == name);
            found.ok_or_else(|| bad("a state is parked, sent, expired, dead or cancelled"))
        });
        let most = usize::try_from(number("most", 100)?).unwrap_or(PAGE).clamp(1, PAGE);
        let (rule, key) = (parameter(query, "rule"), parameter(query, "key"));
        let filter = Filter { rule, state: state.transpose()?, after: number("after", 0)?, most };
        let fits = |entry: &Entry| key.as_ref().is_none_or(|key| *key == self.hash(entry));
        let page = self.park()?.list(&filter, fits);
        let next = page.last().filter(|_| page.len() == most).map(|(number, _)| number + 1);
        let shown: Vec<Value> = page.iter().map(|(_, entry)| self.shown(entry)).collect();
        Ok(web::json(StatusCode::OK, &json!({ "parked": shown, "after": next })))
    }

    /// `/admin/parked/ID`: `GET` shows an entry, `DELETE` cancels it, `POST` has it sent again.
    pub(super) async fn parked(&self, who: Who, method: &Method, id: &str) -> Result<Answer, Failure> {
        let unknown = || Failure(StatusCode::NOT_FOUND, "no such request is kept".into());
        let id: Id = id.parse().map_err(|_| unknown())?;
        let park = self.park()?;
        let changed = match *method {
            Method::GET | Method::HEAD => park.entry(id).ok_or(Unchanged::Unknown),
            Method::DELETE => park.cancel(id).await,
            Method::POST => park.resend(id).await,
            _ => return Err(not_allowed("GET, DELETE and POST")),
        };
        let entry = changed.map_err(|unchanged| match unchanged {
            Unchanged::Unknown => unknown(),
            Unchanged::Unfit => {
                let why = "the request has ended, is not dead, or is being sent now";
                Failure(StatusCode::CONFLICT, why.into())
            }
            Unchanged::Store(error) => Failure(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        })?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            tracing::info!(%who, rule = entry.rule, state = entry.state.name(), "a parked request was changed");
        }
        Ok(web::json(StatusCode::OK, &self.shown(&entry)))
    }

    fn hash(&self, entry: &Entry) -> String {
        self.core.metrics.shown_hash(&entry.key)
    }

    fn shown(&self, entry: &Entry) -> Value {
        let seconds = |millis: u64| millis as f64 / 1e3;
        json!({
            "id": entry.id, "rule": entry.rule, "key": self.hash(entry), "request": entry.shown,
            "bytes": entry.bytes, "state": entry.state, "status": entry.status,
            "tries": entry.tries, "most_tries": entry.most_tries,
            "parked_at": seconds(entry.parked_at), "expires_at": seconds(entry.expires_at),
            "ended_at": entry.ended_at.map(seconds),
        })
    }
}
