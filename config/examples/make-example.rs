//! Prints the example configuration that is packaged.

fn main() {
    print!("{}", xvs_config::example());
}
