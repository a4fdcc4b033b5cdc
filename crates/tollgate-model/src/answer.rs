//! What a check says.

/// The answer to one check, in full.
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
    /// The smallest wait after which the same request passes if nobody else comes; `None` when it was
    /// allowed, or when it never will be.
    pub retry_after_ns: Option<u64>,
    /// How long until the key is as good as new, if nobody comes.
    pub reset_after_ns: u64,
    /// How long an allowed request has to wait for its departure; zero for everything but a queue.
    pub delay_ns: u64,
}
