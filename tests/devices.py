"""Programs on several host devices: JAX fixes their number when it starts, so each runs in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def environment(devices: int) -> dict[str, str]:
    """Of a process with so many host devices, the number of cores being what it is."""
    given = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "JAX_PLATFORMS": "cpu"}
    given["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return given


def on_devices(code: str, *arguments: Any, devices: int = 8, seconds: int = 300) -> Any:
    """What a program prints last, read as JSON. It finds the arguments in sys.argv."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=seconds, env=environment(devices), check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout.decode().splitlines()[-1])
