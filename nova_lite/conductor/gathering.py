"""Gathers the questions of many threads that come within a short time, and answers them together.

The first thread that asks waits for the questions of others, and then answers all of them. The others wait for that. So there
is no thread and no timer beside those that ask, and green and native threads do the same.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from oslo_log import log

from nova_lite import retry

LOG = log.getLogger(__name__)
Q = TypeVar("Q")
A = TypeVar("A")


def one_by_one_after_error(answer: Callable[[list[Q]], Sequence[A]],
                           is_for_all: Callable[[Exception], bool]) -> Callable[[list[Q]], Sequence[A | Exception]]:
    """``answer``, for a :class:`Gatherer`: one question that raises an error must not cost the others their answers. After an
    error each question is answered alone, unless the error ``is_for_all``."""
    def alone(question: Q) -> A | Exception:
        try:
            return answer([question])[0]
        except Exception as error:
            if is_for_all(error):
                raise
            return error

    def answer_all(questions: list[Q]) -> Sequence[A | Exception]:
        try:
            return answer(questions)
        except Exception as error:
            if len(questions) == 1 or is_for_all(error):
                raise
            LOG.warning("%s questions are answered one by one: %s", len(questions), error)
        return [alone(question) for question in questions]
    return answer_all


class _Batch(Generic[Q, A]):
    def __init__(self) -> None:
        self.questions: list[Q] = []
        self.is_full = threading.Event()
        self.answers: Future[Sequence[A | Exception]] = Future()


class Gatherer(Generic[Q, A]):
    """``answer`` takes the questions of a batch and returns as many answers, in their order. An answer that is an exception is
    raised where its question was asked. What ``answer`` raises is raised for all questions of the batch.

    A batch has ``limit()`` questions at most, and waits ``seconds`` for them. While one is answered, the next one is gathered.
    """

    def __init__(self, answer: Callable[[list[Q]], Sequence[A | Exception]], seconds: float,
                 limit: Callable[[], int], clock: retry.Clock = retry.SYSTEM) -> None:
        self._answer, self._seconds, self._limit, self._clock = answer, seconds, limit, clock
        self._lock = threading.Lock()
        self._open: _Batch[Q, A] | None = None

    def ask(self, question: Q) -> A:
        """The answer to one question."""
        with self._lock:
            batch, is_first = self._open or _Batch[Q, A](), self._open is None
            place = len(batch.questions)
            batch.questions.append(question)
            is_full = len(batch.questions) >= self._limit()
            self._open = None if is_full else batch
        if is_full:
            batch.is_full.set()
        if is_first:
            self._answer_all(batch)
        answer = batch.answers.result()[place]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer_all(self, batch: _Batch[Q, A]) -> None:
        try:
            try:
                self._clock.wait(batch.is_full, self._seconds)
            finally:
                with self._lock:
                    if self._open is batch:
                        self._open = None
            batch.answers.set_result(self._answer(batch.questions))
        except Exception as error:
            batch.answers.set_exception(error)
        except BaseException:       # this thread is ended; the others must not wait for it
            batch.answers.set_exception(RuntimeError("the thread that was to answer was ended"))
            raise
