"""Copies of a model that share its compiled programs."""

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import Model


def with_same_rows(model: "Model", **changes: Any) -> "Model":
    """A copy of a model with other fields that compiled programs do not use, so it stays specialised if it was."""
    new = dataclasses.replace(model, **changes)
    new.__dict__["specialized"] = model.specialized
    return new
