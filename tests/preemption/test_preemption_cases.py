"""The four cases, pods and groups on both sides; domains, nominations, and plans that are being carried out."""

import pytest
from builders import node, pod, shape
from msgspec.structs import replace
from preemption_scenes import NOW, Scene, apart, group, group_key, lone, on, placements, victims

from headgate.model.claims import Attachment, ClaimDemands, ClaimName
from headgate.model.keys import Key, Kind
from headgate.model.pod import GroupKey
from headgate.preemption.search import NoPlan, Plan
from headgate.preemption.units import Standing

TWO = [node("n", cpu=1000), node("m", cpu=1000)]
PAIR = [on("n", "a", 1000, 1, gang="g"), on("m", "b", 1000, 1, gang="g")]


@pytest.mark.parametrize(
    "preemptor, gangs, expected",
    [
        pytest.param(lone(cpu=1000), {"g": (1, False)}, 1, id="a pod takes the room of one pod"),
        pytest.param(lone(cpu=1000), {"g": (2, True)}, 2, id="a pod takes the room of a gang, which leaves whole"),
        pytest.param(group(2, cpu=1000), {"g": (1, False)}, 2, id="a group takes the room of pods"),
        pytest.param(group(1, cpu=1000), {"g": (2, True)}, 2, id="a group takes the room of a gang"),
    ],
)
@pytest.mark.parametrize("careful", [False, True], ids=["by arithmetic", "step by step"])
def test_four_cases(preemptor, gangs, expected, careful):
    scene = Scene(TWO, PAIR, gangs)
    plan = scene.step_by_step(preemptor) if careful else scene.plan(preemptor)
    assert sum(len(unit.pods) for unit in plan.victims) == expected
    assert len(plan.placements) == len(preemptor.pods)


def test_a_gang_is_one_unit_with_its_pods_everywhere():
    plan = Scene(TWO, PAIR, {"g": (2, True)}).plan(lone(cpu=1000))
    (unit,) = plan.victims
    assert unit.key == group_key("g")
    assert isinstance(unit.key, GroupKey)
    assert sorted((one.key.name, one.node) for one in unit.pods) == [("a", "n"), ("b", "m")]


def test_pods_of_a_gang_outside_the_domain_count_in_the_score():
    placed = [
        on("n", "a1", 1000, 1, gang="g"),
        *(on("away", f"a{i}", 100, 1, gang="g") for i in range(2, 9)),
        on("m", "b1", 1000, 1, gang="h"),
    ]
    nodes = [*TWO, node("away", cpu=800)]
    plan = Scene(nodes, placed, {"g": (8, True), "h": (1, True)}).plan(lone(cpu=1000))
    assert victims(plan) == ["b1"]


def test_breaking_a_gang_is_worse_than_losing_work():
    """Two pods of the gang can be spared, a third cannot."""
    placed = [on("n", f"g{i}", 100, 1, gang="g", start=NOW) for i in range(3)] + [on("m", "old", 1000, 1, start=0.0)]
    nodes = [node("n", cpu=300), node("m", cpu=1000)]
    needs_two = Scene(nodes, placed, {"g": (2, False)}).plan(group(1, cpu=300))
    assert victims(needs_two) == ["old"]
    needs_none = Scene(nodes, placed, {"g": (0, False)}).plan(group(1, cpu=300))
    assert victims(needs_none) == ["g0", "g1", "g2"]


def test_members_of_a_gang_still_starting_are_not_asked_to_leave_for_it():
    own = on("n", "incoming-9", 1000, 1, gang="incoming")
    assert isinstance(Scene([TWO[0]], [own], {"incoming": (2, False)}).plan(group(1, cpu=1000)), NoPlan)


def test_a_group_that_stays_together_takes_the_best_domain():
    nodes = [node(f"{zone}{i}", cpu=1000, labels={"zone": zone}) for zone in "ab" for i in range(2)]
    placed = [on(f"a{i}", f"pa{i}", 1000, 3) for i in range(2)] + [on(f"b{i}", f"pb{i}", 1000, 2) for i in range(2)]
    scene = Scene([*nodes, node("bare", cpu=9000)], [*placed, on("bare", "elsewhere", 9000, 0)])
    plan = scene.plan(group(2, cpu=1000, topology="zone"))
    assert victims(plan) == ["pb0", "pb1"]
    assert plan.receipt.domain == "zone=b"
    assert plan.receipt.domains == 2
    assert [other.where for other in plan.receipt.alternatives] == ["zone=a"]
    assert [one.shape.node_selector for one, _ in plan.placements] == [(), ()], "pods are handed back as they came"


