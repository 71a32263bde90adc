"""What the bench of orderings says of rows: verdicts that can fail, sentences with the cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ordering_rows import (
    Case,
    Prediction,
    Row,
    difference,
    even_cpu,
    middle,
    predicted,
    ring_saves,
)

CASE = Case("paxos", "paxos", nodes=3, size=4_096, clients=4, window=16)
ROW = Row(1_000.0, 1.0, 2.0, 0.3, (0.1, 0.1, 0.1), (8_300.0, 100.0, 100.0))
ALONE = Prediction(sent=8_400.0, messages=3.0, copies=2.0)


def spread(ordering: str, *cpu: float) -> tuple[Case, Row]:
    """A row with a client at each node."""
    case = replace(CASE, ordering=ordering, nodes=len(cpu), is_spread=True)
    return case, replace(ROW, node_cpu_s=cpu)


def test_cpu_is_even_up_to_the_bar_and_paxos_stands_beside_it() -> None:
    (even,) = even_cpu([spread("paxos", 0.3, 0.1, 0.1), spread("s_paxos", 0.13, 0.1, 0.1)])
    assert even.holds and even.found == "1.18 times the mean (paxos 1.80)"
    (uneven,) = even_cpu([spread("s_paxos", 0.2, 0.1, 0.1)])
    assert not uneven.holds and uneven.found == "1.50 times the mean"
    (nothing,) = even_cpu([spread("s_paxos", 0.0, 0.0, 0.0)])
    assert not nothing.holds, "no CPU was counted"


def test_clients_at_the_leader_say_nothing_about_how_even_cpu_is() -> None:
    assert even_cpu([(replace(CASE, ordering="s_paxos"), ROW)]) == []


def test_a_ring_saves_enough_or_does_not() -> None:
    five = replace(CASE, nodes=5)
    paxos = (five, replace(ROW, sent=(16_000.0, 100.0)))
    ring = replace(five, ordering="ring_paxos")
    for sent, holds in [(8_000.0, True), (9_000.0, False)]:
        (verdict,) = ring_saves([paxos, (ring, replace(ROW, sent=(sent, 10.0)))])
        assert verdict.holds is holds
    assert ring_saves([paxos]) == []


def trace() -> dict[str, Any]:
    """One command of 100 bytes: node 1 sends it to two others, node 2 sends a vote."""
    sent = [("n1", 150), ("n1", 150), ("n2", 40), ("client", 130)]
    return {
        "sent": [{"party": party} for party in ("client", "n1", "n2", "n3")],
        "messages": [{"from": party, "bytes": size} for party, size in sent],
    }


def test_the_busiest_node_of_a_trace_is_what_is_predicted() -> None:
    case = replace(CASE, size=100)
    assert predicted(trace(), case) == Prediction(300.0, 2.0, 2.0)
    batches = replace(case, size=10, batch=10)
    assert predicted(trace(), batches) == Prediction(30.0, 0.2, 0.2)


def test_clients_at_all_nodes_take_turns_where_the_called_node_sends_the_values() -> None:
    case = replace(CASE, size=100, is_spread=True)
    assert predicted(trace(), case) == Prediction(300.0, 2.0, 2.0)
    turns = predicted(trace(), replace(case, ordering="s_paxos"))
    assert turns == Prediction(340 / 3, 1.0, 2 / 3)


def test_a_difference_says_which_part_of_the_bytes_it_is() -> None:
    assert difference(CASE, ROW, ALONE) is None

    def told(sent: float, size: int, promise: Prediction) -> str:
        row = replace(ROW, sent=(sent, 0.0))
        return difference(replace(CASE, size=size), row, promise) or ""

    assert "the value went out 1.2 times, not 2.0" in told(5_000.0, 4_096, ALONE)
    with_own = replace(CASE, size=4_096, ordering="s_paxos")
    spread = difference(with_own, replace(ROW, sent=(5_000.0, 0.0)), ALONE) or ""
    assert "clients stay with the node that they found" in spread
    assert "1.5 more copies" in told(8_400.0 + 6_144.0, 4_096, ALONE)
    small = Prediction(sent=700.0, messages=3.0, copies=2.0)
    assert "beside values 100 bytes, not 300: batches" in told(500.0, 200, small)


def test_the_median_of_runs_is_taken_by_rank_where_leaders_differ() -> None:
    runs = [replace(ROW, node_cpu_s=cpu) for cpu in [(0.3, 0.1), (0.1, 0.3), (0.1, 0.5)]]
    assert middle(runs).node_cpu_s == (0.1, 0.3)
