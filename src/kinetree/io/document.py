"""XML as a plain tree of elements that know their lines, read without recursion and without entities.

The standard library's ElementTree keeps no line numbers and expands entities. This is the same expat parser
underneath, with document type declarations refused, so that no entity can ever be defined.
"""

from collections.abc import Iterator
from typing import NoReturn
from xml.parsers import expat

from kinetree.model import ModelError

XACRO = "this is a xacro file: expand it to URDF first (xacro robot.xacro > robot.urdf), or pip install xacro"
BLANK = "\ufeff \t\r\n"  # characters that may come before the XML; expat allows none before <?xml
HUGE = 1e30  # larger than any number of a robot; products of a few such numbers still fit a float64


class Element:
    """A tag, its attributes and children, and its place in the file."""

    __slots__ = ("attributes", "children", "content", "file", "line", "tag")

    def __init__(self, tag: str, attributes: dict[str, str], line: int, file: str):
        self.tag, self.attributes, self.line, self.file = tag, attributes, line, file
        self.children: list[Element] = []
        self.content = ""  # the text between its tags, without that of its children

    def fail(self, what: str) -> NoReturn:
        """Raise a ModelError that says where."""
        name = self.attributes.get("name")
        tag = f"<{self.tag} name={name!r}>" if name else f"<{self.tag}>"
        raise ModelError(f"{self.file}:{self.line}: {tag}: {what}")

    def all(self, tag: str) -> Iterator["Element"]:
        """Children with a tag."""
        return (c for c in self.children if c.tag == tag)

    def find(self, tag: str) -> "Element | None":
        """The first child with a tag."""
        return next(self.all(tag), None)

    def text(self, name: str) -> str:
        """An attribute that has to be there."""
        value = self.attributes.get(name, "").strip()
        return value or self.fail(f"needs an attribute {name!r}")

    def numbers(self, name: str, count: int, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """An attribute of `count` finite numbers, separated by spaces."""
        value = self.attributes.get(name)
        if value is None and default is not None:
            return default
        words = (value or "").split()
        try:
            found = tuple(float(w) for w in words if "_" not in w)
        except ValueError:
            found = ()
        if len(found) != count or len(words) != count:
            if "${" in (value or ""):
                self.fail(f"{name}={value!r}: {XACRO}")
            what = "one number" if count == 1 else f"{count} numbers"
            self.fail(
                f"{name}={value!r} must be {what}" if value is not None else f"needs an attribute {name!r}: {what}"
            )
        if not all(abs(x) <= HUGE for x in found):
            self.fail(f"{name}={value!r} is too large for a mechanism (the limit is {HUGE:g})")
        return found

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute that is one number."""
        return self.numbers(name, 1, None if default is None else (default,))[0]

    def bound(self, name: str, default: float) -> float:
        """An attribute that is one number and may be infinite."""
        try:
            value = float(self.attributes.get(name, default))
        except ValueError:
            value = float("nan")
        return value if value == value else self.fail(f"{name}={self.attributes[name]!r} must be one number")


def parse(content: str | bytes, file: str) -> Element:
    """The root element of a document.

    Arguments:
        content: the XML. Of MJCF that is not well formed only the root is found.
        file: what to call it in messages.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True  # one piece of text at a time, not one to a line
    content, skipped = _without_blanks(content)
    top = Element("", {}, 0, file)
    open_elements = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, parser.CurrentLineNumber + skipped, file)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(_: str) -> None:
        open_elements.pop()

    def text(content: str) -> None:
        open_elements[-1].content += content

    def doctype(*_: object) -> None:
        raise ModelError(
            f"{file}:{parser.CurrentLineNumber + skipped}: a document type declaration is not allowed in a robot file"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        if top.children and top.children[0].tag == "mujoco":
            return top.children[0]  # MuJoCo reads its files itself, and some that are not quite XML
        raise ModelError(
            f"{file}:{error.lineno + skipped}: this is not XML, or it is broken: {expat.ErrorString(error.code)}"
        ) from None
    except (LookupError, ValueError) as error:  # an unknown encoding, a stray surrogate
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{file}: can not be read as XML: {error}") from None
    return top.children[0]


def _without_blanks(content: str | bytes) -> tuple[str | bytes, int]:
    """The content from its first character on, and the number of line breaks before it."""
    text = content.lstrip(BLANK) if isinstance(content, str) else content.lstrip(BLANK.encode())
    before = content[: len(content) - len(text)]
    return text, before.count("\n") if isinstance(before, str) else before.count(b"\n")
