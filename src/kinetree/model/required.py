"""What every public function of a model asks first."""

from typing import Any


def require_model(model: Any) -> None:
    """Refuse what is no model, such as the path of a file."""
    if not hasattr(model, "structure"):
        raise TypeError(f"model must be a kinetree.Model, such as kinetree.load makes, not a {type(model).__name__}")
