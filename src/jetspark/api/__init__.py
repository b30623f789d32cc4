"""JetStream as documents: configurations, requests, responses, error codes and subjects.

Shared by the server's broker and by the client, which meet only here and in `jetspark.protocol`.
No I/O, no clock and no randomness: times and random numbers are arguments.
"""
