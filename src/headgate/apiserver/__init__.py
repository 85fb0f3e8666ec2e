"""A small Kubernetes: `ApiServer.handle(request, now)` answers as a real API server does. No I/O, none of our kinds.

A request goes through `server` → `authorization` → `registry` (RequestInfo) → `handlers`, which call the kind's
strategy (`kinds`, `apiextensions`: defaulting, then validation), `admission` and `storage`; `controllers` then
reconcile what was stored.

To change it (tests are in `tests/apiserver`; `tests/kubernetes/test_same_answers.py` compares with a real server):

* Add a kind: a ResourceType in `kinds.RESOURCE_TYPES`, plain or with a KindStrategy; its JSON types in
  `validation.types`, its fields in the file of `kubernetes_types`, its defaults in `defaulting`, its field selectors in
  `selectors.FIELDS`. See `test_rules_cluster`.
* Add a validation rule: where the kind is in `validation`, in a real server's words and order. See `test_rules_*`.
* Add an admission plugin: a class with `mutate` and `validate` in `admission.plugins`, at its place in `ADMISSION`. See
  `test_apiserver_order` and `test_rules_limits`.
* Change who owns a field or how values are merged: `managedfields`. See `test_apply`.
* Change what admission policies see or say: `admission.policies`. See `test_policies`.
* Change who may do what: `authorization`. See `test_rbac`.
* Add a CEL function: a row in `cel.functions`. See `test_cel_functions`.
* Add a cache: a policy in `caches`, with the benchmark that pays for it. See `test_caches`.
"""

from headgate.apiserver.admission import (
    ADMISSION,
    AdmissionPlugin,
    Allowed,
    Catalog,
    Denied,
    Handler,
    Operation,
    WebhookAdmission,
)
from headgate.apiserver.authorization import AuthorizationMode
from headgate.apiserver.field_errors import Complaint, FieldError
from headgate.apiserver.handlers.reading import Watch, WatchEvent
from headgate.apiserver.kinds import INITIAL_OBJECTS, RESOURCE_TYPES
from headgate.apiserver.messages import Json, Request, Response
from headgate.apiserver.server import ApiServer
from headgate.apiserver.status import ApiError
from headgate.apiserver.storage import Collection
from headgate.apiserver.strategy import ResourceType

__all__ = [
    "ADMISSION",
    "INITIAL_OBJECTS",
    "RESOURCE_TYPES",
    "AdmissionPlugin",
    "Allowed",
    "ApiError",
    "ApiServer",
    "AuthorizationMode",
    "Catalog",
    "Collection",
    "Complaint",
    "Denied",
    "FieldError",
    "Handler",
    "Json",
    "Operation",
    "Request",
    "ResourceType",
    "Response",
    "Watch",
    "WatchEvent",
    "WebhookAdmission",
]
