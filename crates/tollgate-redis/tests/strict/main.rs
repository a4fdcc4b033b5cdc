//! Limits in real stores, each decision held against the model.

#[path = "../support/server.rs"]
mod server;

use server::{Server, Store};

#[test]
fn a_server_starts_and_is_gone() {
    for store in Store::ALL {
        let Some(mut server) = Server::start(store) else { continue };
        assert_eq!(server.ask::<String>(&["PING"]), "PONG");
        server.kill();
        assert!(server.try_ask::<String>(&["PING"]).is_err());
        server.restart();
        assert_eq!(server.ask::<u64>(&["DBSIZE"]), 0);
    }
}
