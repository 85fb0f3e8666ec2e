"""When quota is released: as the feature gate says, unless the file says it outright."""

import pytest

from headgate.api.configuration import InvalidConfiguration, settings_from
from headgate.model.settings import QuotaRelease

OFF = {"featureGates": {"PodIntegrationFastQuotaRelease": False}}


@pytest.mark.parametrize(
    "document, release",
    [
        pytest.param({}, QuotaRelease.FAST, id="at once by default"),
        pytest.param(OFF, QuotaRelease.GRACE, id="after the grace with the feature off"),
        pytest.param({"quotaRelease": "OnTerminal"}, QuotaRelease.ON_TERMINAL, id="to the end"),
        pytest.param({**OFF, "quotaRelease": "OnTerminal"}, QuotaRelease.ON_TERMINAL, id="to the end in any case"),
        pytest.param({"quotaRelease": "Grace"}, QuotaRelease.GRACE, id="said outright"),
        pytest.param({"quotaRelease": {"policy": "Grace"}}, QuotaRelease.GRACE, id="said in a section"),
        pytest.param({"quotaRelease": {}}, QuotaRelease.FAST, id="a section that says nothing"),
    ],
)
def test_when_quota_is_released(document, release):
    assert settings_from(document, "f").quota.quota_release is release


@pytest.mark.parametrize(
    "document, seconds",
    [
        pytest.param({}, 120.0, id="two minutes by default"),
        pytest.param({"quotaRelease": "Fast"}, 120.0, id="two minutes where only the policy is said"),
        pytest.param({"quotaRelease": {"maxHold": "1m30s"}}, 90.0, id="a duration"),
        pytest.param({"quotaRelease": {"maxHold": "0s"}}, 0.0, id="never"),
        pytest.param({**OFF, "quotaRelease": {"maxHold": "5s"}}, 5.0, id="with the feature off"),
    ],
)
def test_how_long_admitted_work_may_be_held(document, seconds):
    assert settings_from(document, "f").quota.max_hold == seconds


def test_how_much_may_be_owed():
    assert settings_from({}, "f").quota.debt_percent is None
    assert settings_from({"quotaDebtPercent": 20}, "f").quota.debt_percent == 20


def test_whether_pods_on_unreachable_nodes_are_removed():
    assert not settings_from({}, "f").quota.recovers_failures
    assert settings_from({"featureGates": {"FailureRecoveryPolicy": True}}, "f").quota.recovers_failures


@pytest.mark.parametrize(
    "document, expected",
    [
        pytest.param({**OFF, "quotaRelease": "Fast"}, "expected Grace or OnTerminal", id="the feature is off"),
        pytest.param({"quotaRelease": "Never"}, "quotaRelease", id="no such way"),
        pytest.param({"quotaRelease": {"policy": "Never"}}, r"quotaRelease\.policy", id="no such policy"),
        pytest.param(
            {"quotaRelease": {"maxHold": "soon"}},
            r"quotaRelease\.maxHold: expected a duration such as 90s, 1m30s or 2h, found 'soon'",
            id="no duration",
        ),
        pytest.param(
            {"quotaRelease": {"maxHold": "-5s"}},
            r"quotaRelease\.maxHold: expected a duration of at least 0s, got '-5s'",
            id="a duration below zero",
        ),
        pytest.param({"quotaRelease": {"maxHold": 5}}, r"quotaRelease\.maxHold", id="a number without a unit"),
        pytest.param({"quotaRelease": {"maxhold": "5s"}}, "maxhold", id="a misspelt field"),
        pytest.param({"quotaDebtPercent": 101}, "quotaDebtPercent", id="more than all"),
    ],
)
def test_what_cannot_be_asked_for(document, expected):
    with pytest.raises(InvalidConfiguration, match=expected):
        settings_from(document, "f")
