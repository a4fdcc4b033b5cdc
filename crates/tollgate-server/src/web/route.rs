//! The paths that a listener serves, and their methods.

use http::header::ALLOW;
use http::{HeaderValue, Method, StatusCode};
use tollgate_net::web::{Answer, problem};

/// What a listener does at a path.
pub(crate) trait Route: Copy + 'static {
    /// All paths. A last part in braces stands for any text, of which there is some.
    const PATHS: &'static [(&'static str, Self)];

    /// The methods that it has; empty: any.
    fn methods(self) -> &'static [Method];

    /// The route of a path, and the text that its part in braces stands for.
    fn at(path: &str) -> Option<(Self, &str)> {
        Self::PATHS.iter().find_map(|(own, route)| {
            if !own.ends_with('}') {
                return (*own == path).then_some((*route, ""));
            }
            let (fixed, _) = own.split_once('{')?;
            let text = path.strip_prefix(fixed).filter(|text| !text.is_empty())?;
            Some((*route, text))
        })
    }

    /// The answer to a method that it does not have.
    fn refuse(self, method: &Method) -> Option<Answer> {
        let methods = self.methods();
        if methods.is_empty() || methods.contains(method) {
            return None;
        }
        let mut answer = problem(StatusCode::METHOD_NOT_ALLOWED, "this path has other methods");
        let allow = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
        if let Ok(allow) = HeaderValue::from_str(&allow) {
            answer.headers_mut().insert(ALLOW, allow);
        }
        Some(answer)
    }
}
