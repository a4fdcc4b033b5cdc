//! Long work beside the threads that serve connections: saves, reloads, pages about whole tables.

use std::io;
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How far such work gives way (`nice`): where it shares a processor that is always busy, it gets a
/// tenth of it. More, and a save there would hardly ever end.
#[cfg(target_os = "linux")]
const GIVES_WAY: i32 = 10;

/// Does work on a thread of its own, which gives way to those that serve connections. It goes on if
/// the future is dropped. Needs a tokio runtime.
///
/// # Errors
///
/// There is no thread for it, or the work panicked.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (tell, told) = oneshot::channel();
    let runtime = Handle::current();
    thread::Builder::new().name("tollgate-beside".into()).spawn(move || {
        give_way();
        let _runtime = runtime.enter();
        // The future may have been dropped.
        let _ = tell.send(work());
    })?;
    told.await.map_err(|_| io::Error::other("the work panicked"))
}

/// Lowers the priority of this thread. Where that cannot be, it stays as it is.
fn give_way() {
    // Elsewhere it would be the priority of the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, GIVES_WAY) {
        tracing::debug!(%error, "the priority of a thread stays");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn long_work_gives_way_to_threads_that_serve() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        assert_eq!(beside(priority).await.unwrap(), GIVES_WAY);
        assert_eq!(priority(), before);
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error() {
        let panics = beside(|| -> u8 { panic!("as the test wants") });
        assert_eq!(panics.await.unwrap_err().to_string(), "the work panicked");
        assert_eq!(beside(|| 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn long_work_may_spawn_tasks() {
        let task = beside(|| tokio::spawn(async { 7 })).await.unwrap();
        assert_eq!(task.await.unwrap(), 7);
    }
}
