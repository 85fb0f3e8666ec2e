"""`headgate install`: what its flags choose, what a dry run prints, and wrong input."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from headgate.api.install_manifests import AtService, rights, tenant_rights
from headgate.live.install import manifests
from headgate.ui.cli import main


def test_a_dry_run_prints_everything_as_yaml_and_asks_nobody():
    result = CliRunner().invoke(main, ["install", "--dry-run", "--service", "headgate-system/headgate:8443"])
    printed = list(yaml.safe_load_all(result.output))
    assert result.exit_code == 0
    assert printed == list(manifests(AtService("headgate-system", "headgate", 8443)))
    without = CliRunner().invoke(main, ["install", "--dry-run", "--no-queues"])
    assert [one["kind"] for one in yaml.safe_load_all(without.output)] == [
        "CustomResourceDefinition",
        *(one["kind"] for one in (*rights(queues=False), *tenant_rights(queues=False))),
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]


def test_without_queues_nobody_is_asked_about_jobs_and_other_pods_than_annotated_ones_and_nothing_more_is_allowed():
    flags = ["install", "--dry-run", "--no-queues", "--service", "a/b"]
    printed = list(yaml.safe_load_all(CliRunner().invoke(main, flags).output))
    hooks = [hook["name"] for one in printed for hook in one.get("webhooks", ())]
    gate = "default.pods-gated-by-queue.headgate.dev"
    assert hooks == ["default.workloads.headgate.dev", gate, "validate.workloads.headgate.dev"]
    assert "headgate-quota" not in {one["metadata"]["name"] for one in printed}
    [policy] = [one["spec"] for one in printed if one["kind"] == "ValidatingAdmissionPolicy"]
    asked = [rule["resources"][0] for rule in policy["matchConstraints"]["resourceRules"]]
    assert asked == ["workloads", "podgroups", "podgroups"]


def test_the_namespaces_of_system_classes_can_be_chosen():
    flags = ["install", "--dry-run", "--system-class-namespaces", "kube-system, storage"]
    printed = list(yaml.safe_load_all(CliRunner().invoke(main, flags).output))
    [binding] = [one["spec"] for one in printed if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    [elsewhere] = binding["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert elsewhere["values"] == ["kube-system", "storage"]


def test_the_gate_is_for_pods_of_the_schedulers_that_are_named():
    def condition(*flags: str) -> str:
        printed = CliRunner().invoke(main, ["install", "--dry-run", "--service", "a/b", *flags]).output
        hooks = [hook for one in yaml.safe_load_all(printed) for hook in one.get("webhooks", ())]
        [gate] = [hook for hook in hooks if hook["name"] == "default.pods-gated-by-queue.headgate.dev"]
        return next(one["expression"] for one in gate["matchConditions"] if one["name"] == "of-our-schedulers")

    assert condition() == 'object.spec.schedulerName in ["headgate"]'
    named = condition("--scheduler-name", "volcano", "--scheduler-name", "headgate")
    assert named == 'object.spec.schedulerName in ["headgate","volcano"]'


@pytest.mark.parametrize(
    "flags, said",
    [
        pytest.param(["--scheduler-name", "A'"], "expected a name of lower-case letters", id="a bad scheduler name"),
        pytest.param(["--service", "x"], "expected NAMESPACE/NAME or NAMESPACE/NAME:PORT, got 'x'", id="no namespace"),
        pytest.param(["--service", "a/b:0"], "expected NAMESPACE/NAME or NAMESPACE/NAME:PORT", id="no port"),
        pytest.param(["--webhook-url", "http://x"], "expected a URL such as https://10.0.0.5:10271", id="without TLS"),
        pytest.param(["--system-class-namespaces", "A b"], "expected names of namespaces", id="a bad namespace"),
        pytest.param(["--system-class-namespaces", ","], "expected at least one namespace", id="no namespace"),
        pytest.param(["--service", "a/b", "--webhook-url", "https://x"], "not both", id="two places"),
        pytest.param(["--kubeconfig", "/nowhere/at/all"], "expected a readable file", id="no such cluster"),
    ],
)
def test_wrong_input_is_told_in_a_line(flags: list[str], said: str, capfd: pytest.CaptureFixture[str]):
    result = CliRunner().invoke(main, ["install", *flags])
    assert result.exit_code == 2
    assert said in result.output
