"""`jetspark pipeline`: make, check, draw, run and look after data pipelines on Spark.

Decided here: words, flags and exit codes. What a project is, and how Spark runs it, is decided in
`jetspark.spark.pipelines`, which is loaded when a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jetspark.cli.context import Noun, Settings, pass_settings
from jetspark.cli.errors import FAILED, CliError
from jetspark.cli.output import echo, emit_json, note, show_table

if TYPE_CHECKING:
    from jetspark.spark.pipelines.graph import Graph
    from jetspark.spark.pipelines.project import Project
    from jetspark.spark.pipelines.status import FlowStatus, StreamStatus

# Global options of the line, and the options of source and sink they become.
_CONNECTION = (
    ("server", "servers"),
    ("user", "user"),
    ("password", "password"),
    ("token", "token"),
    ("creds", "credentialsFile"),
    ("nkey", "nkeySeedFile"),
    ("tlscert", "tls.certFile"),
    ("tlskey", "tls.keyFile"),
    ("tlsca", "tls.caFile"),
    ("js_domain", "domain"),
    ("js_api_prefix", "apiPrefix"),
)
_FILES = ("creds", "nkey", "tlscert", "tlskey", "tlsca")
_project_argument = click.argument("project", required=False, type=click.Path(path_type=Path), metavar="[PROJECT]")
_conf_option = click.option(
    "--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark for this run; may be repeated"
)
_master_option = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="Where to run: local[N], spark://host:7077, or sc://host for a Spark Connect server",
)


@click.group(cls=Noun)
def pipeline() -> None:
    """Data pipelines on Spark: projects that declare tables, views and streams.

    PROJECT is a project's folder or its spark-pipeline.yml; by default the project the current folder is in.
    """


@pipeline.command("init")
@click.argument("name", required=False)
@click.option("--template", "-t", default="orders", show_default=True, help="What to start from; see --list")
@click.option("--list", "list_only", is_flag=True, is_eager=True, help="Show the templates and end")
@pass_settings
def init(settings: Settings, name: str | None, template: str, list_only: bool) -> None:
    """Make a new project in the folder NAME.

    Most templates are declared pipelines, for `jetspark pipeline run`; `replay` is two programs of the Python API.
    """
    from jetspark.spark.pipelines.project import SPEC_NAMES, create_project, template_names, template_summary

    if list_only:
        summaries = {one: template_summary(one) for one in template_names()}
        if settings.json:
            emit_json([{"name": one, "summary": summary} for one, summary in summaries.items()])
            return
        width = max(map(len, summaries))
        for one, summary in summaries.items():
            echo(f"{one:{width}}  {summary}")
        return
    if not name:
        raise click.UsageError("name the new project: jetspark pipeline init NAME")
    made = create_project(name, template, Path.cwd())
    for path in made:
        echo(f"  {path.relative_to(Path.cwd())}")
    programs = [f"`python {path.name}`" for path in made if path.parent.name == name and path.suffix == ".py"]
    is_declared = any(path.name in SPEC_NAMES for path in made)
    next_steps = "`jetspark pipeline graph` and `jetspark pipeline run`" if is_declared else " and ".join(programs)
    note(f"Next: cd {name}, make the streams that README.md names, then {next_steps}.")


@pipeline.command("run")
@_project_argument
@_master_option
@_conf_option
@click.option("--refresh", metavar="TABLES", help="Update only these tables, separated by commas")
@click.option("--full-refresh", metavar="TABLES", help="Empty these tables and compute them anew")
@click.option("--full-refresh-all", is_flag=True, help="Empty everything and compute it anew")
@pass_settings
def run(
    settings: Settings,
    project: Path | None,
    master: str,
    conf: tuple[str, ...],
    refresh: str | None,
    full_refresh: str | None,
    full_refresh_all: bool,
) -> None:
    """Run a project once: everything that is there now is processed, and the run ends.

    Run it again for what has come since. A full refresh of a flow into a stream publishes everything again.
    """
    arguments = []
    if refresh:
        arguments += ["--refresh", refresh]
    if full_refresh:
        arguments += ["--full-refresh", full_refresh]
    if full_refresh_all:
        arguments += ["--full-refresh-all"]
    _run(settings, project, "run", master, conf, arguments)


@pipeline.command("dry-run")
@_project_argument
@_master_option
@_conf_option
@pass_settings
def dry_run(settings: Settings, project: Path | None, master: str, conf: tuple[str, ...]) -> None:
    """Check a project against Spark and the servers without running it."""
    _run(settings, project, "dry-run", master, conf, [])


@pipeline.command("graph")
@_project_argument
@click.option("--format", "form", type=click.Choice(["text", "mermaid", "dot"]), default="text", show_default=True)
@pass_settings
def graph(settings: Settings, project: Path | None, form: str) -> None:
    """Draw what reads what. Needs neither Java nor a server."""
    from jetspark.spark.pipelines import graph as graphs
    from jetspark.spark.pipelines.project import find_project

    found = graphs.read_graph(find_project(project))
    if settings.json:
        emit_json(graphs.document(found))
        return
    draw = {"text": graphs.text_tree, "mermaid": graphs.mermaid, "dot": graphs.dot}[form]
    echo(draw(found))
    if form != "text":
        for problem in found.problems():
            note(f"not drawn: {problem}")


@pipeline.command("status")
@_project_argument
@pass_settings
def status(settings: Settings, project: Path | None) -> None:
    """Show how far each flow is, what is still to do, and how the last run went."""
    from jetspark.spark.pipelines.graph import read_graph
    from jetspark.spark.pipelines.project import find_project
    from jetspark.spark.pipelines.status import read_status

    found = find_project(project).with_configuration(_connection_settings(settings))
    state = read_status(found, read_graph(found))
    if settings.json:
        emit_json(state.document())
        return
    echo(_last_run_line(found.name, state.last_run))
    rows = [row for flow in state.flows for row in _flow_rows(flow)]
    columns = ("Flow", "Writes", "Batch", "Committed", "Stream", "Sequence", "Last", "Lag", "Waiting")
    show_table(
        "", columns, rows, right=("Batch", "Sequence", "Last", "Lag", "Waiting"), empty="The project has no flows."
    )


def _run(
    settings: Settings, where: Path | None, action: str, master: str, conf: tuple[str, ...], arguments: list[str]
) -> None:
    from jetspark.spark.pipelines.launch import PipelineRun
    from jetspark.spark.pipelines.project import find_project
    from jetspark.spark.pipelines.watching import watch
    from jetspark.spark.streaming import Interrupts

    project = find_project(where)
    chosen = {**_connection_settings(settings), **_conf_settings(conf)}
    this = PipelineRun(project, action, master=master, settings=chosen, arguments=arguments)
    # From before the start: a signal at any moment must not leave Spark behind.
    with Interrupts().watching() as interrupts, this.started(note):
        note(f"{action} of {project.name} on {master}; the complete log is {this.outcome.log_path}")
        graph = _graph_or_none(this.project) if action == "run" else None
        interrupted = watch(this, graph, note, interrupts)
    for flow, left_out in this.outcome.left_out.items():
        note(f"Warning: flow {flow} left out {left_out.words()}.")
    if interrupted:
        note("Stopped. `jetspark pipeline run` goes on after the last batch that was committed.")
        raise click.exceptions.Exit(128 + interrupts.signal_number)
    if this.outcome.status != 0:
        why = this.outcome.error or "Spark ended with an error"
        raise CliError(f"{action} failed: {why}", hint=f"The log: {this.outcome.log_path}", exit_code=FAILED)
    note("Done." if action == "run" else "The project is in order.")


def _graph_or_none(project: Project) -> Graph | None:
    """The graph, for watching; what is wrong with a project is for the run itself to say."""
    from jetspark.spark.pipelines.errors import PipelineError
    from jetspark.spark.pipelines.graph import read_graph

    try:
        return read_graph(project)
    except PipelineError:
        return None


def _connection_settings(settings: Settings) -> dict[str, str]:
    """What the line (or its environment or context) says about the connection, as settings of the project."""
    from jetspark.cli.connect import effective
    from jetspark.spark.pipelines.project import CONF_PREFIX

    chosen = effective(settings)
    found = {}
    for name, option in _CONNECTION:
        value = str(getattr(chosen, name) or "")
        if value:
            # Executors have other working folders.
            found[CONF_PREFIX + option] = str(Path(value).expanduser().resolve()) if name in _FILES else value
    return found


def _conf_settings(conf: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in conf:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise click.UsageError(f"--conf takes KEY=VALUE, not {text!r}")
        found[key] = value
    return found


def _last_run_line(name: str, last: dict[str, Any] | None) -> str:
    from jetspark.spark.left_out import LeftOut

    if last is None:
        return f"{name} has not been run yet."
    if last["seconds"] is None:
        words = "running since" if last["result"] == "running" else "the last run was killed, begun"
        return f"{name}: {words} {last['started']}"
    line = f"{name}: last run {last['started']}, {last['seconds']} s, {last['result']}"
    line = f"{line}: {last['error']}" if last.get("error") else line
    left_out = {flow: LeftOut(**found) for flow, found in last.get("left_out", {}).items()}
    return "\n".join([line, *(f"{flow} left out {found.words()}" for flow, found in left_out.items())])


def _flow_rows(flow: FlowStatus) -> list[tuple[str, ...]]:
    own = (flow.flow, flow.target, "" if flow.batch is None else str(flow.batch), flow.committed)
    if not flow.streams:
        return [(*own, "", "", "", "", "")]
    return [(*own, *_stream_cells(one)) for one in flow.streams]


def _stream_cells(one: StreamStatus) -> tuple[str, ...]:
    if one.problem:
        return (one.stream, f"{one.done:,}", "?", "?", one.problem)
    waiting = "" if one.behind_s is None else f"{one.behind_s:,.0f} s"
    return (one.stream, f"{one.done:,}", f"{one.last or 0:,}", f"{one.behind or 0:,}", waiting)
