//! Several threads, and what no key may pass.