def test_a_group_too_large_for_every_domain_asks_nobody_to_leave():
    nodes = [node(f"{zone}{i}", cpu=1000, labels={"zone": zone}) for zone in "ab" for i in range(2)]
    scene = Scene(nodes, [on(f"{zone}0", f"p{zone}", 1000, 1) for zone in "ab"])
    assert isinstance(scene.plan(group(3, cpu=1000, topology="zone")), NoPlan)
    assert isinstance(scene.plan(group(3, cpu=1000)), Plan)


class TestAPlanThatIsBeingCarriedOut:
    """After a restart nothing is known but the nominations and who is still there."""

    nodes = (node("n", cpu=1000), node("m", cpu=1000))
    placed = (on("n", "a", 1000, 3), on("m", "b", 1000, 1))

    def test_the_remaining_victims_for_the_same_placements_come_first(self):
        scene = Scene(self.nodes, self.placed)
        assert victims(scene.plan(lone(cpu=1000))) == ["b"]
        plan = scene.plan(lone(cpu=1000, nominated="n"))
        assert victims(plan) == ["a"]
        assert plan.receipt.domain == "the nominated nodes"

    def test_a_group_goes_on_with_the_same_placements(self):
        scene = Scene(self.nodes, self.placed)
        one = group(1, cpu=1000)
        resumed = replace(one, pods=(replace(one.pods[0], nominated="n"),))
        assert victims(scene.plan(one)) == ["b"]
        assert victims(scene.plan(resumed)) == ["a"]

    def test_placements_that_cannot_be_had_any_more_are_given_up(self):
        scene = Scene(self.nodes, [on("n", "a", 1000, 30), on("m", "b", 1000, 1)])
        assert victims(scene.plan(lone(cpu=1000, nominated="n"))) == ["b"]
        assert victims(scene.plan(lone(cpu=1000, nominated="gone"))) == ["b"]

    def test_victims_already_leaving_are_not_asked_again(self):
        scene = Scene(self.nodes, [on("n", "a", 500, 3, deleted=NOW), on("n", "c", 500, 3), on("m", "b", 1000, 1)])
        plan = scene.plan(lone(cpu=1000, nominated="n"))
        assert victims(plan) == ["c"]

    @pytest.mark.parametrize(
        "placed, expected",
        [
            pytest.param([on("n", "a", 1000, 1, deleted=NOW)], True, id="yes, once who is being deleted is gone"),
            pytest.param([on("n", "a", 1000, 1)], False, id="not while a victim has not been asked to leave"),
            pytest.param([on("n", "a", 100, 90, deleted=NOW)], True, id="whoever leaves, whatever its priority"),
            pytest.param([on("n", "a", 100, 90)], False, id="not when somebody more important came instead"),
            pytest.param([], True, id="and of course when the node is empty"),
        ],
    )
    def test_nominated_placements_hold(self, placed, expected):
        scene = Scene([node("n", cpu=1000)], placed)
        preemptor = lone(cpu=1000, nominated="n")
        assert scene.preemption.holds(preemptor, [(preemptor.pods[0], "n")], scene.placer) is expected

    def test_placements_on_a_node_that_is_gone_do_not_hold(self):
        scene, preemptor = Scene([node("n", cpu=1000)]), lone(cpu=1000)
        assert not scene.preemption.holds(preemptor, [(preemptor.pods[0], "gone")], scene.placer)

    def test_too_few_placements_do_not_hold(self):
        scene, preemptor = Scene(self.nodes), group(2, cpu=1000)
        assert not scene.preemption.holds(preemptor, [(preemptor.pods[0], "n")], scene.placer)
        both = list(zip(preemptor.pods, ("n", "m"), strict=True))
        assert scene.preemption.holds(preemptor, both, scene.placer)

    def test_a_groups_own_nominations_are_not_in_its_way(self):
        scene = Scene(self.nodes)
        members = tuple(replace(one, nominated="n") for one in group(2, cpu=500).pods)
        for one in members:
            scene.placer.nominations.put(one)
        preemptor = replace(group(2, cpu=500), pods=members)
        assert scene.preemption.holds(preemptor, [(one, "n") for one in members], scene.placer)
        assert bool(scene.placer.nominations)


