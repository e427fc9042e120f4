"""What the tests of robot files share."""

from importlib.util import find_spec

import jax
import pytest

if find_spec("mujoco"):
    import mujoco

    mujoco.set_mju_user_warning(lambda message: None)  # its own handler writes a file where the tests run


@pytest.fixture
def light_compilation():
    """Compile with little optimization: programs for many robots are compiled, and each runs once."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
