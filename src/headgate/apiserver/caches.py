"""Every cache of the small Kubernetes: what it is keyed by, why it is sound, how it is bounded, what pays for it.

Stored values are never changed in place and revisions share what they keep, so a result can be cached by the identity
of a value. Such an entry holds the value it is keyed by: while the entry exists, no other value can have that identity.
All other keys are compared by value.

No cache exists outside of the policies here (`tests/apiserver/test_caches.py`). `pays` is how long the benchmark takes
without the cache, as a multiple of how long it takes with it; a cache that no benchmark pays for is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])


class CachePolicy(Struct, frozen=True):
    """One cache. `limit` is the number of entries; `dropped` says when they go before that."""

    limit: int
    key: str
    sound: str
    dropped: str
    pays: str


class Cache(dict[K, V]):
    """Entries by key, at least `limit` and at most twice as many; the oldest half is evicted at once."""

    __slots__ = ("_limit",)

    def __init__(self, policy: CachePolicy) -> None:
        super().__init__()
        self._limit = policy.limit

    def put(self, key: K, value: V) -> None:
        if len(self) >= 2 * self._limit:
            for oldest in list(islice(self, self._limit)):
                del self[oldest]
        self.pop(key, None)  # it is the newest now
        self[key] = value


def memoized(policy: CachePolicy) -> Callable[[F], F]:
    """Caches a pure function's results by its arguments; the least recently used entry is evicted."""
    return lru_cache(maxsize=policy.limit)  # type: ignore[return-value]


_PURE = "never, as it depends on no server"

REQUEST_PATHS = CachePolicy(
    limit=20_000,
    key="the request path",
    sound="a path resolves to the same resource until another is served",
    dropped="whenever a resource is defined or withdrawn",
    pays="bench_queues: 1.1",
)
APPLICABLE_PLUGINS = CachePolicy(
    limit=4_096,
    key="resource, verb, subresource, user, and the user's groups and details",
    sound="which plugins, policies and webhooks apply depends on these and on the configurations of both only",
    dropped="whenever a webhook configuration, a policy or a binding of one changes",
    pays="bench_queues: 5.2; bench_apiserver: 2.0 to 5.1",
)
LISTED_OBJECTS = CachePolicy(
    limit=256,
    key="a resource that admission plugins list",
    sound="the list is made anew when the version of the collection has changed",
    dropped="never: one list per resource",
    pays="bench_apiserver: 1.09 (pod create)",
)
DECODED_FIELDS = CachePolicy(
    limit=8_192,
    key="the bytes of a custom resource's spec, status or head",
    sound="decoding is pure and values are never changed in place; equal fields become identical",
    dropped=_PURE,
    pays="bench_queues: 2.1; bench_apiserver: 1.9 (create)",
)
MERGED_FIELDS = CachePolicy(
    limit=20_000,
    key="the identities of a field and of its merge patch, which the entry holds",
    sound="a merge patch is a pure function of both",
    dropped=_PURE,
    pays="bench_queues: 1.6",
)
MERGE_RESULTS = CachePolicy(
    limit=20_000,
    key="the names and identities of a merged object's fields, which the entry holds",
    sound="objects with identical fields in the same order are equal; they become identical",
    dropped=_PURE,
    pays="bench_queues: 1.1",
)
COMPILED_SCHEMAS = CachePolicy(
    limit=64,
    key="the encoded OpenAPI schema",
    sound="compilation is pure; a schema caches what it finds out of values, which depends on no server either",
    dropped=_PURE,
    pays="bench_apiserver: 11 (a further server with the same definitions)",
)
CHECKED_SCHEMAS = CachePolicy(
    limit=64,
    key="where an OpenAPI schema stands, and the encoded schema",
    sound="whether a schema is structural depends on the schema only",
    dropped=_PURE,
    pays="bench_apiserver: 2.0 (a further server with the same definitions)",
)
SCHEMA_FIELDS = CachePolicy(
    limit=20_000,
    key="the identity of a top-level field's value, which the entry holds",
    sound="what a schema completes a value to, and whether it is valid, depends on the value only",
    dropped="with the schema",
    pays="bench_queues: 2.4; bench_apiserver: 1.2 to 2.0",
)
STATUS_CHANGES = CachePolicy(
    limit=20_000,
    key="the identities of an object's spec, old status and new status, which the entry holds",
    sound="where rules read nothing else, these decide whether the new status is complete, valid and accepted",
    dropped="with the schema",
    pays="bench_queues: 1.02",
)
VALID_STRINGS = CachePolicy(
    limit=1_024,
    key="a string",
    sound="whether it has a format or matches a pattern depends on it only",
    dropped="with the schema",
    pays="bench_queues: 1.1",
)
SATISFIED_RULES = CachePolicy(
    limit=20_000,
    key="everything the CEL rules of a schema read of an object and of its old state, encoded",
    sound="the result of a rule depends on what it reads only; violations are never cached",
    dropped="with the schema",
    pays="bench_queues: 1.6",
)
REDUCED_FIELDS = CachePolicy(
    limit=20_000,
    key="the identity of a top-level field's value, which the entry holds",
    sound="what CEL rules read of a value depends on the value only",
    dropped="with the schema",
    pays="bench_queues: 1.1",
)
CEL_PROGRAMS = CachePolicy(
    limit=1_024,
    key="the text of an expression, and its variables or its use of oldSelf",
    sound="compilation is pure",
    dropped=_PURE,
    pays="bench_apiserver: 2.9 (a further server with the same definitions)",
)
QUANTITIES = CachePolicy(
    limit=4_096,
    key="the text of a quantity",
    sound="its amount and its canonical form depend on the text only",
    dropped=_PURE,
    pays="bench_apiserver: 1.05 (pod create)",
)
NAMES = CachePolicy(
    limit=4_096,
    key="a name, label key or label value",
    sound="whether it is well formed depends on it only",
    dropped=_PURE,
    pays="bench_apiserver: 1.15 (pod create)",
)
TYPE_FIELDS = CachePolicy(
    limit=4_096,
    key="the name of a built-in type",
    sound="the table of types never changes",
    dropped=_PURE,
    pays="bench_apiserver: 1.1 (pod create, with managers of fields)",
)
FIELD_SHAPES = CachePolicy(
    limit=1_024,
    key="the name of a built-in type, or a served resource",
    sound="how values are merged depends on the type or on the schema only; redefining a resource makes a new one",
    dropped="with the server",
    pays="bench_apiserver: 1.9 (all writes, with managers of fields)",
)
TIMESTAMPS = CachePolicy(
    limit=64,
    key="a second",
    sound="RFC 3339 is a pure function of it",
    dropped=_PURE,
    pays="bench_apiserver: 1.4 (bind)",
)
