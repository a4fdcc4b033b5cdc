//! So many exports of each tenant at once, and so many in all, however long each of them takes.

use std::error::Error;
use std::sync::Arc;
use std::thread;

use tollgate::{AcquireError, InFlightLimiter, OwnedInFlight};

/// The exports that run.
struct Exports {
    of_tenant: Arc<InFlightLimiter<str>>,
    of_all: Arc<InFlightLimiter<()>>,
}

impl Exports {
    fn new() -> Result<Self, tollgate::BuildError> {
        Ok(Self {
            of_tenant: Arc::new(InFlightLimiter::builder(2).per().build()?),
            of_all: Arc::new(InFlightLimiter::builder(3).build()?),
        })
    }

    /// The place of an export: given back when it is dropped, also by a panic.
    fn begin(&self, tenant: &str) -> Result<(OwnedInFlight<str>, OwnedInFlight<()>), AcquireError> {
        let of_tenant = self.of_tenant.try_acquire_owned(tenant)?;
        let of_all = self.of_all.try_acquire_owned(())?;
        Ok((of_tenant, of_all))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let exports = Exports::new()?;

    let (first, second) = (exports.begin("acme")?, exports.begin("acme")?);
    assert_eq!(exports.begin("acme").unwrap_err(), AcquireError::Busy); // two of its own
    let third = exports.begin("globex")?;
    assert_eq!(exports.begin("initech").unwrap_err(), AcquireError::Busy); // three in all
    assert_eq!(exports.of_tenant.in_flight("initech"), 0); // a refusal holds nothing

    // The guards borrow nothing: an export takes them along to its thread or task.
    let export = thread::spawn(move || {
        let _place = first;
        // ... write the file ...
    });
    export.join().expect("the export does not panic");
    assert!(exports.begin("initech").is_ok());

    drop((second, third));
    assert_eq!((exports.of_tenant.in_flight("acme"), exports.of_all.in_flight(())), (0, 0));
    println!("two of each tenant, three in all");
    Ok(())
}
