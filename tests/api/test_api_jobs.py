"""Jobs as they are read: which of their indexes failed for good."""

import msgspec
import pytest

from headgate.api.decode import decode
from headgate.model.keys import Kind


def job(failed, completions=10):
    status = {} if failed is None else {"failedIndexes": failed}
    spec = {"completions": completions, "completionMode": "Indexed", "template": {"spec": {"containers": []}}}
    metadata = {"name": "job", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    return decode(Kind.JOB, msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status}))


@pytest.mark.parametrize(
    "listed, count",
    [
        pytest.param(None, 0, id="none is listed"),
        pytest.param("", 0, id="the list is empty"),
        pytest.param("3", 1, id="one"),
        pytest.param("0-1", 2, id="an interval"),
        pytest.param("1,3-5,7", 5, id="indexes and intervals"),
        pytest.param("8-12", 2, id="those the Job no longer has do not count"),
        pytest.param("3,11-12", 1, id="nor do intervals of them"),
        pytest.param("0-9999999999", 10, id="no more than the Job has"),
        pytest.param("5-3", 0, id="an interval the wrong way round"),
        pytest.param("1,1,1", 1, id="an index counts once"),
        pytest.param("0-3,2-5", 4, id="overlapping intervals are a mistake"),
        pytest.param("1,x,3", 1, id="nothing counts after a mistake"),
        pytest.param("-1", 0, id="a negative index"),
        pytest.param("²", 0, id="a digit of no use"),
        pytest.param("9" * 5000, 0, id="a number of no use"),
    ],
)
def test_how_many_indexes_failed_for_good(listed, count):
    assert job(listed).failed_indexes == count
