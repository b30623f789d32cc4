"""Reads a project's definitions without Spark: `python -m jetspark.spark.pipelines.graph_reader SPEC RESULT`.

The definition files are ordinary Python that build DataFrames. Over Spark Connect a DataFrame is only a description
until something asks the server about it, so the files run here against a session whose server is a few lines of this
module: settings are answered from the spec, a `spark.sql(...)` answers its own text, and whatever needs a real answer
(a schema, say) fails at once and is reported with the flow. What each flow reads is then in its description.

In a process of its own, because the files are the user's and may print, import and change what they like.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pyspark.sql.connect.proto as messages
from pyspark.pipelines.block_session_mutations import block_session_mutations
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Sink, TemporaryView
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession

from jetspark.spark.pipelines.project import Project, load_project
from jetspark.spark.pipelines.sql_statements import query_inputs, statements

SQL_KINDS = {"streaming table": "table", "materialized view": "materialized view", "temporary view": "view"}


class NeedsSpark(Exception):
    """A definition asked something only a running Spark could answer."""


class _Answer:
    """What an interceptor must return: a call that is over."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self, timeout: float | None = None) -> Any:
        return self._value


# grpc ships no types, so its classes are Any.
class NoServer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Answers in place of a Spark Connect server."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        self._configuration = configuration

    def intercept_unary_unary(self, continuation: object, details: Any, request: Any) -> _Answer:
        """A setting."""
        if not details.method.endswith("/Config"):
            raise NeedsSpark("asks Spark for a schema or a plan while it is being defined")
        answer = messages.ConfigResponse(session_id=request.session_id, server_side_session_id="none")
        operation = request.operation
        for pair in operation.get_with_default.pairs:
            default = pair.value if pair.HasField("value") else None
            self._add(answer, pair.key, self._configuration.get(pair.key, default))
        for key in (*operation.get.keys, *operation.get_option.keys):
            self._add(answer, key, self._configuration.get(key))
        if operation.HasField("get_all"):
            for key, value in self._configuration.items():
                if key.startswith(operation.get_all.prefix):
                    self._add(answer, key, value)
        return _Answer(answer)

    @staticmethod
    def _add(answer: Any, key: str, value: str | None) -> None:
        pair = answer.pairs.add(key=key)
        if value is not None:
            pair.value = value

    def intercept_unary_stream(self, continuation: object, details: Any, request: Any) -> Iterator[Any]:
        """A statement of SQL stands for itself."""
        if not request.plan.command.HasField("sql_command"):
            raise NeedsSpark("runs a query while it is being defined")
        common = {"session_id": request.session_id, "operation_id": request.operation_id}
        result = messages.ExecutePlanResponse(**common, server_side_session_id="none", response_id="1")
        result.sql_command_result.relation.CopyFrom(request.plan.command.sql_command.input)
        done = messages.ExecutePlanResponse(**common, server_side_session_id="none", response_id="2")
        done.result_complete.SetInParent()
        return iter([result, done])


