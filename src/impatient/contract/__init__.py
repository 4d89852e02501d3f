"""The laws of a server rule, and the small federation on which they are tried."""
