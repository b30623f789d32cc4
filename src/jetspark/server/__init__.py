"""The server's edge: sockets, timers, the commit thread, authentication, monitoring and configuration."""
