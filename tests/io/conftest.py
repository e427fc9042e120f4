"""What the tests of robot files share."""

from importlib.util import find_spec

if find_spec("mujoco"):
    import mujoco

    mujoco.set_mju_user_warning(lambda message: None)  # its own handler writes a file where the tests run
