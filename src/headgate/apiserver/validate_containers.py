"""Containers: their names, images, ports and resources."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headgate.apiserver.field_errors import (
    FieldError,
    complaints,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from headgate.apiserver.validate_amounts import container_resources_errors
from headgate.apiserver.validate_names import dns_label_errors
from headgate.apiserver.validate_shapes import Container, PodSpec, Port

_PORT_NAME = re.compile("[-a-z0-9]+").fullmatch
_A_LETTER = re.compile("[a-z]").search
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_PORT_RANGE = "must be between 1 and 65535, inclusive"
_LAST_PORT = 65535
_NOT_CONTAINER_PORT = "must match `containerPort` when `hostNetwork` is true"


def all_container_errors(path: str, spec: PodSpec) -> list[FieldError]:
    containers, init_containers = spec.containers or (), spec.init_containers or ()
    if not containers:
        return [required(f"{path}.containers")]
    names: set[str] = set()
    errors = _list_errors(f"{path}.containers", containers, names)
    errors += _host_port_errors(f"{path}.containers", containers)
    errors += _list_errors(f"{path}.initContainers", init_containers, names)
    for index, container in enumerate(init_containers):
        errors += _host_port_errors(f"{path}.initContainers[{index}]", [container])
    return errors


def image_whitespace_errors(path: str, spec: PodSpec) -> list[FieldError]:
    """For pods, not for templates."""
    lists = (("containers", spec.containers), ("initContainers", spec.init_containers))
    return [
        invalid(f"{path}.{name}[{index}].image", container.image, "must not have leading or trailing whitespace")
        for name, containers in lists
        for index, container in enumerate(containers or ())
        if container.image and container.image != container.image.strip()
    ]


def _list_errors(path: str, containers: Sequence[Container], names: set[str]) -> list[FieldError]:
    """Also adds the names to those seen so far, which must all differ."""
    errors: list[FieldError] = []
    for index, container in enumerate(containers):
        here, name = f"{path}[{index}]", container.name or ""
        errors += _container_errors(here, container)
        if name and name in names:
            errors.append(duplicate(f"{here}.name", name))
        names.add(name)
    return errors


def _container_errors(path: str, container: Container) -> list[FieldError]:
    errors: list[FieldError] = []
    if not container.name:
        errors.append(required(f"{path}.name"))
    else:
        errors += complaints(f"{path}.name", container.name, dns_label_errors(container.name))
    if not container.image:
        errors.append(required(f"{path}.image"))
    if container.ports:
        errors += _port_errors(f"{path}.ports", container.ports)
    if container.image_pull_policy and container.image_pull_policy not in _PULL_POLICIES:
        errors.append(not_supported(f"{path}.imagePullPolicy", container.image_pull_policy, _PULL_POLICIES))
    if container.restart_policy and container.restart_policy not in _RESTART_POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", container.restart_policy, _RESTART_POLICIES))
    if container.resources is not None:
        errors += container_resources_errors(f"{path}.resources", container.resources)
    return errors


def _port_errors(path: str, ports: Sequence[Port]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        if port.name:
            wrong = port_name_errors(port.name)
            errors += complaints(f"{here}.name", port.name, wrong)
            if not wrong and port.name in names:
                errors.append(duplicate(f"{here}.name", port.name))
            names.add(port.name)
        errors += _number_errors(here, port)
        if port.protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{here}.protocol", port.protocol or "", _PROTOCOLS))
    return errors


def port_name_errors(name: str) -> tuple[str, ...]:
    rules = (
        (len(name) <= 15, "must be no more than 15 bytes"),
        (_PORT_NAME(name), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (_A_LETTER(name), "must contain at least one letter (a-z)"),
        ("--" not in name, "must not contain consecutive hyphens"),
        (name.strip("-") == name, "must not begin or end with a hyphen"),
    )
    return tuple(wrong for kept, wrong in rules if not kept)


def _number_errors(path: str, port: Port) -> list[FieldError]:
    errors: list[FieldError] = []
    if not port.container_port:
        errors.append(required(f"{path}.containerPort"))
    elif not 0 < port.container_port <= _LAST_PORT:
        errors.append(invalid(f"{path}.containerPort", port.container_port, _PORT_RANGE))
    if port.host_port and not 0 < port.host_port <= _LAST_PORT:
        errors.append(invalid(f"{path}.hostPort", port.host_port, _PORT_RANGE))
    return errors


def _host_port_errors(path: str, containers: Sequence[Container]) -> list[FieldError]:
    """No two ports of these containers may take the same port of the host."""
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports or ()):
            place = f"{port.protocol}/{port.host_ip or ''}/{port.host_port}"
            if port.host_port and place in taken:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", place))
            taken.add(place)
    return errors


def host_network_errors(path: str, spec: PodSpec) -> list[FieldError]:
    """On the host's network a container's port is the host's port; a template may leave the latter open."""
    if not spec.host_network:
        return []
    return [
        invalid(f"{path}.containers[{index}].ports[{number}].hostPort", port.host_port, _NOT_CONTAINER_PORT)
        for index, container in enumerate(spec.containers or ())
        for number, port in enumerate(container.ports or ())
        if port.host_port and port.host_port != port.container_port
    ]


def ephemeral_errors(path: str, spec: PodSpec) -> list[FieldError]:
    if not spec.ephemeral_containers:
        return []
    return [forbidden(f"{path}.ephemeralContainers", "cannot be set on create")]
