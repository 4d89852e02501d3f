"""When devices are there: one process a file."""
