"""Reference cases side by side in one forest: a tree does not feel its neighbours, and one program serves them all."""

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
    """Cases, the model of them all under one of their gravities, and where the bodies of each are."""

    cases: tuple
    model: kt.Model
    bodies: tuple[slice, ...]

    def joined(self, field):
        """A field of all cases, (STATES, all bodies, ...); cases with fewer states repeat theirs."""
        return np.concatenate([np.resize(x := getattr(c, field), (STATES, *x.shape[1:])) for c in self.cases], 1)

    def check(self, field, function, bound):
        """Each case, under its own gravity, has what its field says, to within `bound` of its largest force."""
        results = {}
        for case, part in zip(self.cases, self.bodies, strict=True):
            gravity = tuple(case.gravity)
            if gravity not in results:
                results[gravity] = np.asarray(function(self.model.replace(gravity=gravity)))
            got, wanted = results[gravity][: case.n_states, part], getattr(case, field)
            assert np.abs(got - wanted).max() < bound * max(np.abs(wanted).max(), np.abs(case.ID).max()), case.name


@lru_cache
def forest():
    """All cases with a fixed base, of every joint with one degree of freedom."""
    cases = tuple(spatial_v2.load(name) for name in spatial_v2.cases("autotree", "mixed"))
    ends = np.cumsum([len(c.parent) for c in cases])
    starts = ends - [len(c.parent) for c in cases]
    d = Description(
        np.concatenate([np.where(c.parent < 0, -1, c.parent + s) for c, s in zip(cases, starts, strict=True)]),
        sum((c.joints for c in cases), ()),
        np.concatenate([c.x_tree for c in cases]),
        np.concatenate([c.inertia for c in cases]),
        cases[0].gravity,
    )
    return Forest(cases, build_model(d), tuple(slice(a, b) for a, b in zip(starts, ends, strict=True)))
