"""Data that live in several places: arrays whose rows are held by shards, and the commands that reach them."""
