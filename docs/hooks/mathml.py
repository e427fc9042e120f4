"""Typesets formulas when the pages are built: TeX to MathML, which browsers draw without a script."""

import html
import logging
import re
from typing import Any

TEX = re.compile(r'<(span|div) class="arithmatex">\\([\[(])(.*?)\\[\])]</\1>', re.S)
WORD = re.compile(r"<mi>(\w{2,})</mi>")  # log, sin, ...: upright, where style.css makes letters italic
told: set[str] = set()


def _formula(found: re.Match[str]) -> str:
    tex, block = html.unescape(found[3]).strip(), found[2] == "["
    try:
        from latex2mathml.converter import convert
    except ImportError:
        if not told:
            logging.getLogger("mkdocs.hooks.mathml").info("formulas stay TeX: pip install 'kinetree[docs]' sets them")
            told.add("missing")
        return f"<pre><code>{html.escape(tex)}</code></pre>" if block else f"<code>{html.escape(tex)}</code>"
    found_text = WORD.sub(r'<mi mathvariant="normal">\1</mi>', convert(tex, display="block" if block else "inline"))
    return f'<div class="formula">{found_text}</div>' if block else found_text


def on_page_content(content: str, **_: Any) -> str:
    """What mkdocs calls for each page."""
    return TEX.sub(_formula, content)
