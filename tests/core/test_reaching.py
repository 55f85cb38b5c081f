from __future__ import annotations

from operator import itemgetter

import networkx as nx
from hypothesis import given, strategies as st

from tileir.core.graphs.reaching import needed, reached

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20)


@given(EDGES, st.sets(st.integers(0, 7)))
def test_what_is_reached_are_the_start_and_its_descendants(edges: list[tuple[int, int]], start: set[int]) -> None:
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(8))
    found = reached(sorted(start), lambda node: sorted(graph.successors(node)))
    assert found == start.union(*(nx.descendants(graph, node) for node in start))


def test_the_nearest_come_first() -> None:
    following = {"a": ("b", "c"), "b": ("d",), "c": ("d", "a"), "d": ("e", "e")}
    assert tuple(reached(("a", "a"), lambda name: following.get(name, ()))) == ("a", "b", "c", "d", "e")


@given(EDGES, st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_what_is_needed_are_results_and_their_ancestors(
    edges: list[tuple[int, int]], results: set[int], staying: set[int]
) -> None:
    graph = nx.DiGraph([(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]])
    graph.add_nodes_from(range(8))
    steps = [(str(node), [str(read) for read in sorted(graph.predecessors(node))]) for node in range(8)]
    found = needed(steps, map(str, results), itemgetter(0), itemgetter(1), lambda step: int(step[0]) in staying)
    wanted = results | staying
    assert [int(name) for name, _ in found] == sorted(wanted.union(*(nx.ancestors(graph, node) for node in wanted)))
