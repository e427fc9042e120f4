"""Links in the program: strings and frames, from a state to constraints, and their parts of a round of Newton."""

from . import delassus, frames, loops, spans, string_actuators, string_lengths, strings
from .features import Linking
from .kinds import Kind
from .memory import ROW, fixed
from .newton import NO_LINKS, Linked, along_step
from .parts import Part, fill, once
from .plan import Plan

LENGTHS = {
    "fixed": lambda: [string_lengths.fixed_tendons()],
    "follows": lambda: [string_lengths.follower_lengths()],
    "balls": lambda: [string_lengths.ball_angles()],
    "slides": lambda: [string_lengths.slide_entries()],
    "pairs": string_lengths.tied_tendons,
    "ball actuators": lambda: [string_actuators.ball_lengths(False)],
    "free actuators": lambda: [string_actuators.ball_lengths(True)],
    "mimics": lambda: [string_lengths.follower_entries()],
    "parts": lambda: [string_lengths.branch_entries()],
}


def length_parts(f: Linking) -> list[Part]:
    """Parts for lengths, entries and rates of strings, after poses and the first guess are known."""
    if not (f.lengths or f.wrapped):
        return []
    found = [string_lengths.clear_lengths()]
    if f.wrapped:
        found += [spans.points(), *map(spans.wraps, f.wraps), *map(spans.lines, f.wrapped)]
        found += [*spans.entries(), *([spans.line_drifts()] if f.bends else [])]
    return [*found, *(p for kind in f.lengths for p in LENGTHS[kind]()), string_lengths.string_rates()]


def frame_parts(f: Linking, power: int | None) -> list[Part]:
    """Parts for frames, their softness, and rigid loops, before the forces of motion are known."""
    return [*(frames.soften_frames(size, moves, power) for size, moves in f.frames), *loop_parts(f)]


def loop_parts(f: Linking) -> list[Part]:
    """Rows of rigid loops."""
    return [*map(loops.find_rows, f.loops), *(loops.follower_rows() if f.following else [])]


def link_kinds(f: Linking) -> list[Kind]:
    """All kinds of constraints that are links."""
    return [strings.on_string(k) for k in f.strung] + [frames.held_frames(*kind) for kind in f.frames]


def linked_parts(f: Linking, finishes: bool, always: bool, asks: str = "wanted") -> Linked:
    """The parts that links add to a round; `asks`: the field with the wanted motion of rigid loops."""
    strung = bool(f.strung or f.resists or f.brakes or "mimics" in f.lengths)
    tied = [size for size, moves in f.frames if all(moves)]
    if not (strung or tied or f.rigid):
        return NO_LINKS
    of_strings = [strings.spread_string_forces()] if strung else []
    return Linked(
        [
            delassus.clear_stiffness(),
            *([strings.clear_load(finishes)] if strung else []),
            *([string_actuators.brake_strings()] if f.brakes else []),
            *([loops.set_stiffness()] if f.rigid else []),
        ],
        [strings.push_joints("push", "linked"), strings.stiffen_links()] if strung else [],
        [
            *delassus.clear_paths(),
            *of_strings,
            *map(frames.spread_frame_forces, tied),
            *map(loops.spread_unit_forces, f.loops),
            *(loops.spread_follower_entries() if f.following else []),
            delassus.sweep_links(),
            *delassus.factor_links(f.rigid),
            *delassus.correct_solution(False, asks if f.rigid else "", keeps=finishes),
        ],
        strings.move_strings(f.resists) if strung else [],
        [strings.accelerate_strings(along_step, always)] if strung else [],
        rigid=f.rigid,
    )


def resist(f: Linking, *motions: tuple[str, bool, float]) -> list[Part]:
    """What strings that resist need for motions of the rows, in `resistance`; nothing if there are none.

    Each motion is a field of rows, whether loads at the end of a step resist it beside armature, and a factor.
    """
    if not (f.resists or f.brakes):
        return []
    parts = [fill(Plan.every_row, ROW.at(0, "resistance"))]
    for motion, loaded, sign in motions:
        parts += [
            fill(once, fixed("finishing"), values=(float(loaded),)),
            strings.clear_load(True),
            *([string_actuators.brake_strings()] if f.brakes else []),
            *strings.resist_motion(motion, sign),
        ]
    return parts


def pulling_parts(f: Linking) -> tuple[list[Part], list[Part]]:
    """Before and after constraints pull on strings: their forces go to the joints."""
    before, after = ([strings.clear_load(False)], [strings.push_joints("push", "linked")]) if f.strung else ([], [])
    return before, [
        *after,
        *map(loops.apply_forces, f.loops),
        *([loops.apply_follower_forces()] if f.following else []),
    ]
