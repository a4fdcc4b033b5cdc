//! The answer to a check.

/// The answer to one check.
#[derive(PartialEq, Eq, Debug, Clone, Copy)]
pub struct Answer {
    /// Whether the request may pass.
    pub allowed: bool,
    /// Whether no wait will ever help: the cost is above the limit.
    pub never: bool,
    /// The most that can ever be admitted at once: burst, capacity or limit.
    pub limit: u64,
    /// How much more would be admitted now, after this request.
    pub remaining: u64,
    /// The smallest wait after which the same request passes if no other comes; `None` when it was
    /// allowed or can never be.
    pub retry_after_ns: Option<u64>,
    /// How long until the key is back in its initial state, if no request comes.
    pub reset_after_ns: u64,
    /// How long an allowed request waits for its departure; zero except in a queue.
    pub delay_ns: u64,
}
