"""Several reference cases side by side in one forest: a tree does not feel its neighbours, and one program serves all."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import kinetree as kt
from tests.build import build_model
from tests.reference import spatial_v2
from tests.reference.dense import Description

STATES = 3


@dataclass(frozen=True)
class Forest:
    """The cases of a family, the model of them all, and where the bodies of each are."""

    cases: tuple
    model: kt.Model
    bodies: tuple[slice, ...]

    def joined(self, field):
        """A field of all cases, (STATES, all bodies, ...); cases with fewer states repeat theirs."""
        return np.concatenate([np.resize(x := getattr(c, field), (STATES, *x.shape[1:])) for c in self.cases], 1)

    def apart(self, values, field):
        """For each case its name, its part of the values, and what the field says they should be."""
        for case, part in zip(self.cases, self.bodies, strict=True):
            yield case.name, np.asarray(values)[: case.n_states, part], getattr(case, field)


@lru_cache
def forest(family):
    """All cases of a family; they have one gravity."""
    cases = tuple(spatial_v2.load(name) for name in spatial_v2.cases(family))
    ends = np.cumsum([len(c.parent) for c in cases])
    starts = ends - [len(c.parent) for c in cases]
    parent = np.concatenate([np.where(c.parent < 0, -1, c.parent + s) for c, s in zip(cases, starts, strict=True)])
    d = Description(
        parent,
        sum((c.joints for c in cases), ()),
        np.concatenate([c.x_tree for c in cases]),
        np.concatenate([c.inertia for c in cases]),
        cases[0].gravity,
    )
    assert all(np.array_equal(c.gravity, d.gravity) for c in cases)
    return Forest(cases, build_model(d), tuple(slice(a, b) for a, b in zip(starts, ends, strict=True)))