class TestPromises:
    """Room promised to others."""

    def promise(self, scene, name, priority, where="n"):
        scene.placer.nominations.put(pod(name, cpu=600, priority=priority, nominated=where))
        return scene

    @pytest.mark.parametrize("careful", [False, True], ids=["by arithmetic", "step by step"])
    @pytest.mark.parametrize(
        "priority, expected",
        [
            pytest.param(10, ["b"], id="a promise to a pod as important is kept"),
            pytest.param(9, ["a"], id="one to a less important pod is not in the way"),
        ],
    )
    def test_who_else_waits(self, priority, expected, careful):
        placed = [on("n", "a", 1000, 1), on("m", "b", 1000, 2)]
        scene = self.promise(Scene(TWO, placed), "first", priority)
        plan = scene.step_by_step(lone(cpu=600)) if careful else scene.plan(lone(cpu=600))
        assert victims(plan) == expected

    def test_a_second_gang_does_not_take_what_the_first_was_promised(self):
        scene = Scene(TWO, [on("n", "a", 1000, 1), on("m", "b", 1000, 1)])
        first = scene.plan(group(1, "first", cpu=600))
        ((member, where),) = first.placements
        scene.placer.nominations.put(replace(member, nominated=where))
        second = scene.plan(group(1, "second", cpu=600))
        assert set(victims(first)).isdisjoint(victims(second))

    @pytest.mark.parametrize("preemptor", [lone(cpu=400), group(1, cpu=400)], ids=["a pod", "a group"])
    def test_nobody_is_spared_into_room_that_is_promised(self, preemptor):
        placed = [on("n", "a", 500, 1), on("n", "b", 500, 1)]
        scene = self.promise(Scene([TWO[0]], placed), "first", 10)
        assert victims(scene.plan(preemptor)) == ["a", "b"]


def test_a_pod_that_keeps_apart_asks_those_to_leave_it_speaks_of():
    """Room there is enough; only the one in the way leaves, wherever it stands in importance."""
    nodes = [node("n", cpu=1000, labels={"kubernetes.io/hostname": "n"})]
    placed = [on("n", "in-the-way", 100, 5, labels={"app": "x"}), on("n", "other", 100, 0)]
    assert victims(Scene(nodes, placed).plan(lone(shape=shape(100, peers=apart("app=x"))))) == ["in-the-way"]


def test_a_group_whose_members_keep_apart_is_placed_by_all_rules():
    """Anti-affinity between the members: two nodes must be freed, though one would have the room."""
    nodes = [node(name, cpu=1000, labels={"kubernetes.io/hostname": name}) for name in "nm"]
    placed = [on("n", "a", 1000, 1), on("m", "b", 1000, 2)]
    keeping = shape(400, peers=apart("app=x"))
    plan = Scene(nodes, placed).plan(group(2, shape=keeping, labels={"app": "x"}))
    assert victims(plan) == ["a", "b"]
    assert sorted(placements(plan).values()) == ["m", "n"]


def test_a_pod_kept_off_by_anothers_term_asks_it_to_leave():
    """The one that holds the term leaves, though the other would free the room."""
    labels = {"kubernetes.io/hostname": "n"}
    jealous = on("n", "jealous", priority=1, shape=shape(100, peers=apart("app=x")))
    plan = Scene([node("n", cpu=1000, labels=labels)], [jealous, on("n", "other", 100, 0)]).plan(
        lone(labels={"app": "x"})
    )
    assert victims(plan) == ["jealous"]


def test_a_node_can_attach_another_volume_once_a_victim_lets_go_of_its_own():
    holder = on("n", "holder", priority=1, shape=shape(100, claims=(ClaimName(Kind.VOLUME_CLAIM, "data"),)))
    scene = Scene([TWO[0]], [holder, on("n", "bystander", 100, 0)])
    scene.attachments.limit("n", {"ebs": 1})
    scene.attachments.bind(Key(Kind.VOLUME_CLAIM, "default", "data"), Attachment("ebs", "a"))
    wanted = ClaimDemands(attachments=(Attachment("ebs", "b"),))
    assert victims(scene.plan(lone(shape=shape(100, bound_to=wanted)))) == ["holder"]


def test_a_standing_that_changes_counts_from_then_on():
    standing = {"a": Standing(1)}
    scene = Scene([TWO[0]], [on("n", "a", 1000, 1)], standings=standing)
    assert victims(scene.plan(lone(cpu=1000))) == ["a"]
    standing["a"] = Standing(99)
    scene.running.changed([one for _, one in scene.table.placed()])
    assert isinstance(scene.plan(lone(cpu=1000)), NoPlan)


def test_a_node_that_goes_takes_its_pods_out_of_the_running():
    scene = Scene(TWO, [on("n", "a", 1000, 1), on("m", "b", 1000, 2)])
    scene.table.drop("n")
    assert victims(scene.plan(lone(cpu=1000))) == ["b"]
    scene.table.put(TWO[0])
    assert victims(scene.plan(lone(cpu=1000))) == ["a"]
