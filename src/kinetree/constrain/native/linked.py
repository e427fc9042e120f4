"""Links in the program: strings and frames from a state to constraints, and what they add to a round of Newton."""

from . import delassus, frames, loops, spans, string_actuators, string_lengths, strings
from .features import Linking
from .kinds import Kind
from .newton import NO_LINKS, Linked, along_step
from .parts import Part

LENGTHS = {
    "fixed": lambda: [string_lengths.fixed_tendons()],
    "follows": lambda: [string_lengths.following()],
    "balls": lambda: [string_lengths.ball_angles()],
    "slides": lambda: [string_lengths.slides()],
    "pairs": string_lengths.tied_tendons,
    "ball actuators": lambda: [string_actuators.turned(False)],
    "free actuators": lambda: [string_actuators.turned(True)],
    "mimics": lambda: [string_lengths.mimics()],
    "parts": lambda: [string_lengths.branch_entries()],
}


def length_parts(f: Linking) -> list[Part]:
    """Lengths, entries and rates of strings, after poses and the first guess are known."""
    if not (f.lengths or f.wrapped):
        return []
    found = [string_lengths.cleared()]
    if f.wrapped:
        found += [spans.points(), *map(spans.wraps, f.wraps), *map(spans.lines, f.wrapped)]
        found += [*spans.entries(), *([spans.bending()] if f.bends else [])]
    return [*found, *(p for kind in f.lengths for p in LENGTHS[kind]()), string_lengths.rates()]


def frame_parts(f: Linking, power: int | None) -> list[Part]:
    """Frames, how soft they are held, and rigid loops, before the forces of motion are known."""
    return [*(frames.softening(size, moves, power) for size, moves in f.frames), *loop_parts(f)]


def loop_parts(f: Linking) -> list[Part]:
    """Rows of rigid loops."""
    return [*map(loops.rows_of, f.loops), *([loops.following()] if f.following else [])]


def link_kinds(f: Linking) -> list[Kind]:
    """All kinds of constraints that links carry."""
    return [strings.on_string(k) for k in f.strung] + [frames.held_frames(*kind) for kind in f.frames]


def linked_parts(f: Linking, finishes: bool, always: bool, asks: str = "wanted") -> Linked:
    """What links add to a round; `asks`: which field of rigid loops says how they shall move."""
    strung = bool(f.strung or f.resists or f.brakes or "mimics" in f.lengths)
    tied = [size for size, moves in f.frames if all(moves)]
    if not (strung or tied or f.rigid):
        return NO_LINKS
    of_strings = [strings.pushed_links()] if strung else []
    return Linked(
        [
            delassus.unstiff(),
            *([strings.unloaded(finishes)] if strung else []),
            *([string_actuators.braked()] if f.brakes else []),
            *([loops.stiff()] if f.rigid else []),
        ],
        [strings.spread("push", "linked"), strings.stiffened()] if strung else [],
        [
            *delassus.emptied(),
            *of_strings,
            *map(frames.pushed_links, tied),
            *map(loops.pushed, f.loops),
            *(loops.pushed_followers() if f.following else []),
            delassus.swept(),
            *delassus.factored(f.rigid),
            *delassus.corrected(False, asks if f.rigid else ""),
        ],
        strings.moved(f.resists) if strung else [],
        [strings.accelerated(along_step, always)] if strung else [],
        rigid=f.rigid,
    )


def pulling_parts(f: Linking) -> tuple[list[Part], list[Part]]:
    """Before and after constraints pull on strings: their forces go to the joints."""
    before, after = ([strings.unloaded(False)], [strings.spread("push", "linked")]) if f.strung else ([], [])
    return before, [*after, *map(loops.pulling, f.loops), *([loops.pulling_followers()] if f.following else [])]
