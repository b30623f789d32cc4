"""The graph of a project: what reads what. Reading it is `graph_reader`'s work; here it is a value, and pictures of it.

Three pictures: a tree of text for the terminal, Mermaid for documents, DOT for Graphviz. Options of sources and sinks
may hold secrets, so a picture shows the few that say where data comes from and goes to, and no others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jetspark.spark.pipelines.errors import PipelineError
from jetspark.spark.pipelines.project import Project

READ_TIMEOUT_S = 120
JETSTREAM = "jetstream"


@dataclass(frozen=True)
class Node:
    """Something that holds data: a stream outside, a table, a view, a sink."""

    id: str
    label: str
    kind: str


@dataclass(frozen=True)
class Input:
    """One read of a flow."""

    name: str
    format: str
    options: Mapping[str, str]
    streaming: bool

    @property
    def node(self) -> Node:
        """What is read; a table of the project when there is no format."""
        if not self.format:
            return Node(_last(self.name), self.name, "table")
        if self.format == JETSTREAM:
            return Node(f"stream:{self.name}", self.name, "stream")
        return Node(f"{self.format}:{self.name}", self.name, self.format)


@dataclass(frozen=True)
class Output:
    """A table, view or sink the project defines."""

    name: str
    kind: str
    format: str
    options: Mapping[str, str]
    comment: str

    @property
    def node(self) -> Node:
        """The output, and for a sink what it writes to."""
        kind = self.kind
        if self.kind == "sink":
            where = self.options.get("stream") or self.options.get("subject") or self.options.get("path") or ""
            kind = f"sink {self.format}" + (f" to {where}" if where else "")
        return Node(_last(self.name), self.name, kind)


@dataclass(frozen=True)
class Flow:
    """One query of the project."""

    name: str
    target: str
    inputs: tuple[Input, ...]
    problem: str


@dataclass(frozen=True)
class Graph:
    """A whole project."""

    name: str
    outputs: tuple[Output, ...]
    flows: tuple[Flow, ...]

    def nodes(self) -> dict[str, Node]:
        """Everything there is, outputs over how they are read."""
        found = {one.node.id: one.node for flow in self.flows for one in flow.inputs}
        found.update({output.node.id: output.node for output in self.outputs})
        return found

    def edges(self) -> list[tuple[str, str, bool]]:
        """From, to, and whether as a stream; each once."""
        found: dict[tuple[str, str], bool] = {}
        for flow in self.flows:
            for one in flow.inputs:
                found[(one.node.id, _last(flow.target))] = one.streaming
        return [(start, end, streaming) for (start, end), streaming in found.items()]

    def problems(self) -> list[str]:
        """Flows whose inputs could not be told without Spark."""
        return [f"flow {flow.name}: {flow.problem}" for flow in self.flows if flow.problem]


def _last(name: str) -> str:
    """Tables are known in a project by their last name; the catalog and database are the spec's."""
    return name.rsplit(".", 1)[-1]


def read_graph(project: Project) -> Graph:
    """Read the definitions of a project, in a process of their own."""
    project.check_definitions()
    with tempfile.TemporaryDirectory() as folder, project.resolved_spec() as spec:
        result = Path(folder) / "graph.json"
        done = subprocess.run(
            [sys.executable, "-m", "jetspark.spark.pipelines.graph_reader", str(spec), str(result)],
            capture_output=True,
            text=True,
            timeout=READ_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0 or not result.exists():
            said = done.stderr.strip().splitlines()
            raise PipelineError("the definitions cannot be read: " + (said[-1] if said else "no reason was given"))
        return parse_graph(project.name, json.loads(result.read_text(encoding="utf-8")))


def parse_graph(name: str, document: dict[str, Any]) -> Graph:
    """A graph from what the reader wrote."""
    return Graph(
        name=name,
        outputs=tuple(Output(**output) for output in document["outputs"]),
        flows=tuple(
            Flow(flow["name"], flow["target"], tuple(Input(**one) for one in flow["inputs"]), flow["problem"])
            for flow in document["flows"]
        ),
    )


def text_tree(graph: Graph) -> str:
    """A tree from the sources down; what has several inputs is drawn whole once and named at the others."""
    nodes = graph.nodes()
    below: dict[str, list[str]] = {}
    for start, end, _ in graph.edges():
        below.setdefault(start, []).append(end)
    fed = {end for _, end, _ in graph.edges()}
    lines = [f"pipeline {graph.name}"]
    drawn: set[str] = set()
    for root in [node for node in nodes if node not in fed]:
        lines += _branch(root, nodes, below, drawn, "", "")
    # A ring has no root; Spark refuses it, and the picture still shows it.
    for node in nodes:
        if node not in drawn:
            lines += _branch(node, nodes, below, drawn, "", "")
    return "\n".join([*lines, *(f"? {problem}" for problem in graph.problems())])


def _branch(
    at: str, nodes: Mapping[str, Node], below: Mapping[str, list[str]], drawn: set[str], lead: str, indent: str
) -> Iterator[str]:
    node = nodes[at] if at in nodes else Node(at, at, "undefined")
    again = at in drawn and bool(below.get(at))
    yield f"{lead}{node.label}  [{node.kind}]{' (drawn above)' if again else ''}"
    if again:
        return
    drawn.add(at)
    children = below.get(at, [])
    for index, child in enumerate(children):
        last = index == len(children) - 1
        yield from _branch(
            child, nodes, below, drawn, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")
        )


def mermaid(graph: Graph) -> str:
    """A Mermaid flowchart: streaming reads as solid arrows, whole reads as dotted ones."""
    nodes = graph.nodes()
    ids = {name: f"n{index}" for index, name in enumerate(nodes)}
    lines = ["flowchart LR"]
    for name, node in nodes.items():
        text = f"{node.label}<br/><small>{node.kind}</small>".replace('"', "'")
        left, right = ("[(", ")]") if "table" in node.kind else ("([", "])") if node.kind == "stream" else ("[", "]")
        lines.append(f'    {ids[name]}{left}"{text}"{right}')
    for start, end, streaming in graph.edges():
        lines.append(f"    {ids[start]} {'-->' if streaming else '-.->'} {ids.get(end, end)}")
    return "\n".join(lines)


def dot(graph: Graph) -> str:
    """A DOT digraph for Graphviz."""
    lines = [f"digraph {json.dumps(graph.name)} {{", "    rankdir=LR;", "    node [shape=box];"]
    for name, node in graph.nodes().items():
        shape = "cylinder" if "table" in node.kind else "cds" if node.kind == "stream" else "box"
        label = json.dumps(node.label)[:-1] + "\\n" + json.dumps(node.kind)[1:]
        lines.append(f"    {json.dumps(name)} [label={label}, shape={shape}];")
    for start, end, streaming in graph.edges():
        style = "" if streaming else " [style=dashed]"
        lines.append(f"    {json.dumps(start)} -> {json.dumps(end)}{style};")
    return "\n".join([*lines, "}"])


def document(graph: Graph) -> dict[str, Any]:
    """The graph for a script, without options: they may hold secrets."""
    return {
        "pipeline": graph.name,
        "nodes": [{"id": node.id, "name": node.label, "kind": node.kind} for node in graph.nodes().values()],
        "edges": [{"from": start, "to": end, "streaming": streaming} for start, end, streaming in graph.edges()],
        "problems": graph.problems(),
    }
