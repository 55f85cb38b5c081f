"""Outlines of models: what is told of one without a look at its nodes, as the cache on disk keeps it too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import frozen

from tileir_onnx.graph import Graph, Port

if TYPE_CHECKING:
    from onnx import ModelProto


@frozen
class About:
    """Words about a model.

    Attributes:
        producer_name: The tool that wrote it.
        domain: The organisation that it belongs to, as in ``org.onnx``.
        description: A text about it.
        graph_description: A text about its graph.
        version: Its version.
        properties: What else its maker wrote, by name.

    """

    producer_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    properties: Mapping[str, str]

    @classmethod
    def of(cls, model: ModelProto) -> About:
        """Return the words that a model has."""
        properties = {each.key: each.value for each in model.metadata_props}
        words = model.producer_name, model.domain, model.doc_string, model.graph.doc_string
        producer, domain, description, of_graph = map(str, words)
        return cls(producer, domain, description, of_graph, int(model.model_version), MappingProxyType(properties))


@frozen
class Outline:
    """Inputs, outputs and words of a model.

    Attributes:
        name: The name of its graph.
        inputs: What it is called with; weights are left out.
        outputs: Its results.
        defaults: Weights that may be passed as well.
        about: Who made it, in words.

    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    defaults: tuple[Port, ...]
    about: About

    @classmethod
    def of(cls, graph: Graph, model: ModelProto) -> Outline:
        """Return what is told of a model with this graph."""
        return cls(graph.name, graph.inputs, graph.outputs, graph.defaults, About.of(model))

    def to_json(self) -> str:
        """Return it as JSON, for :meth:`from_json`."""
        ports = [
            [[port.name, port.kind, port.dims] for port in each] for each in (self.inputs, self.outputs, self.defaults)
        ]
        about = self.about
        words = about.producer_name, about.domain, about.description, about.graph_description, about.version
        return json.dumps([self.name, ports, [*words, dict(about.properties)]])

    @classmethod
    def from_json(cls, text: str) -> Outline:
        """Return what :meth:`to_json` wrote.

        Raises:
            ValueError: It is no JSON, or not that of an outline.

        """
        name, (inputs, outputs, defaults), (producer, domain, own, of_graph, version, properties) = json.loads(text)
        about = About(producer, domain, own, of_graph, version, MappingProxyType(properties))
        return cls(name, _ports(inputs), _ports(outputs), _ports(defaults), about)


def _ports(rows: list[Any]) -> tuple[Port, ...]:
    return tuple(Port(name, kind, None if dims is None else tuple(dims)) for name, kind, dims in rows)
