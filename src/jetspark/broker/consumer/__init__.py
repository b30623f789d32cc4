"""Consumers: positions in a stream, what is owed to whom, and when it is owed again."""
