"""One claim a file: run(...) gives a table, findings and a picture."""
