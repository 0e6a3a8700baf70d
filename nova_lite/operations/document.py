"""Writes docs/operations.md: ``make docs``. The prose is the template's; the tables and diagrams are the table of verbs.

A line ``{{table: VERB ...}}`` of the template becomes a table of these verbs, ``{{diagram: VERB ...}}`` their states,
``{{steps: VERB}}`` its steps, ``{{moves}}`` what verbs mean for rows of ``migrations``, ``{{deaths}}`` what happens when a host
dies.
"""
from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from nova_lite.operations.steps import Step
from nova_lite.operations.table import VERBS
from nova_lite.operations.verb import Begins, Guest, IfHostDies, MoveKind, Verb

_MARK = re.compile(r"^\{\{(\w+)(?:: ([\w ]+))?\}\}$", re.MULTILINE)
_MANY = 9       # names in one cell
_BEGINS = {Begins.CONDUCTOR: "a conductor", Begins.HOST: "its host", Begins.SOURCE: "source",
           Begins.DESTINATION: "destination"}
_GUEST = {Guest.ONE: "one host", Guest.EITHER: "source or destination",
          Guest.RETURNS: "destination; an older guest may come back at the source"}


def text(template: str) -> str:
    """The document. Raises ValueError for a verb that the template leaves out, and KeyError for an unknown verb."""
    forgotten = set(VERBS) - {name for kind, names in _MARK.findall(template) if kind == "table" for name in names.split()}
    if forgotten:
        raise ValueError(f"no table has {', '.join(sorted(forgotten))}")
    return _MARK.sub(_part, template)


def _part(mark: re.Match[str]) -> str:
    parts: dict[str, Callable[[list[Verb]], str]] = {
        "table": _table, "diagram": _diagram, "steps": _steps, "moves": _moves, "deaths": _deaths}
    names = (mark[2] or "").split()
    return parts[mark[1]]([VERBS[name] for name in names] if names else list(VERBS.values()))


def _rows(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [titles, ["---"] * len(titles), *rows])


def _names(values: Iterable[str | None]) -> str:
    return ", ".join(f"`{value}`" if value is not None else "idle" for value in values)


def _table(verbs: list[Verb]) -> str:
    failure = "Failure, when the host reports no state"
    return _rows(("Verb", "Request", "From", "While", "task_state", "Success", failure, "Begins at"), (
        (verb.name, f"`{verb.request}`", _names(verb.vm_states) or "any", _while(verb), _names(verb.working) or "none",
         f"`{verb.ends_in}`" if verb.ends_in else "as before", f"`{verb.fails_in}`" if verb.fails_in else "as before",
         _BEGINS[verb.begins]) for verb in verbs))


def _while(verb: Verb) -> str:
    if len(verb.task_states) > _MANY:
        return "idle, or its guest stays where it is"
    return _names(verb.task_states) or "any task_state"


def _diagram(verbs: list[Verb]) -> str:
    """The states from which each verb leads to which. Edges with the same ends are one."""
    edges: dict[tuple[str, str], list[str]] = {}
    for verb in verbs:
        for start in verb.vm_states or ("[*]",):
            edges.setdefault((start, verb.working[0]), []).append(verb.name)
        for first, then in zip(verb.working, verb.working[1:], strict=False):
            edges.setdefault((first, then), [])
        before = verb.vm_states[0] if len(verb.vm_states) == 1 else "[*]"
        edges.setdefault((verb.working[-1], verb.ends_in or "[*]"), []).append("success" if verb.ends_in else "as before")
        for state in verb.working if verb.ends_in else ():
            edges.setdefault((state, verb.fails_in or before), []).append("failure")
    nodes = {node for edge in edges for node in edge if "-" in node}
    lines = ["```mermaid", "stateDiagram-v2", *(f'    state "{node}" as {_id(node)}' for node in sorted(nodes))]
    for (first, then), labels in edges.items():
        label = f": {', '.join(dict.fromkeys(labels))}" if labels else ""
        lines.append(f"    {_id(first)} --> {_id(then)}{label}")
    return "\n".join([*lines, "```"])


def _id(node: str) -> str:
    return node.replace("-", "_")


def _steps(verbs: list[Verb]) -> str:
    return _rows(("Step", "Host", "Guest may run at", "status of the move", "Its host is dead", "os-resetState"), (
        (f"`{step.name}`", step.where.value, step.guest.value, f"`{step.status}`" if step.status else "as before",
         _partner(step), "goes on" if step.survives_reset else "dropped, unless a worker holds it")
        for verb in verbs for step in verb.steps))


def _partner(step: Step) -> str:
    if step.partner_goes_on_at is None:
        return "waited for"
    when = "waited for; given up: " if step.only_when_given_up else ""
    return f"{when}the other host goes on with `{step.partner_goes_on_at}`"


def _moves(verbs: list[Verb]) -> str:
    return _rows(("Verb", "migration_type", "status on the way", "Success", "Failure, when the host reports no status"), (
        (verb.name, f"`{move.type}`" if move.type else "that of the move", _names(move.statuses), f"`{move.succeeds_as}`",
         "`finished`: it can be asked for again" if verb.settles_move else f"`{move.fails_as}`")
        for verb in verbs if (move := verb.move) is not None))


def _deaths(verbs: list[Verb]) -> str:
    same: dict[tuple[str, ...], list[str]] = {}
    for verb in verbs:
        given_up = "given up after `max_attempts` workers" if verb.is_given_up else "never given up"
        same.setdefault((_GUEST[verb.guest], _death(verb), given_up, _reset(verb)), []).append(verb.name)
    return _rows(("Verbs", "Guest may run at", "The host is dead", "Worker after worker dies", "os-resetState"),
                 ((", ".join(names), *cells) for cells, names in same.items()))


def _death(verb: Verb) -> str:
    match verb.if_host_dies:
        case IfHostDies.WAIT:
            return "waited for; it follows an evacuated server to its new host" if verb.keeps_state else "waited for"
        case IfHostDies.PARTNER:
            return ("the source brings its guest back; in the last step the destination is waited for" if verb.is_cold_move
                    else "the other host goes on")
        case IfHostDies.ANOTHER:
            return "another host; where the guest may run at the dead one (`guest_at`), that is waited for"
        case IfHostDies.DONE:
            return _done(verb)
        case IfHostDies.STAY_SHELVED:
            return "shelved if it was shelved before, or where its guest may run; else `error`"
        case IfHostDies.FAIL_IF_BEGUN if verb.fails_in is not None:
            return f"not begun: as it was; begun: `{verb.fails_in}`"
        case _:
            return f"`{verb.fails_in}`" if verb.fails_in is not None else "as it was"


def _done(verb: Verb) -> str:
    if verb.settles_move:
        return "done; the host finds what it kept unwanted. After a revert has begun: waited for"
    if verb.is_delete:
        return "done by a conductor; the guest is removed when the host is back"
    return "done; the guest is turned off when the host is back"


def _reset(verb: Verb) -> str:
    if verb.survives_reset or verb.keeps_state or verb.is_delete:
        return "goes on"
    if verb.is_cold_move:
        return "goes on once the guest is taken away, or goes back"
    if verb.move is not None and verb.move.kind is MoveKind.EVACUATION:
        return "goes on once the guest may run at the destination"
    if verb.move is not None and verb.move.to_source:
        return "goes on at the source"
    return "goes on while a worker holds it, else it is dropped"


def main() -> None:
    """``document.py TEMPLATE`` prints the document."""
    sys.stdout.write(text(Path(sys.argv[1]).read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
