"""Impatient: federated learning when devices come and go."""
