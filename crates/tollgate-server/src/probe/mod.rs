//! The server's parts without connections, for tests and fuzz targets.

mod rooms;

pub use crate::resp::{Answered, Probe as RespProbe};
pub use crate::rls::{CallAnswer, CallProbe};
pub use rooms::RoomsProbe;
