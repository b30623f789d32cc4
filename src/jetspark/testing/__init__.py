"""Fakes and fixtures for testing with jetspark: part of the product, used by its own tests."""
