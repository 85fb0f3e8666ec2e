"""The small Kubernetes on the wire: HTTP requests in, answers and watches out.

`ApiFront` is a handler for `http_server`. Everything a client may ask is decided in `apiserver`; here are only the
forms of the wire: who asks, query, compression, and watches that go on until the client leaves or their time is over.
"""

from __future__ import annotations

import asyncio
import gzip
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import randbits, token_bytes
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct

from headgate.api.yaml_documents import InvalidYaml, read_yaml
from headgate.apiserver.admission import ADMISSION, WebhookAdmission
from headgate.apiserver.authorization import AuthorizationMode
from headgate.apiserver.handlers.decoding import APPLY
from headgate.apiserver.handlers.deletion import DeferredDeletion
from headgate.apiserver.handlers.reading import Watch, WatchEvent
from headgate.apiserver.messages import ANONYMOUS, ClientIdentity, Json, Request, Response, UserDetails, groups_of
from headgate.apiserver.printing import Render, rendering
from headgate.apiserver.server import PROBES, ApiServer
from headgate.apiserver.status import ApiError, bad_request, failure, timed_out, unauthorized
from headgate.apiserver.storage import Collection
from headgate.apiserver.webhook_calls import CallsNeeded, WebhookAnswers, WebhookCall
from headgate.live.api_credentials import Administrator, bearer_token, new_administrator, write_private
from headgate.live.certificates import ServerTls, serves
from headgate.live.data_dir import CannotSave, DataDir, GroupCommit, InvalidDataDir, opened
from headgate.live.http_server import CannotListen, HttpReply, HttpRequest, Listen, ServerLimits, http_server
from headgate.live.logs import FORMATS, Log, LogLevel
from headgate.live.service import first_of
from headgate.live.start import DONE, FAILED, NEW_LOOP, WRONG_INPUT, Tell, stop_signal
from headgate.live.webhook_client import WebhookClient

JSON = "application/json"
YAML = (APPLY, "application/yaml")
LIMITS = ServerLimits(
    connections=2048,
    per_peer=2048,
    head=64 * 1024,
    body=3 * 1024 * 1024,
    buffered=256 * 1024 * 1024,
    answer_seconds=60.0,
    idle_seconds=90.0,
    streams=1024,
)
COMPRESSED_FROM = 128 * 1024  # bytes, as on a real server
COMPRESSION = 1  # the fastest: the network is mostly our own machine
WATCH_SECONDS = 1800.0  # of a watch that says nothing else
BOOKMARK_SECONDS = 60.0
WEBHOOKS_SECONDS = 55.0  # for all webhooks of one request; less than `answer_seconds`
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 60.0  # of a deletion that a webhook is in the way of

LOOPBACK = ("127.0.0.1", "::1", "localhost")

ACT_AS, ACT_IN, ACT_WITH_UID, ACT_WITH = (f"impersonate-{part}" for part in ("user", "group", "uid", "extra-"))

Authenticate = Callable[[HttpRequest], ClientIdentity | None]
"""Whoever asks; None for somebody unknown."""


class ServedApi(Struct, frozen=True):
    """An API server that can be asked, and who may."""

    front: ApiFront
    url: str
    administrator: Administrator
    commits: GroupCommit | None = None

    async def keep(self) -> None:
        """Saves what is written, where it is to be, until cancelled. Raises CannotSave."""
        if self.commits is not None:
            await self.commits.run()
        else:
            await asyncio.Event().wait()


