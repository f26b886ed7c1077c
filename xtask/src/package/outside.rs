//! A program that uses the packed library. It writes the kernels that it finds into a folder.

use std::path::PathBuf;
use std::time::Instant;

use ferrowarp::device::PtxModules;
use ferrowarp::prelude::*;

fn main() -> Result<(), Error> {
    let device = Device::open()?;
    let logits = Tensor::<f32>::zeros(&device, [2, 4])?;
    assert_eq!(Softmax::new().run(&device, &logits)?.to_vec()?, [0.25; 8]);

    let folder = PathBuf::from(std::env::args_os().nth(1).expect("a folder"));
    let start = Instant::now();
    let modules = PtxModules::find()?;
    println!("{:?} to find {} modules", start.elapsed(), modules.modules().len());
    let mut targets: Vec<String> =
        modules.modules().iter().map(|module| module.target().to_string()).collect();
    targets.sort();
    targets.dedup();
    for target in targets {
        let start = Instant::now();
        let mut bytes = 0;
        for module in modules.modules().iter().filter(|module| module.target().to_string() == target) {
            bytes += module.text()?.len();
        }
        println!("{:?} to decompress {bytes} bytes for {target}", start.elapsed());
    }
    for module in modules.modules() {
        std::fs::write(folder.join(module.path().file_name().expect("a name")), module.text()?)
            .expect("a folder");
    }
    Ok(())
}
