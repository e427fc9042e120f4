"""The errors that bad models and bad names raise."""


class ModelError(ValueError):
    """What was given does not describe a mechanism; the message says where and why."""


class UnknownName(KeyError):
    """No body or joint has this name. Prints its message as it stands, where a KeyError would put it in quotes."""

    def __str__(self) -> str:
        return str(self.args[0])
