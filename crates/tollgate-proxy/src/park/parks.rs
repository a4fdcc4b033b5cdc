//! The store of each rule that parks requests.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tollgate_rules::{Rule, StoreServer};

use super::redis::RedisPark;
use super::{Entry, FilePark, Id, Later, ParkStore, Unchanged};

/// All stores of parked requests: a file, and the servers that rules name.
#[derive(Default)]
pub struct Parks {
    file: Option<Arc<FilePark>>,
    /// Drives the connections to servers; `None`: that of the request that needs one first does.
    runtime: Option<Handle>,
    /// The servers in the order in which rules named them first. A server whose rules are gone may
    /// still have requests, so it stays.
    servers: Mutex<Vec<Known>>,
}

struct Known {
    server: Arc<StoreServer>,
    /// `None`: its address is none.
    park: Option<Arc<RedisPark>>,
}

/// Where a rule's requests are kept.
pub(crate) enum Place {
    File(Arc<FilePark>),
    Redis(Arc<RedisPark>),
}

impl Place {
    pub(crate) fn store(self) -> Arc<dyn ParkStore> {
        match self {
            Self::File(file) => file,
            Self::Redis(redis) => redis,
        }
    }
}

impl Parks {
    /// Those of a server: with this file, if any, and connections on this runtime.
    pub fn new(file: Option<FilePark>, runtime: Handle) -> Self {
        Self { file: file.map(Arc::new), runtime: Some(runtime), ..Self::default() }
    }

    /// Whether there is a file.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether no requests are kept here.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Where the requests of a rule are kept. `None`: nowhere.
    pub(crate) fn of(&self, rule: &Rule) -> Option<Place> {
        rule.park.as_ref()?;
        match &rule.store {
            Some(store) => self.server(&store.server).map(Place::Redis),
            None => self.file.clone().map(Place::File),
        }
    }

    /// The requests of a server. Needs a Tokio runtime, because it connects to one that is new.
    fn server(&self, server: &Arc<StoreServer>) -> Option<Arc<RedisPark>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = servers.iter().find(|known| known.server == *server) {
            return known.park.clone();
        }
        let _entered = self.runtime.as_ref().map(Handle::enter);
        let park = RedisPark::open(server).map(Arc::new);
        let park = park.inspect_err(|error| tracing::error!(%error, %server, "no request is parked")).ok();
        let new = Known { server: Arc::clone(server), park: park.clone() };
        match servers.iter_mut().find(|known| known.server.keeps_counts_of(server)) {
            // The user, the password or the deadline is another one now.
            Some(known) => {
                if let Some(before) = std::mem::replace(known, new).park {
                    before.retire();
                }
            }
            None => servers.push(new),
        }
        park
    }

    /// All stores, in an order that stays.
    pub fn all(&self) -> Vec<Arc<dyn ParkStore>> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let servers = servers.iter().filter_map(|known| known.park.clone());
        let file = self.file.clone().map(|file| file as Arc<dyn ParkStore>);
        file.into_iter().chain(servers.map(|park| park as Arc<dyn ParkStore>)).collect()
    }

    /// The entry of a request, wherever it is kept.
    pub async fn entry(&self, id: Id) -> Result<Entry, Unchanged> {
        self.try_each(|store| {
            Box::pin(
                async move { store.entry(id).await.map_err(Unchanged::Store)?.ok_or(Unchanged::Unknown) },
            )
        })
        .await
    }

    /// Changes the entry of a request that is not being sent, wherever it is kept.
    pub async fn change(&self, id: Id, change: fn(&mut Entry, now: u64) -> bool) -> Result<Entry, Unchanged> {
        self.try_each(|store| store.change(id, change)).await
    }

    /// Asks one store after the other until one knows the request.
    async fn try_each(
        &self,
        ask: impl for<'a> Fn(&'a dyn ParkStore) -> Later<'a, Result<Entry, Unchanged>>,
    ) -> Result<Entry, Unchanged> {
        let mut result = Err(Unchanged::Unknown);
        for store in self.all() {
            match ask(&*store).await {
                Err(Unchanged::Unknown) => {}
                // Another store may know it.
                Err(Unchanged::Store(error)) => result = Err(Unchanged::Store(error)),
                known => return known,
            }
        }
        result
    }

    /// Ends the work of this process with all stores.
    pub async fn close(&self) {
        for store in self.all() {
            store.close().await;
        }
    }
}
