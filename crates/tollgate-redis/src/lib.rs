//! One rate limit for many processes, exact, in Redis or Valkey.

mod name;
