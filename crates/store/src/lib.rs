//! Kept results: memory cache and crash-safe archive.
