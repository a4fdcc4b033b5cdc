//! The workloads. A workload builds its keys and contestants when it runs and drops them
//! afterwards.

mod algorithms;
mod hot;
mod key_types;
mod latency;
mod many;
mod memory;
mod recovered;
mod scale;
mod threads;
mod workload;

pub(crate) use memory::resident_of;
pub(crate) use workload::{Effort, Workload};

/// Returns the workloads whose names contain one of the filters, the cheap ones first; all if there
/// are no filters. The workloads of `scale` are included only if a filter names them.
pub(crate) fn workloads(filters: &[String]) -> Vec<Workload> {
    let scale = filters.iter().any(|filter| filter.contains(scale::NAME));
    let scale = if scale { scale::workloads() } else { Vec::new() };
    let is_chosen = |workload: &Workload| {
        filters.is_empty() || filters.iter().any(|filter| workload.name.contains(filter))
    };
    let kinds = [
        hot::workloads(),
        algorithms::workloads(),
        key_types::workloads(),
        many::workloads(),
        recovered::workloads(),
        threads::workloads(),
        latency::workloads(),
        memory::workloads(),
        scale,
    ];
    kinds.into_iter().flatten().filter(is_chosen).collect()
}
