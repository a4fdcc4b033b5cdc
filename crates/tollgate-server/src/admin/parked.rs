//! Requests that are kept for later: listed, cancelled, sent again.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate_net::web::{self, Answer};
use tollgate_proxy::park::{Entry, Filter, Id, State, Unchanged};

use super::access::Who;
use super::failure::{Failure, bad};
use super::keys::index_of;
use super::query::parameter;
use super::state::Admin;

/// The most entries of a page.
const PAGE: usize = 1_000;

const STATES: [State; 5] = [State::Parked, State::Sent, State::Expired, State::Dead, State::Cancelled];

/// `GET /admin/parked?rule=&key=&state=&after=&most=`: a page of entries, those of one store
/// after the other, the oldest first. `key` is the hash that entries show. `unread` are the
/// stores that do not answer.
pub(super) async fn list(admin: &Admin, query: Option<&str>) -> Result<Answer, Failure> {
    let stores = admin.core.parks.all();
    if stores.is_empty() {
        let why = "no requests are kept: there is no --park FILE, and no rule that parks has a store";
        return Err(Failure(StatusCode::NOT_FOUND, why.into()));
    }
    let most = parameter(query, "most").map_or(Some(100), |text| text.parse().ok());
    let most = most.filter(|most| (1..=PAGE).contains(most));
    let most = most.ok_or_else(|| bad(format!("`most` is a number from 1 to {PAGE}")))?;
    let wrong_after = || bad("`after` is what the page before says: a number, or two with a dot");
    let after = parameter(query, "after").unwrap_or_else(|| "0".into());
    // The number of the store, unless it is the first, and the number of the entry.
    let (first, after) = after.split_once('.').unwrap_or(("0", &after));
    let first: usize = first.parse().map_err(|_| wrong_after())?;
    let after = after.parse().map_err(|_| wrong_after())?;
    let state = parameter(query, "state").map(|name| {
        let found = STATES.into_iter().find(|state| state.name() == name);
        found.ok_or_else(|| bad("a state is parked, sent, expired, dead or cancelled"))
    });
    let (rule, key) = (parameter(query, "rule"), parameter(query, "key"));
    let metrics = Arc::clone(&admin.core);
    let fits =
        move |entry: &Entry| key.as_ref().is_none_or(|key| *key == metrics.metrics.shown_hash(&entry.key));
    let mut filter = Filter { rule, state: state.transpose()?, fits: Box::new(fits), after, most };
    let (mut shown, mut unread, mut next) = (Vec::new(), Vec::new(), None);
    for (number, store) in stores.iter().enumerate().skip(first) {
        filter.most = most - shown.len();
        let page = store.list(&filter).await.unwrap_or_else(|error| {
            unread.push(json!({ "store": store.name(), "error": error.to_string() }));
            Vec::new()
        });
        shown.extend(page.iter().map(|(_, entry)| described(admin, entry)));
        if let Some((last, _)) = page.last().filter(|_| shown.len() == most) {
            next = Some(if number == 0 { format!("{}", last + 1) } else { format!("{number}.{}", last + 1) });
            break;
        }
        filter.after = 0;
    }
    // Requests of a rule that is gone are kept all the same.
    if let Some(rule) = filter.rule.filter(|_| shown.is_empty() && unread.is_empty()) {
        index_of(&admin.core.metrics.generation().set, &rule)?;
    }
    Ok(web::json(StatusCode::OK, &json!({ "parked": shown, "after": next, "unread": unread })))
}

/// `/admin/parked/ID`: `GET` shows an entry, `DELETE` cancels it, `POST` has it sent again.
pub(super) async fn entry(admin: &Admin, who: Who, method: &Method, id: &str) -> Result<Answer, Failure> {
    let id: Id = id.parse().map_err(|_| failure(Unchanged::Unknown))?;
    let parks = &admin.core.parks;
    let changed = match *method {
        Method::DELETE => parks.change(id, Entry::cancel).await,
        Method::POST => parks.change(id, Entry::revive).await,
        _ => parks.entry(id).await,
    };
    let entry = match changed {
        Err(Unchanged::Unfit) => {
            let entry = parks.entry(id).await.map_err(failure)?;
            return Err(Failure(StatusCode::CONFLICT, conflict(method, entry.state)));
        }
        changed => changed.map_err(failure)?,
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        let (id, state) = (entry.id.beginning(), entry.state.name());
        tracing::info!(%who, id, rule = entry.rule, state, "a parked request was changed");
    }
    Ok(web::json(StatusCode::OK, &described(admin, &entry)))
}

fn described(admin: &Admin, entry: &Entry) -> Value {
    let seconds = |millis: u64| millis as f64 / 1e3;
    json!({
        "id": entry.id, "rule": entry.rule, "key": admin.core.metrics.shown_hash(&entry.key), "request": entry.shown,
        "bytes": entry.bytes, "state": entry.state, "status": entry.status,
        "tries": entry.tries, "most_tries": entry.most_tries,
        "parked_at": seconds(entry.parked_at), "expires_at": seconds(entry.expires_at),
        "ended_at": entry.ended_at.map(seconds),
    })
}

fn failure(unchanged: Unchanged) -> Failure {
    match unchanged {
        Unchanged::Unknown => Failure(StatusCode::NOT_FOUND, "no such request is kept".into()),
        Unchanged::Unfit => Failure(StatusCode::CONFLICT, "another change was faster".into()),
        Unchanged::Store(error) => Failure(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// Why a request in this state is not cancelled, or not sent again.
fn conflict(method: &Method, state: State) -> String {
    let is_cancel = *method == Method::DELETE;
    match state {
        State::Parked if is_cancel => "the request is being sent now: try again, if it is parked then",
        State::Parked => "the request is not dead: it waits, or is being sent now",
        State::Dead => "another change of the request was faster: look at it again",
        State::Sent => "the request has ended: an upstream has answered it",
        State::Expired => "the request has ended: it was too old to be sent",
        State::Cancelled => "the request has ended: it was cancelled",
    }
    .into()
}
