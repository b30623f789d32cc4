"""Requests to `$JS.API.`: one module a noun, `dispatch` in front of them."""
