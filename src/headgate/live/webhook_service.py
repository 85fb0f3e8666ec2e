"""Our webhooks as part of the process: listening, with a certificate that is kept fresh while they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from headgate.lifecycle.roles import role_hash
from headgate.live.certificates import InvalidCertificate, ServerTls, load_certificate
from headgate.live.client import Client
from headgate.live.health import Listen
from headgate.live.trust import Around, Trust
from headgate.live.webhooks import ReviewResponder, webhook_server
from headgate.model.admission import WebhookSettings
from headgate.model.quota_settings import QuotaSettings

REREAD_SECONDS = 60.0  # how often certificates in files are looked at, because somebody replaces them


class WebhookPlan(Struct, frozen=True):
    """Where to listen. Without a certificate of the user's (`chain` and `key`) one is kept in the `namespace`."""

    listen: Listen
    namespace: str
    chain: Path | None = None
    key: Path | None = None


@asynccontextmanager
async def webhooks_served(
    plan: WebhookPlan, client: Client, around: Around, quota: QuotaSettings
) -> AsyncIterator[int]:
    """While the block lasts; the port. Raises CannotListen and InvalidCertificate."""
    tls = ServerTls()
    if plan.chain is not None and plan.key is not None:
        tls.show(load_certificate(plan.chain, plan.key))
        keeping = _follow(plan.chain, plan.key, tls, around)
    else:
        keeping = Trust(client.perform, plan.namespace, tls, around).keep()
    keeper = asyncio.ensure_future(keeping)
    keeper.add_done_callback(lambda ended: _tell(ended, around))
    try:
        async with webhook_server(
            plan.listen, tls.context, ReviewResponder(client.perform, WebhookSettings(quota, role_hash))
        ) as port:
            yield port
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def _follow(chain: Path, key: Path, tls: ServerTls, around: Around) -> None:
    """Shows what the files hold, also when that changes."""
    while True:
        await around.sleep(REREAD_SECONDS)
        try:
            if tls.show(load_certificate(chain, key)):
                around.log.info("webhooks show the new certificate", file=chain)
        except InvalidCertificate as error:  # perhaps only one of them has been replaced yet
            around.log.warning(f"webhooks still show the old certificate: {error}")


def _tell(ended: asyncio.Future[None], around: Around) -> None:
    if not ended.cancelled() and (trouble := ended.exception()) is not None:
        around.log.error(f"the certificate of the webhooks is not looked after any more: {trouble!r}")
