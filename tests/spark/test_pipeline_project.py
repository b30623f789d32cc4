"""Projects without Spark: specs, templates, graphs, where a run is, and what the command line says about them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jetspark.cli.main import cli
from jetspark.client.sync import connect
from jetspark.spark.pipelines import project as project_files
from jetspark.spark.pipelines.errors import PipelineError
from jetspark.spark.pipelines.graph import dot, mermaid, parse_graph, read_graph, text_tree
from jetspark.spark.pipelines.launch import Reasons, environment, spark_settings, storage_for_spark
from jetspark.spark.pipelines.project import create_project, find_project, load_project, template_names
from jetspark.spark.pipelines.run_records import last_runs, only_run, put_record
from jetspark.spark.pipelines.sql_statements import statements
from jetspark.spark.pipelines.status import StreamStatus, parse_offsets, read_checkpoints, read_status
from jetspark.spark.pipelines.watching import Meter, all_done, batches_running
from jetspark.spark.sink_compare import ADAPTIVE_STATELESS
from tests.spark.conftest import OURS, fill, running, url_of


def write_spec(folder: Path, text: str) -> Path:
    path = folder / "spark-pipeline.yml"
    path.write_text(text, encoding="utf-8")
    return path


SPEC = "name: p\nstorage: state\nlibraries: [{glob: {include: transformations/**}}]\n"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *arguments])


def test_a_relative_storage_is_within_the_project_and_an_address_stays(tmp_path: Path) -> None:
    project = load_project(write_spec(tmp_path, SPEC))
    assert project.storage_uri == f"file://{tmp_path}/state"
    assert project.state_dir == tmp_path / "state"
    assert project.warehouse_uri == f"file://{tmp_path}/state/warehouse"
    remote = load_project(write_spec(tmp_path, SPEC.replace("state", "s3://bucket/here/")))
    assert remote.storage_uri == "s3://bucket/here"
    assert remote.state_dir == tmp_path / "state"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("storage: state\n", "'name' is missing"),
        ("name: p\nstorage: s\nlibrarys: []\n", "unknown key 'librarys'"),
        ("name: p\nstorage: s\n", "'libraries' names no files"),
        (SPEC + "configuration: {spark.sql.shuffle.partitions: 4}\n", "put 4 in quotes"),
        ("- a\n", "must hold keys and values"),
        ("name: [\n", "is not YAML"),
        ("5: x\nname: p\n", "unknown key 5"),
        (SPEC.replace("name: p", "name: 5"), "'name' must be text: put 5 in quotes"),
        (SPEC + "database: 5\n", "'database' must be text"),
        ("name: p\nstorage: s\nlibraries: [{glob: transformations}]\n", "each of 'libraries' must read"),
        ("name: p\nstorage: s\nlibraries: [{glob: {include: /etc/**}}]\n", "a path from the folder of the spec"),
    ],
)
def test_a_spec_that_is_wrong_is_refused_with_what_to_do(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        load_project(write_spec(tmp_path, text))


def test_a_spec_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_bytes(b"name: \xff\n")
    with pytest.raises(PipelineError, match="is not YAML"):
        load_project(tmp_path / "spark-pipeline.yml")


def test_a_package_that_is_missing_is_told_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_files, "PACKAGES", ("yaml", "no_such_package"))
    write_spec(tmp_path, SPEC)
    for action in ("graph", "run", "status"):
        refused = invoke(action, str(tmp_path))
        assert (refused.exit_code, "(no_such_package missing): pip install 'jetspark[spark]'" in refused.output) == (
            1,
            True,
        )
    assert not (tmp_path / "state").exists()


def test_a_project_without_definitions_is_refused(tmp_path: Path) -> None:
    write_spec(tmp_path, SPEC)
    refused = invoke("graph", str(tmp_path))
    assert (refused.exit_code, "no .py or .sql file is at transformations/**" in refused.output) == (1, True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n\ndef f(:\n", "transformations/bad.py, line 3: SyntaxError: invalid syntax"),
        ("import nosuch\n", "transformations/bad.py, line 1: ModuleNotFoundError: No module named 'nosuch'"),
        ("def f():\n    raise SystemExit(7)\n\nf()\n", "transformations/bad.py, line 2: SystemExit: 7"),
        (
            "from pyspark import pipelines as dp\n@dp.table\ndef t():\n    return nosuch\n",
            "? flow t: transformations/bad.py, line 4: NameError: name 'nosuch' is not defined",
        ),
    ],
)
def test_an_error_in_a_definition_is_told_with_its_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "transformations").mkdir()
    write_spec(tmp_path, SPEC)
    (tmp_path / "transformations" / "bad.py").write_text(text, encoding="utf-8")
    assert said in invoke("graph", str(tmp_path)).output


def test_a_folder_with_a_space_in_its_name_holds_its_own_checkpoints(tmp_path: Path) -> None:
    folder = tmp_path / "my files #1"
    folder.mkdir()
    project = load_project(write_spec(folder, SPEC))
    checkpoint(project.state_dir / "_checkpoints" / "spark_catalog" / "default" / "t" / "t" / "0", 4, 4, 7)
    assert read_checkpoints(project.checkpoints_uri)["t"].positions == {"ORDERS": 7}
    with storage_for_spark(project, "local[2]") as uri:
        assert " " not in uri
        assert Path(uri.removeprefix("file://")).resolve() == project.state_dir
    with (
        pytest.raises(PipelineError, match="give the spec a `storage` of letters"),
        storage_for_spark(project, "spark://h:7077"),
    ):
        pass
    plain = load_project(write_spec(tmp_path, SPEC))
    with storage_for_spark(plain, "spark://h:7077") as uri:
        assert uri == plain.storage_uri


@pytest.mark.long
def test_a_project_runs_once_at_a_time_and_says_so(tmp_path: Path) -> None:
    create_project("shop", "archive", tmp_path)
    project = find_project(tmp_path / "shop")
    assert last_runs(project) == []
    began = {"action": "run", "started": "today", "seconds": None, "result": "running", "error": "", "log": "1.log"}
    with only_run(project):
        put_record(project.runs_path, began)
        assert last_runs(project)[0]["result"] == "running"
        assert "shop: running since today" in invoke("status", str(project.directory)).output
        refused = invoke("run", str(project.directory))
        assert (refused.exit_code, "another run of shop is under way since today" in refused.output) == (1, True)
    # It left without a word.
    assert last_runs(project)[0]["result"] == "killed"
    assert "shop: the last run was killed, begun today" in invoke("status", str(project.directory)).output
    put_record(project.runs_path, {**began, "seconds": 3, "result": "completed"})
    assert [one["result"] for one in last_runs(project, 9)] == ["completed"]


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_state_that_was_copied_or_moved_is_refused(tmp_path: Path, is_moved: bool) -> None:
    create_project("shop", "archive", tmp_path)
    shop, other = tmp_path / "shop", tmp_path / "other"
    for _ in range(2):
        with only_run(find_project(shop)):
            pass
    if is_moved:
        shop.rename(other)
    else:
        shutil.copytree(shop, other)

    refused = invoke("run", str(other))

    assert refused.exit_code == 1
    assert f"was made in {shop / 'state'} and is now in {other / 'state'}" in " ".join(refused.output.split())
    assert shop.exists() is not is_moved
    # What was cloned without its state begins anew.
    shutil.rmtree(other / "state")
    with only_run(find_project(other)):
        assert find_project(other).location_path.read_text().strip() == str(other / "state")


def test_a_project_is_found_from_a_folder_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_spec(tmp_path, SPEC)
    (tmp_path / "transformations").mkdir()
    monkeypatch.chdir(tmp_path / "transformations")
    assert find_project().directory == tmp_path
    with pytest.raises(PipelineError, match="jetspark pipeline init"):
        find_project(tmp_path / "transformations")


def test_the_resolved_spec_is_private_and_gone_after_the_run(tmp_path: Path) -> None:
    project = load_project(write_spec(tmp_path, SPEC)).with_configuration({"spark.jetspark.password": "secret"})
    with project.resolved_spec() as path:
        assert path.stat().st_mode & 0o077 == 0
        again = load_project(path)
        assert again.storage_uri == project.storage_uri
        assert again.configuration == {"spark.jetspark.password": "secret"}
    assert not path.exists()


def test_a_batch_that_runs_again_keeps_its_partitions_unless_told_otherwise(tmp_path: Path) -> None:
    project = load_project(write_spec(tmp_path, SPEC))

    assert spark_settings(project, "local[2]", {})[ADAPTIVE_STATELESS] == "false"
    assert spark_settings(project, "local[2]", {ADAPTIVE_STATELESS: "true"})[ADAPTIVE_STATELESS] == "true"


def test_spark_is_given_a_catalog_that_outlives_the_run(tmp_path: Path) -> None:
    project = load_project(write_spec(tmp_path, SPEC))
    settings = spark_settings(project, "local[2]", {"spark.executor.memory": "2g", "spark.jetspark.servers": "x"})
    assert settings["spark.sql.catalogImplementation"] == "hive"
    assert str(tmp_path / "state" / "metastore") in settings["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert settings["spark.sql.warehouse.dir"] == project.warehouse_uri
    assert settings["spark.executor.memory"] == "2g"
    assert int(settings["spark.sql.pipelines.execution.maxConcurrentFlows"]) >= 2
    assert "spark.sql.pipelines.execution.maxConcurrentFlows" not in spark_settings(project, "spark://h:7077", {})
    # Settings of the project go into its spec: as properties of the process they would be readable in its list.
    assert "spark.jetspark.servers" not in settings
    variables = environment("spark://host:7077", settings, {"SPARK_REMOTE": "sc://other", "PYTHONPATH": "src"})
    assert variables["PYTHONPATH"] == str(Path.cwd() / "src")
    assert variables["MASTER"] == "spark://host:7077"
    assert "SPARK_REMOTE" not in variables
    assert "spark.sql.catalogImplementation=hive" in variables["PYSPARK_SUBMIT_ARGS"]
    assert environment("sc://host", {}, {})["SPARK_REMOTE"] == "sc://host"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["org.apache.spark.SparkSQLException: a log line", "x.AnalysisException: bad"], "x.AnalysisException: bad"),
        (["x.AnalysisException: ", "", "Failed to resolve.", "more"], "x.AnalysisException: Failed to resolve."),
        (["Error: [A] no table", "Error: [A] no table", "x.Error: see above"], "[A] no table"),
        (["x.Error: y", "Another instance of Derby may have already booted the database"], "another run of this"),
        (["Error: [A] no table", "the JVM ended (killed by signal 9): x", "x.Error: y"], "the JVM ended (killed"),
        (["nothing"], ""),
    ],
)
def test_the_reason_of_a_failure_is_found_in_the_output(lines: list[str], reason: str) -> None:
    reasons = Reasons()
    for line in lines:
        reasons.take(line)
    assert reasons.text().startswith(reason)
    assert bool(reasons.text()) == bool(reason)


def test_the_reason_of_a_flow_that_failed_is_what_its_traceback_ends_with() -> None:
    reasons = Reasons()
    for run in ("1", "2", "3"):
        reasons.begin("Flow 'spark_catalog.default.orders' has FAILED.")
        for line in [
            f"Error: [STREAM_FAILED] Query [id = q, runId = {run}] terminated with exception: [PYTHON] Failed when the"
            " source perform latestOffset: Traceback (most recent call last):",
            '  File "/usr/lib/python3/jetspark/facts.py", line 52, in facts_of',
            "    raise BadOptionError(_no_stream(options, name)) from None",
            "jetspark.client.errors.BadOptionError: option stream: there is no stream NOSUCH",
            " SQLSTATE: 38000 SQLSTATE: XXKST",
            "=== Streaming Query ===",
            "Identifier: spark_catalog.default.orders",
        ]:
            reasons.take(line)
        reasons.begin("Flow spark_catalog.default.orders is STARTING.")
    assert reasons.text() == "flow orders: option stream: there is no stream NOSUCH"
    reasons = Reasons()
    reasons.begin("Failed to resolve flow: 'spark_catalog.default.t'.")
    reasons.take("Error: [UNRESOLVED_COLUMN] no column `nosuch`")
    reasons.take("x.AnalysisException: see above")
    assert reasons.text() == "flow t: [UNRESOLVED_COLUMN] no column `nosuch`"


def test_the_reason_of_a_failure_names_the_line_of_the_definition(tmp_path: Path) -> None:
    reasons = Reasons(tmp_path)
    for line in [
        "Traceback (most recent call last):",
        f'  File "{tmp_path}/transformations/bad.py", line 4, in t',
        '  File "/usr/lib/python3/pyspark/errors.py", line 99, in raise_it',
        "NameError: name 'nosuch' is not defined",
    ]:
        reasons.take(line)
    assert reasons.text() == "transformations/bad.py, line 4: NameError: name 'nosuch' is not defined"
    reasons = Reasons(tmp_path)
    reasons.begin(f"Registering SQL file {tmp_path}/transformations/bad.sql...")
    reasons.take("x.ParseException: syntax error")
    assert reasons.text() == "transformations/bad.sql: x.ParseException: syntax error"
    reasons.begin("Starting run...")
    assert reasons.text() == "x.ParseException: syntax error"


def test_statements_of_sql_say_what_they_make_and_read() -> None:
    text = """
    -- CREATE MATERIALIZED VIEW not_this AS SELECT 1 FROM nowhere;
    CREATE STREAMING TABLE a AS SELECT * FROM STREAM(source.raw) WHERE note <> 'FROM ; here';
    CREATE MATERIALIZED VIEW b AS WITH c AS (SELECT * FROM a) SELECT * FROM c JOIN `odd name`.d USING (x), range(10);
    CREATE STREAMING TABLE empty;
    CREATE FLOW f AS INSERT INTO empty BY NAME SELECT * FROM STREAM a;
    """
    found = list(statements(text))
    assert [(one.kind, one.name, one.target) for one in found] == [
        ("streaming table", "a", "a"),
        ("materialized view", "b", "b"),
        ("streaming table", "empty", "empty"),
        ("flow", "f", "empty"),
    ]
    assert [one.inputs for one in found] == [
        (("source.raw", True),),
        (("a", False), ("odd name.d", False)),
        (),
        (("a", True),),
    ]


@pytest.mark.slow
def test_every_template_is_a_project_whose_graph_is_drawn_without_spark(tmp_path: Path) -> None:
    together = create_project("all", "orders", tmp_path)[0].parent
    for name in template_names():
        made = create_project(f"p-{name}", name, tmp_path)
        assert {".gitignore", "README.md"} < {path.name for path in made}
        for path in (tmp_path / f"p-{name}" / "transformations").glob("*"):
            shutil.copy(path, together / "transformations" / path.name)
    graph = read_graph(find_project(together))
    assert graph.problems() == []
    edges = {(start, end) for start, end, _ in graph.edges()}
    assert edges == {
        ("stream:ORDERS", "orders"),
        ("orders", "by_country"),
        ("orders", "alerts"),
        ("stream:ORDERS", "archive"),
        ("stream:ORDERS", "per_minute"),
        ("per_minute", "statistics"),
        ("stream:ORDERS", "clean"),
        ("stream:ORDERS", "shipped"),
        ("stream:SHIPMENTS", "shipped"),
        ("stream:ORDERS", "routed"),
        ("stream:METRICS", "ack_times"),
        ("stream:ORDERS", "lake"),
    }
    assert "└─ statistics  [sink jetstream to STATISTICS]" in text_tree(graph)


@pytest.mark.slow
def test_the_graph_command_draws_and_says_what_it_cannot_draw(tmp_path: Path) -> None:
    write_spec(tmp_path, SPEC + 'configuration: {spark.jetspark.password: "hunter2"}\n')
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "t.py").write_text(
        "from pyspark import pipelines as dp\n"
        "from jetspark.spark.pipelines import read_messages\n"
        "print('a definition may print')\n"
        "@dp.table\n"
        "def raw(): return read_messages(spark, 'ORDERS')\n"
        "@dp.materialized_view\n"
        "def some(): return spark.sql('SELECT * FROM raw')\n"
        "@dp.materialized_view\n"
        "def curious(): return spark.table('raw').select(*spark.table('raw').columns)\n",
        encoding="utf-8",
    )
    drawn = invoke("graph", str(tmp_path))
    assert drawn.output.splitlines()[:4] == [
        "pipeline p",
        "ORDERS  [stream]",
        "└─ raw  [table]",
        "   └─ some  [materialized view]",
    ]
    assert "? flow curious: asks Spark for a schema" in drawn.output
    document = json.loads(invoke("graph", str(tmp_path), "--json").output)
    assert {"from": "stream:ORDERS", "to": "raw", "streaming": True} in document["edges"]
    assert "hunter2" not in drawn.output + json.dumps(document)
    (tmp_path / "transformations" / "t.py").write_text("import no_such_module\n", encoding="utf-8")
    broken = invoke("graph", str(tmp_path))
    assert broken.exit_code == 1
    assert "No module named 'no_such_module'" in broken.output


def graph_of(flows: list[dict[str, Any]], outputs: list[str]) -> Any:
    made = [{"name": name, "kind": "table", "format": "", "options": {}, "comment": ""} for name in outputs]
    return parse_graph("p", {"outputs": made, "flows": flows})


def flow(name: str, *inputs: str, streaming: bool = True) -> dict[str, Any]:
    reads = [{"name": one, "format": "", "options": {}, "streaming": streaming} for one in inputs]
    return {"name": name, "target": name, "inputs": reads, "problem": ""}


def test_a_table_with_two_inputs_is_drawn_whole_once() -> None:
    graph = graph_of([flow("c", "a", "b"), flow("d", "c", streaming=False)], ["a", "b", "c", "d"])
    assert text_tree(graph).splitlines() == [
        "pipeline p",
        "a  [table]",
        "└─ c  [table]",
        "   └─ d  [table]",
        "b  [table]",
        "└─ c  [table] (drawn above)",
    ]
    assert "n2 -.-> n3" in mermaid(graph)
    assert '"c" -> "d" [style=dashed];' in dot(graph)


def checkpoint(folder: Path, planned: int, committed: int, sequence: int) -> None:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    position = {"v": 1, "streams": {"ORDERS": {"created": "x", "seq": sequence}}}
    for number in range(planned + 1):
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(position)}\n", encoding="utf-8")
    for number in range(committed + 1):
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")


def test_offsets_of_other_sources_are_passed_over() -> None:
    text = 'v1\n{"batchWatermarkMs":0}\n{"v":1,"streams":{"A":{"seq":7,"created":"x"}}}\n-\n12\n{"logOffset":0}'
    assert parse_offsets(text) == {"A": 7}


def test_checkpoints_tell_what_is_done_and_what_is_running(tmp_path: Path) -> None:
    checkpoint(tmp_path / "c" / "d" / "orders" / "orders" / "0", 9, 9, 900)
    checkpoint(tmp_path / "c" / "d" / "orders" / "orders" / "1", 2, 1, 20)
    checkpoint(tmp_path / "alerts" / "big" / "0", 0, -1, 5)
    found = read_checkpoints(f"file://{tmp_path}")
    # After a full refresh the flow has a new checkpoint, and only the newest counts.
    assert (found["orders"].batch, found["orders"].planned, found["orders"].positions) == (1, 2, {"ORDERS": 20})
    assert batches_running(found) == {"orders": 2, "big": 0}
    checkpoint(tmp_path / "c" / "d" / "orders" / "orders" / "1", 3, 2, 30)
    assert all_done({"orders": 2}, read_checkpoints(f"file://{tmp_path}"))
    assert not all_done({"orders": 2, "big": 0}, read_checkpoints(f"file://{tmp_path}"))
    assert read_checkpoints(f"file://{tmp_path}/nothing") == {}


def test_a_run_is_told_in_rows_rate_lag_and_time_left(tmp_path: Path) -> None:
    project = load_project(write_spec(tmp_path, SPEC))
    orders = flow("orders")
    orders["inputs"] = [{"name": "ORDERS", "format": "jetstream", "options": {}, "streaming": True}]
    graph = graph_of([orders], ["orders"])

    def status(done: int, last: int) -> Any:
        return read_status(project, graph, lambda _read, stream, _: StreamStatus(stream, done, last, last - done, 0.0))

    meter = Meter(started_s=0.0)
    assert meter.line(status(100, 1100), 30.0) == "0 messages, 0 messages/s, lag 1,000, unknown time left"
    assert meter.line(status(100, 1100), 31.0) is None
    assert meter.line(status(600, 1100), 41.0) == "500 messages, 50 messages/s, lag 500, 10 s left"
    assert meter.line(status(1100, 1100), 51.0) == "1,000 messages, 50 messages/s, lag 0"


@pytest.mark.slow
def test_status_compares_checkpoints_with_the_server(tmp_path: Path) -> None:
    create_project("shop", "archive", tmp_path)
    project = tmp_path / "shop"
    checkpoint(project / "state" / "_checkpoints" / "spark_catalog" / "default" / "archive" / "archive" / "0", 4, 4, 7)
    (project / "state" / "runs.jsonl").write_text(
        json.dumps({"action": "run", "started": "2026-11-16T00:00:00+00:00", "seconds": 12.5, "result": "completed"})
        + "\n"
        + json.dumps({"action": "dry-run", "started": "later", "seconds": 1, "result": "failed"})
        + "\n",
        encoding="utf-8",
    )
    assert last_runs(find_project(project))[0]["seconds"] == 12.5
    with running(OURS) as server:
        with connect(url_of(server)) as client:
            stream = client.jetstream().create_stream("ORDERS", subjects=["ORDERS.>"])
            fill(stream, 10)
        shown = invoke("status", str(project), "--server", url_of(server), "--json")
        document = json.loads(shown.output)
        text = invoke("status", str(project), "--server", url_of(server)).output
    (found,) = document["flows"]
    assert (found["flow"], found["batch"]) == ("archive", 4)
    (read,) = found["streams"]
    assert (read["stream"], read["done"], read["last"], read["behind"]) == ("ORDERS", 7, 10, 3)
    assert read["behind_s"] >= 0
    assert "shop: last run 2026-11-16T00:00:00+00:00, 12.5 s, completed" in text
    unreachable = json.loads(invoke("status", str(project), "--server", "nats://127.0.0.1:1", "--json").output)
    assert "no server could be reached" in unreachable["flows"][0]["streams"][0]["problem"]


WHOLE = ("archive", "replay", "aggregate", "dedupe", "join", "fan-out", "ack-latency", "lakehouse")


def test_there_is_a_template_for_every_whole_pipeline() -> None:
    assert set(template_names()) == {*WHOLE, "orders"}


def test_init_makes_a_project_and_refuses_what_it_cannot_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = invoke("init", "--list").output.splitlines()
    assert [line.split()[0] for line in listed] == template_names()
    assert "lakehouse    A stream as a Delta table, each row once, without a jar." in listed
    assert invoke("init", "shop").exit_code == 0
    assert load_project(tmp_path / "shop" / "spark-pipeline.yml").name == "shop"
    assert sorted(os.listdir(tmp_path / "shop" / "transformations")) == ["by_country.sql", "orders.py"]
    again = invoke("init", "shop")
    assert (again.exit_code, "choose another name" in again.output) == (1, True)
    unknown = invoke("init", "other", "--template", "nothing")
    assert "there are ack-latency, aggregate" in unknown.output
    programs = invoke("init", "back", "--template", "replay").output
    assert "then `python archive.py` and `python replay.py`" in programs
    refused = invoke("run", "back")
    assert (refused.exit_code, "programs, which `python` starts: archive.py, replay.py" in refused.output) == (1, True)
    assert invoke("init").exit_code == 2
    assert "cannot name a project" in invoke("init", "a/b").output
    assert "KEY=VALUE" in invoke("run", "shop", "--conf", "novalue").output
