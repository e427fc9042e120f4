"""Scenes in MJCF that have a little of everything."""

# Every kind of shape that rolls, every condim, limits of all joint kinds, friction loss, margins, gaps, priorities,
# mixed and direct softness, an explicit pair, an excluded one; static shapes of earlier and of later kinds than moving
# ones, so that normals point both ways.
BODIES = """
<geom name="floor" class="static" type="plane" size="0 0 1" friction="0.8 0.02 0.003" euler="4 -3 0"
  margin="0.002" gap="0.003"/>
<body pos="1 0 0"><geom name="post" class="static" type="capsule" size="0.1 0.3" priority="1"
  friction="0.4 0.01 0.002" condim="4" solref="-3000 -40"/></body>
<geom name="roll" class="static" type="capsule" size="0.1 0.3" euler="90 0 20" pos="-1 0 0" solref="0.01 0.7" solmix="2"
  solimp="0.8 0.99 0.01 0.3 3"/>
<geom name="ball" class="static" type="sphere" size="0.2" pos="0 1.2 0.1"/>
<body pos="0 0 0.25"><freejoint/><geom name="a" type="capsule" size="0.08 0.15" condim="6" fromto="0 0 0 0.3 0 0.05"/>
  <body pos="0.3 0 0"><joint type="ball" range="0 0.4" limited="true" frictionloss="0.05" armature="0.01"
    margin="0.01"/><geom name="b" type="sphere" size="0.1" pos="0.15 0 0" condim="4"/>
    <body pos="0.3 0 0"><joint type="ball" range="0 0.3" limited="true" solreflimit="0.03 0.8"/>
      <geom name="c" type="capsule" fromto="0 0 0 0.2 0 0" size="0.06" condim="1"/>
      <body pos="0.2 0 0"><joint type="hinge" axis="0 1 0" pos="0.05 0 0" range="-0.2 0.3" limited="true"
        frictionloss="0.2" damping="0.1"/><geom type="sphere" size="0.07" pos="0.1 0 0"/></body></body></body></body>
<body pos="-1 0 0.3"><freejoint/><geom name="d" type="sphere" size="0.1" margin="0.01" solref="0.05 1" friction="1.5"/>
  <geom name="e" type="capsule" size="0.05 0.1" pos="0.2 0 0.05" euler="20 70 0"/></body>
<body pos="0.9 0.05 0.4"><joint type="slide" axis="0.2 0.3 -1" range="-0.1 0.25" limited="true" margin="0.02"
  solimplimit="0.5 0.9 0.05 0.5 1"/><joint type="hinge" axis="1 0 0" frictionloss="0.1" solreffriction="0.04 1"/>
  <geom name="f" type="capsule" size="0.06 0.1" euler="80 0 10"/></body>
<body pos="0.05 1.1 0.5"><freejoint/><geom name="g" type="sphere" size="0.12" condim="3" contype="0"/>
</body>
"""
PAIRS = """<contact><pair geom1="g" geom2="ball" condim="6" friction="0.9 0.5 0.02 0.003 0.001" solref="0.03 1"
  solreffriction="0.06 1" margin="0.01" gap="0.002"/><pair geom1="floor" geom2="g"/>
  <exclude body1="world" body2="excluded"/></contact>"""
EXCLUDED = '<body name="excluded" pos="0 0 0"><joint type="slide" axis="0 0 1"/><geom size="0.3"/></body>'


def scene(option: str = "") -> str:
    """The scene with an <option> element's attributes."""
    default = """<default><geom conaffinity="0"/><default class="static"><geom contype="0" conaffinity="1"/></default>
      </default>"""
    world = f"<worldbody>{BODIES}{EXCLUDED}</worldbody>{PAIRS}"
    return f'<mujoco><option timestep="0.004" {option}/>{default}{world}</mujoco>'
