"""Exchanges about our Workloads, and about a made-up kind whose rules fail in every way a rule can."""

from __future__ import annotations

from typing import Any

from exchanges import Manifest, Step, create, get, merge

WORKLOADS = "/apis/scheduling.headgate.dev/v1alpha1/namespaces/NS/workloads"
THE_WORKLOAD = f"{WORKLOADS}/it"
THINGS = "/apis/headgate.example.com/v1/namespaces/NS/things"
THE_THING = f"{THINGS}/it"


def group(name: str = "workers", **policy: Any) -> Manifest:
    return {"name": name, "policy": policy or {"gang": {"minCount": 4}}}


def workload(*groups: Manifest, name: str = "it", **spec: Any) -> Manifest:
    kind = {"apiVersion": "scheduling.headgate.dev/v1alpha1", "kind": "Workload"}
    return {**kind, "metadata": {"name": name}, "spec": {"podGroups": list(groups) or [group()], **spec}}


def created(*groups: Manifest, **spec: Any) -> Step:
    return create(workload(*groups, **spec), WORKLOADS)


def changed(**spec: Any) -> Step:
    return merge({"spec": spec}, THE_WORKLOAD)


def status(**fields: Any) -> Step:
    return merge({"status": fields}, f"{THE_WORKLOAD}/status")


