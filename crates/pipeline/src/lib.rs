//! The one loop: notification, diff, bytes, store, publish, acknowledge.
