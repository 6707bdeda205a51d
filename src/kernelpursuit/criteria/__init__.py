"""Criteria: how good each atom is now, and what changes when some are taken. One method of the literature, one file."""
