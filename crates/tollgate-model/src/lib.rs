//! Placeholder until the model lands.