def condition(**fields: Any) -> Manifest:
    whole = {"type": "A", "status": "True", "reason": "B", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {**whole, **fields}


IMMUTABLE_CLASS = {"priorityClassName": "a", "preemptionPriorityClassName": "a"}

WORKLOAD_EXCHANGES: dict[str, list[Step]] = {
    "a gang": [created(), get(THE_WORKLOAD)],
    "a basic group": [created(group(basic={}))],
    "a gang that leaves whole": [created(group(gang={"minCount": 2, "preemptionMode": "PodGroup"}))],
    "a group in one zone": [created({**group(), "schedulingConstraints": {"topology": [{"key": "zone"}]}})],
    "a group in two topologies": [
        created({**group(), "schedulingConstraints": {"topology": [{"key": "zone"}, {"key": "rack"}]}})
    ],
    "a topology without a key": [created({**group(), "schedulingConstraints": {"topology": [{}]}})],
    "fields nobody knows": [created({**group(), "more": 1}, other={"a": "b"})],
    "no spec": [create({**workload(), "spec": None}, WORKLOADS)],
    "no groups": [create({**workload(), "spec": {}}, WORKLOADS)],
    "an empty list of groups": [create({**workload(), "spec": {"podGroups": []}}, WORKLOADS)],
    "groups that are no list": [create({**workload(), "spec": {"podGroups": {}}}, WORKLOADS)],
    "a group without a name": [created({"policy": {"basic": {}}})],
    "a group without a policy": [created({"name": "workers"})],
    "an empty policy": [create({**workload(), "spec": {"podGroups": [{"name": "a", "policy": {}}]}}, WORKLOADS)],
    "both policies": [created(group(gang={"minCount": 1}, basic={}))],
    "a gang of nobody": [created(group(gang={"minCount": 0}))],
    "a gang of a word": [created(group(gang={"minCount": "x"}))],
    "a gang without a size": [created(group(gang={}))],
    "a gang of too many": [created(group(gang={"minCount": 3_000_000_000}))],
    "an unknown preemption mode": [created(group(gang={"minCount": 1, "preemptionMode": "Node"}))],
    "two groups of one name": [created(group(), group("other"), group())],
    "a group with a bad name": [created(group("Workers"))],
    "a group with a long name": [created(group("a" * 64))],
    "a workload with a long name": [created(name="a" * 64)],
    "a workload with a bad name": [created(name="It")],
    "a class without a name": [created(priorityClassName="")],
    "a class that is a number": [created(priorityClassName=5)],
    "a class is set later": [created(), changed(priorityClassName="a")],
    "a class is changed": [created(**IMMUTABLE_CLASS), changed(priorityClassName="b")],
    "a class is taken away": [created(**IMMUTABLE_CLASS), changed(priorityClassName=None)],
    "a preemption class is set later": [created(), changed(preemptionPriorityClassName="a")],
    "a preemption class is changed": [created(**IMMUTABLE_CLASS), changed(preemptionPriorityClassName="b")],
    "a preemption class is taken away": [created(**IMMUTABLE_CLASS), changed(preemptionPriorityClassName=None)],
    "both classes are changed": [
        created(**IMMUTABLE_CLASS),
        changed(priorityClassName="b", preemptionPriorityClassName="c"),
    ],
    "a group is added": [created(), changed(podGroups=[group(), group("other")])],
    "a group is removed": [created(group(), group("other")), changed(podGroups=[group()])],
    "a group is renamed": [created(), changed(podGroups=[group("other")])],
    "groups change places": [created(group(), group("other")), changed(podGroups=[group("other"), group()])],
    "a gang becomes basic": [created(), changed(podGroups=[group(basic={})])],
    "a gang grows": [created(), changed(podGroups=[group(gang={"minCount": 9})])],
    "a gang shrinks to nothing": [created(), changed(podGroups=[group(gang={"minCount": 0})])],
    "a preemption mode is changed": [
        created(),
        changed(podGroups=[group(gang={"minCount": 4, "preemptionMode": "PodGroup"})]),
    ],
    "a topology is asked for later": [
        created(),
        changed(podGroups=[{**group(), "schedulingConstraints": {"topology": [{"key": "zone"}]}}]),
    ],
    "a status at creation": [create({**workload(), "status": {"priority": 5}}, WORKLOADS)],
    "a status is written": [created(), status(priority=5, preemptionPriority=7, conditions=[condition()])],
    "a status leaves the spec alone": [
        created(),
        merge({"spec": {"priorityClassName": "a"}, "status": {"priority": 1}}, f"{THE_WORKLOAD}/status"),
    ],
    "a status with a word for a number": [created(), status(priority="high")],
    "a status that is a number": [created(), merge({"status": 5}, f"{THE_WORKLOAD}/status")],
    "conditions that are no list": [created(), status(conditions={})],
    "a condition twice": [created(), status(conditions=[condition(), condition()])],
    "a condition without a reason": [created(), status(conditions=[condition(reason="")])],
    "a condition with an unknown status": [created(), status(conditions=[condition(status="Maybe")])],
    "a condition at no time": [created(), status(conditions=[condition(lastTransitionTime="today")])],
}


def rule(text: str, **fields: Any) -> Manifest:
    return {"rule": text, **fields}


def _field(kind: str, *rules: Manifest, **fields: Any) -> Manifest:
    return {"type": kind, **fields, **({"x-kubernetes-validations": list(rules)} if rules else {})}


_ITEM = _field(
    "object",
    rule("self.size == oldSelf.size", message="size is fixed"),
    required=["name"],
    properties={"name": _field("string", maxLength=20), "size": _field("integer")},
)
_SPEC = _field(
    "object",
    rule("self.missing == 1 || has(self.a)"),
    rule("self.list[3] > 0 || !has(self.third)"),
    rule("!has(self.divisor) || 10 / self.divisor > 0"),
    rule("!has(self.a) || self.a <= 10", messageExpression="'a is %d, above 10'.format([self.a])", fieldPath=".a"),
    rule("!has(self.a) || self.a != 7", reason="FieldValueForbidden", message="not 7"),
    rule("!has(self.a) || self.a != 8", reason="FieldValueDuplicate", fieldPath=".a"),
    rule("!has(self.a) || self.a != 9", reason="FieldValueRequired", message="other than 9"),
    rule("!has(self.memory) || isQuantity(self.memory)", message="no quantity"),
    rule("!has(self.memory) || quantity(self.memory).isLessThan(quantity('1Gi'))"),
    rule("!has(self.numbers) || (self.numbers.isSorted() && self.numbers.sum() < 10)", message="unsorted or too much"),
    rule("!has(self.text) || self.text.find('[0-9]+') == ''"),
    rule("!has(self.loose) || self.loose + 1 > 0"),
    rule("!has(self.once) || oldSelf.hasValue()", optionalOldSelf=True, message="only later"),
    properties={
        "a": _field("integer"),
        "missing": _field("integer"),
        "third": _field("boolean"),
        "divisor": _field("integer"),
        "list": _field("array", items=_field("integer"), maxItems=5),
        "memory": _field("string", maxLength=20),
        "numbers": _field("array", items=_field("integer"), maxItems=5),
        "text": _field("string", maxLength=20),
        "loose": {"x-kubernetes-int-or-string": True},
        "once": _field("boolean"),
        "x-y": _field("integer", rule("self > 0", message="must be positive")),
        "by-name": _field(
            "object",
            maxProperties=5,
            additionalProperties=_field("integer", rule("self > 0")),
        ),
        "items": {
            **_field("array", items=_ITEM, maxItems=5),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "old": _field("integer", rule("self >= oldSelf", message="must not shrink")),
    },
)
DEFINITION: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.headgate.example.com"},
    "spec": {
        "group": "headgate.example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}},
            }
        ],
    },
}


