//! Prints what this machine has for running kernels, and what is missing.

fn main() {
    print!("{}", ferrowarp::device::doctor());
}
