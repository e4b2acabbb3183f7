//! The consumer's side: resync with any node.
