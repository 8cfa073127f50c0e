"""What several processes of one gateway do to the file that their runs are scheduled by."""

import threading

from monoize.agent.runs.durable import _alone


def test_one_process_at_a_time_makes_the_tables(tmp_path):
    url = f"sqlite:///{tmp_path / 'agent-runs.db'}"
    entered = threading.Event()

    def another() -> None:
        with _alone(url):
            entered.set()

    other = threading.Thread(target=another)
    with _alone(url):
        other.start()
        assert not entered.wait(0.2)
    assert entered.wait(25)
    other.join()


def test_a_server_has_a_lock_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with _alone("postgresql://u@h/d"), _alone("postgresql://u@h/d"):
        assert list(tmp_path.iterdir()) == []
