"""JetStream as documents: configurations, requests, responses, error codes, ack tokens. Knows no I/O."""
