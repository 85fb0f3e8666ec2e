"""Request handlers: how each verb and subresource reads, changes or removes stored objects."""

from headgate.apiserver.handlers.decoding import (
    APPLY,
    as_json,
    decode_configuration,
    decode_object,
    decode_patch,
    valid_utf8,
)
from headgate.apiserver.handlers.deletion import (
    FOREGROUND,
    ORPHAN,
    DeferredDeletion,
    DeleteOptions,
    Deleter,
    Preconditions,
    decode_options,
)
from headgate.apiserver.handlers.field_validation import (
    FieldValidation,
    field_manager,
    field_validation,
    forced,
    validate_fields,
)
from headgate.apiserver.handlers.pods import CONNECTED, bind, decode_binding, decode_eviction, evict, not_connected
from headgate.apiserver.handlers.protobuf import MEDIA_TYPE as PROTOBUF
from headgate.apiserver.handlers.reading import (
    ListScope,
    Watch,
    WatchEvent,
    known_version,
    list_objects,
    refuse_list_options,
)
from headgate.apiserver.handlers.reviews import Reviews
from headgate.apiserver.handlers.scaling import SCALE, answer_scale
from headgate.apiserver.handlers.tokens import ACCOUNTS, TOKEN, TokenIssuer
from headgate.apiserver.handlers.writing import Writer, get_existing

__all__ = [
    "ACCOUNTS",
    "APPLY",
    "CONNECTED",
    "FOREGROUND",
    "ORPHAN",
    "PROTOBUF",
    "SCALE",
    "TOKEN",
    "DeferredDeletion",
    "DeleteOptions",
    "Deleter",
    "FieldValidation",
    "ListScope",
    "Preconditions",
    "Reviews",
    "TokenIssuer",
    "Watch",
    "WatchEvent",
    "Writer",
    "answer_scale",
    "as_json",
    "bind",
    "decode_binding",
    "decode_configuration",
    "decode_eviction",
    "decode_object",
    "decode_options",
    "decode_patch",
    "evict",
    "field_manager",
    "field_validation",
    "forced",
    "get_existing",
    "known_version",
    "list_objects",
    "not_connected",
    "refuse_list_options",
    "valid_utf8",
    "validate_fields",
]
