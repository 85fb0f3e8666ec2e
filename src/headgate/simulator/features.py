"""What the small Kubernetes does differently when a feature of Kubernetes is turned off."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.apiserver import ADMISSION, AdmissionPlugin, ApiError, Catalog, Complaint, FieldError, Json, Operation

UNCHANGEABLE = "may not be changed while the feature PodSchedulingReadiness is disabled"


class DroppedGates:
    """An API server without `spec.schedulingGates`: dropped from new pods, kept and not to be changed where it was."""

    resources = frozenset({("", "pods")})
    keeps_complete = False  # what the server says of a gated pod is to be taken back too

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new = operation.new
        if new is None or operation.resource.kind != "Pod" or operation.subresource or not _gates(new):
            return new
        if _gates(operation.old):
            return new
        return {**new, "spec": {name: value for name, value in new["spec"].items() if name != "schedulingGates"}}

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        new, old = operation.new, operation.old
        if operation.resource.kind != "Pod" or operation.subresource or new is None or not _gates(old):
            return
        if _gates(new) != _gates(old):
            wrong = FieldError("spec.schedulingGates", Complaint.FORBIDDEN, UNCHANGEABLE)
            message = f'Pod "{operation.name}" is invalid: {wrong.path}: {wrong.complaint}: {UNCHANGEABLE}'
            raise ApiError(422, "Invalid", message, [wrong])


def admission_for(features: Mapping[str, bool]) -> tuple[AdmissionPlugin, ...]:
    """The admission plugins of a server with these feature gates."""
    return ADMISSION if features.get("PodSchedulingReadiness", True) else (DroppedGates(), *ADMISSION)


def _gates(pod: Json | None) -> object:
    return pod["spec"].get("schedulingGates") if pod is not None else None
