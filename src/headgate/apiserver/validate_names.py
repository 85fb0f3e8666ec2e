"""The name rules of the shared grammar, remembered: the same few labels, gates and resources come again and again."""

from __future__ import annotations

from functools import lru_cache

from headgate.model import names

_REMEMBERED = 4096

dns_label_errors = lru_cache(_REMEMBERED)(names.dns_label_errors)
label_value_errors = lru_cache(_REMEMBERED)(names.label_value_errors)
qualified_name_errors = lru_cache(_REMEMBERED)(names.qualified_name_errors)
