"""Names of MuJoCo that our sources read: they must be there in the oldest version that pyproject.toml allows.

With that version on the path, `python -m tests.io.mujoco_names` writes the names that it has to mujoco_names.txt.
"""

import ast
import re
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
KNOWN = Path(__file__).with_suffix(".txt")  # the version, then its names


def lowest() -> str:
    """The oldest MuJoCo that may be installed with kinetree."""
    (line,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["io"]
    found = re.fullmatch(r"mujoco>=([\d.]+)", line)
    assert found, line
    return found[1]


def of_mujoco() -> set[str]:
    """Names of the installed MuJoCo: in the module, in its enumerations, in a model and its options."""
    import mujoco

    kinds = [value for name, value in vars(mujoco).items() if name.startswith("mjt")]
    parts = [mujoco, mujoco.MjModel, mujoco.MjOption, mujoco.MjStatistic, *kinds]
    return {name for part in parts for name in dir(part) if not name.startswith("_")}


def read() -> set[str]:
    """Names that our sources read as attributes."""
    folder = ROOT / "src" / "kinetree"
    files = [*(folder / "io").glob("*.py"), folder / "view" / "shapes.py", folder / "collide" / "hull.py"]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


if __name__ == "__main__":
    import mujoco

    KNOWN.write_text(textwrap.fill(" ".join([mujoco.__version__, *sorted(of_mujoco())]), 120) + "\n")
