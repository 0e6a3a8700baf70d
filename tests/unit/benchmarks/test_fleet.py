"""The arithmetic of the fleet benchmark."""
from __future__ import annotations

import importlib.util

import pytest

from benchmarks.fleet import __main__ as fleet
from benchmarks.fleet import figures, steady
from benchmarks.fleet.meter import Window


def _rates(**values):
    return dict.fromkeys((*figures.CPU, *figures.SHOWN), 0.0) | values


def test_a_parabola_is_found_again():
    assert figures.fit([100, 200, 300, 400], [5 + 2 * h + 0.01 * h * h for h in (100, 200, 300, 400)]) == pytest.approx(
        [5, 2, 0.01])


def test_two_sizes_give_a_line_and_one_a_constant():
    assert figures.fit([100, 300], [7, 11]) == pytest.approx([5, 0.02, 0])
    assert figures.fit([100], [7]) == pytest.approx([7, 0, 0])


def test_the_extrapolation_tells_a_line_from_a_parabola():
    results = [{"hosts": h, "real_rates": _rates(statements=10 + h, rows_read=h * h / 1000)} for h in (100, 200, 300)]
    found = figures.extrapolate(results, 10_000)
    assert found["statements"]["line"] == pytest.approx(10_010)
    assert found["statements"]["bend"] == pytest.approx(0, abs=1e-9)
    assert found["rows_read"]["bend"] == pytest.approx(1)


def test_an_event_does_not_pay_for_what_goes_on_beside_it():
    window = Window(seconds=10, bus_seconds=12, used={"statements": 70.0, "messages": 44.0})
    assert window.rates() == pytest.approx({"statements": 7.0, "messages": 44 / 12})
    assert window.per_event(10, {"statements": 2.0, "messages": 2.0}) == pytest.approx({"statements": 5.0, "messages": 2.0})


def test_rates_at_real_intervals_are_those_of_all_parts():
    events = {"heartbeat": _rates(statements=2.0), "heartbeat with inventory": _rates(statements=32.0),
              "look": _rates(statements=6.0), "heartbeat at the real pace": _rates(statements=3.0),
              "heartbeat of a daemon, dilated": _rates(statements=30.0, cpu_computes=8.0)}
    rates = steady.real_rates(_rates(statements=5.0), events, 600)
    assert rates["statements"] == pytest.approx(5 + 60 * (3 + 1) + 10 * 6)
    assert rates["cpu_computes"] == pytest.approx(60 * 8)


def test_the_tables_have_a_column_for_each_size():
    sizes = [{"hosts": h, "up_s": 1.0, "oldest_report_s": 9.5, "connections": 2 * h, "queues": {"compute": h},
              "memory_mib": {"broker": 100.0 + h}, "real_rates": _rates(statements=0.5 * h),
              "events": {"look": _rates(statements=1.0)}, "builds": {"requests of 1": {"a second": 16.0}}} for h in (10, 20)]
    plan = {"wire": "shared", "database": "mariadb", "dilation": 10, "conductors": 1, "schedulers": 1, "api_workers": 1,
            "servers": 0}
    told = figures.report({"plan": plan, "sizes": sizes, "problems": ["a host was late"]})
    assert "|  | 10 hosts | 20 hosts | each host |" in told
    assert "| connections | 20 | 40 | 2 |" in told
    assert "| statements | 5 | 10 |" in told
    assert "| requests of 1: a second | 16 | 16 |" in told
    assert "Extrapolation to 10,000 hosts" in told
    assert told.endswith("a host was late")


def test_a_plot_without_matplotlib_is_refused_before_the_run(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        fleet.parse(["--plot", "fleet.png"])
    assert "--plot needs matplotlib" in capsys.readouterr().err
