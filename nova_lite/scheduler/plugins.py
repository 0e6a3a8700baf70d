"""Filters and weighers, found by their entry points."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oslo_config import cfg
from stevedore import named

from nova_lite import exception
from nova_lite.scheduler.select import NamedFilter, WeightedWeigher

FILTERS = "nova_lite.scheduler.filters"
WEIGHERS = "nova_lite.scheduler.weights"


def load_filters(conf: cfg.ConfigOpts) -> list[NamedFilter]:
    """[scheduler] enabled_filters, in their order; raises ConfigError when one is unknown or cannot be imported."""
    return list(_load(conf, FILTERS, conf.scheduler.enabled_filters, "enabled_filters"))


def load_weighers(conf: cfg.ConfigOpts) -> list[WeightedWeigher]:
    """[scheduler] weight_multipliers, but those of 0; raises ConfigError as above, or when a multiplier is no number."""
    factors = {}
    for name, text in conf.scheduler.weight_multipliers.items():
        try:
            factors[name] = float(text)
        except ValueError:
            raise exception.ConfigError(reason=f"[scheduler] weight_multipliers: {name}:{text} is no number") from None
    names = [name for name, factor in factors.items() if factor]
    return [(weigher, factors[name]) for name, weigher in _load(conf, WEIGHERS, names, "weight_multipliers")]


def _load(conf: cfg.ConfigOpts, namespace: str, names: Sequence[str], option: str) -> list[tuple[str, Any]]:
    def missing(unknown: Iterable[str]) -> None:
        raise exception.ConfigError(reason=f"[scheduler] {option}: there is no {', '.join(sorted(unknown))}")

    def broken(_manager: object, entry_point: Any, error: BaseException) -> None:
        raise exception.ConfigError(reason=f"[scheduler] {option}: {entry_point.name} cannot be loaded: {error}") from error

    if not names:
        return []
    found: named.NamedExtensionManager[Any] = named.NamedExtensionManager(
        namespace, list(names), invoke_on_load=True, invoke_args=(conf,), name_order=True,
        on_missing_entrypoints_callback=missing, on_load_failure_callback=broken)
    return [(extension.name, extension.obj) for extension in found]