@dataclass
class Reader(GraphElementRegistry):
    """Takes down what the files define."""

    session: Any
    outputs: list[dict[str, Any]] = field(default_factory=list)
    flows: list[dict[str, Any]] = field(default_factory=list)

    def register_output(self, output: Any) -> None:
        """A table, view or sink."""
        kind = "table"
        if isinstance(output, Sink):
            kind = "sink"
        elif isinstance(output, MaterializedView):
            kind = "materialized view"
        elif isinstance(output, TemporaryView):
            kind = "view"
        options = {key: str(value) for key, value in (getattr(output, "options", None) or {}).items()}
        self._add_output(output.name, kind, getattr(output, "format", None), options, output.comment)

    def _add_output(
        self, name: str, kind: str, form: str | None, options: dict[str, str], comment: str | None = None
    ) -> None:
        self.outputs.append(
            {"name": name, "kind": kind, "format": form or "", "options": options, "comment": comment or ""}
        )

    def register_flow(self, flow: Any) -> None:
        """A query into something."""
        inputs, problem = self._inputs(flow.func)
        self.flows.append({"name": flow.name, "target": flow.target, "inputs": inputs, "problem": problem})

    def register_auto_cdc_flow(self, flow: Any) -> None:
        """Changes applied to a table."""
        inputs = [{"name": flow.source, "format": "", "options": {}, "streaming": True}]
        self.flows.append({"name": flow.name or flow.target, "target": flow.target, "inputs": inputs, "problem": ""})

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """A file of SQL."""
        for one in statements(sql_text):
            if one.kind != "flow":
                self._add_output(one.name, SQL_KINDS[one.kind], None, {})
            if one.has_query:
                inputs = [_table(name, streaming) for name, streaming in one.inputs]
                self.flows.append({"name": one.name, "target": one.target, "inputs": inputs, "problem": ""})

    def _inputs(self, query: Callable[[], Any]) -> tuple[list[dict[str, Any]], str]:
        try:
            plan = query()._plan.to_proto(self.session.client)
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises belongs to its flow
            return [], str(error) if isinstance(error, NeedsSpark) else error_words(error, Path.cwd())
        found: list[dict[str, Any]] = []
        for one in _reads(plan):
            if one not in found:
                found.append(one)
        return found, ""


def error_words(error: BaseException, directory: Path) -> str:
    """An error of the user's code in one line: which file of the project, which line, what."""
    words = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    for name, line in reversed(places):
        # A module that is imported with the help of a file of the project may fail far away from it.
        if Path(name).is_relative_to(directory):
            return f"{Path(name).relative_to(directory)}, line {line}: {words}"
    return words


def _table(name: str, streaming: bool) -> dict[str, Any]:
    return {"name": name, "format": "", "options": {}, "streaming": streaming}


def _reads(message: Any) -> Iterator[dict[str, Any]]:
    """Every read in a plan, wherever it is nested."""
    kind = message.DESCRIPTOR.full_name
    if kind == "spark.connect.Read":
        if message.HasField("named_table"):
            yield _table(message.named_table.unparsed_identifier, message.is_streaming)
        else:
            source = message.data_source
            options = dict(source.options)
            name = ", ".join(source.paths) or options.get("stream") or options.get("path") or source.format
            yield {"name": name, "format": source.format, "options": options, "streaming": message.is_streaming}
    elif kind == "spark.connect.SQL":
        for name, streaming in query_inputs(message.query):
            yield _table(name, streaming)
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if descriptor.message_type.GetOptions().map_entry:
            continue
        for one in value if hasattr(value, "add") else [value]:
            yield from _reads(one)


def read_definitions(project: Project) -> dict[str, Any]:
    """Run the definition files of a project and say what they define."""
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # Nobody listens there, and nobody is asked.
    channel = DefaultChannelBuilder("sc://127.0.0.1:1")
    channel.add_interceptor(NoServer(project.configuration))
    session = SparkSession(channel)
    session.release_session_on_close = False
    SparkSession._set_default_and_active_session(session)
    reader = Reader(session)
    os.chdir(project.directory)
    with graph_element_registration_context(reader), block_session_mutations():
        for path in project.definition_files():
            if path.suffix == ".sql":
                reader.register_sql(path.read_text(encoding="utf-8"), path)
            elif path.suffix == ".py":
                _run_file(path, session)
    return {"outputs": reader.outputs, "flows": reader.flows}


def _run_file(path: Path, session: Any) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, f"no loader for {path}"
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = session
    spec.loader.exec_module(module)


def main(spec_path: str, result_path: str) -> None:
    """Write what a project defines as JSON."""
    project = load_project(Path(spec_path))
    try:
        found = read_definitions(project)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code raises is its owner's to mend
        sys.stderr.write(f"\n{error_words(error, project.directory)}\n")
        sys.stderr.flush()
        os._exit(1)
    with open(result_path, "w", encoding="utf-8") as result:
        json.dump(found, result)
    sys.stdout.flush()
    # The channel's threads wait for a server that was never there.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
