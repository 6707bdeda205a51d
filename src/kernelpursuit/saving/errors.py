"""Errors of model files, and of objects that they do not hold."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A file that is not a whole model file of a known version; the message is one line."""


class ForeignObject(Exception):
    """The model holds an object that is not of this package."""
