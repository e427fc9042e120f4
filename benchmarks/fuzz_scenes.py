"""Random MJCF scenes over all that files may say: each takes a few features of a long list, so that any two may meet.

Everything else is as in fuzz_numbers.py, which compares the numbers of these scenes with MuJoCo's (`--all`).
"""

import re
from typing import Any

import numpy as np

from .fuzz import SHAPES, numbers

Random = np.random.Generator
MESH = "mesh"
CUTOFF, AFFINE = 'cutoff="5"', 'biastype="affine" biasprm="0.1 -0.5 -0.1"'
FLAGS = "eulerdamp", "filterparent", "refsafe", "limit", "frictionloss", "spring", "damper", "clampctrl", "multiccd"
DRY = "solreffriction", "solimpfriction"
KINDS = ("scalar", "limited", "ball", "free", "body", "site", "geom", "tendon")


def pick(rng: Random, *values: Any) -> Any:
    """One of them."""
    return values[rng.integers(len(values))]


def some(rng: Random, chance: float, text: str) -> str:
    """The text, or nothing."""
    return f"{text} " if rng.random() < chance else ""


def softness(rng: Random, ref: str = "solref", imp: str = "solimp") -> str:
    """solref in one of its two forms, and solimp; or the defaults."""
    if rng.random() < 0.4:
        return ""
    given = [rng.uniform(0.01, 0.1), rng.uniform(0.5, 1.5)]
    if rng.random() < 0.3:
        given = [-(10 ** rng.uniform(2, 3.5)), -(10 ** rng.uniform(0.5, 2))]
    width, power = pick(rng, 0, 10 ** rng.uniform(-3, -1)), pick(rng, 1, 2, 2.5, 3)
    impedance = [rng.uniform(0.3, 0.9), rng.uniform(0.9, 0.99), width, rng.uniform(0.2, 0.8), power]
    return f'{ref}="{numbers(given)}" {imp}="{numbers(impedance)}" '


