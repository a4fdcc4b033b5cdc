//! A rules file that is watched.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules_file::{Disk, LiveFile, Watched};

/// A directory that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-rules-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(count: u64) -> String {
    format!("version = 1\nrule = [{{ name = 'r', key = 'client', limits = '{count}/d' }}]\n")
}

type Told = Receiver<Result<u64, String>>;

fn watch(path: &Path) -> (LiveFile<ManualClock>, Watched, Told) {
    let live = LiveFile::open(path, &Disk, ManualClock::new()).unwrap();
    let (send, told) = channel();
    let tell = move |done: Result<u64, &tollgate_rules_file::ReloadError>| {
        let _ = send.send(done.map_err(ToString::to_string));
    };
    let watched = Watched::spawn(live.clone(), path, tell).unwrap();
    (live, watched, told)
}

/// The next report. A second, and as much for a machine that is busy.
fn next(told: &Told) -> Result<u64, String> {
    told.recv_timeout(Duration::from_secs(5)).expect("something is told")
}

#[test]
fn a_changed_file_comes_into_force_however_it_changes() {
    let folder = Folder::new("changes");
    folder.write("rules.toml", text(1));
    let path = folder.0.join("rules.toml");
    let (live, _watched, told) = watch(&path);
    // In place, by a rename, and not at all for the same bytes.
    folder.write("rules.toml", text(2));
    assert_eq!(next(&told), Ok(2));
    folder.write("new", text(3));
    fs::rename(folder.0.join("new"), &path).unwrap();
    assert_eq!(next(&told), Ok(3));
    folder.write("rules.toml", text(3));

    // What cannot be read is told once, and changes nothing.
    fs::remove_file(&path).unwrap();
    assert!(next(&told).unwrap_err().contains("cannot read"));
    fs::create_dir(&path).unwrap();
    let error = told.recv_timeout(Duration::from_millis(1_500));
    assert!(error.is_err() || error.is_ok_and(|told| told.is_err()));
    fs::remove_dir(&path).unwrap();
    folder.write("rules.toml", &text(4)[..30]);
    while next(&told).unwrap_err().contains("cannot read") {}
    assert_eq!(live.live().status().generation, 3);
    assert!(live.last_error().is_some());
    folder.write("rules.toml", text(4));
    assert_eq!(next(&told), Ok(4));
    assert!(live.last_error().is_none());
}

#[cfg(unix)]
#[test]
fn an_exchanged_link_and_a_new_include_are_noticed() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("links");
    let version = |number: u64| {
        let name = format!("..{number}");
        fs::create_dir_all(folder.0.join(&name).join("rules.d")).unwrap();
        folder
            .write(&format!("{name}/rules.toml"), format!("include = ['rules.d/*.toml']\n{}", text(number)));
        name
    };
    symlink(version(1), folder.0.join("..data")).unwrap();
    let path = folder.0.join("..data/rules.toml");
    let (live, _watched, told) = watch(&path);
    symlink(version(2), folder.0.join("..tmp")).unwrap();
    fs::rename(folder.0.join("..tmp"), folder.0.join("..data")).unwrap();
    assert_eq!(next(&told), Ok(2));
    let more = "version = 1\n[[rule]]\nname = 'more'\nkey = 'everyone'\nlimits = '1/s'\n";
    folder.write("..2/rules.d/more.toml", more);
    assert_eq!(next(&told), Ok(3));
    assert_eq!(live.live().rules().rules().rules.len(), 2);
}
