"""Coverage-guided fuzzing of the URDF loader: `pip install atheris`, then `python tests/fuzz/atheris_urdf.py [corpus]`.

Not run by the test suite. Any exception other than ModelError is a finding.
"""

import sys
import warnings
from contextlib import suppress

import atheris

with atheris.instrument_imports(include=["kinetree.io", "kinetree.model"]):
    import kinetree as kt

warnings.simplefilter("ignore")


def one_input(content: bytes) -> None:
    """Load it as URDF."""
    with suppress(kt.ModelError):
        kt.load(b"<robot>" + content + b"</robot>")


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
