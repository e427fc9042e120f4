"""Plans of huge trees and tables of hulls, kept on disk between processes, beside the compiled programs and under the
same rules.

A plan is made of named tuples and data classes of arrays. Its name is made from the tree, from all else that the plan
depends on, and from the package's sources. It is read by `pickle`, which can run code. This adds no risk, as the folder
holds machine code anyway: cache.py reads no file that is damaged or that other users could have written.
"""

import hashlib
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

import numpy as np

from .. import tuning
from .cache import keep_cached, read_cached
from .content import digest, sources

T = TypeVar("T")


def constants_of(module: ModuleType) -> list[tuple[str, object]]:
    """The thresholds of a `tuning.py`: tests change them, and plans depend on them."""
    return [(n, x) for n, x in sorted(vars(module).items()) if n.isupper()]


def kept_plan(name: str, parent: np.ndarray, about: object, make: Callable[[], T]) -> T:
    """The plan of a tree with these parents; `about` has all else that it depends on. Small plans are not kept."""
    if len(parent) < tuning.KEPT_PLAN_MIN_ROWS:
        return make()
    return kept_on_disk(f"plan_{name}", np.asarray(parent, np.int64).tobytes(), about, make)


def kept_on_disk(name: str, content: bytes, about: object, make: Callable[[], T]) -> T:
    """What is made from this content, and from all that `about` says; made once, and read by later processes."""
    found = hashlib.sha256(content).hexdigest()
    entry = f"{name}-{digest(found, repr(about), np.__version__, sources())}"
    raw = read_cached(entry)
    if raw is not None:
        return pickle.loads(raw)
    made = make()
    keep_cached(entry, pickle.dumps(made, protocol=5))
    return made
