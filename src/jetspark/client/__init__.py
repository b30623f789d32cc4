"""The client half. Never imports the server half."""
