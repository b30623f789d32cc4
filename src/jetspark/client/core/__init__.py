"""The client's decisions without I/O; the async and sync drivers only wait."""