@asynccontextmanager
async def served(
    server: ApiServer,
    listen: Listen,
    limits: ServerLimits = LIMITS,
    *,
    now: Callable[[], float] = time.time,
    components: Sequence[str] = (),
    data: DataDir | None = None,
) -> AsyncIterator[ServedApi]:
    """Serves the API server over TLS while the block lasts, on a clock. With `data`, which it was made from, nothing is
    answered unless `keep` runs. Raises CannotListen and CannotSave.
    """
    hosts = list(dict.fromkeys((listen.host, *LOOPBACK)))
    administrator = new_administrator(hosts, components, time.time())
    if data is not None:
        administrator = data.administrator(
            administrator, lambda kept: serves(kept.certificates.server, hosts, time.time())
        )
    commits = GroupCommit(server, data) if data is not None else None
    shown = administrator.certificates.server
    tls = ServerTls(shown.authority)
    tls.show(shown)
    front = ApiFront(server, administrator.authenticate, now, commits)
    try:
        async with http_server(listen, front, limits, "--port", tls.context) as port:
            front.settle()
            host = f"[{listen.host}]" if ":" in listen.host else listen.host
            yield ServedApi(front, f"https://{host}:{port}", administrator, commits)
    finally:
        await front.close()
        if commits is not None:
            commits.close()


def start_apiserver(
    listen: Listen, kubeconfig: Path, data_dir: Path | None, mode: AuthorizationMode, tell: Tell
) -> int:
    """Serves an empty cluster, or the one in the data directory, until a signal; `tell` is told once when it can be
    asked. The exit code.
    """
    log = Log(sys.stderr, FORMATS["text"], LogLevel.INFO, time.time)
    try:
        with asyncio.Runner(loop_factory=NEW_LOOP) as runner:
            runner.run(_serve_api(listen, kubeconfig, data_dir, log, tell, mode=mode))
    except (CannotListen, CannotSave) as error:
        sys.stderr.write(f"Error: {error}\n")
        return FAILED
    except InvalidDataDir as error:
        sys.stderr.write(f"Error: {error}\n")
        return WRONG_INPUT
    except OSError as error:
        sys.stderr.write(f"Error: --kubeconfig: {kubeconfig} cannot be written: {error.strerror}\n")
        return WRONG_INPUT
    return DONE


async def _serve_api(
    listen: Listen, kubeconfig: Path, data_dir: Path | None, log: Log, tell: Tell, *, mode: AuthorizationMode
) -> None:
    stop = stop_signal(log)
    with opened(data_dir) as data:
        saved, key = data.load() if data is not None else None, token_bytes(32)
        server = ApiServer(
            randbits(64),
            admission=(*ADMISSION, WebhookAdmission({})),
            now=time.time(),
            saved=saved,
            tracks_fields=True,
            token_key=key,
            authorization=mode,
            calls_webhooks=True,
        )
        async with served(server, listen, data=data) as api:
            write_private(kubeconfig, api.administrator.kubeconfig(api.url, "headgate"))
            tell(f"export KUBECONFIG={kubeconfig}")
            await first_of(stop.wait(), api.keep())