class Scene:
    """A scene as it grows."""

    def __init__(self, rng: Random):
        self.rng = rng
        self.radian = rng.random() < 0.5
        self.touching = {str(k) for k in rng.choice([*SHAPES, MESH], rng.integers(1, 3), replace=False)}
        self.names: dict[str, list[str]] = {k: [] for k in KINDS}
        self.sections: dict[str, list[str]] = {
            k: [] for k in ("asset", "contact", "tendon", "equality", "actuator", "sensor", "keyframe")
        }

    def name(self, kind: str) -> str:
        """A new name of a kind of thing."""
        self.names[kind].append(f"{kind}{len(self.names[kind])}")
        return self.names[kind][-1]

    def some_of(self, kind: str) -> str | None:
        """The name of such a thing, if there is one."""
        return pick(self.rng, *self.names[kind]) if self.names[kind] else None

    def angle(self, radians: float) -> float:
        """In the file's unit."""
        return radians if self.radian else float(np.degrees(radians))

    def turn(self) -> str:
        """An orientation, in one of its forms."""
        r = self.rng
        axis, angle = numbers(r.normal(size=3)), self.angle(r.uniform(-3, 3))
        euler = numbers([self.angle(x) for x in r.uniform(-3, 3, 3)])
        two = numbers(r.normal(size=6))
        forms = f'quat="{numbers(r.normal(size=4))}"', f'euler="{euler}"', f'axisangle="{axis} {angle:.5g}"'
        return pick(r, *forms, f'xyaxes="{two}"', f'zaxis="{axis}"')

    def place(self, spread: float, up: float = 0.0) -> str:
        """A position, and perhaps an orientation."""
        r = self.rng
        return f'pos="{numbers(r.normal(size=3) * spread + [0, 0, up])}" ' + some(r, 0.6, self.turn())

    def joint(self, kind: str) -> str:
        """Of any kind but free."""
        r = self.rng
        scalar = kind != "ball"
        name = self.name("scalar" if scalar else "ball")
        wide = (lambda x: self.angle(x)) if kind != "slide" else (lambda x: 0.4 * x)
        low, high = (wide(x) for x in np.sort(r.uniform(-1, 1, 2)))
        ranges = f'range="{low:.4g} {high:.4g}"' if scalar else f'range="0 {self.angle(r.uniform(0.3, 2)):.4g}"'
        spring = f'stiffness="{r.uniform(1, 20):.3g}" '
        spring += some(r, 0.5 * scalar, f'springref="{wide(r.uniform(-0.5, 0.5)):.3g}"')
        limits = some(r, 0.4, f'{ranges} margin="{pick(r, 0, 0.05)}" {softness(r, "solreflimit", "solimplimit")}')
        if limits and scalar:
            self.names["limited"].append(name)
        return (
            f'<joint name="{name}" type="{kind}" '
            + (f'axis="{numbers(r.normal(size=3))}" ' if scalar else "")
            + some(r, 0.7, f'pos="{numbers(r.normal(size=3) * 0.05)}"')
            + some(r, 0.6, f'damping="{r.uniform(0.01, 1):.3g}"')
            + some(r, 0.7, f'armature="{r.uniform(0.01, 0.1):.3g}"')
            + some(r, 0.3, spring)
            + some(r, 0.2 * scalar, f'ref="{wide(r.uniform(-0.3, 0.3)):.3g}"')
            + limits
            + some(r, 0.3, f'frictionloss="{r.uniform(0.01, 1):.3g}" {softness(r, *DRY)}')
            + some(r, 0.2 * scalar, f'actuatorfrcrange="-{r.uniform(1, 5):.3g} {r.uniform(1, 5):.3g}"')
            + some(r, 0.1, 'actuatorgravcomp="true"')
            + "/>"
        )

    def surface(self) -> str:
        """Friction, softness, and what is mixed."""
        r = self.rng
        return (
            some(r, 0.7, f'friction="{numbers(r.uniform([0.2, 0.005, 0.0005], [1.2, 0.05, 0.01]))}"')
            + some(r, 0.7, f'condim="{pick(r, 1, 3, 4, 6)}"')
            + some(r, 0.3, f'margin="{r.uniform(0, 0.02):.3g}"')
            + some(r, 0.3, f'gap="{r.uniform(0, 0.01):.3g}"')
            + some(r, 0.3, f'priority="{pick(r, 1, 2)}"')
            + some(r, 0.4, f'solmix="{pick(r, 0, 0.3, 2)}"')
            + softness(r)
        )

    def geom(self, moving: bool = True) -> str:
        """A shape; few kinds touch each other, all touch the floor."""
        r = self.rng
        kind = str(pick(r, *SHAPES, MESH)) if r.random() < 0.3 else pick(r, *sorted(self.touching))
        if kind == MESH:
            points = numbers(r.normal(size=3 * r.integers(4, 12)) * 0.1)
            self.sections["asset"].append(f'<mesh name="mesh{len(self.sections["asset"])}" vertex="{points}"/>')
            shape = f'mesh="mesh{len(self.sections["asset"]) - 1}"'
        elif kind == "capsule" and r.random() < 0.3:
            shape = f'size="{r.uniform(0.02, 0.1):.3g}" fromto="{numbers(r.normal(size=6) * 0.15)}"'
        else:
            shape = f'size="{SHAPES[kind](r)}"'
        both = kind in self.touching
        weight = pick(r, f'mass="{r.uniform(0.2, 3):.3g}"', f'density="{r.uniform(200, 2000):.4g}"', "")
        where = "" if "fromto" in shape else self.place(0.05)
        return (
            f'<geom name="{self.name("geom")}" type="{kind}" {shape} {where}{weight} '
            f'contype="{2 if both else 0}" conaffinity="{3 if both and moving else 1}" {self.surface()}/>'
        )

    def body(self, depth: int) -> str:
        """A body with joints, shapes, a site, and what it carries."""
        r = self.rng
        name = self.name("body")
        joints = ""
        if depth == 0 and r.random() < 0.4:
            resists = some(r, 0.5, 'armature="0.02"') + some(r, 0.5, 'damping="0.1"')
            joints = f'<joint name="{self.name("free")}" type="free" {resists}/>'
        else:
            kinds = pick(r, ["hinge"], ["slide"], ["ball"], ["hinge", "hinge"], ["slide", "hinge"], ["slide", "ball"])
            joints = "".join(self.joint(k) for k in kinds)
        shapes = "".join(self.geom() for _ in range(r.integers(1, 3)))
        own = ""
        if r.random() < 0.2:
            full = f'fullinertia="{numbers([0.02, 0.03, 0.025, 0.002, -0.001, 0.003])}"'
            form = pick(r, full, f'diaginertia="0.01 0.02 0.015" {self.turn()}')
            own = f'<inertial pos="{numbers(r.normal(size=3) * 0.03)}" mass="{r.uniform(0.5, 2):.3g}" {form}/>'
        site = f'<site name="{self.name("site")}" {self.place(0.1)}size="0.1"/>'
        children = "".join(self.body(depth + 1) for _ in range(r.integers(0, 3) if depth < 2 else 0))
        wrapped = f"<frame {self.place(0.05)}>{site}</frame>" if r.random() < 0.3 else site
        carried = some(r, 0.2, f'gravcomp="{r.uniform(0, 1.2):.3g}"')
        kind = some(r, 0.3, 'childclass="other"')
        place = self.place(0.2, 0.4 * (depth == 0))
        return f'<body name="{name}" {place}{carried}{kind}>{own}{joints}{shapes}{wrapped}{children}</body>'

    def coupled(self) -> None:
        """Tendons, equalities, pairs of shapes, and those that do not touch."""
        r, n, out = self.rng, self.names, self.sections
        if len(n["scalar"]) > 1 and r.random() < 0.4:
            out["tendon"].append(
                f'<fixed name="{self.name("tendon")}" {self.string()}>'
                + "".join(
                    f'<joint joint="{j}" coef="{r.uniform(-2, 2):.3g}"/>'
                    for j in r.choice(n["scalar"], 2, replace=False)
                )
                + "</fixed>"
            )
        if len(n["site"]) > 1 and r.random() < 0.5:
            out["tendon"].append(self.spatial())
        for _ in range(r.integers(0, 3)):
            out["equality"].append(self.equality())
        one, two = (self.some_of("geom") for _ in range(2))
        if one and one != two and r.random() < 0.3:
            out["contact"].append(
                f'<pair geom1="{one}" geom2="{two}" condim="{pick(r, 1, 3, 4, 6)}" margin="0.01" gap="0.003" '
                + some(r, 0.5, f'friction="{numbers(r.uniform(0.01, 1, 5))}"')
                + some(r, 0.5, 'solreffriction="-200 -20"')
                + f"{softness(r)}/>"
            )
        if len(n["body"]) > 2 and r.random() < 0.3:
            out["contact"].append('<exclude body1="body0" body2="body2"/>')

    def string(self) -> str:
        """What a tendon does."""
        r = self.rng
        low, high = np.sort(r.uniform(0, 0.8, 2))
        return (
            some(r, 0.5, f'stiffness="{r.uniform(1, 30):.3g}" ' + some(r, 0.5, f'springlength="{low:.3g} {high:.3g}"'))
            + some(r, 0.4, f'damping="{r.uniform(0.1, 1):.3g}"')
            + some(r, 0.3, f'frictionloss="{r.uniform(0.05, 0.5):.3g}" {softness(r, *DRY)}')
            + some(r, 0.5, f'range="{low:.3g} {high:.3g}" {softness(r, "solreflimit", "solimplimit")}')
            + some(r, 0.2, f'margin="{r.uniform(0, 0.1):.3g}"')
            + some(r, 0.2, f'armature="{r.uniform(0.01, 0.1):.3g}"')
        )

    def spatial(self) -> str:
        """A tendon through sites; MuJoCo has no armature of those that go around shapes."""
        path, name = self.path(), self.name("tendon")
        string = self.string()
        if "geom" in path:
            string = re.sub(r'armature="\S*"', "", string)
        return f'<spatial name="{name}" {string}>{path}</spatial>'

    def path(self) -> str:
        """Of a spatial tendon: sites, perhaps around a shape, perhaps over a pulley."""
        r, sites = self.rng, self.names["site"]
        one, two = r.choice(sites, 2, replace=False)
        around = [g for g in self.round if r.random() < 0.7][:1]
        side = some(r, 0.5, f'sidesite="{around[0]}side"') if around else ""
        wrap = "".join(f'<geom geom="{g}" {side}/>' for g in around)
        whole = f'<site site="{one}"/>{wrap}<site site="{two}"/>'
        if r.random() < 0.3:
            three, four = r.choice(sites, 2, replace=False)
            whole = f'<pulley divisor="2"/>{whole}<pulley divisor="1.5"/><site site="{three}"/><site site="{four}"/>'
        return whole

    @property
    def round(self) -> list[str]:
        """Shapes in the world that tendons may go around."""
        return ["wheel", "drum"]

    def equality(self) -> str:
        """One of the kinds that this scene can have."""
        r, n = self.rng, self.names
        soft = softness(r)
        bodies = r.permutation([*n["body"], "hand"])[:2]
        sites = r.permutation([*n["site"], "here"])[:2]
        anchor = numbers(r.normal(size=3) * 0.1)
        scale = f'torquescale="{r.uniform(0.2, 2):.3g}"'
        found = [
            f'<connect body1="{bodies[0]}" body2="{bodies[1]}" anchor="{anchor}" {soft}/>',
            f'<connect site1="{sites[0]}" site2="{sites[1]}" {soft}/>',
            f'<weld body1="{bodies[0]}" body2="{bodies[1]}" anchor="{anchor}" {scale} {soft}/>',
            f'<weld site1="{sites[0]}" site2="{sites[1]}" {soft}/>',
            f'<weld body1="{bodies[0]}" relpose="{anchor} {numbers(r.normal(size=4))}" {soft}/>',
        ]
        scalar = n["scalar"]
        polynomial = f'polycoef="{numbers(r.normal(size=5) * 0.3)}" {soft}'
        found += [f'<joint joint1="{scalar[0]}" {polynomial}/>'] if scalar else []
        found += [f'<joint joint1="{scalar[0]}" joint2="{scalar[-1]}" {polynomial}/>'] if len(scalar) > 1 else []
        tendons = n["tendon"]
        found += [f'<tendon tendon1="{tendons[0]}" {polynomial}/>'] if tendons else []
        found += [f'<tendon tendon1="{tendons[0]}" tendon2="{tendons[1]}" {polynomial}/>'] if len(tendons) > 1 else []
        return pick(r, *found)

    def actuator(self) -> str:
        """Of any law, on anything."""
        r, n = self.rng, self.names
        kind = pick(r, *(k for k in ("scalar", "scalar", "ball", "free", "site", "tendon") if n[k]), "body")
        target = self.some_of(kind)
        if kind == "body":
            return f'<adhesion body="{target}" ctrlrange="0 1" gain="{r.uniform(1, 5):.3g}"/>'
        on = f'{pick(r, "joint", "jointinparent") if kind in ("scalar", "ball", "free") else kind}="{target}" '
        if kind == "site":
            other = pick(r, *n["site"])
            on += some(r, 0.4 * (other != target), f'refsite="{other}"')
        gears = 1 if kind in ("scalar", "tendon") else 3 if kind == "ball" else 6
        on += f'gear="{numbers(r.normal(size=gears))}" '
        on += some(r, 0.4, f'forcerange="-{r.uniform(0.5, 5):.3g} {r.uniform(0.5, 5):.3g}"')
        on += some(r, 0.4, f'ctrlrange="-{r.uniform(0.2, 1):.3g} {r.uniform(0.2, 1):.3g}"')
        time = f'timeconst="{r.uniform(0.01, 0.1):.3g}"'
        activation = pick(r, "filter", "filterexact", "integrator")
        early = some(r, 0.4, 'actearly="true"') + some(r, 0.4, 'actrange="-0.5 0.7"')
        laws = [
            f"<motor {on}/>",
            f'<position {on} kp="{r.uniform(1, 20):.3g}" kv="{r.uniform(0, 1):.3g}" {some(r, 0.5, time)}/>',
            f'<velocity {on} kv="{r.uniform(0.1, 2):.3g}"/>',
            f'<general {on} gaintype="affine" gainprm="2 0.3 -0.4" {some(r, 0.5, AFFINE)}/>',
            f'<general {on} dyntype="{activation}" dynprm="{r.uniform(0.02, 0.1):.3g}" gaintype="affine" '
            f'gainprm="1 0.3 -0.2" biastype="affine" biasprm="0.1 -0.5 -0.1" {early}/>',
        ]
        if kind in ("scalar", "tendon"):
            laws += [
                f'<intvelocity {on} kp="{r.uniform(1, 9):.3g}" actrange="-1 1"/>',
                f'<cylinder {on} {time} area="{r.uniform(0.5, 2):.3g}" bias="0.1 -0.2 -0.3"/>',
                f'<muscle {on} lengthrange="0.1 1.2" force="{r.uniform(1, 9):.3g}"/>',
            ]
        if "ctrlrange" not in on:
            laws.append(f'<damper {on} kv="{r.uniform(0.1, 1):.3g}" ctrlrange="0 1"/>')
        return pick(r, *laws)

    def sensors(self) -> None:
        """A few of all kinds."""
        r, n = self.rng, self.names
        made = self.sections["sensor"]
        for kind in r.choice(["gyro", "accelerometer", "velocimeter", "magnetometer", "force", "torque", "touch"], 3):
            made.append(f'<{kind} site="{self.some_of("site")}" {some(r, 0.2, CUTOFF)}/>')
        for kind in r.choice(
            ["framepos", "framequat", "framexaxis", "framelinvel", "frameangvel", "framelinacc", "frameangacc"], 3
        ):
            over = "acc" not in kind and r.random() < 0.4
            other = f'reftype="{pick(r, "body", "xbody")}" refname="{self.some_of("body")}"' if over else ""
            made.append(f'<{kind} objtype="{pick(r, "body", "xbody")}" objname="{self.some_of("body")}" {other}/>')
        for kind in r.choice(["subtreecom", "subtreelinvel", "subtreeangmom"], 2):
            made.append(f'<{kind} body="{self.some_of("body")}"/>')
        for what, kinds in (
            ("scalar", ("jointpos", "jointvel", "jointactuatorfrc")),
            ("limited", ("jointlimitfrc", "jointlimitpos", "jointlimitvel")),
        ):
            if n[what]:
                made += [f'<{kind} joint="{self.some_of(what)}"/>' for kind in kinds]
        if n["ball"]:
            made.append(f'<ballquat joint="{n["ball"][0]}"/><ballangvel joint="{n["ball"][0]}"/>')
        if n["tendon"]:
            made.append(f'<tendonpos tendon="{n["tendon"][0]}"/><tendonvel tendon="{n["tendon"][0]}"/>')

    def option(self) -> str:
        """Solver, integrator, fluid, flags."""
        r = self.rng
        off = " ".join(f'{f}="disable"' for f in r.choice(FLAGS, 1)) if r.random() < 0.3 else ""
        override = some(r, 0.1, 'override="enable"')
        return (
            f'<option cone="{pick(r, "pyramidal", "elliptic")}" timestep="{pick(r, 0.001, 0.002, 0.004)}" '
            f'impratio="{pick(r, 1, 1, 5)}" integrator="{pick(r, "Euler", "implicitfast", "implicit", "RK4")}" '
            + some(r, 0.1, f'density="{r.uniform(1, 100):.3g}" viscosity="{r.uniform(0, 0.5):.3g}" wind="1 0 0.5"')
            + some(r, 0.2, 'o_solref="0.03 0.8" o_margin="0.005" o_friction="0.6 0.6 0.01 0.001 0.001"')
            + some(r, 0.2, f'gravity="{numbers(r.normal(size=3) * 4)}"')
            + f"><flag {off} {override}/></option>"
        )


