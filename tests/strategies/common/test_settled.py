from mfbo_torch.history import History, Query
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies.common.settled import Settled
from mfbo_torch.strategies.snapshot import Snapshot, SnapshotCache

SPACE = Space((Parameter("x", 0.0, 1.0),), (1.0, 10.0))


def test_a_key_lasts_until_a_record_ends():
    settled = Settled()

    def key(history, space=SPACE):
        return settled(Snapshot(history, space, SnapshotCache()))

    empty = History()
    one = empty.asked(Query((0.1,), 0), 1.0)
    two = one.asked(Query((0.2,), 1), 10.0)
    first = key(empty)
    assert key(one) is key(two) is first
    done = two.updated(two.records[1].done(0.5))
    second = key(done)
    assert second is not first
    third = done.asked(Query((0.3,), 0), 1.0)
    assert key(third) is second
    assert key(third.updated(third.records[0].retried("no", 2.0))) is second  # it is pending still
    assert key(done) is not second  # a shorter history may be another one
    fourth = key(done)
    assert key(done.updated(done.records[0].failed("no"))) is not fourth
    assert key(done, Space((Parameter("x", 0.0, 2.0),), (1.0, 10.0))) is not fourth
