"""MJCF: models compiled by MuJoCo agree with MuJoCo."""

import warnings

import numpy as np
import pytest

import kinetree as kt
from kinetree.collide import Hull
from kinetree.io import Mujoco, NotModelled, load_with_report

mujoco = pytest.importorskip("mujoco")
from tests.io.mujoco_agreement import errors, full_inertia, model_files, unconstrained  # noqa: E402

FILES = model_files()
BOUND = 1e-8

ZOO = """<mujoco model="zoo">
  <option gravity="0.3 -0.2 -9.7"/>
  <worldbody>
    <site name="origin" pos="1 2 3"/>
    <geom type="plane" size="1 1 1"/>
    <body name="fixture" pos="0.1 0 0.2" euler="10 20 30"><geom size="0.05"/>
      <body name="arm" pos="0.3 0.1 0" euler="30 0 40">
        <joint name="hinge" type="hinge" axis="1 2 0" pos="0.1 0 -0.2" ref="20" armature="0.3" damping="0.2"
               stiffness="3" springref="40" frictionloss="0.4"/>
        <joint name="slide" type="slide" axis="0 1 1" pos="0.2 0 0" ref="0.1" stiffness="2" springref="0.3"
               range="-1 1" limited="true"/>
        <joint name="turn" axis="0 0 1"/>
        <geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0" euler="5 6 7"/>
        <site name="tip" pos="0.2 0.1 0" euler="0 0 90"/>
        <site name="arm" pos="0 0 0.1"/>
        <body name="swinging" pos="0 0.4 0" euler="50 0 0">
          <joint name="ball" type="ball" pos="0.1 0.2 0.3" armature="0.2" damping="0.1" stiffness="1.5"/>
          <geom type="capsule" size="0.05 0.2" euler="20 0 0" pos="0 0 0.1"/>
          <body pos="0 0 -0.3"><geom size="0.1"/><body name="wheel"><joint axis="1 0 0" armature="0.1"/>
            <geom type="cylinder" size="0.1 0.02"/></body></body>
        </body>
      </body>
    </body>
    <body name="flying" pos="5 5 5"><freejoint name="free"/><geom type="box" size="0.3 0.2 0.1" pos="0.1 0.1 0"/>
      <body name="flap" pos="0 0.3 0"><joint name="flap" axis="0 1 0" pos="0 0 0.1"/>
        <geom size="0.1" pos="0.2 0 0"/></body>
    </body>
  </worldbody>
</mujoco>"""


