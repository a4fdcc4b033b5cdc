//! The layer as a web developer uses it, in one binary so that it links once.

mod admitted;
mod answers;
mod backends;
mod changes;
mod clients;
mod forged;
mod grpc;
mod pace;
mod places;
mod published;
mod responses;
mod rules;
mod servers;
mod support;
mod told;
