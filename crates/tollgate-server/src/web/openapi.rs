//! Holds a document of OpenAPI to what it describes: its routes and the fields of its JSON.

use std::collections::BTreeSet;
use std::task::{Context, Poll, Waker};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate_net::web::Answer;

use super::Route;

/// A document of OpenAPI.
pub(crate) struct Document(Value);

impl Document {
    pub(crate) fn read(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap())
    }

    /// The names of the properties of a schema, and of those among which it lets choose.
    pub(crate) fn fields(&self, schema: &str) -> BTreeSet<String> {
        self.properties(&self.0["components"]["schemas"][schema])
    }

    fn properties(&self, schema: &Value) -> BTreeSet<String> {
        if let Some(name) = schema["$ref"].as_str() {
            return self.fields(name.rsplit('/').next().unwrap());
        }
        let own =
            schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().cloned());
        let choices = schema["oneOf"].as_array().into_iter().flatten();
        own.chain(choices.flat_map(|choice| self.properties(choice))).collect()
    }

    /// Holds that its paths and methods are those of these routes, and no others.
    pub(crate) fn has_exactly<R: Route>(&self) {
        let paths = self.0["paths"].as_object().unwrap();
        assert_eq!(
            paths.keys().map(String::as_str).collect::<BTreeSet<_>>(),
            R::PATHS.iter().map(|route| route.0).collect()
        );
        for (path, route) in R::PATHS {
            let documented = keys(&paths[*path]);
            for method in route.methods() {
                // HEAD is what GET answers, without its body.
                let method = method.as_str().to_lowercase();
                assert!(method == "head" || documented.contains(&method), "{path}: {method}");
            }
            let is_served = |method: &String| {
                route.methods().is_empty()
                    || route.methods().iter().any(|own| own.as_str().eq_ignore_ascii_case(method))
            };
            assert!(documented.iter().all(is_served), "{path}: {documented:?}");
        }
    }
}

pub(crate) fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(crate) fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

/// The fields that are read into a type which has no others, in the reader's own words.
pub(crate) fn read_fields<T: DeserializeOwned>() -> BTreeSet<String> {
    let Err(error) = serde_json::from_str::<T>("{\"?\":0}") else { panic!("the field is unknown") };
    error.to_string().split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

/// The JSON of an answer.
pub(crate) fn body(answer: Answer) -> Value {
    let mut body = std::pin::pin!(http_body_util::BodyExt::collect(answer.into_body()));
    let Poll::Ready(Ok(body)) = body.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the body is complete")
    };
    serde_json::from_slice(&body.to_bytes()).unwrap()
}
