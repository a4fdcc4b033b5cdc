//! What became of a request that this process had for itself, told until the server knows it.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_redis::FailureKind;

use super::super::{Entry, First, Unchanged};
use super::{Inner, SECOND, Stored, fault, place_text};

impl Inner {
    /// Gives a request that this process had for itself its next entry. While the server does not
    /// answer, it tries again: otherwise the request would be sent once more.
    pub(super) async fn finish(&self, first: &First, entry: Entry, pause: Duration) -> Result<(), Unchanged> {
        let place = place_text(first.place);
        let stored = Stored { raw: Vec::new(), place, entry: first.entry.clone() };
        let mut tries = 0;
        loop {
            let error = match self.put(&stored, &entry, Some(&self.consumer), pause).await {
                Ok(true) => return Ok(()),
                Ok(false) if tries == 0 => return Err(Unchanged::Unfit),
                // An attempt whose answer was lost may have put it.
                Ok(false) => match self.stored(entry.id).await {
                    Ok(Some(stored)) if stored.entry == entry => {
                        self.tell_of(&entry);
                        return Ok(());
                    }
                    Ok(_) => return Err(Unchanged::Unfit),
                    Err(error) => error,
                },
                Err(failed) if matches!(failed.kind, FailureKind::Script | FailureKind::Auth) => {
                    return Err(Unchanged::Store(fault(&failed)));
                }
                Err(failed) => fault(&failed),
            };
            if tries % 10 == 0 {
                tracing::warn!(%error, store = self.name, "what became of a parked request is not noted yet");
            }
            tries += 1;
            tokio::select! {
                () = self.ends.cancelled() => return Err(Unchanged::Store(error)),
                () = sleep(SECOND) => {}
            }
        }
    }
}
