"""The ring of samples says what a plain list of the latest ones would say."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from monoize.routing.sample_window import SampleWindow

STEPS = st.lists(
    st.tuples(st.sampled_from(["good", "bad", "bad", "forget", "clear"]), st.integers(0, 4)),
    max_size=60,
)


@given(most=st.integers(1, 5), steps=STEPS)
def test_it_counts_what_a_list_would_hold(most, steps):
    window, plain, now = SampleWindow(most), deque(maxlen=most), 0.0
    for step, pause in steps:
        now += pause
        if step == "clear":
            window.clear()
            plain.clear()
        elif step == "forget":
            window.forget_before(now - 3)
            while plain and plain[0][0] < now - 3:
                plain.popleft()
        else:
            window.add(now, failed=step == "bad")
            plain.append((now, step == "bad"))
        assert len(window) == len(plain)
        assert window.failures == sum(failed for _, failed in plain)
