"""Outlines of models: their description without nodes, which is also stored in the cache on disk."""

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
    """Metadata of a model.

    Attributes:
        producer_name: Tool that wrote it.
        domain: Organisation that it belongs to, as in ``org.onnx``.
        description: Description of the model.
        graph_description: Description of its graph.
        version: Its version.
        properties: Custom metadata, by name.
    """

    producer_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    properties: Mapping[str, str]

    @classmethod
    def of(cls, model: ModelProto) -> About:
        """Return the metadata of a model."""
        properties = {each.key: each.value for each in model.metadata_props}
        words = model.producer_name, model.domain, model.doc_string, model.graph.doc_string
        producer, domain, description, of_graph = map(str, words)
        return cls(producer, domain, description, of_graph, int(model.model_version), MappingProxyType(properties))


@frozen
class Outline:
    """Inputs, outputs and metadata of a model.

    Attributes:
        name: Name of its graph.
        inputs: Inputs, without weights.
        outputs: Results.
        defaults: Weights that may also be passed.
        about: Metadata.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    defaults: tuple[Port, ...]
    about: About

    @classmethod
    def of(cls, graph: Graph, model: ModelProto) -> Outline:
        """Return the outline of a model with this graph."""
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
        """Return the outline that :meth:`to_json` wrote.

        Raises:
            ValueError: It is not JSON, or not that of an outline.
        """
        name, (inputs, outputs, defaults), (producer, domain, own, of_graph, version, properties) = json.loads(text)
        about = About(producer, domain, own, of_graph, version, MappingProxyType(properties))
        return cls(name, _ports(inputs), _ports(outputs), _ports(defaults), about)


def _ports(rows: list[Any]) -> tuple[Port, ...]:
    return tuple(Port(name, kind, None if dims is None else tuple(dims)) for name, kind, dims in rows)
