"""Flavors, their extra specs and the projects that may use the private ones.

``project_id`` of a reader: the flavors that this project may see, that is the public ones and those it was given access to;
None: all of them.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from nova_lite import exception, units
from nova_lite.db import models, paging
from nova_lite.objects.flavor import Flavor

T = models.flavors
ACCESS = models.flavor_projects


def _record(row: sa.Row) -> Flavor:
    return Flavor.from_primitive(dict(row._mapping))


def _visible(project_id: str) -> sa.ColumnElement[bool]:
    given = sa.exists().where(ACCESS.c.flavor_id == T.c.id, ACCESS.c.project_id == project_id)
    return sa.or_(T.c.is_public.is_(True), given)


def list_all(conn: sa.Connection) -> list[Flavor]:
    """Every flavor, by its public id."""
    return [_record(row) for row in conn.execute(sa.select(T).order_by(T.c.flavorid))]


def list_page(conn: sa.Connection, project_id: str | None = None, is_public: bool | None = None,
              disabled: bool | None = None, min_ram: int | None = None, min_disk: int | None = None,
              name: str | None = None, sort_key: str = "flavorid", sort_dir: str = "asc", limit: int | None = None,
              marker: str | None = None) -> list[Flavor]:
    """Flavors that pass all filters. ``is_public`` True includes the private ones that ``project_id`` may use.

    ``name`` is a part of the name. Raises MarkerNotFound when ``marker``, a public id, is no flavor.
    """
    query = sa.select(T)
    if is_public is True:
        query = query.where(_visible(project_id) if project_id is not None else T.c.is_public.is_(True))
    elif is_public is False:
        query = query.where(T.c.is_public.is_(False))
    if disabled is not None:
        query = query.where(T.c.disabled.is_(disabled))
    if min_ram is not None:
        query = query.where(T.c.memory_mb >= min_ram)
    if min_disk is not None:
        query = query.where(T.c.root_gb >= min_disk)
    if name is not None:
        query = query.where(T.c.name.contains(name, autoescape=True))
    keys = [(T.c[sort_key], sort_dir)] + ([] if sort_key == "id" else [(T.c.id, sort_dir)])
    after = None
    if marker is not None:
        row = conn.execute(sa.select(*[column for column, _ in keys]).where(T.c.flavorid == marker)).first()
        if row is None:
            raise exception.MarkerNotFound(marker=marker)
        after = list(row)
    return [_record(row) for row in conn.execute(paging.page(query, keys, conn.dialect.name, limit, after))]


def get(conn: sa.Connection, flavorid: str, project_id: str | None = None) -> Flavor:
    """One flavor by its public id; raises FlavorNotFound, also for a private one that the project may not use."""
    query = sa.select(T).where(T.c.flavorid == flavorid)
    if project_id is not None:
        query = query.where(_visible(project_id))
    row = conn.execute(query).first()
    if row is None:
        raise exception.FlavorNotFound(flavor_id=flavorid)
    return _record(row)


def create(conn: sa.Connection, values: Mapping[str, Any]) -> Flavor:
    """A new flavor; raises FlavorIdExists or FlavorExists."""
    taken = sa.select(T.c.flavorid).where(sa.or_(T.c.flavorid == values["flavorid"], T.c.name == values["name"]))
    try:
        with conn.begin_nested():
            conn.execute(sa.insert(T).values(**{"created_at": units.utcnow(), "extra_specs": {}, **values}))
    except exc.IntegrityError:
        if values["flavorid"] in conn.scalars(taken).all():
            raise exception.FlavorIdExists(flavor_id=values["flavorid"]) from None
        raise exception.FlavorExists(name=values["name"]) from None
    return get(conn, values["flavorid"])


def update(conn: sa.Connection, flavorid: str, values: Mapping[str, Any]) -> Flavor:
    """Change a flavor; servers keep the snapshot that they were built with."""
    changed = conn.execute(sa.update(T).where(T.c.flavorid == flavorid).values(**{"updated_at": units.utcnow(), **values}))
    if not changed.rowcount:
        raise exception.FlavorNotFound(flavor_id=flavorid)
    return get(conn, flavorid)


def delete(conn: sa.Connection, flavorid: str) -> None:
    """Remove a flavor with its access list."""
    flavor = get(conn, flavorid)
    conn.execute(sa.delete(ACCESS).where(ACCESS.c.flavor_id == flavor.id))
    conn.execute(sa.delete(T).where(T.c.id == flavor.id))


def _locked(conn: sa.Connection, flavorid: str) -> Flavor:
    row = conn.execute(sa.select(T).where(T.c.flavorid == flavorid).with_for_update()).first()
    if row is None:
        raise exception.FlavorNotFound(flavor_id=flavorid)
    return _record(row)


def set_extra_specs(conn: sa.Connection, flavorid: str, specs: Mapping[str, str]) -> dict[str, str]:
    """Add or replace extra specs; gives all of them."""
    specs = {**_locked(conn, flavorid).extra_specs, **specs}
    return update(conn, flavorid, {"extra_specs": specs}).extra_specs


def delete_extra_spec(conn: sa.Connection, flavorid: str, key: str) -> None:
    """Remove one extra spec; raises FlavorExtraSpecNotFound."""
    specs = dict(_locked(conn, flavorid).extra_specs)
    if specs.pop(key, None) is None:
        raise exception.FlavorExtraSpecNotFound(flavor_id=flavorid, key=key)
    update(conn, flavorid, {"extra_specs": specs})


def projects(conn: sa.Connection, flavor: Flavor) -> Sequence[str]:
    """The projects with access to a private flavor."""
    query = sa.select(ACCESS.c.project_id).where(ACCESS.c.flavor_id == flavor.id).order_by(ACCESS.c.project_id)
    return conn.scalars(query).all()


def add_project(conn: sa.Connection, flavor: Flavor, project_id: str) -> None:
    """Give a project access; raises FlavorAccessExists."""
    try:
        with conn.begin_nested():
            conn.execute(sa.insert(ACCESS).values(flavor_id=flavor.id, project_id=project_id))
    except exc.IntegrityError:
        raise exception.FlavorAccessExists(flavor_id=flavor.flavorid, project_id=project_id) from None


def remove_project(conn: sa.Connection, flavor: Flavor, project_id: str) -> None:
    """Take a project's access; raises FlavorAccessNotFound."""
    gone = conn.execute(sa.delete(ACCESS).where(ACCESS.c.flavor_id == flavor.id, ACCESS.c.project_id == project_id))
    if not gone.rowcount:
        raise exception.FlavorAccessNotFound(flavor_id=flavor.flavorid, project_id=project_id)
