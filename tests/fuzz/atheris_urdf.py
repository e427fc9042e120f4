"""Coverage-guided fuzzing of the URDF loader: `pip install atheris`, then `python tests/fuzz/atheris_urdf.py`.

Not run by the test suite. The fuzzer's bytes choose elements, attributes and values, so that most files are well-formed
XML and the loader, not the parser, has to cope. Any exception other than ModelError is a finding.
"""

import sys
import warnings
from contextlib import suppress

import atheris

with atheris.instrument_imports(include=["kinetree.io", "kinetree.model"]):
    import kinetree as kt

warnings.simplefilter("ignore")
TAGS = [
    "link",
    "joint",
    "inertial",
    "mass",
    "inertia",
    "origin",
    "parent",
    "child",
    "axis",
    "limit",
    "dynamics",
    "mimic",
]
ATTRIBUTES = ["name", "type", "link", "joint", "value", "xyz", "rpy", "ixx", "iyy", "izz", "ixy", "multiplier", "lower"]
WORDS = [
    "a",
    "b",
    "c",
    "0",
    "1",
    "-1",
    "1e29",
    "1e308",
    "nan",
    "0 0 1",
    "1 2 3",
    "revolute",
    "prismatic",
    "planar",
    "floating",
]


def robot(choose: atheris.FuzzedDataProvider) -> str:
    """A file with elements opened and closed in order."""
    text, open_tags = "<robot>", []
    for _ in range(choose.ConsumeIntInRange(0, 60)):
        if open_tags and choose.ConsumeBool():
            text += f"</{open_tags.pop()}>"
            continue
        open_tags.append(choose.PickValueInList(TAGS))
        names = {choose.PickValueInList(ATTRIBUTES) for _ in range(choose.ConsumeIntInRange(0, 3))}
        values = "".join(f' {name}="{choose.PickValueInList(WORDS)}"' for name in sorted(names))
        text += f"<{open_tags[-1]}{values}>"
    return text + "".join(f"</{tag}>" for tag in reversed(open_tags)) + "</robot>"


def one_input(content: bytes) -> None:
    """Load it as URDF."""
    with suppress(kt.ModelError):
        kt.load(robot(atheris.FuzzedDataProvider(content)))


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
