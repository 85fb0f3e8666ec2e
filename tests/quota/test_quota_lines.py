"""Lines: whoever is first, among any number of lines and classes, some of them blocked."""

from hypothesis import given
from hypothesis import strategies as st
from quota_builders import applies

from headgate.quota.pending_queue import SLACK, WorkloadLines

waiting = st.builds(
    lambda name, cpu, created: applies(name, "q", cpu, created=created),
    st.sampled_from("abcd"),
    st.sampled_from([1, 2]),
    st.sampled_from([0.0, 1.0]),
)
lines_of_two = st.sampled_from(["", "x"])
kinds = waiting.map(lambda one: one.kind)
actions = st.one_of(
    st.tuples(st.just("add"), lines_of_two, waiting),
    st.tuples(st.just("remove"), waiting.map(lambda one: one.key)),
    st.tuples(st.just("block"), kinds),
    st.tuples(st.just("unblock"), st.lists(kinds, max_size=2)),
    st.tuples(st.just("unblock_all")),
)


class PlainLines:
    """The same by looking at everybody."""

    def __init__(self):
        self.members = {}
        self.blocked = set()

    def add(self, line, applicant):
        self.members[applicant.key] = line, applicant

    def remove(self, key):
        _, applicant = self.members.pop(key, (None, None))
        return applicant

    def block(self, kind):
        self.blocked.add(kind)

    def unblock(self, kinds):
        self.blocked.difference_update(kinds)

    def unblock_all(self):
        self.blocked.clear()

    def firsts(self):
        free = [(line, one) for line, one in self.members.values() if one.kind not in self.blocked]
        return [
            min((one for at, one in free if at == line), key=lambda one: one.rank)
            for line in sorted({line for line, _ in free})
        ]


@given(st.lists(actions, max_size=40))
def test_the_first_of_each_line_is_the_best_that_is_not_blocked(actions):
    lines, plain = WorkloadLines(), PlainLines()
    for name, *arguments in actions:
        assert getattr(lines, name)(*arguments) == getattr(plain, name)(*arguments)
        assert lines.firsts() == plain.firsts()
        everybody = [one for _, one in plain.members.values()]
        assert sorted(one.rank for one in lines.all()) == sorted(one.rank for one in everybody)
        assert len(lines) == len(everybody) == sum(lines.sizes.values())
        assert lines.blocked == sum(one.kind in plain.blocked for one in everybody)


def test_who_is_told_anew_of_keeps_its_place_and_is_known_as_it_is_now():
    lines = WorkloadLines()
    lines.add("", applies("a", "q"))
    lines.add("", applies("b", "q", created=1.0))
    lines.add("", applies("a", "q", labels={"x": "y"}))
    (first,) = lines.firsts()
    assert (first.key.name, first.workload.labels, len(lines)) == ("a", {"x": "y"}, 2)


def test_when_the_first_leaves_the_next_of_its_class_steps_forward():
    first, second, third = (applies(name, "q", created=float(at)) for at, name in enumerate("abc"))
    lines = WorkloadLines()
    for one in (third, first, second):
        lines.add("", one)
    lines.remove(second.key)
    lines.remove(first.key)
    assert lines.firsts() == [third]


def test_who_asks_for_something_else_is_not_held_back_with_its_former_class():
    lines, before, after = WorkloadLines(), applies("a", "q", cpu=1), applies("a", "q", cpu=2)
    lines.add("", before)
    lines.block(before.kind)
    assert lines.firsts() == []
    lines.add("", after)
    assert lines.firsts() == [after]


def test_workloads_that_come_and_go_behind_one_that_stays_do_not_pile_up():
    lines, first = WorkloadLines(), applies("first", "q", created=0.0)
    lines.add("", first)
    for number in range(1000):
        passing = [applies("same", "q", created=1.0 + number), applies("other", "q", 2 + number, created=1.0)]
        for one in passing:
            lines.add("", one)
        for one in passing:
            lines.remove(one.key)
    assert lines.firsts() == [first]
    assert len(lines._fronts[""]) + len(lines._classes[first.kind].positions[""]) < 4 * SLACK
