"""Admission: which plugins and webhooks may change or refuse a write, and with which answer."""

from headgate.apiserver.admission.chain import (
    AdmissionChain,
    AdmissionPlugin,
    Catalog,
    Operation,
    Plugin,
    WriteAdmission,
)
from headgate.apiserver.admission.plugins import ADMISSION
from headgate.apiserver.admission.remote import given_options
from headgate.apiserver.admission.webhooks import (
    WEBHOOK_CONFIGURATIONS,
    Allowed,
    Denied,
    Handler,
    WebhookAdmission,
)

__all__ = [
    "ADMISSION",
    "WEBHOOK_CONFIGURATIONS",
    "AdmissionChain",
    "AdmissionPlugin",
    "Allowed",
    "Catalog",
    "Denied",
    "Handler",
    "Operation",
    "Plugin",
    "WebhookAdmission",
    "WriteAdmission",
    "given_options",
]
