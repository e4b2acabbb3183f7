//! prestate
fn main() {}