class ApiFront:
    """Answers the requests to one API server and keeps its watches informed."""

    def __init__(
        self,
        server: ApiServer,
        authenticate: Authenticate,
        now: Callable[[], float],
        commits: GroupCommit | None = None,
    ) -> None:
        """With `commits` nothing is shown of what is not committed."""
        self._server, self._authenticate, self._now, self._commits = server, authenticate, now, commits
        if commits is not None:
            commits.inform = self.inform
        self._webhooks = WebhookClient()
        self._collecting: dict[tuple[Collection, str, str], asyncio.Task[None]] = {}
        self._waiting: dict[Collection, tuple[int, asyncio.Event]] = {}  # the version known to those who wait

    def __call__(self, request: HttpRequest) -> HttpReply | Awaitable[HttpReply]:
        if request.path in PROBES:
            return HttpReply(200, b"ok")
        who = self._authenticate(request) or self._account(request) or self._anonymous(request)
        if who is None:
            return _reply(request, Response(401, failure(unauthorized())))
        query = dict(parse_qsl(request.query, keep_blank_values=True)) if request.query else {}
        accept = request.headers.get("accept", "")
        try:
            who = self._acting(request, who)
        except ApiError as refusal:
            return _reply(request, Response(refusal.code, failure(refusal)))
        if request.method == "GET" and query.get("watch") in ("true", "1"):
            return self._watch(request, query, accept, who)
        kind = request.headers.get("content-type", JSON).partition(";")[0].strip()
        agent = request.headers.get("user-agent", "")
        try:
            body, kind = (request.body, kind) if kind not in YAML else _from_yaml(request.body, kind)
        except InvalidYaml as error:
            return _reply(request, Response(400, failure(bad_request(f"error decoding YAML: {error}"))))
        path = unquote(request.path)
        asked = Request(request.method, path, query, body, kind, who.user, accept, agent, who.groups, who.details)
        now, answers = self._now(), self._server.answers_for(asked)
        try:
            answer = self._server.handle(asked, now, answers)
        except CallsNeeded as needed:
            assert answers is not None, "webhooks are called only for those who wait for their answers"
            return self._after_webhooks(request, asked, now, answers, needed.calls)
        return self._replied(request, answer)

    def _replied(self, request: HttpRequest, answer: Response) -> HttpReply | Awaitable[HttpReply]:
        """The reply to a request that was carried out, once it may be told."""
        reply = _reply(request, answer)
        if request.method != "GET":
            self.settle()
        return reply if self._commits is None else self._committed(self._commits, reply)

    async def _committed(self, commits: GroupCommit, reply: HttpReply) -> HttpReply:
        await commits.committed()
        return reply

    async def _after_webhooks(
        self, request: HttpRequest, asked: Request, now: float, answers: WebhookAnswers, calls: Sequence[WebhookCall]
    ) -> HttpReply:
        """The reply to a request that meets webhooks: it is carried out, on what is stored by then, as soon as it has
        all answers it needs.
        """
        try:
            async with asyncio.timeout(WEBHOOKS_SECONDS):
                attempt = partial(self._server.handle, asked, now, answers)
                answer = await self._webhooks.carry_out(attempt, calls, answers)
        except TimeoutError:
            answer = Response(504, failure(timed_out()))
        reply = self._replied(request, answer)
        return reply if isinstance(reply, HttpReply) else await reply

    def settle(self) -> None:
        """Tells watches what has changed, and begins with deletions that controllers could not carry out."""
        if self._commits is None:
            self.inform()
        for deletion in self._server.take_deferred():
            info = deletion.info
            place = (info.served.collection, info.namespace, info.name)
            if place not in self._collecting:
                self._collecting[place] = asyncio.ensure_future(self._collect(deletion))

    async def _collect(self, deletion: DeferredDeletion) -> None:
        """Asks about a deletion by a controller until it is settled, ever less often."""
        rest, settled = FIRST_RETRY_SECONDS, False
        while not settled:
            answers, now = WebhookAnswers({}), self._now()
            carry_out = partial(self._server.collect, deletion, now, answers)
            settled = await self._webhooks.carry_out(carry_out, (), answers)
            self.settle()
            if not settled:
                await asyncio.sleep(rest)
                rest = min(2 * rest, LAST_RETRY_SECONDS)
        info = deletion.info
        del self._collecting[info.served.collection, info.namespace, info.name]

    async def close(self) -> None:
        """Leaves what controllers have yet to delete to the next server."""
        tasks = list(self._collecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._webhooks.close()

    def _account(self, request: HttpRequest) -> ClientIdentity | None:
        """The service account whose token the request has."""
        token = bearer_token(request)
        user = self._server.account_of(token, self._now()) if token else None
        return None if user is None else ClientIdentity(user, groups_of(user))

    def _anonymous(self, request: HttpRequest) -> ClientIdentity | None:
        """Nobody in particular, where rules say what such a one may do; a token that is wrong is refused."""
        if not self._server.decides_by_rules or bearer_token(request):
            return None
        return ClientIdentity(ANONYMOUS, groups_of(ANONYMOUS))

    def _acting(self, request: HttpRequest, who: ClientIdentity) -> ClientIdentity:
        """Whom the request is to be answered for: who asks, or whom they impersonate. Raises ApiError."""
        if "impersonate-" not in "\n".join(request.headers):  # as in most
            return who
        headers = request.headers
        extra = [
            (unquote(name.removeprefix(ACT_WITH)), tuple(values.split("\n")))
            for name, values in sorted(headers.items())
            if name.startswith(ACT_WITH)
        ]
        details = UserDetails(headers.get(ACT_WITH_UID, ""), tuple(extra))
        groups = [group for group in headers.get(ACT_IN, "").split("\n") if group]
        given = None if details == UserDetails() else details
        return self._server.impersonated(who, headers.get(ACT_AS, ""), groups, given)

    def inform(self) -> None:
        """Wakes the watches of what has changed. To be called after whatever else writes to the server."""
        for collection, (version, news) in list(self._waiting.items()):
            if collection.version != version:
                del self._waiting[collection]
                news.set()

    def _watch(self, request: HttpRequest, query: dict[str, str], accept: str, who: ClientIdentity) -> HttpReply:
        try:
            watch = self._server.watch(unquote(request.path), query, who.user, who.groups)
            render = rendering(watch.resource, accept, query)
            seconds = _seconds(query)
        except ApiError as refusal:
            return _reply(request, Response(refusal.code, failure(refusal)))
        return HttpReply(200, content_type=JSON, headers=_UNCACHED, stream=self._stream(watch, render, seconds))

    async def _stream(self, watch: Watch, render: Render | None, seconds: float) -> AsyncGenerator[bytes, None]:
        until = self._loop_time() + seconds
        encode = _lines if render is None else _RenderedLines(render, self._now)
        while True:
            try:
                events = watch.drain()
            except ApiError as lost:
                yield _line(b"ERROR", msgspec.json.encode(failure(lost)))
                return
            if events:
                if self._commits is not None:
                    await self._commits.committed()
                yield encode(events)
            left = until - self._loop_time()
            if left <= 0:
                return
            await self._news(watch.collection, min(left, BOOKMARK_SECONDS))

    async def _news(self, collection: Collection, seconds: float) -> None:
        """Returns when the collection has changed, or after that time."""
        _, news = self._waiting.setdefault(collection, (collection.version, asyncio.Event()))
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            return

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()


def _from_yaml(body: bytes, kind: str) -> tuple[bytes, str]:
    """The body as JSON, and what it is then; most clients send JSON as it is."""
    text = body if body.lstrip().startswith(b"{") else msgspec.json.encode(read_yaml(body))
    return text, kind if kind == APPLY else JSON


class _RenderedLines:
    """The lines of a watch in another form. Of tables only the first one names the columns."""

    def __init__(self, render: Render, now: Callable[[], float]) -> None:
        self._render, self._now, self._first = render, now, True

    def __call__(self, events: Iterable[WatchEvent]) -> bytes:
        return b"".join(_line(event.type.encode(), msgspec.json.encode(self._shown(event))) for event in events)

    def _shown(self, event: WatchEvent) -> Json:
        if event.type == "BOOKMARK":
            return event.value
        shown = self._render(event.value, self._now())
        if "columnDefinitions" not in shown:
            return shown
        first, self._first = self._first, False
        return shown if first else {**shown, "columnDefinitions": None}


_UNCACHED = (("Cache-Control", "no-cache, private"),)


def _line(kind: bytes, value: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind, value)


def _lines(events: Iterable[WatchEvent]) -> bytes:
    return b"".join(_line(event.type.encode(), event.raw) for event in events)


def _seconds(query: dict[str, str]) -> float:
    text = query.get("timeoutSeconds", "")
    return float(text) if text.isascii() and text.isdigit() and int(text) > 0 else WATCH_SECONDS


def _reply(request: HttpRequest, response: Response) -> HttpReply:
    body = response.body
    warnings = tuple(("Warning", f'299 - "{_quoted(text)}"') for text in response.warnings)
    headers = (*_UNCACHED, *warnings)
    if len(body) >= COMPRESSED_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, COMPRESSION)
        headers = (*headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    return HttpReply(response.code, body, response.content_type, headers)


def _quoted(text: str) -> str:
    """For a header: one line, in ASCII, with quotes escaped."""
    line = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return line.encode("ascii", "replace").decode()
