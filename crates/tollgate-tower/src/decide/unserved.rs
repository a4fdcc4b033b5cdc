//! Requests that the inner service could not serve at all.

/// What a response carries in its extensions if its request was not served: nothing has acted on
/// it. Behind a layer with
/// `gives_back_unserved`, all that the request was
/// charged comes back, as far as the algorithms can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotServed;
