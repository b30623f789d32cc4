"""Whole streams as bytes: the archive that snapshots send and restores receive."""
