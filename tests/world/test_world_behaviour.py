"""How pods behave is said by their annotations."""

from __future__ import annotations

import pytest

from headgate.world.nodes import EXIT_CODE, RUN_SECONDS, STOP_SECONDS, Behaviour, InvalidBehaviour, behaviour_of


@pytest.mark.parametrize(
    "annotations, behaviour",
    [
        pytest.param({}, Behaviour(), id="nothing said: it runs until deleted, stops at once, exits with 0"),
        pytest.param({RUN_SECONDS: "90"}, Behaviour(run_seconds=90.0), id="whole seconds"),
        pytest.param({STOP_SECONDS: "0.5"}, Behaviour(stop_seconds=0.5), id="parts of a second"),
        pytest.param({EXIT_CODE: "137"}, Behaviour(exit_code=137), id="an exit code"),
        pytest.param({"other": "x"}, Behaviour(), id="other annotations say nothing"),
    ],
)
def test_behaviour(annotations, behaviour):
    assert behaviour_of(annotations) == behaviour


@pytest.mark.parametrize(
    "annotations, complaint",
    [
        pytest.param(
            {RUN_SECONDS: "soon"}, "expected a number of seconds such as 90 or 0.5, got 'soon'", id="no number"
        ),
        pytest.param({RUN_SECONDS: "-1"}, "expected a number of seconds such as 90 or 0.5, got '-1'", id="negative"),
        pytest.param({STOP_SECONDS: "nan"}, "expected a number of seconds such as 90 or 0.5, got 'nan'", id="nan"),
        pytest.param({STOP_SECONDS: "inf"}, "expected a number of seconds such as 90 or 0.5, got 'inf'", id="infinite"),
        pytest.param({EXIT_CODE: "256"}, "expected an exit code from 0 to 255, got '256'", id="code too large"),
        pytest.param({EXIT_CODE: "-1"}, "expected an exit code from 0 to 255, got '-1'", id="code negative"),
        pytest.param({EXIT_CODE: "²"}, "expected an exit code from 0 to 255, got '²'", id="a digit, but no number"),
    ],
)
def test_unreadable_behaviour_is_named(annotations, complaint):
    with pytest.raises(InvalidBehaviour) as raised:
        behaviour_of(annotations)
    assert str(raised.value) == complaint
    assert raised.value.annotation in annotations
