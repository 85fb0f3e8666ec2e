"""Exchanges about a custom resource with defaults, CEL rules, list types and a scale."""

from __future__ import annotations

from typing import Any

from exchanges import Manifest, Step, create, delete, get, json_patch, merge, strategic

THINGS = "/apis/answers.example.com/v1/namespaces/NS/things"
THING = f"{THINGS}/it"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "port": {"type": "integer", "default": 80},
        "note": {"type": "string", "maxLength": 5},
    },
}
_SPEC: Manifest = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [
        {"rule": "self.size <= self.limit", "message": "size exceeds limit"},
        {"rule": "!has(oldSelf.mode) || self.mode == oldSelf.mode", "message": "mode is settled"},
        {"rule": "self.size != 7", "reason": "FieldValueForbidden", "fieldPath": ".size", "message": "not seven"},
    ],
    "properties": {
        "size": {"type": "integer", "minimum": 0},
        "count": {"type": "integer", "default": 2, "maximum": 20},
        "limit": {"type": "integer", "default": 10},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "words": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "maxItems": 3},
        "code": {"type": "string", "pattern": r"^(?i)[a-z]\d$"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "items": {
            "type": "array",
            "items": _ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "pair": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"left": {"type": "string"}, "right": {"type": "string"}},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
    },
}
DEFINITION: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.answers.example.com"},
    "spec": {
        "group": "answers.example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": _SPEC,
                            "status": {
                                "type": "object",
                                "properties": {
                                    "ready": {"type": "integer", "maximum": 5},
                                    "message": {"type": "string"},
                                },
                            },
                        },
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.ready"},
                },
            }
        ],
    },
}


def thing(**spec: Any) -> Manifest:
    identity = {"apiVersion": "answers.example.com/v1", "kind": "Thing", "metadata": {"name": "it"}}
    return {**identity, "spec": {"size": 1, **spec}}


def bare(**fields: Any) -> Manifest:
    return {"apiVersion": "answers.example.com/v1", "kind": "Thing", "metadata": {"name": "it"}, **fields}


def made(**spec: Any) -> Step:
    return create(thing(**spec), THINGS)


def patterned(pattern: str) -> Step:
    """A definition with this pattern, which is refused."""
    schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": pattern}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {**DEFINITION["spec"], "names": {"plural": "others", "kind": "Other"}, "versions": [version]}
    return create({**DEFINITION, "metadata": {"name": "others.answers.example.com"}, "spec": spec}, DEFINITIONS)


def apply(manifest: Any, manager: str = "one", path: str = THING, query: str = "") -> Step:
    return Step("PATCH", f"{path}?fieldManager={manager}{query}", manifest, "application/apply-patch+yaml")


