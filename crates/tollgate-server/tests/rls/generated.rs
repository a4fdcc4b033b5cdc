//! The generated messages are those of the proto files.

use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;
use prost_types::FileDescriptorSet;

/// The generated files, one for each package.
const FILES: [&str; 4] = [
    "envoy.config.core.v3.rs",
    "envoy.extensions.common.ratelimit.v3.rs",
    "envoy.service.ratelimit.v3.rs",
    "envoy.r#type.v3.rs",
];

/// What reflection tells.
const DESCRIPTOR: &str = "descriptor.bin";

#[test]
fn generated_messages_are_those_of_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rls-generated");
    fs::create_dir_all(&made).unwrap();
    let set = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], [root.join("proto")]).unwrap();
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .out_dir(&made)
        .compile_fds(set.clone())
        .unwrap();
    let kept = root.join("src/rls/proto/generated");
    let descriptors = without_comments(set);
    if env::var_os("TOLLGATE_REGENERATE").is_some() {
        for file in FILES {
            fs::copy(made.join(file), kept.join(file)).unwrap();
        }
        return fs::write(kept.join(DESCRIPTOR), descriptors.encode_to_vec()).unwrap();
    }
    for file in FILES {
        let (kept, new) = (fs::read(kept.join(file)).unwrap(), fs::read(made.join(file)).unwrap());
        assert!(kept == new, "{file} is another: see proto/README.md");
    }
    let told = FileDescriptorSet::decode(&*fs::read(kept.join(DESCRIPTOR)).unwrap()).unwrap();
    assert_eq!(told, descriptors);
}

fn without_comments(mut set: FileDescriptorSet) -> FileDescriptorSet {
    set.file.iter_mut().for_each(|file| file.source_code_info = None);
    set
}
