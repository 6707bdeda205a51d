"""Refinement: chosen atoms move, get widths of their own, and inputs get weights."""
