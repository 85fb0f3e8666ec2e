"""One look at a cluster, from command line flags to objects."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct, structs

from headgate.api.configuration import InvalidConfiguration, settings_from
from headgate.live.client import Client
from headgate.live.connection import Disconnected
from headgate.live.credentials import CredentialsUnavailable
from headgate.live.document import InvalidKubeconfig, load_yaml
from headgate.live.finding import find_access, find_namespace
from headgate.live.reading import Readings, Unreadable, read_all, read_one
from headgate.model.keys import Key, Kind
from headgate.model.settings import Settings

Further = Callable[[Readings], Iterable[Key]]
"""Single objects that are worth reading too, once the rest is known."""


class CannotLook(Exception):
    """The cluster could not be read; the text says why."""


class Where(Struct, frozen=True):
    """The cluster that flags name; empty ones leave it to the environment."""

    kubeconfig: str = ""
    context: str = ""


def namespace_of(where: Where) -> str:
    """The namespace meant where none is said. Raises CannotLook."""
    try:
        return find_namespace(where.kubeconfig, where.context, os.environ)
    except InvalidKubeconfig as error:
        raise CannotLook(str(error)) from error


def look(where: Where, kinds: Iterable[Kind], further: Further) -> Readings:
    """All objects of these kinds, and what is read further. Raises CannotLook."""
    try:
        return asyncio.run(_look(where, kinds, further))
    except (InvalidKubeconfig, Unreadable, CredentialsUnavailable) as error:
        raise CannotLook(str(error)) from error
    except Disconnected as error:
        server = find_access(where.kubeconfig, where.context, os.environ).cluster.url
        raise CannotLook(f"API server {server}: {error}") from error


def settings_in(config: Path | None, installed: Iterable[str]) -> Settings:
    """What the configuration file says, or the defaults. Raises CannotLook."""
    if config is None:
        return Settings()
    try:
        return settings_from(load_yaml(config), str(config), tuple(installed))
    except (InvalidKubeconfig, InvalidConfiguration) as error:
        raise CannotLook(str(error)) from error


async def _look(where: Where, kinds: Iterable[Kind], further: Further) -> Readings:
    access = find_access(where.kubeconfig, where.context, os.environ)
    client = Client(access, time.monotonic, time.time, asyncio.sleep)
    try:
        found = await read_all(kinds, client.perform)
        more = [await read_one(key, client.perform) for key in further(found)]
        return structs.replace(found, objects=(*found.objects, *(one for one in more if one is not None)))
    finally:
        client.close()
