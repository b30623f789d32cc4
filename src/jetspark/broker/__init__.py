"""Decides: routing, streams, consumers, acks and the API. Never waits; the edges perform what it says."""
