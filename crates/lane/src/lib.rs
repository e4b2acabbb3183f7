//! The HTTP and WebSocket front.
