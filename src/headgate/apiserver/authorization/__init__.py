"""Authorization: what a request asks for, who may do that, and what nobody may grant."""

from headgate.apiserver.authorization.attributes import AccessAttributes, access_denied, attributes_of
from headgate.apiserver.authorization.rbac import (
    AccessDecision,
    AlwaysAllow,
    AuthorizationMode,
    Authorizer,
    RbacAuthorizer,
    RuleSet,
    aggregated,
)

__all__ = [
    "AccessAttributes",
    "AccessDecision",
    "AlwaysAllow",
    "AuthorizationMode",
    "Authorizer",
    "RbacAuthorizer",
    "RuleSet",
    "access_denied",
    "aggregated",
    "attributes_of",
]
