//! Several servers: a cluster, and the master that Sentinel names.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate::{Outcome, Quota, Rate, SlidingLog, TokenBucket};
use tollgate_redis::{Charged, FailureKind, Redis};
use tollgate_testing::folder::free_port;
use tollgate_testing::stores::{Cluster, Server, Store};

use crate::run;

#[test]
fn a_cluster_decides_as_one_store() {
    for store in Store::ALL {
        let Some(Cluster { masters: servers }) = Cluster::start(store, 2) else { continue };
        run(async {
            let redis = Redis::builder(servers[0].url()).cluster([servers[1].url()]);
            let redis = redis.deadline(Duration::from_secs(60)).build().await.unwrap();
            let quotas: [Quota; 2] =
                [TokenBucket::new(Rate::per_hour(3)).into(), SlidingLog::new(Rate::per_day(5)).into()];
            let limiter = redis.limiter("l", quotas).build().unwrap();
            // Some keys lie in each half, and all limits of a key in one slot.
            for key in 0..40 {
                let key = if key == 0 { String::new() } else { format!("{key} {{}}") };
                let answers = limiter.check_many([(&key, 2), (&key, 2), (&key, 1)]).await;
                let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
                let admitted: u64 = answers.iter().filter(|a| a.is_allowed()).map(|a| a.cost()).sum();
                assert_eq!(admitted, 3, "{key}");
                let receipt = answers.into_iter().find_map(|answer| answer.into_receipt()).unwrap();
                let cost = receipt.cost();
                assert_eq!(limiter.refund(receipt).await, Ok(cost));
                assert_eq!(limiter.check_n(&key, cost).await.unwrap().outcome(), Outcome::Allowed);
                limiter.reset(&key).await.unwrap();
                assert_eq!(limiter.peek(&key, 3).await.unwrap().outcome(), Outcome::Allowed);
            }
        });
        let keys: Vec<u64> = servers.iter().map(|server| server.ask(&["DBSIZE"])).collect();
        assert!(keys.iter().all(|&keys| keys > 0), "{keys:?}");
    }
}

#[test]
fn sentinel_names_the_master() {
    for store in Store::ALL {
        let (Some(master), Some(sentinel)) = (Server::start(store), Server::start_sentinel(store)) else {
            continue;
        };
        sentinel.ask::<()>(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &master.port().to_string(), "1"]);
        run(async {
            let redis = Redis::builder("redis://main").sentinel([sentinel.url()]);
            let redis = redis.deadline(Duration::from_secs(30)).build().await.unwrap();
            let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_hour(1))]).build().unwrap();
            assert_eq!(limiter.check("k").await.unwrap().outcome(), Outcome::Allowed);
            assert_eq!(limiter.check("k").await.unwrap().outcome(), Outcome::Denied);
        });
        assert_eq!(master.ask::<u64>(&["DBSIZE"]), 1);
    }
}

#[test]
fn a_server_without_tls_is_a_failure_not_a_panic() {
    // It accepts connections and says nothing of TLS.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    let answerer = std::thread::spawn(move || {
        for stream in listener.incoming().take(1) {
            drop(stream);
        }
    });
    run(async {
        let redis = Redis::builder(url).build().await.expect("an unreachable server is no error");
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_hour(1))]).build().unwrap();
        let failed = limiter.check("k").await.unwrap_err();
        let kinds = [FailureKind::Connection, FailureKind::BreakerOpen];
        assert!(kinds.contains(&failed.kind) && failed.charged == Charged::No, "{failed}");
    });
    answerer.join().unwrap();
}

/// The child's trusted certificates, in the place of the system's.
const TRUSTED: &str = "SSL_CERT_FILE";

/// This test starts itself again with the server's certificate as a trusted one, which a process
/// reads from its environment.
#[test]
fn a_store_behind_tls_decides() {
    const URL: &str = "TOLLGATE_TLS_URL";
    if let Ok(url) = std::env::var(URL) {
        return run(async {
            let redis = Redis::builder(url).deadline(Duration::from_secs(10)).build().await.unwrap();
            let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_hour(1))]).build().unwrap();
            assert!(limiter.check("alice").await.unwrap().is_allowed());
            assert!(!limiter.check("alice").await.unwrap().is_allowed());
        });
    }
    let folder = std::env::temp_dir().join(format!("tollgate-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("certificate"), folder.join("key"));
    std::fs::write(&certificate, signed.cert.pem()).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let (port, [certificate, key]) = (free_port(), [certificate, key].map(|file| file.display().to_string()));
    let tls = format!("--tls-port {port} --tls-cert-file {certificate} --tls-key-file {key}");
    let arguments = [&*tls, &format!("--tls-ca-cert-file {certificate}"), "--tls-auth-clients no"];
    let Some(_server) = Server::start_with(Store::Redis, &arguments) else { return };
    let again = |trusted: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "topologies::a_store_behind_tls_decides"]);
        child.env(URL, format!("rediss://127.0.0.1:{port}")).env(TRUSTED, trusted);
        child.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(again(&certificate), "the certificate is trusted");
    assert!(!again(&key), "no certificate is trusted");
    std::fs::remove_dir_all(folder).unwrap();
}
