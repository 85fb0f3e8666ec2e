"""The rules of a kind put together from functions, and the parts that many kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from headgate.apiserver.defaulting import with_metadata_trimmed
from headgate.apiserver.field_errors import FieldError
from headgate.apiserver.messages import Json
from headgate.apiserver.validation import (
    AnyObject,
    ApiType,
    ObjectMeta,
    bad_request,
    common_metadata_errors,
    is_unchanged,
    metadata_errors,
    metadata_update_errors,
    typed,
)
from headgate.model.names import dns_subdomain_errors
from headgate.model.quantity import InvalidQuantity

Change = Callable[[Json, Json], Json]
Errors = Sequence[FieldError]


def as_it_is(new: Json) -> Json:
    return new


def no_status(new: Json) -> Json:
    """Status is for those who observe the object, not for those who create it."""
    return {**new, "status": {}}


def keeping_status(new: Json, old: Json) -> Json:
    return {**new, "status": old.get("status") or {}}


def as_given(new: Json, _old: Json) -> Json:
    return new


def only_status(new: Json, old: Json) -> Json:
    """Labels, annotations and the like are written along with the status."""
    return {**old, "metadata": new["metadata"], "status": new.get("status") or {}}


def _no_errors(_new: Json, _old: Json) -> Errors:
    return ()


class Rules(Struct, frozen=True):
    """The rules of one kind, put together from functions. `shape` is checked before anything else looks."""

    shape: type[ApiType]
    create: Callable[[Json], Json]
    update: Change
    check: Callable[[Json], Errors]
    check_update: Callable[[Json, Json], Errors]
    write_status: Change = only_status
    check_status: Callable[[Json, Json], Errors] = _no_errors

    def prepare_create(self, new: Json) -> Json:
        typed(new, self.shape)
        try:
            return self.create(with_metadata_trimmed(new))
        except InvalidQuantity as trouble:
            raise bad_request(new, trouble.reason) from None

    def prepare_update(self, new: Json, old: Json) -> Json:
        typed(new, self.shape)
        try:
            return self.update(with_metadata_trimmed(new), old)
        except InvalidQuantity as trouble:
            raise bad_request(new, trouble.reason) from None

    def prepare_status(self, new: Json, old: Json) -> Json:
        try:
            return self.write_status(with_metadata_trimmed(new), old)
        except InvalidQuantity as trouble:
            raise bad_request(new, trouble.reason) from None

    def validate_create(self, new: Json) -> Errors:
        return self.check(new)

    def validate_update(self, new: Json, old: Json) -> Errors:
        """What every kind keeps comes first, then the kind's own rules, which say some of it again."""
        return [*_metadata_update_errors(new, old), *self.check_update(new, old)]

    def validate_status(self, new: Json, old: Json) -> Errors:
        again = generic_update_errors(new, old)
        return [*_metadata_update_errors(new, old), *again, *self.check_status(new, old)]


def generic_errors(*, namespaced: bool) -> Callable[[Json], Errors]:
    def check(new: Json) -> Errors:
        metadata = typed(new, AnyObject).metadata or ObjectMeta()
        return metadata_errors(metadata, dns_subdomain_errors, namespaced=namespaced)

    return check


def _metadata_update_errors(new: Json, old: Json) -> Errors:
    """What is wrong with the change of the metadata; if anything, all that is wrong with them before."""
    generic = generic_update_errors(new, old)
    whole = common_metadata_errors(typed(new, AnyObject).metadata or ObjectMeta()) if generic else ()
    return [*whole, *generic]


def generic_update_errors(new: Json, old: Json) -> Errors:
    if is_unchanged(new["metadata"], old["metadata"]):
        return ()
    metadata = typed(new, AnyObject).metadata or ObjectMeta()
    return metadata_update_errors(new["metadata"], old["metadata"], metadata)


def plain_rules(*, namespaced: bool, with_status: bool) -> Rules:
    """Of a kind with no rules of its own beyond its metadata."""
    return Rules(
        shape=AnyObject,
        create=no_status if with_status else as_it_is,
        update=keeping_status if with_status else as_given,
        check=generic_errors(namespaced=namespaced),
        check_update=generic_update_errors,
    )
