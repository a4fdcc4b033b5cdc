//! Any bytes as the body of `/v1/check`: requests that say what the JSON says, or an error that
//! points into it.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the server")]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tollgate_rules::{Field, Request};

#[path = "../../crates/tollgate-server/src/web/pointer.rs"]
mod pointer;
#[path = "../../crates/tollgate-server/src/v1/request.rs"]
mod request;

#[path = "../../crates/tollgate-server/src/web/client.rs"]
mod client;

mod web {
    pub(crate) use crate::client::Client;
}

/// Fields of this name say to `serde_json` alone what a value is.
const OF_SERDE: &[u8] = b"$serde_json::private";

fuzz_target!(|bytes: &[u8]| {
    if bytes.windows(OF_SERDE.len()).any(|window| window == OF_SERDE) {
        return;
    }
    let tree = serde_json::from_slice::<Value>(bytes);
    match serde_json::from_slice::<request::Body<'_>>(bytes) {
        Ok(body) => {
            let tree = tree.expect("what is read is JSON");
            match &body.requests {
                None => says(&&body.one, &tree),
                Some(calls) => {
                    let elements = tree["requests"].as_array().expect("a batch is an array");
                    assert!(calls.len() <= request::MOST_REQUESTS + 1 && calls.len() <= elements.len());
                    calls.iter().zip(elements).for_each(|(call, tree)| says(&call, tree));
                }
            }
        }
        Err(error) => {
            let pointer = pointer::pointer_at(bytes, error.line(), error.column());
            assert!(pointer.is_empty() || pointer.starts_with('/'));
            if let Ok(tree) = tree {
                assert!(tree.pointer(&pointer).is_some(), "{pointer}: {error}");
            }
        }
    }
});

/// A request says what the tree says.
fn says(call: &dyn Request, tree: &Value) {
    for (field, name) in [(Field::Method, "method"), (Field::Target, "target")] {
        let mut values = Vec::new();
        call.values(field, &mut |value| values.push(value.to_vec()));
        let expected = tree[name].as_str().map(|text| text.as_bytes().to_vec());
        assert_eq!(values, Vec::from_iter(expected));
    }
    assert_eq!(call.client(), tree["client"].as_str().map(|text| text.parse().expect("it was read")));
    for (name, value) in tree["labels"].as_object().into_iter().flatten() {
        let mut count = 0;
        call.values(Field::Label(name), &mut |_| count += 1);
        assert_eq!(count, value.as_array().map_or(1, Vec::len));
    }
}
