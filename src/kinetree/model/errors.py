"""The errors that bad models and bad names raise."""


class ModelError(ValueError):
    """The input does not describe a mechanism; the message says where and why."""


class UnknownName(KeyError):
    """No body or joint has this name. It prints its message without the quotes of a KeyError."""

    def __str__(self) -> str:
        return str(self.args[0])
