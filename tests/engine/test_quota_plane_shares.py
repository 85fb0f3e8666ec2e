"""With fair sharing, queues and cohorts show their weighted share; without it, no longer."""

from msgspec.structs import replace
from quota_steps import QuotaSteps, cohort, local, queue, quota, work

from headgate.model.effects import PatchStatus
from headgate.model.keys import Key, Kind
from headgate.model.settings import FairStrategy, QuotaSettings

FAIR = QuotaSettings(fair=tuple(FairStrategy))
TEAM, ALL = Key(Kind.COHORT, "", "team"), Key(Kind.COHORT, "", "all")


def tree(settings=FAIR, **fields):
    """Queue cq of cohort team borrows 2 of the 8 cpu of cohort all."""
    queues = queue("cq", 2, "team"), queue("other", 4, "all"), local("lq2", "other")
    cohorts = cohort("team", "all", **fields), cohort("all", groups=quota(default=2))
    return QuotaSteps(*queues, *cohorts, settings=settings).later(1.0)


def shares(steps):
    return {key.name: steps.objects[key].shown_share for key in (TEAM, ALL)}


def writes_about_cohorts(steps):
    return [w for w in steps.written if isinstance(w, PatchStatus) and w.target.key.kind is Kind.COHORT]


def test_a_cohort_without_usage_shows_that_it_uses_nothing():
    assert shares(tree()) == {"team": 0, "all": 0}


def test_a_cohort_that_borrows_shows_its_share_of_what_can_be_lent():
    steps = tree().see(work("a", 4)).later(1.0)
    assert shares(steps) == {"team": 250, "all": 0}  # 2 of 8 cpu, in thousandths


def test_a_weight_that_changes_changes_the_share():
    steps = tree().see(work("a", 4)).later(1.0)
    steps.see(replace(steps.objects[TEAM], fair_weight=2 * steps.objects[TEAM].fair_weight)).later(1.0)
    assert shares(steps)["team"] == 125


def test_a_cohort_that_joins_later_shows_its_share():
    steps = QuotaSteps(queue("cq", 2, "team"), queue("other", 4, "team"), settings=FAIR).see(work("a", 4)).later(1.0)
    steps.see(cohort("team", "all"), cohort("all", groups=quota(default=2))).later(1.0)
    assert shares(steps) == {"team": 0, "all": 0}


def test_a_share_that_is_shown_already_is_not_written_again_after_a_restart():
    steps = tree().see(work("a", 4)).later(1.0)
    before = len(writes_about_cohorts(steps))
    steps.restart().later(1.0)
    assert len(writes_about_cohorts(steps)) == before
    assert shares(steps)["team"] == 250


def test_without_fair_sharing_no_share_is_written():
    assert writes_about_cohorts(tree(QuotaSettings()).see(work("a", 4)).later(1.0)) == []


def test_once_fair_sharing_is_off_a_cohort_shows_its_share_no_longer():
    steps = tree().see(work("a", 4)).later(1.0)
    steps.settings = QuotaSettings()
    steps.restart().later(1.0)
    assert shares(steps) == {"team": None, "all": None}


def test_a_share_that_is_shown_wakes_nobody():
    """What we write ourselves changes no quota."""
    steps = tree().see(work("a", 4), work("b", 9, created=1.0)).later(1.0)
    entries = len(list(steps.journal.about(steps["b"].key)))
    steps.see(replace(steps.objects[TEAM], shown_share=7))
    assert len(list(steps.journal.about(steps["b"].key))) == entries
