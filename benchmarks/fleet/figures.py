"""What follows from the figures: the fit over the sizes, the extrapolation, tables and the plot."""
from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

TARGET = 10_000
CPU = ("cpu_conductor", "cpu_scheduler", "cpu_api", "cpu_broker", "cpu_database")
CONTROL = "cpu_control_plane"
PLOTTED = (CONTROL, "cpu_broker", "cpu_conductor", "statements", "rows_read", "messages")
SHOWN = (CONTROL, *CPU, "cpu_computes", "statements", "commits", "rows_read", "rows_written", "messages", "bytes_in",
         "bytes_out")


def with_sum(values: Mapping[str, float]) -> dict[str, float]:
    """With the CPU of all that is no compute host."""
    return {**values, CONTROL: sum(values.get(name, 0.0) for name in CPU)}


def fit(sizes: Sequence[float], values: Sequence[float], degree: int = 2) -> list[float]:
    """a, b, c of a + b H + c H^2 by least squares; as many of them as there are sizes, the others 0."""
    used = min(degree, len(sizes) - 1)
    found = np.polynomial.polynomial.polyfit(sizes, values, used)
    return [float(part) for part in found] + [0.0] * (degree - used)


def extrapolate(results: Sequence[Mapping[str, Any]], target: int = TARGET) -> dict[str, dict[str, float]]:
    """Rates at ``target`` hosts and real intervals, by a straight line; a parabola would multiply the noise. ``a``, ``b`` and
    ``c`` are the parabola's. ``bend`` is the part of c H^2 in the rate of the largest size: about 0 unless something grows
    faster than the fleet."""
    sizes = [result["hosts"] for result in results]
    found = {}
    for name in SHOWN:
        values = [with_sum(result["real_rates"])[name] for result in results]
        a, b, c = fit(sizes, values)
        line = fit(sizes, values, 1)
        found[name] = {"a": a, "b": b, "c": c, "bend": c * max(sizes) ** 2 / values[-1] if values[-1] else 0.0,
                       "line": line[0] + line[1] * target}
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Markdown; numbers with three digits that say something."""
    lines = [list(head), ["---", *["---:"] * (len(head) - 1)], *([_told(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _told(cell: object) -> str:
    if isinstance(cell, int) or not isinstance(cell, float):
        return str(cell)
    if abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.3g}"


def report(run: Mapping[str, Any]) -> str:
    """All tables of a run."""
    results = run["sizes"]
    heads = [f"{result['hosts']} hosts" for result in results]
    plan = run["plan"]
    parts = [f"Wire: {plan['wire']}; database: {plan['database']}; dilation: {plan['dilation']} (a heartbeat each "
             f"{10 * plan['dilation']} s); {plan['conductors']} conductor, {plan['schedulers']} scheduler, "
             f"{plan['api_workers']} API workers; {plan['servers']} servers a host from a script.",
             "Held", _held(heads, results)]
    if all("real_rates" in result for result in results):
        how = "measured" if plan["dilation"] == 1 else "composed of single events"
        parts += [f"A second at real intervals ({how}); CPU in ms", _rates(heads, results), _extrapolated(results)]
    for name in dict.fromkeys(name for result in results for name in result.get("events", {})):
        parts += [f"Each {name}; CPU in ms", table(["", *heads], [
            [shown, *(with_sum(result["events"].get(name, {})).get(shown, "") for result in results)] for shown in SHOWN])]
    for name, title in (("builds", "Builds"), ("requests", "Requests"), ("storms", "Storms")):
        if any(name in result for result in results):
            parts += [title, _nested(heads, [result.get(name, {}) for result in results])]
    return "\n\n".join([*parts, *run["problems"]])


def _held(heads: Sequence[str], results: Sequence[Mapping[str, Any]]) -> str:
    rows: list[list[object]] = [["all up after, s", *(result["up_s"] for result in results)],
                                ["oldest report, s", *(result["oldest_report_s"] for result in results)],
                                ["connections", *(result["connections"] for result in results)]]
    if all("paced" in result for result in results):
        rows.append(["heartbeats a second at the real pace", *(result["paced"] for result in results)])
    for part, name in (("queues", "queues"), ("memory_mib", "MiB")):
        for kind in results[-1][part]:
            rows.append([f"{name}: {kind}", *(result[part].get(kind, 0) for result in results)])
    if len(results) > 1:
        sizes = [result["hosts"] for result in results]
        heads = [*heads, "each host"]
        for row in rows:
            row.append(round(fit(sizes, [float(str(cell)) for cell in row[1:]], 1)[1], 3))
    return table(["", *heads], rows)


def _rates(heads: Sequence[str], results: Sequence[Mapping[str, Any]]) -> str:
    rates = [with_sum(result["real_rates"]) for result in results]
    return table(["", *heads], [[name, *(rate[name] for rate in rates)] for name in SHOWN])


def _extrapolated(results: Sequence[Mapping[str, Any]]) -> str:
    if len(results) < 2:
        return "One size: no fit."
    title = f"Extrapolation to {TARGET:,} hosts at real intervals (nobody measured this), a second"
    return title + "\n\n" + table(["", "a", "b", "c", "c H^2 at the largest size", "by a line"], [
        [name, values["a"], values["b"], values["c"], f"{values['bend']:.0%}", values["line"]]
        for name, values in extrapolate(results).items()])


def _nested(heads: Sequence[str], found: Sequence[Mapping[str, Mapping[str, float]]]) -> str:
    rows = []
    for name in dict.fromkeys(name for one in found for name in one):
        for figure in dict.fromkeys(figure for one in found for figure in one.get(name, {})):
            rows.append([f"{name}: {figure}", *(one.get(name, {}).get(figure, "") for one in found)])
    return table(["", *heads], rows)


def plot(run: Mapping[str, Any], path: pathlib.Path) -> None:
    """The rates over the sizes, as measured and as fitted."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    results = run["sizes"]
    sizes = [result["hosts"] for result in results]
    figure, axes = pyplot.subplots(2, 3, figsize=(12, 7), layout="constrained")
    line = np.linspace(0, max(sizes), 50)
    for axis, name in zip(axes.flat, PLOTTED, strict=True):
        values = [with_sum(result["real_rates"])[name] for result in results]
        axis.plot(sizes, values, "o")
        axis.plot(line, np.polynomial.polynomial.polyval(line, fit(sizes, values)), "-")
        axis.set(title=f"{name}{' (ms)' if name.startswith('cpu') else ''} a second", xlabel="hosts", ylim=(0, None))
    figure.suptitle(f"Idle at real intervals; wire: {run['plan']['wire']}, dilation: {run['plan']['dilation']}")
    figure.savefig(path)
