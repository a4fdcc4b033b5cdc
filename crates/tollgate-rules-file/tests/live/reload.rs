//! A rules file that is read again.

use tollgate::ManualClock;
use tollgate_rules::{Ask, Scratch};
use tollgate_rules_file::{LiveFile, Memory};

use crate::{X, Y, from};

#[test]
fn a_broken_file_leaves_the_old_rules_in_force() {
    let text = |limits: &str, test: &str| {
        format!("version = 1\nrule = [{{ name = 'r', key = 'client', limits = '{limits}' }}]\n{test}")
    };
    let source = |text: String| Memory::new("rules.toml", text);
    let file = LiveFile::open("rules.toml", &source(text("10/d", "")), ManualClock::new()).unwrap();
    let (mut handle, mut scratch) = (file.live().handle(), Scratch::default());
    let ask = Ask { cost: 8, ..Ask::default() };
    assert!(handle.ask(&from(X), ask, &mut scratch).is_admitted());
    let failing = "[[test]]\nname = 't'\nsteps = [{ client = '192.0.2.1', times = 6, expect = 'admitted' }]";
    let broken = [text("10/fortnight", ""), text("5/d", failing), text("sliding-log:5/d", ""), "{".into()];
    for broken in broken {
        let error = file.reload("rules.toml", &source(broken.clone())).unwrap_err();
        assert_eq!(file.last_error().unwrap().to_string(), error.to_string());
        assert_eq!(file.live().status().generation, 1, "{broken}");
        assert_eq!(handle.check(&from(Y), &mut scratch).lines()[0].limit, 10);
    }
    // The same bytes are no new generation, and end the error.
    assert_eq!(file.reload("rules.toml", &source(text("10/d", ""))).unwrap(), 1);
    assert!(file.last_error().is_none());
    assert_eq!(file.reload("rules.toml", &source(text("20/d", failing))).unwrap(), 2);
    assert_eq!(handle.check(&from(X), &mut scratch).lines()[0].remaining, 11);
}
