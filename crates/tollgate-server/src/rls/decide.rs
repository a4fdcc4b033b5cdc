//! Who decides a call.

use tollgate_net::listen::Peer;
use tollgate_rules_file::EnvoyDescriptor;

use super::call::{CallError, DESCRIPTORS, ENTRIES};
use super::proto::{RateLimitRequest, RateLimitResponse};
use super::{by_files, by_rules};
use crate::core::Core;
use crate::metrics::Listener;

/// Decides a call, all or nothing: if one descriptor is refused, the others are charged nothing.
pub(super) async fn decide(
    core: &Core,
    (listener, peer): (Listener, Peer),
    call: &RateLimitRequest,
) -> Result<RateLimitResponse, CallError> {
    check(call)?;
    if let Some(response) = by_files::decide(core, listener, call).await? {
        return Ok(response);
    }
    Ok(by_rules::decide(core, (listener, peer), call).await)
}

fn check(call: &RateLimitRequest) -> Result<(), CallError> {
    if call.domain.is_empty() {
        return Err(CallError::NoDomain);
    }
    match call.descriptors.len() {
        0 => return Err(CallError::NoDescriptors),
        1..=DESCRIPTORS => {}
        _ => return Err(CallError::TooManyDescriptors),
    }
    for (index, descriptor) in call.descriptors.iter().enumerate() {
        if descriptor.entries.len() > ENTRIES {
            return Err(CallError::TooManyEntries { descriptor: index });
        }
        if let Some((_, None)) = descriptor.limit() {
            return Err(CallError::UnknownUnit { descriptor: index });
        }
    }
    Ok(())
}
