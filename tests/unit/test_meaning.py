"""The comparison of two files of one system, as tests of `init` use it."""

from tests.support import meaning


def test_keys_are_the_same_absent_added_or_different():
    ours = {
        "name": "a",
        "environs": ["mpich", "gnu"],
        "scheduler": "slurm",
        "extras": {"nodes": 2, "link_class": "native", "expected": {"source": "us"}},
    }
    found = {
        "name": "a",
        "environs": ["gnu", "mpich"],
        "scheduler": "squeue",
        "extras": {"link_class": "native", "cpu": "x"},
    }
    rows = meaning.compared(
        {"partitions": [ours, ours | {"name": "b"}]}, {"partitions": [found, {"name": "c"}]}
    )
    assert {key: verdict for _, key, verdict, _, _ in rows} == {
        "environs": "same",
        "scheduler": "different",
        "extras.nodes": "absent",
        "extras.link_class": "same",
        "extras.expected.source": "absent",
        "extras.cpu": "added",
    }
    assert ["scheduler", "different", "a", "slurm", "squeue"] in meaning.table(rows)
