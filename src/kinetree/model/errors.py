"""The error that every bad model raises."""


class ModelError(ValueError):
    """What was given does not describe a mechanism; the message says where and why."""
