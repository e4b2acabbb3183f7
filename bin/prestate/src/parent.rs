//! Servers that a command starts for itself end with it, however it ends.

use std::{io, thread};

/// Ends this process when its standard input does, which whoever started it holds open.
pub(crate) fn end_with_parent() {
    thread::spawn(|| {
        // An input that cannot be read has ended, too.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(0);
    });
}
