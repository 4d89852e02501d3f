"""Who owns which training samples: one procedure a file."""
