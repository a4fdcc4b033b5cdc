//! TODO-v1

use std::sync::Arc;

use crate::core::Core;
use crate::listen::{Connection, Drain};

/// Serves one connection until the client or the server ends it.
pub(crate) async fn serve(_core: Arc<Core>, _connection: Connection, _drain: Drain) {}
