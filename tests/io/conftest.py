"""What the tests of robot files share."""

from importlib.util import find_spec

import jax
import pytest

if find_spec("mujoco"):
    import mujoco

    mujoco.set_mju_user_warning(lambda message: None)  # its own handler writes a file where the tests run


@pytest.fixture(autouse=True)
def forget_programs_of_other_robots(request):
    """Each robot compiles its own; after a hundred of them the process has no memory maps left for more."""
    yield
    if request.node.get_closest_marker("robots"):
        jax.clear_caches()
