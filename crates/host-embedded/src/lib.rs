//! Hosts that run in this process: block files and the dev chain.
