//! x
use tollgate_rules::*;
#[test] fn a(){
 let p=std::env::var("F").unwrap_or("examples/cookbook.toml".into());
 let r=read(&p,&Disk); println!("{r}"); if std::env::var("V").is_ok(){println!("{:#?}",r.rules());}
 println!("{}",r.problems().len());
}
