"""Server rules: one published rule a file."""
