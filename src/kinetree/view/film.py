"""Films of runs, without a screen: .gif by Pillow, .mp4 by the program ffmpeg if it is installed."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kinetree._arrays import there

from .picture import FRAMES_PER_SECOND, draw
from .scene import ShownScene

GIF_COLOURS = 128
NO_FFMPEG = "writing .mp4 needs the program ffmpeg (apt-get install ffmpeg, or brew install ffmpeg); .gif needs nothing"


def frames(
    scene: ShownScene, *, speed: float = 1.0, rate: float = FRAMES_PER_SECOND, **looks: Any
) -> Iterator[np.ndarray]:
    """Pictures of a run, `rate` for each second of the film.

    Arguments:
        scene: the run.
        speed: seconds of simulated time in a second of the film.
        rate: pictures in a second.
        looks: size, dark, yaw, pitch and zoom of the pictures.
    """
    start, stop = float(scene.time[0]), float(scene.time[-1])
    count = max(1, round((stop - start) / speed * rate))
    for k in range(count):
        moment = start + k * speed / rate
        yield draw(scene, int(np.abs(scene.time - moment).argmin()), **looks)


def save_film(
    path: Path,
    scene: ShownScene,
    *,
    speed: float = 1.0,
    rate: float = FRAMES_PER_SECOND,
    watch: Callable[[int], None] | None = None,
    **looks: Any,
) -> int:
    """Write a film, .gif or .mp4; return its number of pictures. `watch` gets the number so far."""
    kind = path.suffix.lower()
    if kind not in (".gif", ".mp4"):
        raise ValueError(f"films are .gif or .mp4, not {path.name}")
    pictures = _watched(frames(scene, speed=speed, rate=rate, **looks), watch)
    return _gif(path, pictures, rate) if kind == ".gif" else _mp4(path, pictures, rate)


def _watched(pictures: Iterator[np.ndarray], watch: Callable[[int], None] | None) -> Iterator[np.ndarray]:
    for count, picture in enumerate(pictures, 1):
        if watch is not None:
            watch(count)
        yield picture


def _gif(path: Path, pictures: Iterator[np.ndarray], rate: float) -> int:
    from PIL import Image

    first, *others = (Image.fromarray(p) for p in pictures)
    palette = first.quantize(GIF_COLOURS)
    still = [p.quantize(palette=palette, dither=Image.Dither.NONE) for p in (first, *others)]
    still[0].save(path, save_all=True, append_images=still[1:], duration=round(1000 / rate), loop=0, optimize=True)
    return len(still)


def _mp4(path: Path, pictures: Iterator[np.ndarray], rate: float) -> int:
    program = shutil.which("ffmpeg")
    if program is None:
        raise FileNotFoundError(NO_FFMPEG)
    count, process = 0, None
    for picture in pictures:
        if process is None:
            height, width = picture.shape[:2]
            given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-"]
            wanted = ["-pix_fmt", "yuv420p", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", str(path)]
            process = subprocess.Popen([program, "-y", "-loglevel", "error", *given, *wanted], stdin=subprocess.PIPE)
        there(process.stdin).write(picture.tobytes())
        count += 1
    assert process is not None
    process.communicate()
    if process.returncode:
        raise RuntimeError(f"ffmpeg could not write {path}")
    return count
