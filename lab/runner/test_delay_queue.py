"""Packets of the lab's links come in time, in order, and not at all when a link is full."""

from __future__ import annotations

from delay_queue import DelayQueue

MS = 1_000_000


def payloads(queue: DelayQueue, now_ns: int) -> list[bytes]:
    """What has arrived by now, in the order in which it arrives."""
    found = []
    while (packet := queue.pop_due(now_ns)) is not None:
        found.append(packet.payload)
    return found


def test_a_packet_arrives_after_the_delay_and_not_before() -> None:
    queue = DelayQueue(10 * MS)
    assert queue.next_due_ns() is None
    assert queue.offer(5 * MS, 1, 2, b"a")
    assert queue.next_due_ns() == 15 * MS
    assert queue.pop_due(15 * MS - 1) is None
    packet = queue.pop_due(15 * MS)
    assert packet is not None
    assert (packet.source, packet.target, packet.payload) == (1, 2, b"a")
    assert len(queue) == 0


def test_packets_of_all_links_arrive_in_the_order_of_their_times() -> None:
    queue = DelayQueue(10 * MS)
    for sent_ms, source, payload in ((0, 3, b"a"), (1, 1, b"b"), (1, 2, b"c"), (2, 1, b"d")):
        queue.offer(sent_ms * MS, source, 4, payload)
    assert payloads(queue, 11 * MS) == [b"a", b"b", b"c"]
    assert payloads(queue, 12 * MS) == [b"d"]


def test_a_full_link_drops_what_is_sent_next_and_takes_packets_again_later() -> None:
    queue = DelayQueue(10 * MS, bound=2)
    assert [queue.offer(0, 1, 2, payload) for payload in (b"a", b"b", b"c")] == [True, True, False]
    assert queue.offer(0, 2, 1, b"of another link")
    assert queue.dropped == 1
    assert payloads(queue, 10 * MS) == [b"a", b"b", b"of another link"]
    assert queue.offer(10 * MS, 1, 2, b"d")


def test_a_rate_spaces_the_packets_of_a_sender_and_of_no_other() -> None:
    # A megabit a second is 125 bytes in a millisecond.
    queue = DelayQueue(10 * MS, mbit=1.0)
    long, short = bytes(250), b""
    queue.offer(0, 1, 3, long)
    queue.offer(0, 1, 3, short)
    queue.offer(0, 2, 3, short)
    assert payloads(queue, 10 * MS) == [short]
    assert payloads(queue, 12 * MS - 1) == []
    assert payloads(queue, 12 * MS) == [long, short], "what was sent later does not overtake"
    queue.offer(20 * MS, 1, 3, short)
    assert queue.next_due_ns() == 30 * MS, "a link that was idle has saved nothing up"
