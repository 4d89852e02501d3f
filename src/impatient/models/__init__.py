"""Networks, reached by their _target_ alone."""
