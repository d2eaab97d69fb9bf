"""Calls that signals interrupt: their values and errors, and a handler that raises while a library is busy."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import ModuleType

import pytest

from weft.text import bpe, unigram
from weft.text.interruptible import interruptible
from weft.text.tokenizer import learn
from weft.text.vocabulary import LearningOptions


class Interrupted(KeyboardInterrupt):
    """What the handler of the tests raises, as those of the command line do."""


@pytest.fixture
def handler() -> Iterator[None]:
    def raise_error(number: int, frame: object) -> None:
        raise Interrupted

    previous = signal.signal(signal.SIGTERM, raise_error)
    yield
    signal.signal(signal.SIGTERM, previous)


def test_values_errors_and_context() -> None:
    variable = ContextVar("variable", default=1)
    variable.set(2)
    assert interruptible(lambda: variable.get() + 1) == 3
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 / 0)


def test_a_signal_leaves_a_call_that_does_not_end(handler: None) -> None:
    never = threading.Event()

    def wait() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        never.wait()

    with pytest.raises(Interrupted):
        interruptible(wait)
    never.set()


def test_a_signal_that_another_thread_received(handler: None) -> None:
    """It interrupts no wait of the main thread, whose handler must run nevertheless."""
    never = threading.Event()

    def wait() -> None:
        time.sleep(0.1)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        never.wait()

    with pytest.raises(Interrupted):
        interruptible(wait)
    never.set()


def test_in_another_thread_it_is_a_plain_call() -> None:
    threads: list[str] = []

    def call() -> None:
        threads.append(interruptible(lambda: threading.current_thread().name))

    other = threading.Thread(target=call, name="other")
    other.start()
    other.join()
    assert threads == ["other"]


@pytest.mark.parametrize("module", [bpe, unigram])
def test_learning_a_tokenizer_is_interrupted(
    module: ModuleType, handler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    def with_busy_library(call: Callable[[], object]) -> object:
        def busy() -> object:
            os.kill(os.getpid(), signal.SIGTERM)
            answered.wait()
            return call()

        return interruptible(busy)

    monkeypatch.setattr(module, "interruptible", with_busy_library)
    with pytest.raises(Interrupted):
        learn(module.__name__.rsplit(".", 1)[1], ["a b c a b"], LearningOptions(size=20))
    answered.set()