def load_quietly(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return kt.load(path)


def assert_agrees(model, theirs):
    assert (model.nq, model.nv) == (theirs.nq, theirs.nv)
    worst = errors(model, theirs)
    assert max(worst.values()) < BOUND, worst


@pytest.mark.parametrize("name", ["half_cheetah", "humanoid", "pusher_v5"])
def test_gymnasium_agrees(name):
    path = FILES.get(f"gymnasium/{name}.xml") or pytest.skip("gymnasium is not installed")
    assert_agrees(load_quietly(path), unconstrained(path))


@pytest.mark.robots
@pytest.mark.parametrize("name", FILES)
def test_every_file_agrees(name):
    try:
        theirs = unconstrained(FILES[name])
    except ValueError as error:
        pytest.skip(f"MuJoCo does not compile it: {error}")
    assert_agrees(load_quietly(FILES[name]), theirs)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """Every joint, several on one body, references, springs, armature, unnamed and massless bodies, sites."""
    path = tmp_path_factory.mktemp("mjcf") / "zoo.xml"
    path.write_text(ZOO)
    return load_quietly(path), unconstrained(path)


def test_every_kind_of_joint_agrees(zoo):
    model, theirs = zoo
    assert_agrees(model, theirs)
    assert abs(theirs.dof_damping).any()
    assert abs(theirs.jnt_stiffness).any()


@pytest.mark.parametrize("method", ["aba", "crba"])
def test_forward_dynamics_undoes_inverse_dynamics(zoo, method):
    model, _ = zoo
    q, qd = kt.random_state(model, 3, (4,))
    tau = np.random.default_rng(0).standard_normal(qd.shape)
    qdd = kt.forward_dynamics(model, q, qd, tau, method=method)
    np.testing.assert_allclose(kt.inverse_dynamics(model, q, qd, qdd), tau, atol=1e-11)


def test_passive_forces_can_be_switched_off(zoo):
    model, _ = zoo
    q, qd = kt.random_state(model, 3, (4,))
    zero = np.zeros_like(qd)
    passive = kt.passive_force(model, q, qd)
    with_them, without = (kt.inverse_dynamics(m, q, qd, zero) for m in (model, model.without_passive))
    assert np.abs(passive).max() > 0.1
    np.testing.assert_allclose(with_them, without - passive, atol=1e-12)
    np.testing.assert_array_equal(kt.passive_force(model.without_passive, q, qd), zero)


def test_sites_are_frames(zoo):
    model, theirs = zoo
    assert "site:arm" in model.names  # a body has the name already
    data = mujoco.MjData(theirs)
    q, qd = kt.random_state(model, 5)
    data.qpos[:], data.qvel[:] = q, Mujoco(model).v_there(q, qd)
    mujoco.mj_forward(theirs, data)
    pose = kt.forward_kinematics(model, q)
    for number, name in enumerate(["origin", "tip", "site:arm"]):
        body = model.body_index(name)
        np.testing.assert_allclose(pose.position[body], data.site_xpos[number], atol=1e-12)
        np.testing.assert_allclose(pose.rotation[body].ravel(), data.site_xmat[number], atol=1e-12)
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(theirs, data, mujoco.mjtObj.mjOBJ_SITE, number, velocity, 0)
        np.testing.assert_allclose(kt.frame_velocity(model, q, qd, name, "aligned"), velocity, atol=1e-12)


def test_joint_physics_are_kept(zoo):
    model, theirs = zoo
    np.testing.assert_array_equal(model.rows.armature, theirs.dof_armature)
    np.testing.assert_array_equal(model.friction, theirs.dof_frictionloss)
    slide = model.q_index("slide").start
    assert (model.limits.lower[slide], model.limits.upper[slide]) == (-1, 1)
    assert np.isinf(model.limits.lower[model.q_index("turn")]).all()
    np.testing.assert_array_equal(model.gravity, [0.3, -0.2, -9.7])


def test_what_is_not_modelled_is_listed_once():
    text = """<mujoco><option><flag diagexact="enable"/></option>
      <worldbody><geom name="floor" type="plane" size="1 1 1"/>
      <body><joint name="a"/><geom size="0.1"/></body><body><joint/><geom size="0.1"/></body></worldbody>
      <tendon><fixed name="t"><joint joint="a" coef="1"/></fixed></tendon>
      <equality><joint joint1="a"/></equality><actuator><general tendon="t" dyntype="user"/></actuator></mujoco>"""
    listed = r"actuators \(activation dynamics\): 1, flag diagexact: 1"
    with pytest.warns(UserWarning, match=listed) as told:
        kt.load(text)
    assert len(told) == 1
    assert told[0].category is NotModelled
    _, report = load_with_report(text)
    assert "tendons" not in report.ignored
    assert report.ignored["actuators (activation dynamics)"] == 1
    assert report.format == "MJCF"


def test_flags_that_are_not_known_are_told():
    flags = 'energy="enable" sleep="enable" nativeccd="disable" island="disable"'
    _, report = load_with_report(one_body(option=f"<option><flag {flags}/></option>"))
    assert set(report.ignored) == {"flag sleep", "flag nativeccd (disabled)"}


def test_what_mujoco_refuses_is_a_model_error():
    with pytest.raises(kt.ModelError, match="MuJoCo can not compile it"):
        kt.load("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")
    with pytest.raises(kt.ModelError, match="floating_base"):
        kt.load(ZOO, floating_base=True)


def one_body(joint="", body="", option="", after=""):
    return (
        f'<mujoco>{option}<worldbody><body name="b" {body}><joint name="j" {joint}/>'
        f'<geom size="0.1" contype="0" conaffinity="0"/></body></worldbody>{after}</mujoco>'
    )


@pytest.mark.filterwarnings("error::UserWarning")
def test_some_sensors_are_told_and_limits_and_keyframes_are_modelled():
    told = "<text>: in the file, but not in the model: sensors (jointlimitpos): 1"
    after = '<sensor><jointpos joint="j"/><jointlimitpos joint="j"/></sensor><keyframe><key qpos="1"/></keyframe>'
    with pytest.raises(NotModelled) as caught:
        kt.load(one_body('range="-1 1" limited="true"', after=after))
    assert str(caught.value) == told
    kt.load(one_body())


def test_a_sensor_relative_to_a_camera_that_turns_by_itself_is_told():
    text = one_body(after='<sensor><framepos objtype="body" objname="b" reftype="camera" refname="eye"/></sensor>')
    camera = '<camera name="eye" mode="trackcom"/>'
    with pytest.warns(NotModelled, match=r"sensors \(framepos\): 1"):
        kt.load(text.replace("</body>", f"{camera}</body>"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (one_body(body='pos="1e300 0 0"'), "body 'b': pos 1e+300"),
        (one_body('pos="0 1e99 0"'), "joint 'j': pos 1e+99"),
        (one_body('damping="1e99"'), "joint 'j': damping 1e+99"),
        (one_body('stiffness="1e99"'), "joint 'j': stiffness 1e+99"),
        (one_body('armature="1e99"'), "joint 'j': armature 1e+99"),
        (one_body('type="slide" ref="1e99"'), "joint 'j': qpos0 1e+99"),
        (one_body(option='<option gravity="0 0 -1e99"/>'), "gravity"),
        ('<mujoco><worldbody><site name="s" pos="0 0 1e99"/></worldbody></mujoco>', "site 's': pos 1e+99"),
    ],
)
def test_numbers_that_overflow_are_refused(text, message):
    with pytest.raises(kt.ModelError, match="is too large for a mechanism") as caught:
        kt.load(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("what", ["damping", "stiffness", "armature"])
def test_negative_numbers_are_told_and_taken_as_mujoco_takes_them(what, tmp_path):
    path = tmp_path / "one.xml"
    path.write_text(one_body(f'{what}="-0.001" axis="0 1 0" pos="0.3 0 0"'))
    with pytest.warns(UserWarning, match=f"one.xml: {what} of joint 'j' is negative; it is used unchanged"):
        model = kt.load(path)
    assert_agrees(model, unconstrained(path))


def test_negative_friction_is_none():
    assert kt.load(one_body('frictionloss="-1"')).friction is None


DRIVEN = """<mujoco><option><flag {flags}/></option><worldbody>
  <body><joint name="h" axis="0 1 0" armature="0.3" damping="0.2"/><geom size="0.1" pos="0.3 0 0"/>
    <body pos="0.5 0 0"><joint name="b" type="ball"/><geom size="0.1" pos="0.3 0 0.1"/>
      <body pos="0.5 0 0"><joint name="s" type="slide" axis="1 0 0"/><geom size="0.1" pos="0.3 0 0.1"/>
      </body></body></body>
  </worldbody>
  <tendon><fixed name="t"><joint joint="h" coef="2"/></fixed></tendon>
  <actuator><orientation joint="b" kp="1"/><motor joint="h" gear="2" armature="0.1" damping="0.4"/>
    <motor joint="h" gear="-3" armature="0.2" damping="0.5"/>
    <general joint="s" gear="0.5" armature="0.3" damping="0.6"/>
    <motor jointinparent="b" gear="2 3 4" armature="0.05" damping="0.7"/></actuator></mujoco>"""


@pytest.mark.parametrize("flags", ["", 'damper="disable"', 'actuation="disable"'])
def test_armature_and_damping_of_actuators_act_on_their_joints(flags):
    text = DRIVEN.format(flags=flags)
    model, theirs = load_quietly(text), mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    q, qd = kt.random_state(model, 1)
    data.qpos[:], data.qvel[:] = q, Mujoco(model).v_there(q, qd)
    mujoco.mj_forward(theirs, data)
    H = full_inertia(theirs, data)
    np.testing.assert_allclose(kt.mass_matrix(model, q), H, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kt.passive_force(model, q, qd), data.qfrc_passive, rtol=0, atol=1e-12)
    assert np.array_equal(data.qfrc_passive, np.zeros(theirs.nv)) == ("damper" in flags)


@pytest.mark.parametrize("flag", ["spring", "damper", "gravity"])
def test_parts_that_are_switched_off(flag):
    text = one_body('stiffness="2" damping="3"', option=f'<option><flag {flag}="disable"/></option>')
    theirs = mujoco.MjModel.from_xml_string(text)
    model, data = load_quietly(text), mujoco.MjData(theirs)
    data.qpos[:] = data.qvel[:] = 0.5
    mujoco.mj_forward(theirs, data)
    np.testing.assert_allclose(kt.passive_force(model, np.full(1, 0.5), np.full(1, 0.5)), data.qfrc_passive, atol=1e-12)
    assert bool(np.any(model.gravity)) == (flag != "gravity")


FREE = """<mujoco><option gravity="0.3 -0.2 -9.7"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
  <body pos="1 2 3"><joint type="free" armature="0.7"/><geom type="box" size="0.3 0.2 0.1" pos="0.1 0.1 0"/>
    <body pos="0.2 0 0.1"><joint axis="1 1 0" armature="0.1"/><geom type="sphere" size="0.05" pos="0 0 0.2"/></body>
  </body>
  <body pos="0 0 1"><joint type="ball" armature="0.2"/><geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0"/></body>
</worldbody></mujoco>"""


def free_with_armature(tmp_path):
    path = tmp_path / "free.xml"
    path.write_text(FREE)
    return kt.load(path), unconstrained(path)


def test_armature_of_free_joints_agrees(tmp_path):
    """MuJoCo's acts on velocities in world axes; the old code, in body axes, was off by up to 44 %."""
    model, theirs = free_with_armature(tmp_path)
    found = errors(model, theirs, states=20)
    assert max(found.values()) < 1e-12, found
    convention, data = Mujoco(model), mujoco.MjData(theirs)
    q, qd = kt.random_state(model, 3)
    qdd = np.random.default_rng(4).standard_normal(model.nv)
    tau = kt.inverse_dynamics(model, q, qd, qdd)
    data.qpos[:], data.qvel[:] = convention.q_there(q), convention.v_there(q, qd)
    data.qacc[:] = convention.a_there(q, qd, qdd)
    mujoco.mj_inverse(theirs, data)
    np.testing.assert_allclose(convention.force_there(q, tau), data.qfrc_inverse, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{"method": m} for m in ("crba", "jsiia", "abia", "vneb", "cg")]
                         + [{"schedule": s} for s in ("sequential", "levels", "paths")], ids=str)  # fmt: skip
def test_every_method_knows_the_armature_of_free_joints(tmp_path, options):
    model, _ = free_with_armature(tmp_path)
    q, qd = kt.random_state(model, 5, (3,))
    tau = np.random.default_rng(6).standard_normal(qd.shape)
    np.testing.assert_allclose(
        kt.forward_dynamics(model, q, qd, tau, **options), kt.forward_dynamics(model, q, qd, tau), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("schedule", ["sequential", "levels", "paths", "euler"])
def test_every_schedule_knows_the_armature_of_free_joints(tmp_path, schedule):
    model, _ = free_with_armature(tmp_path)
    q, qd = kt.random_state(model, 7, (3,))
    np.testing.assert_allclose(
        kt.inverse_dynamics(model, q, qd, qd, schedule=schedule), kt.inverse_dynamics(model, q, qd, qd), rtol=1e-11
    )


def test_identities_hold_with_the_armature_of_free_joints(tmp_path):
    """C qd is the bias without weight; rotors keep their energy; hybrid dynamics finds the same forces."""
    model, _ = free_with_armature(tmp_path)
    model = model.replace(gravity=np.zeros(3))
    q, qd = kt.random_state(model, 8)
    bias = kt.bias_force(model, q, qd)
    np.testing.assert_allclose(kt.coriolis_matrix(model, q, qd) @ qd, bias, rtol=1e-11, atol=1e-12)
    qdd = np.random.default_rng(9).standard_normal(model.nv)
    tau = kt.inverse_dynamics(model, q, qd, qdd)
    _, found = kt.hybrid_dynamics(model, q, qd, qdd, tau, np.zeros(model.nv, bool))
    np.testing.assert_allclose(found, tau, rtol=1e-11, atol=1e-12)
    h = 1e-6
    later, sooner = (kt.kinetic_energy(model, kt.integrate(model, q, qd, s * h), qd + s * h * qdd) for s in (1, -1))
    assert (later - sooner) / (2 * h) == pytest.approx(tau @ qd, rel=1e-7)


def test_free_joints_have_one_armature_for_all_ways(tmp_path):
    model, _ = free_with_armature(tmp_path)
    armature = model.rows.armature.copy()
    armature[4] = 2.0
    with pytest.raises(kt.ModelError, match=r"free joint.*must be the same"):
        model.replace(armature=armature)


def test_the_hull_of_a_mesh_is_made_once_and_excluded_bodies_do_not_touch(monkeypatch):
    made = []
    real = Hull.from_mujoco
    monkeypatch.setattr(Hull, "from_mujoco", lambda m, geom: made.append(geom) or real(m, geom))
    corners = "0 0 0  1 0 0  0 1 0  0 0 1"
    bodies = "".join(
        f'<body name="{n}"><freejoint/><geom type="mesh" mesh="m"/><geom type="mesh" mesh="m" pos="0 0 1"/></body>'
        for n in "abc"
    )
    model = kt.load(
        f'<mujoco><asset><mesh name="m" vertex="{corners}"/></asset><worldbody>{bodies}</worldbody>'
        '<contact><exclude body1="c" body2="a"/></contact></mujoco>'
    )
    scene = model.world.scene
    assert made == [0]
    assert all(hull.vertices.shape == (4, 3) for hull in scene.shapes.hulls.values())
    owners = [frozenset(scene.layout.bodies[k] for k in (p.first, p.second)) for p in scene.layout.pairs]
    assert sorted(map(sorted, owners)) == 4 * [[0, 1]] + 4 * [[1, 2]]


def test_text_that_mujoco_reads_and_that_is_not_quite_xml():
    """Unitree's scene of its G1 closes its root three times."""
    assert kt.load(one_body('axis="0 1 0"') + "\n</mujoco>").nv == 1
    with pytest.raises(kt.ModelError, match="MuJoCo can not compile it"):
        kt.load("<mujoco><worldbody></mujoco>")


def test_an_equality_within_one_body_is_told():
    """It was left out without a word."""
    sites = '<worldbody><body><freejoint/><geom size="0.1"/><site name="a"/><site name="b" pos="1 0 0"/></body>'
    with pytest.warns(kt.io.NotModelled, match="equality constraints within one body"):
        kt.load(f'<mujoco>{sites}</worldbody><equality><connect site1="a" site2="b"/></equality></mujoco>')


@pytest.mark.parametrize(("joints", "told"), [("abc", True), ("bc", False), ("ab", False)])
def test_armature_of_a_tendon_between_branches_that_meet_is_told(joints, told):
    """MuJoCo leaves the products between the branches out; kinetree keeps them."""
    link = '<joint name="{}"/><geom size="0.1" pos="0.1 0 0"/>'.format
    pulled = "".join(f'<joint joint="{joint}" coef="1"/>' for joint in joints)
    _, report = load_with_report(
        f"<mujoco><worldbody><body>{link('a')}<body>{link('b')}</body><body>{link('c')}</body></body></worldbody>"
        f'<tendon><fixed name="t" armature="0.1">{pulled}</fixed></tendon></mujoco>'
    )
    assert any("armature of tendon 't'" in warning for warning in report.warnings) == told
