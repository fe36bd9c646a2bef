from __future__ import annotations

import os
import signal
import threading

import pytest

from compress.training.interrupt import catch_interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_only_asks(number):
    with catch_interrupt() as interrupt:
        os.kill(os.getpid(), number)
        assert interrupt.requested


def test_the_second_signal_stops_at_once():
    with catch_interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_stop_says_where_and_how_to_go_on():
    with catch_interrupt() as interrupt:
        interrupt.stop("step 1")
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="interrupted at step 2; go on with --resume"):
            interrupt.stop("step 2")


def test_the_handlers_of_before_are_back_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with catch_interrupt():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_than_the_main_one_catches_nothing():
    seen = []

    def work() -> None:
        with catch_interrupt() as interrupt:
            seen.append((interrupt.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, signal.getsignal(signal.SIGINT))]
