use std::{io, net::SocketAddr, path::PathBuf};

/// Why the lane could not be opened. Nothing is left listening after an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// The TCP address cannot be bound; a retry may succeed once its owner is gone.
    #[error("cannot listen on {addr}: {source}")]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The unix socket cannot be bound. A socket file that nobody listens on is replaced; any
    /// other file in its place is left alone and is this error.
    #[error("cannot listen on unix socket {}: {source}", path.display())]
    BindUnix {
        /// The path asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `api` names what the service does not have.
    #[error("api '{name}' is neither a namespace nor a method here; namespaces: {known}")]
    UnknownApi {
        /// The entry.
        name: String,
        /// The namespaces there are, comma separated.
        known: String,
    },
    /// A limit that would refuse everything.
    #[error("{option} must be at least {least}, is {given}")]
    TooSmall {
        /// Field of [`LaneConfig`](crate::LaneConfig).
        option: &'static str,
        /// The least value that works.
        least: u64,
        /// The value given.
        given: u64,
    },
    /// A CORS origin that is neither `*` nor `scheme://host[:port]`.
    #[error("corsdomain '{origin}' is neither * nor scheme://host[:port]")]
    BadOrigin {
        /// The entry.
        origin: String,
    },
}

/// Why a JWT secret was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JwtSecretError {
    /// Not hex.
    #[error("JWT secret is not hex: {source}")]
    Hex {
        /// Where it broke.
        source: const_hex::FromHexError,
    },
    /// Not 256 bits (execution-apis `authentication.md`: "256 bit").
    #[error("JWT secret must have 32 bytes, has {given}")]
    Length {
        /// Bytes given.
        given: usize,
    },
    /// The file cannot be read.
    #[error("cannot read JWT secret {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
