//! What is no mistake and probably not meant.
pub(super) fn check(_: &mut super::Files<'_>, _: super::FileId, _: &[super::Placed]) {}
