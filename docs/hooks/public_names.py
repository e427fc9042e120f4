"""`::: kt.load` on a page means the function that `kinetree` exports under that name, with that name as its heading."""

import re
from types import ModuleType
from typing import Any

import kinetree

NAME = re.compile(r"^::: kt\.(\w+)$", re.M)
OPTIONS = """
    options:
      heading: "{heading}"
      toc_label: "{heading}"
      separate_signature: true
      show_root_toc_entry: true
"""


def _directive(found: re.Match[str]) -> str:
    """By the place where it is defined, as modules share names with functions."""
    name = found[1]
    thing = getattr(kinetree, name)
    if name == "view":  # a module that can be called
        place = "kinetree.view.open_viewer"
    else:
        place = thing.__name__ if isinstance(thing, ModuleType) else f"{thing.__module__}.{thing.__qualname__}"
    return f"::: {place}{OPTIONS.format(heading=f'kt.{name}')}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What mkdocs calls for each page."""
    return NAME.sub(_directive, markdown)
