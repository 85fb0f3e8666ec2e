"""Tables, as `kubectl get` shows them, and objects cut down to their metadata.

To add a kind: a row in PRINTERS, with its columns and a function that gives one object's cells. Custom resources bring
their columns along. `tests/kubernetes/test_same_tables.py` compares with a real server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from headgate.apiserver.jsonpath import InvalidJsonPath, compile_json_path
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import seconds_of
from headgate.apiserver.status import not_acceptable
from headgate.apiserver.strategy import PrinterColumn, ResourceType

NONE, UNKNOWN = "<none>", "<unknown>"
META = "meta.k8s.io/v1"
Cells = Callable[[Json, float], list[Any]]
Render = Callable[[Json, float], Json]
"""An object or a list in another form, at that time."""


class Printer(Struct, frozen=True):
    """The columns of a kind, and the cells of one object at a time."""

    columns: tuple[PrinterColumn, ...]
    cells: Cells


def rendering(resource: ResourceType, accept: str, query: Mapping[str, str]) -> Render | None:
    """How the client wants objects of this resource and lists of them; None: as they are.

    Raises ApiError where none of the forms it accepts is served.
    """
    for media in accept.split(",") if accept else ("*/*",):
        kind, *parameters = (part.strip() for part in media.split(";"))
        form = dict(part.partition("=")[::2] for part in parameters).get("as", "")
        if kind not in ("application/json", "application/*", "*/*"):
            continue
        if form == "Table":
            include = query.get("includeObject") or "Metadata"
            return lambda value, now: table(resource, value, now, include)
        if form in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return lambda value, _now: partial_metadata(value)
        if not form:
            return None
    raise not_acceptable()


def table(resource: ResourceType, value: Json, now: float, include: str) -> Json:
    """The object or list as a Table; `include` says what of each object comes with its row."""
    printer = _printer(resource)
    items = value["items"] if _is_list(value) else [value]
    kept = ("resourceVersion", "continue", "remainingItemCount")
    metadata = {name: value["metadata"][name] for name in kept if name in value.get("metadata", {})}
    return {
        "kind": "Table",
        "apiVersion": META,
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in printer.columns],
        "rows": [{"cells": _cells(printer, item, now), **_object(item, include)} for item in items],
    }


def _cells(printer: Printer, item: Json, now: float) -> list[Any]:
    """Objects of kinds that are stored as they come may have any shape; of such a one there is only the name."""
    try:
        return printer.cells(item, now)
    except (AttributeError, KeyError, TypeError, ValueError):
        return [_name(item), *(NONE for _ in printer.columns[1:])]


def partial_metadata(value: Json) -> Json:
    """The object or list with nothing but metadata."""
    if not _is_list(value):
        return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": value["metadata"]}
    items = [partial_metadata(item) for item in value["items"]]
    return {"kind": "PartialObjectMetadataList", "apiVersion": META, "metadata": value["metadata"], "items": items}


def _is_list(value: Json) -> bool:
    """Objects have names; a field called items may be theirs."""
    return "name" not in value["metadata"] and "items" in value


def human_duration(seconds: float) -> str:
    """A duration in at most two units, coarser the longer it is, as kubectl shows ages."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else "<invalid>"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 8 * 365 else f"{days // 365}y"


def _two(large: int, unit: str, small: int, part: str) -> str:
    return f"{large}{unit}{small}{part}" if small else f"{large}{unit}"


def _definition(column: PrinterColumn) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _object(item: Json, include: str) -> Json:
    if include == "None":
        return {}
    return {"object": item if include == "Object" else partial_metadata(item)}


def _printer(resource: ResourceType) -> Printer:
    if resource.columns:
        return _custom(resource.columns)
    return PRINTERS.get((resource.group, resource.plural), _PLAIN)


def _custom(columns: tuple[PrinterColumn, ...]) -> Printer:
    readers = [(column, _reader(column.path)) for column in columns]

    def cells(value: Json, now: float) -> list[Any]:
        return [_name(value), *(_custom_cell(column, read(value), now) for column, read in readers)]

    return Printer((NAME, *columns), cells)


def _reader(path: str) -> Callable[[Json], list[Any]]:
    try:
        return compile_json_path(path)
    except InvalidJsonPath:
        return lambda _value: []


def _custom_cell(column: PrinterColumn, found: list[Any], now: float) -> Any:
    """What is not of the column's type is left out, as a real server does."""
    first = found[0] if found else None
    match column.type:
        case "integer" if isinstance(first, int) and not isinstance(first, bool):
            return first
        case "number" if isinstance(first, int | float) and not isinstance(first, bool):
            return first
        case "boolean" if isinstance(first, bool):
            return first
        case "date" if isinstance(first, str):
            return _since(first, now)
        case "string" if first is not None:
            return _text(first)
    return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _name(value: Json) -> str:
    name: str = value["metadata"]["name"]
    return name


def _age(value: Json, now: float) -> str:
    return _since(value["metadata"].get("creationTimestamp"), now)


def _since(moment: object, now: float) -> str:
    at = _moment(moment)
    return UNKNOWN if at is None else human_duration(now - at)


def _spec(value: Json) -> Json:
    return value.get("spec") or {}


def _status(value: Json) -> Json:
    return value.get("status") or {}


def _condition(value: Json, wanted: str) -> Json:
    return next((each for each in _status(value).get("conditions") or () if each.get("type") == wanted), {})


def _pod(pod: Json, now: float) -> list[Any]:
    spec, status = _spec(pod), _status(pod)
    containers = spec.get("containers") or ()
    statuses = status.get("containerStatuses") or ()
    ready = sum(bool(each.get("ready")) and "running" in (each.get("state") or {}) for each in statuses)
    restarts = sum(each.get("restartCount") or 0 for each in statuses)
    gates = spec.get("readinessGates") or ()
    passed = sum(_condition(pod, each.get("conditionType", "")).get("status") == "True" for each in gates)
    return [
        _name(pod),
        f"{ready}/{len(containers)}",
        _pod_reason(pod, statuses),
        str(restarts),
        _age(pod, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def _pod_reason(pod: Json, statuses: Iterable[Json]) -> str:
    """Why a pod is as it is: of its containers if they know, otherwise its reason or its phase."""
    status, metadata = _status(pod), pod["metadata"]
    reason: str = status.get("reason") or status.get("phase") or ""
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    runs = False
    for each in reversed(list(statuses)):
        state = each.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended.get("reason"):
            reason = ended["reason"]
        elif ended:
            signal = ended.get("signal")
            reason = f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"
        runs = runs or (bool(each.get("ready")) and "running" in state)
    if reason == "Completed" and runs:
        reason = "Running" if _condition(pod, "Ready").get("status") == "True" else "NotReady"
    if metadata.get("deletionTimestamp") is None:
        return reason
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return reason if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _node(node: Json, now: float) -> list[Any]:
    ready = _condition(node, "Ready").get("status")
    state = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    if _spec(node).get("unschedulable"):
        state += ",SchedulingDisabled"
    info = _status(node).get("nodeInfo") or {}
    addresses = {each.get("type"): each.get("address") for each in _status(node).get("addresses") or ()}
    return [
        _name(node),
        state,
        _roles(node["metadata"].get("labels") or {}),
        _age(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(labels: Mapping[str, str]) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)} | {labels.get("kubernetes.io/role")}
    return ",".join(sorted(role for role in roles if role)) or NONE


_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""The first condition that is True decides; the empty one is the deletion."""


def _job(job: Json, now: float) -> list[Any]:
    spec, status = _spec(job), _status(job)
    held = {each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"}
    held |= {""} if job["metadata"].get("deletionTimestamp") is not None else set()
    state = next((shown for condition, shown in _JOB_STATES if condition in held), "Running")
    succeeded, completions = status.get("succeeded") or 0, spec.get("completions")
    parallelism = spec.get("parallelism") or 0
    if completions is not None:
        done = f"{succeeded}/{completions}"
    else:
        done = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    began, ended = _moment(status.get("startTime")), _moment(status.get("completionTime"))
    duration = "" if began is None else human_duration((now if ended is None else ended) - began)
    return [_name(job), state, done, duration, _age(job, now), *_template(spec), _selector(spec.get("selector"))]


def _moment(value: object) -> float | None:
    """Seconds since the epoch; of what is no time, nothing."""
    try:
        return seconds_of(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _template(spec: Json) -> tuple[str, str]:
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    names = ",".join(each.get("name", "") for each in containers)
    return names, ",".join(each.get("image", "") for each in containers)


def _selector(selector: Json | None) -> str:
    labels = (selector or {}).get("matchLabels") or {}
    return _pairs(labels)


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE


def _cron_job(one: Json, now: float) -> list[Any]:
    spec, status = _spec(one), _status(one)
    last = status.get("lastScheduleTime")
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    return [
        _name(one),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        bool(spec.get("suspend")),
        len(status.get("active") or ()),
        NONE if last is None else _since(last, now),
        _age(one, now),
        *_template(template),
        _selector(template.get("selector")),
    ]


def _event(event: Json, now: float) -> list[Any]:
    about = event.get("involvedObject") or event.get("regarding") or {}
    name = str(about.get("kind", "")).lower()
    series = event.get("series") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or series.get("lastObservedTime") or first
    source = event.get("source") or {}
    told = [source.get("component") or event.get("reportingComponent") or "", source.get("host") or ""]
    return [
        _since(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{name}/{about.get('name', '')}" if name else about.get("name", ""),
        about.get("fieldPath", ""),
        ", ".join(part for part in told if part),
        str(event.get("message") or event.get("note") or "").strip(),
        _since(first, now),
        event.get("count") or series.get("count") or 1,
        _name(event),
    ]


def _replicas(one: Json, now: float) -> list[Any]:
    spec, status = _spec(one), _status(one)
    counts = [spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [_name(one), *counts, _age(one, now), *_template(spec), _selector(spec.get("selector"))]


def _deployment(one: Json, now: float) -> list[Any]:
    spec, status = _spec(one), _status(one)
    return [
        _name(one),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(one, now),
        *_template(spec),
        _selector(spec.get("selector")),
    ]


def _stateful_set(one: Json, now: float) -> list[Any]:
    spec = _spec(one)
    ready = f"{_status(one).get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [_name(one), ready, _age(one, now), *_template(spec)]


def _service(one: Json, now: float) -> list[Any]:
    spec = _spec(one)
    ports = [f"{each.get('port')}/{each.get('protocol', 'TCP')}" for each in spec.get("ports") or ()]
    shown = [spec.get("type", "ClusterIP"), spec.get("clusterIP") or NONE, NONE, ",".join(ports) or NONE]
    return [_name(one), *shown, _age(one, now), _pairs(spec.get("selector") or {})]


def _budget(one: Json, now: float) -> list[Any]:
    spec = _spec(one)
    limits = [str(spec[name]) if name in spec else "N/A" for name in ("minAvailable", "maxUnavailable")]
    return [_name(one), *limits, _status(one).get("disruptionsAllowed", 0), _age(one, now)]


def _priority_class(one: Json, now: float) -> list[Any]:
    policy = one.get("preemptionPolicy", "")
    return [_name(one), one.get("value", 0), bool(one.get("globalDefault")), _age(one, now), policy]


def _role_binding(one: Json, now: float) -> list[Any]:
    reference, subjects = one.get("roleRef") or {}, one.get("subjects") or ()
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for each in subjects:
        place = f"{each.get('namespace', '')}/" if each["kind"] == "ServiceAccount" else ""
        named[each["kind"]].append(f"{place}{each['name']}")
    role = f"{reference.get('kind', '')}/{reference.get('name', '')}"
    return [_name(one), role, _age(one, now), *(", ".join(names) for names in named.values())]


def _policy(one: Json, now: float) -> list[Any]:
    kind = _spec(one).get("paramKind") or {}
    shown = f"{kind['apiVersion']}/{kind['kind']}" if kind else "<unset>"
    return [_name(one), len(_spec(one).get("validations") or ()), shown, _age(one, now)]


def _policy_binding(one: Json, now: float) -> list[Any]:
    spec = _spec(one)
    reference = spec.get("paramRef") or {}
    shown = "/".join(filter(None, (reference.get("namespace"), reference.get("name")))) or "<unset>"
    if reference.get("selector") is not None:
        given = sorted((reference["selector"].get("matchLabels") or {}).items())
        labels = "".join(f"{key}: {value}," for key, value in given)
        shown = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{}},"
        shown = f"&LabelSelector{{{shown}}}"
    return [_name(one), spec.get("policyName", ""), shown, _age(one, now)]


def _counted(field: str) -> Cells:
    return lambda one, now: [_name(one), len(one.get(field) or {}), _age(one, now)]


def _secret(one: Json, now: float) -> list[Any]:
    return [_name(one), one.get("type", ""), len(one.get("data") or {}), _age(one, now)]


def _config_map(one: Json, now: float) -> list[Any]:
    return [_name(one), len(one.get("data") or {}) + len(one.get("binaryData") or {}), _age(one, now)]


def _columns(
    *names: str, wide: tuple[str, ...] = (), types: Mapping[str, str] | None = None
) -> tuple[PrinterColumn, ...]:
    kinds = types or {}
    shown = [PrinterColumn(name, kinds.get(name, "string"), "") for name in names]
    return (NAME, *shown, *(PrinterColumn(name, "string", "", priority=1) for name in wide))


NAME = PrinterColumn("Name", "string", "", "name")
_WORK = ("Containers", "Images", "Selector")
_COUNTS = {"Desired": "integer", "Current": "integer", "Ready": "integer"}
_EVENT_COLUMNS = (
    *(PrinterColumn(name, "string", "") for name in ("Last Seen", "Type", "Reason", "Object")),
    *(PrinterColumn(name, "string", "", priority=1) for name in ("Subobject", "Source")),
    PrinterColumn("Message", "string", ""),
    *(PrinterColumn(name, "string", "", priority=1) for name in ("First Seen", "Count")),
    PrinterColumn("Name", "string", "", "name", priority=1),
)
_PLAIN = Printer(
    (NAME, PrinterColumn("Created At", "date", "")),
    lambda one, _now: [_name(one), one["metadata"].get("creationTimestamp")],
)
_AGED = Printer(_columns("Age"), lambda one, now: [_name(one), _age(one, now)])
_BINDINGS = Printer(_columns("Role", "Age", wide=("Users", "Groups", "ServiceAccounts")), _role_binding)
_POLICIES = Printer(_columns("Validations", "ParamKind", "Age", types={"Validations": "integer"}), _policy)
_POLICY_BINDINGS = Printer(_columns("PolicyName", "ParamRef", "Age"), _policy_binding)
_WEBHOOKS = Printer(_columns("Webhooks", "Age", types={"Webhooks": "integer"}), _counted("webhooks"))
_REPLICAS = Printer(_columns("Desired", "Current", "Ready", "Age", wide=_WORK, types=_COUNTS), _replicas)
_EVENTS = Printer(_EVENT_COLUMNS, _event)

PRINTERS: Mapping[tuple[str, str], Printer] = {
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): _POLICIES,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): _POLICY_BINDINGS,
    ("rbac.authorization.k8s.io", "rolebindings"): _BINDINGS,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDINGS,
    ("", "pods"): Printer(
        _columns(*("Ready", "Status", "Restarts", "Age"), wide=("IP", "Node", "Nominated Node", "Readiness Gates")),
        _pod,
    ),
    ("", "nodes"): Printer(
        _columns(
            *("Status", "Roles", "Age", "Version"),
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    ("", "namespaces"): Printer(
        _columns("Status", "Age"), lambda one, now: [_name(one), _status(one).get("phase", ""), _age(one, now)]
    ),
    ("batch", "jobs"): Printer(_columns("Status", "Completions", "Duration", "Age", wide=_WORK), _job),
    ("batch", "cronjobs"): Printer(
        _columns(
            *("Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age"),
            wide=_WORK,
            types={"Suspend": "boolean", "Active": "integer"},
        ),
        _cron_job,
    ),
    ("", "events"): _EVENTS,
    ("events.k8s.io", "events"): _EVENTS,
    ("apps", "deployments"): Printer(_columns("Ready", "Up-to-date", "Available", "Age", wide=_WORK), _deployment),
    ("apps", "replicasets"): _REPLICAS,
    ("", "replicationcontrollers"): _REPLICAS,
    ("apps", "statefulsets"): Printer(_columns("Ready", "Age", wide=("Containers", "Images")), _stateful_set),
    ("", "services"): Printer(
        _columns("Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)), _service
    ),
    ("policy", "poddisruptionbudgets"): Printer(
        _columns(
            *("Min Available", "Max Unavailable", "Allowed Disruptions", "Age"),
            types={"Allowed Disruptions": "integer"},
        ),
        _budget,
    ),
    ("scheduling.k8s.io", "priorityclasses"): Printer(
        _columns(
            *("Value", "Global-Default", "Age", "PreemptionPolicy"),
            types={"Value": "integer", "Global-Default": "boolean"},
        ),
        _priority_class,
    ),
    ("", "configmaps"): Printer(_columns("Data", "Age"), _config_map),
    ("", "secrets"): Printer(_columns("Type", "Data", "Age"), _secret),
    ("", "serviceaccounts"): _AGED,
    ("coordination.k8s.io", "leases"): Printer(
        _columns("Holder", "Age"),
        lambda one, now: [_name(one), _spec(one).get("holderIdentity") or "", _age(one, now)],
    ),
    ("node.k8s.io", "runtimeclasses"): Printer(
        _columns("Handler", "Age"), lambda one, now: [_name(one), one.get("handler", ""), _age(one, now)]
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WEBHOOKS,
}
"""The kinds with columns of their own; the others show name and creation."""
