"""Slots of copies."""
import threading

import pytest

from nova_lite.virt.copy_slots import CopySlots
from tests.support.clock import FastClock


class Stop(Exception):
    pass


def refuse():
    raise Stop


def test_no_more_than_the_limit_and_what_is_under_way_waits_for_nobody():
    copies = CopySlots(1, FastClock())
    with copies.slot(refuse, at_once=False):
        with pytest.raises(Stop), copies.slot(refuse, at_once=False):
            pass
        with copies.slot(refuse, at_once=True), pytest.raises(Stop), copies.slot(refuse, at_once=False):
            pass
    with copies.slot(refuse, at_once=False):
        pass


def test_several_at_a_time():
    copies = CopySlots(2, FastClock())
    with copies.slot(refuse, at_once=False), copies.slot(refuse, at_once=False):
        with pytest.raises(Stop), copies.slot(refuse, at_once=False):
            pass


def test_who_came_first_is_first():
    copies, order, asked = CopySlots(1, FastClock()), [], {}

    def copy(number):
        with copies.slot(asked[number].set, at_once=False):
            order.append(number)
    threads = [threading.Thread(target=copy, args=(number,)) for number in range(3)]
    with copies.slot(refuse, at_once=False):
        for number, thread in enumerate(threads):
            asked[number] = threading.Event()
            thread.start()
            assert asked[number].wait(60)
    for thread in threads:
        thread.join(60)
    assert order == [0, 1, 2]
