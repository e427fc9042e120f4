"""kinetree's model of a mechanism described for the oracle."""

import numpy as np

from kinetree.model import Helical, Model, Prismatic, Revolute
from tests.reference import generate

MAKERS = {"revolute": Revolute, "prismatic": Prismatic, "helical": Helical}


def model_of(desc, **options):
    """The Model of a dense Description."""
    joints = [kind if isinstance(kind, str) else MAKERS[kind[0]](*kind[1:]) for kind in desc.joints]
    x_tree, inertia = np.asarray(desc.x_tree, float), np.asarray(desc.inertia, float)
    return Model.from_arrays(desc.parent, joints, x_tree, inertia, gravity=np.asarray(desc.gravity, float), **options)


def sample(seed, n=28, **options):
    """A random description, its model and a state of it."""
    rng = np.random.default_rng(seed)
    desc = generate.random_tree(rng, n, **options)
    return desc, model_of(desc), generate.random_state(rng, desc)
