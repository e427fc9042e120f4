"""Robot files gone wrong give a model with finite numbers, or a ModelError: nothing else, ever."""

import warnings

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import kinetree as kt

GOOD = """<?xml version="1.0"?><robot name="r"><link name="base"/>
<link name="a"><inertial><origin xyz="0.1 0 0" rpy="0 0.1 0"/><mass value="2"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0.01"/></inertial></link>
<link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
<joint name="j" type="revolute"><parent link="base"/><child link="a"/><origin xyz="0 0 1" rpy="1 2 3"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="5" velocity="6"/><dynamics damping="0.1" friction="0.2"/></joint>
<joint name="k" type="continuous"><parent link="a"/><child link="b"/>
<mimic joint="j" multiplier="2" offset="1"/></joint>
<transmission/></robot>"""
numbers = st.one_of(
    st.floats().map(str),
    st.sampled_from(
        ["", "x", "1e400", "-1e300", "1e29", "0", "1 2", "1 2 3", "1 2 3 4", "nan", "inf", "1_0", "\u0663"]
    ),
)
names = st.sampled_from(["base", "a", "b", "c", "", " ", "j"])
kinds = st.sampled_from(["revolute", "continuous", "prismatic", "fixed", "floating", "planar", "ball", ""])


def check(source):
    """A model or a ModelError, within the time that Hypothesis gives, and no NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # odd inertias are told
        try:
            model = kt.load(source)
        except kt.ModelError as refusal:
            message = str(refusal)
            model = None
    if model is None:
        assert message
        return None
    for leaf in jax.tree.leaves((model.rows, model.frames, model.inertia, model.gravity, model.passive)):
        assert np.isfinite(leaf).all()
    return model


def test_the_good_file_is_good():
    model = check(GOOD)
    assert (model.nv, model.uncoupled.nv) == (1, 2)


@settings(max_examples=150)
@given(st.integers(0, len(GOOD)))
def test_truncated(length):
    check(GOOD[:length])


@settings(max_examples=200)
@given(st.data())
def test_bytes_changed(data):
    content = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["set", "cut", "double"])):
            case "set":
                content[at] = data.draw(st.integers(0, 255))
            case "cut":
                del content[at : at + data.draw(st.integers(1, 40))]
            case "double":
                content[at:at] = content[at : at + data.draw(st.integers(1, 300))]
        if not content:
            break
    check(bytes(content))


@st.composite
def robots(draw):
    """Well-formed files with any names, kinds and numbers: missing ends, cycles, duplicates, huge and tiny numbers."""

    def attribute(name, strategy):
        return f' {name}="{draw(strategy)}"' if draw(st.booleans()) else ""

    def vector():
        return draw(st.one_of(numbers, st.lists(numbers, min_size=3, max_size=3).map(" ".join)))

    def origin():
        return f'<origin xyz="{vector()}" rpy="{vector()}"/>' if draw(st.booleans()) else ""

    parts = []
    for _ in range(draw(st.integers(0, 4))):
        inertia = "".join(attribute(k, numbers) for k in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz"))
        inertial = f"<inertial>{origin()}<mass{attribute('value', numbers)}/><inertia{inertia}/></inertial>"
        parts.append(f"<link{attribute('name', names)}>{inertial if draw(st.booleans()) else ''}</link>")
    for _ in range(draw(st.integers(0, 4))):
        inside = f"<parent{attribute('link', names)}/><child{attribute('link', names)}/>{origin()}"
        inside += f'<axis xyz="{vector()}"/>' if draw(st.booleans()) else ""
        inside += f'<dynamics damping="{draw(numbers)}"/>' if draw(st.booleans()) else ""
        inside += f'<limit lower="{draw(numbers)}"/>' if draw(st.booleans()) else ""
        inside += f'<mimic joint="{draw(names)}" multiplier="{draw(numbers)}"/>' if draw(st.booleans()) else ""
        parts.append(f"<joint{attribute('name', names)}{attribute('type', kinds)}>{inside}</joint>")
    return f"<robot>{''.join(draw(st.permutations(parts)))}</robot>"


@settings(max_examples=300)
@given(robots(), st.booleans())
def test_wrong_in_meaning(text, as_bytes):
    check(text.encode() if as_bytes else text)


@settings(max_examples=100)
@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_anything(source):
    check(source)


@settings(max_examples=60)
@given(st.lists(numbers, min_size=13, max_size=13), kinds)
def test_any_numbers_in_a_sound_file(values, kind):
    mass, *rest = values
    inertia = " ".join(f'{k}="{v}"' for k, v in zip(("ixx", "iyy", "izz"), rest[:3], strict=True))
    link = f'<inertial><origin xyz="{" ".join(rest[3:6])}"/><mass value="{mass}"/><inertia {inertia}/></inertial>'
    pose = f'<origin xyz="{" ".join(rest[6:9])}" rpy="{" ".join(rest[9:12])}"/>'
    joint = f'<joint name="j" type="{kind}"><parent link="a"/><child link="b"/>{pose}</joint>'
    check(f'<robot><link name="a"/><link name="b">{link}</link>{joint}</robot>')