def everything(rng: Random) -> str:
    """MJCF of a random scene."""
    s = Scene(rng)
    bodies = "".join(s.body(0) for _ in range(rng.integers(1, 3)))
    s.coupled()
    for _ in range(rng.integers(0, 5)):
        s.sections["actuator"].append(s.actuator())
    s.sensors()
    floor = '<geom name="floor" type="plane" size="0 0 1" ' + s.surface() + "/>"
    wheel = (
        '<body pos="0 0 .5"><geom name="wheel" type="sphere" size=".08" contype="0" conaffinity="0"/>'
        '<site name="wheelside" pos=".2 0 0"/></body>'
        '<geom name="drum" type="cylinder" size=".06 .2" pos=".2 .1 .4" contype="0" conaffinity="0"/>'
        '<site name="drumside" pos=".2 .4 .4"/><site name="here" pos=".1 .2 .3" euler=".3 .2 .1"/>'
        '<body name="hand" mocap="true" pos=".3 0 .4"><geom size=".05" contype="0" conaffinity="1"/></body>'
    )
    still = "".join(
        s.geom(moving=False).replace(f'name="{s.names["geom"][-1]}"', "") for _ in range(rng.integers(0, 2))
    )
    compiler = (
        f'<compiler angle="{"radian" if s.radian else "degree"}" eulerseq="{pick(rng, "xyz", "ZYX", "xzx")}" '
        + some(rng, 0.1, 'boundmass="0.1" boundinertia="0.001"')
        + some(rng, 0.1, 'settotalmass="5"')
        + some(rng, 0.2, 'inertiafromgeom="auto" balanceinertia="true"')
        + "/>"
    )
    default = (
        f'<default><geom density="500"/><default class="other"><joint damping="0.3" armature="0.02"/>'
        f'<geom friction="0.7" {softness(rng)}/></default></default>'
    )
    sections = "".join(f"<{k}>{''.join(v)}</{k}>" for k, v in s.sections.items() if v)
    world = f"<worldbody>{floor}{wheel}{still}{bodies}</worldbody>"
    return f"<mujoco>{compiler}{s.option()}{default}{world}{sections}</mujoco>"
