"""Authorization: what a request asks for, who may do that, and what nobody may grant."""

from headgate.apiserver.authorization.rbac import (
    AccessAttributes,
    AccessDecision,
    AlwaysAllow,
    AuthorizationMode,
    Authorizer,
    RbacAuthorizer,
    RuleSet,
    access_denied,
    aggregated,
    attributes_of,
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
