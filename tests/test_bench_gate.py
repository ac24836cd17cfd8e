"""The simulation that says how often the gate errs."""
import pytest

from nearmetal import bench_gate


@pytest.mark.parametrize('hits, trials, text', [(0, 4000, '0.00-0.09'), (4000, 4000, '99.91-100.00'), (5, 10, '18.71-81.29')])
def test_the_interval_of_a_rate(hits, trials, text):
    assert bench_gate.interval(hits, trials) == text


def test_a_short_run_keeps_the_promises_and_shows_every_method(monkeypatch, capsys):
    monkeypatch.setattr('sys.argv', ['bench-gate', '--trials', '100'])
    assert bench_gate.main() == 0
    out = capsys.readouterr().out
    assert out.count('judge') == 12 and all(out.count(name) == 12 for name in bench_gate.OTHERS)


def test_a_promise_that_is_not_kept_is_named(monkeypatch, capsys):
    monkeypatch.setattr('sys.argv', ['bench-gate', '--trials', '100', '--baseline', '20'])
    assert bench_gate.main() == 1
    assert 'promise not kept: CV 8 %, step 10 %' in capsys.readouterr().err