EXCHANGES: dict[str, list[Step]] = {
    "a thing": [made(), get(THING), get(THINGS)],
    "a thing with everything": [
        made(
            mode="fast",
            ratio=0.5,
            words=["a"],
            tags=["x", "y"],
            items=[{"name": "a"}, {"name": "b", "port": 1}],
            pair={"left": "l"},
            labels={"k": "v"},
            free={"deep": {"er": [1, {"x": None}]}},
            either="50%",
            maybe=None,
        )
    ],
    "a thing without a spec": [create(bare(), THINGS)],
    "a thing without a size": [create(bare(spec={}), THINGS)],
    "a thing that is too large": [made(size=11)],
    "a thing of seven": [made(size=7)],
    "a thing of less than nothing": [made(size=-1)],
    "a thing of text": [made(size="1")],
    "a mode that is none": [made(mode="sideways")],
    "a mode that changes": [made(mode="fast"), merge({"spec": {"mode": "slow"}}, THING)],
    "a mode that is set late": [made(), merge({"spec": {"mode": "slow"}}, THING)],
    "a ratio of nothing": [made(ratio=0)],
    "words that are too many": [made(words=["a", "b", "c", "d"])],
    "a word that is none": [made(words=["A1"])],
    "a code, for whose letters a flag inside the pattern holds": [made(code="A1")],
    "a code with a digit that is not ASCII": [made(code="a٣")],
    "a code with one more line": [made(code="a1\n")],
    "a pattern that looks ahead": [patterned("a(?=b)")],
    "a pattern that looks back": [patterned("(?<=b)a")],
    "a pattern that repeats what it found": [patterned(r"(a)\1")],
    "a pattern with a group that stays open": [patterned("(a")],
    "a pattern that keeps what it took": [patterned("a*+")],
    "a pattern that repeats too often": [patterned("a{1001}")],
    "tags that repeat": [made(tags=["x", "x"])],
    "items that repeat": [made(items=[{"name": "a"}, {"name": "a"}])],
    "an item without a name": [made(items=[{"port": 1}])],
    "a note that is too long": [made(items=[{"name": "a", "note": "too long"}])],
    "an unknown field is dropped": [made(surprise=1), get(THING)],
    "an unknown field is refused": [create(thing(surprise=1), f"{THINGS}?fieldValidation=Strict")],
    "two unknown fields are refused": [create({**thing(surprise=1), "x": 2}, f"{THINGS}?fieldValidation=Strict")],
    "an unknown field of a patched thing": [
        made(),
        merge({"spec": {"surprise": 1}}, f"{THING}?fieldValidation=Strict"),
    ],
    "a default that is removed": [made(), merge({"spec": {"limit": None}}, THING)],
    "a default that is given": [made(limit=3), merge({"spec": {"size": 4}}, THING)],
    "null where none may be": [made(words=None)],
    "a list replaced by a merge patch": [made(words=["a", "b"]), merge({"spec": {"words": ["c"]}}, THING)],
    "a thing is patched by JSON": [
        made(tags=["x"]),
        json_patch({"op": "add", "path": "/spec/tags/-", "value": "y"}, path=THING),
        json_patch({"op": "replace", "path": "/spec/size", "value": 50}, path=THING),
    ],
    "a thing is patched strategically": [made(), strategic({"spec": {"size": 2}}, THING)],
    "a thing is updated without a version": [made(), Step("PUT", THING, thing(size=2))],
    "a thing is updated": [
        made(),
        Step("PUT", THING, {**thing(size=2), "metadata": {"name": "it", "resourceVersion": "VERSION"}}),
    ],
    "a thing is updated from an old version": [
        made(),
        merge({"spec": {"size": 2}}, THING),
        Step("PUT", THING, {**thing(size=3), "metadata": {"name": "it", "resourceVersion": "VERSION"}}),
    ],
    "a status is written": [
        made(),
        merge({"status": {"ready": 1}}, THING),
        merge({"status": {"ready": 1}, "spec": {"size": 3}}, f"{THING}/status"),
        get(THING),
        get(f"{THING}/status"),
    ],
    "a status that is too large": [made(), merge({"status": {"ready": 9}}, f"{THING}/status")],
    "a status of nothing": [merge({"status": {"ready": 9}}, f"{THING}/status")],
    "the generation counts the spec": [
        made(),
        merge({"metadata": {"labels": {"a": "b"}}}, THING),
        merge({"spec": {"size": 2}}, THING),
        merge({"status": {"ready": 2}}, f"{THING}/status"),
        get(THING),
    ],
    "the scale of a thing": [made(), get(f"{THING}/scale")],
    "a thing is scaled": [made(), merge({"spec": {"replicas": 4}}, f"{THING}/scale"), get(THING)],
    "a thing is scaled beyond its maximum": [made(), merge({"spec": {"replicas": 40}}, f"{THING}/scale")],
    "a thing is applied": [apply(thing(tags=["x"], items=[{"name": "a"}])), get(THING)],
    "a thing is applied by two": [
        apply(thing(tags=["x"], items=[{"name": "a", "note": "n"}], labels={"k": "v"})),
        apply(bare(spec={"tags": ["y"], "items": [{"name": "b"}], "labels": {"l": "w"}}), "two"),
        apply(thing()),
    ],
    "an atomic map is applied by two": [
        apply(thing(pair={"left": "l"})),
        apply(bare(spec={"pair": {"right": "r"}}), "two"),
        apply(bare(spec={"pair": {"right": "r"}}), "two", query="&force=true"),
        apply(thing()),
    ],
    "an atomic list is applied by two": [
        apply(thing(words=["a"])),
        apply(bare(spec={"words": ["b"]}), "two"),
    ],
    "free fields are applied by two": [
        apply(thing(free={"a": {"b": 1}, "l": [1]})),
        apply(bare(spec={"free": {"a": {"c": 1}}}), "two"),
        apply(bare(spec={"free": {"l": [2]}}), "two"),
        apply(thing()),
    ],
    "a port that is a default is applied": [
        apply(thing(items=[{"name": "a"}])),
        apply(bare(spec={"items": [{"name": "a", "port": 81}]}), "two"),
    ],
    "an unknown field is applied": [apply(thing(surprise=1))],
    "a thing too large is applied": [apply(thing(size=11))],
    "items that repeat are applied": [apply(thing(items=[{"name": "a"}, {"name": "a"}]))],
    "tags that repeat are applied": [apply(thing(tags=["x", "x"]))],
    "an item without a key is applied": [apply(thing(items=[{"port": 1}]))],
    "a size of text is applied": [apply(thing(size="1"))],
    "a status is applied to a thing": [
        apply(thing()),
        apply(bare(status={"ready": 1}), "two", f"{THING}/status"),
        apply(bare(status={"ready": 2}), "three", f"{THING}/status"),
        apply(bare(status={"message": "m"}), "two", f"{THING}/status"),
    ],
    "a label is applied through the status": [
        apply(thing()),
        apply(
            {**bare(status={"ready": 1}), "metadata": {"name": "it", "labels": {"a": "b"}}}, "two", f"{THING}/status"
        ),
    ],
    "a patch takes what was applied": [
        apply(thing(items=[{"name": "a", "note": "n"}])),
        json_patch({"op": "replace", "path": "/spec/items/0/note", "value": "m"}, path=f"{THING}?fieldManager=two"),
        apply(thing(items=[{"name": "a", "note": "n"}])),
    ],
    "an item is taken away by a patch": [
        apply(thing(items=[{"name": "a"}, {"name": "b"}])),
        json_patch({"op": "remove", "path": "/spec/items/0"}, path=f"{THING}?fieldManager=two"),
    ],
    "items keep the order of who applies": [
        apply(thing(items=[{"name": "a"}, {"name": "b"}])),
        apply(bare(spec={"items": [{"name": "c"}, {"name": "a"}]}), "two"),
        apply(thing(items=[{"name": "b"}, {"name": "d"}, {"name": "a"}])),
    ],
    "a thing is deleted": [made(), delete(THING), get(THING)],
    "things are deleted": [made(), Step("DELETE", THINGS), get(THINGS)],
    "things by label": [made(), get(f"{THINGS}?labelSelector=a"), get(f"{THINGS}?fieldSelector=spec.size%3D1")],
    "a thing that is dry": [create(thing(), f"{THINGS}?dryRun=All"), get(THING)],
    "a thing of another version": [create({**thing(), "apiVersion": "answers.example.com/v2"}, THINGS)],
    "a thing of no kind": [create({"metadata": {"name": "it"}}, THINGS)],
    "a thing with a bad name": [create({**thing(), "metadata": {"name": "Not_Good"}}, THINGS)],
}
