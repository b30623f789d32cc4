"""Benchmarks of this server against nats-server: same machine, same jobs, in turn."""
