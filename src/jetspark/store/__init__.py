"""Messages and consumer state at rest. Only the disk module touches files."""
