"""Arrays, who owns them, and which of them a round uses."""
