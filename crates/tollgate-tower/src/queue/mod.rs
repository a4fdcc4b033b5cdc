//! Turns of requests in queues, which go on to others when their clients leave.

mod turn;
mod turns;

pub(crate) use turn::QueueTurn;
pub(crate) use turns::QueueTurns;
