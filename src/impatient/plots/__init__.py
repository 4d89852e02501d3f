"""Figures and tables from what runs left behind: reads metrics.csv and its neighbours, never a checkpoint."""
