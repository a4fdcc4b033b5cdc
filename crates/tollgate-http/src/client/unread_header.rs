//! The warning of a proxy that is not trusted, behind the feature `tracing`.

use crate::RequestHead;

/// Warns at the first request in which a proxy names its client in a header that is not read.
#[derive(Clone, Default)]
pub(super) struct UnreadHeaderWarning {
    #[cfg(feature = "tracing")]
    warned: std::sync::Arc<std::sync::OnceLock<()>>,
}

impl UnreadHeaderWarning {
    #[inline]
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, clippy::unused_self))]
    pub(super) fn check(&self, head: &RequestHead<'_>) {
        #[cfg(feature = "tracing")]
        if self.warned.get().is_none()
            && (head.headers().contains_key("x-forwarded-for") || head.headers().contains_key("forwarded"))
        {
            self.warned.get_or_init(|| {
                tracing::warn!(
                    "a request names its client in a header that is not read: behind a proxy all clients share its \
                     address, unless ClientAddress::x_forwarded_for or forwarded trusts it"
                );
            });
        }
    }
}
