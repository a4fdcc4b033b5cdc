//! How limits announce themselves, before and after they are changed.

use std::sync::OnceLock;

use http::HeaderValue;

use crate::headers::interned;

/// The items of `RateLimit-Policy`, one for each limit. Each change adds a version behind the last; who reads walks there
/// without a lock, in as many loads as there were changes.
pub(crate) struct Announced {
    each: Box<[Box<str>]>,
    all: Option<HeaderValue>,
    next: OnceLock<Box<Self>>,
}

impl Announced {
    pub(crate) fn new(policies: Vec<String>) -> Self {
        let all = interned(&policies.join(", "));
        let each = policies.into_iter().map(String::into_boxed_str).collect();
        Self { each, all, next: OnceLock::new() }
    }

    fn newest(&self) -> &Self {
        let mut newest = self;
        while let Some(next) = newest.next.get() {
            newest = next;
        }
        newest
    }

    /// Announces others from now on. Writers take turns: of two at once, the second is lost.
    pub(crate) fn change(&self, policies: Vec<String>) {
        self.newest().next.get_or_init(|| Box::new(Self::new(policies)));
    }

    /// All of them as one value.
    pub(crate) fn all(&self) -> Option<HeaderValue> {
        self.newest().all.clone()
    }

    /// One by one.
    pub(crate) fn each(&self) -> impl Iterator<Item = &str> {
        self.newest().each.iter().map(|policy| &**policy)
    }
}
