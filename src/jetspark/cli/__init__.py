"""The command line: words and exit codes."""