def thing(**spec: Any) -> Step:
    kind = {"apiVersion": "headgate.example.com/v1", "kind": "Thing"}
    return create({**kind, "metadata": {"name": "it"}, "spec": {"a": 1, **spec}}, THINGS)


def rechanged(**spec: Any) -> Step:
    return merge({"spec": spec}, THE_THING)


RULE_EXCHANGES: dict[str, list[Step]] = {
    "every rule holds": [thing(), get(THE_THING)],
    "a rule reads what is not there": [thing(a=None)],
    "a rule reads beyond a list": [thing(list=[1], third=True)],
    "a rule divides by zero": [thing(divisor=0)],
    "a rule says what it found": [thing(a=12)],
    "a rule forbids": [thing(a=7)],
    "a rule sees a duplicate": [thing(a=8)],
    "a rule misses something": [thing(a=9)],
    "a text is no quantity": [thing(memory="much")],
    "a quantity is too large": [thing(memory="2Gi")],
    "a quantity will do": [thing(memory="0.5Gi")],
    "a list is not sorted": [thing(numbers=[2, 1])],
    "a list sums up to too much": [thing(numbers=[5, 6])],
    "a list will do": [thing(numbers=[1, 2])],
    "a text has a number in it": [thing(text="a1")],
    "an int or string is a string": [thing(loose="x")],
    "an int or string is an int": [thing(loose=5)],
    "a field that may come later only": [thing(once=True)],
    "a field that comes later": [thing(), rechanged(once=True)],
    "a field with a dash": [thing(**{"x-y": 0})],
    "a value of a map": [thing(**{"by-name": {"b": -1}})],
    "an item that may not change": [
        thing(items=[{"name": "b", "size": 1}]),
        rechanged(items=[{"name": "b", "size": 2}]),
    ],
    "an item that is new": [thing(items=[{"name": "b", "size": 1}]), rechanged(items=[{"name": "c", "size": 2}])],
    "an item that moved": [
        thing(items=[{"name": "b", "size": 1}, {"name": "c", "size": 2}]),
        rechanged(items=[{"name": "c", "size": 2}, {"name": "b", "size": 1}]),
    ],
    "a number that shrinks": [thing(old=5), rechanged(old=4)],
    "a number that grows": [thing(old=5), rechanged(old=6)],
    "a number that goes and comes back smaller": [thing(old=5), rechanged(old=None), rechanged(old=1)],
}
EXCHANGES = {**WORKLOAD_EXCHANGES, **RULE_EXCHANGES}
