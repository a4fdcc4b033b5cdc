//! The paths of the admin listener.

use http::Method;

/// The interface as a document.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// What a path serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Open(Open),
    Guarded(Guarded),
}

/// What everyone may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Page,
    Health,
    Ready,
    Metrics,
}

/// What an administrator may see or do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guarded {
    OpenApi,
    Rules,
    Plan,
    Reload,
    Top,
    Key,
    Live,
    ParkedList,
    Parked,
}

impl Guarded {
    /// The parameters that its query may have.
    pub(super) fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Reload => &["forget"],
            Self::Top => &["rule"],
            Self::ParkedList => &["rule", "key", "state", "most", "after"],
            Self::OpenApi | Self::Rules | Self::Plan | Self::Key | Self::Live | Self::Parked => &[],
        }
    }
}

impl crate::web::Route for Route {
    const PATHS: &'static [(&'static str, Self)] = &[
        ("/", Self::Open(Open::Page)),
        ("/healthz", Self::Open(Open::Health)),
        ("/readyz", Self::Open(Open::Ready)),
        ("/metrics", Self::Open(Open::Metrics)),
        ("/openapi.json", Self::Guarded(Guarded::OpenApi)),
        ("/admin/rules", Self::Guarded(Guarded::Rules)),
        ("/admin/plan", Self::Guarded(Guarded::Plan)),
        ("/admin/reload", Self::Guarded(Guarded::Reload)),
        ("/admin/top", Self::Guarded(Guarded::Top)),
        ("/admin/keys/{rule}", Self::Guarded(Guarded::Key)),
        ("/admin/live", Self::Guarded(Guarded::Live)),
        ("/admin/parked", Self::Guarded(Guarded::ParkedList)),
        ("/admin/parked/{id}", Self::Guarded(Guarded::Parked)),
    ];

    fn methods(self) -> &'static [Method] {
        match self {
            Self::Guarded(Guarded::Plan | Guarded::Reload | Guarded::Key) => &[Method::POST],
            Self::Guarded(Guarded::Parked) => &[Method::GET, Method::HEAD, Method::DELETE, Method::POST],
            Self::Open(_) | Self::Guarded(_) => &[Method::GET, Method::HEAD],
        }
    }
}
