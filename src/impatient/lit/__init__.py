"""The Lightning side; the only package that imports it."""
