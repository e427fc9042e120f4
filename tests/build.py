"""kinetree models from the descriptions of tests/reference."""

from typing import Any

import numpy as np

import kinetree as kt

CONSTRUCTORS = {"revolute": kt.Revolute, "prismatic": kt.Prismatic, "helical": kt.Helical}


def joint(spelled: Any) -> Any:
    """A joint as kinetree takes it, from the reference's spelling."""
    return CONSTRUCTORS[spelled[0]](*spelled[1:]) if isinstance(spelled, tuple) else spelled


def build_model(description: Any, **options: Any) -> kt.Model:
    """The model of a `dense.Description` or of a spatial_v2 case, in float64."""
    d = description
    return kt.Model.from_arrays(
        d.parent,
        [joint(j) for j in d.joints],
        np.asarray(d.x_tree, float),
        np.asarray(d.inertia, float),
        gravity=np.asarray(d.gravity, float),
        **options,
    )
