"""NATS as bytes: frames, headers, subjects and ids. Knows nothing of JetStream."""
