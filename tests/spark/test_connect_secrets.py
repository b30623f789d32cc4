"""Secrets over Spark Connect, which writes every request into its events: they are hidden there too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jetspark.client.sync import connect
from jetspark.spark.spark_session import REDACTION
from jetspark.testing.processes import ServerProcess
from tests.spark.conftest import fill, url_of
from tests.spark.test_connect_client import environment

SECRET = "hunter2-0cc175b9"

# Each with what is left of it in front of the word that gives it away.
MISSPELT = {
    **dict.fromkeys(("passwrod", "pasword", "passwd", "passowrd", "pwd", "passphrase", "tokn", "toekn", "Tokne"), ""),
    **dict.fromkeys(("secert", "secrt", "seed", "jwt", "creds", "nkey"), ""),
    "user_credentials": "user_",
    "nkeySecert": "",
}

_READ = """
import sys
from jetspark.spark import session
url, secret, events = sys.argv[1:]
spark = session(remote="local[2]", **{
    "spark.ui.enabled": False, "spark.eventLog.enabled": True, "spark.eventLog.dir": events,
    "spark.eventLog.compress": False, "spark.python.authenticate.socketTimeout": "90s",
})
options = dict(servers=url, stream="HIDDEN", user="me", password=secret)
counts = [spark.read.format("jetstream").options(**options).load().count()]
spark.sql(
    "CREATE TEMPORARY VIEW hidden USING jetstream "
    f"OPTIONS (servers '{url}', stream 'HIDDEN', token '{secret}')"
)
counts.append(spark.sql("SELECT count(*) FROM hidden").collect()[0][0])
spark.stop()
print(counts)
"""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f'options {{\n  key: "password"\n  value: "{SECRET}"\n}}', "options {\n  -\n}"),
        (rf'key: "nats.jwtToken"  value: "{SECRET}\"\\"  key: "stream"  value: "S"', '-  key: "stream"  value: "S"'),
        (rf"OPTIONS (user \'me\', password \'{SECRET}\', stream \'S\')", r"OPTIONS (user \'me\', -, stream \'S\')"),
        (f"OPTIONS ('tls.keyPassword' = '{SECRET}', stream = 'S')", "OPTIONS ('tls.key-, stream = 'S')"),
        (f'OPTIONS (`token` "{SECRET}")', "OPTIONS (`-)"),
        ('key: "stream"  value: "S"', 'key: "stream"  value: "S"'),
        # Names that are no options, but meant as secrets.
        *((f'key: "{name}"  value: "{SECRET}"', "-") for name in MISSPELT),
        *((f"OPTIONS ({name} '{SECRET}')", f"OPTIONS ({before}-)") for name, before in MISSPELT.items()),
        ("WHERE passenger = 'a' AND section = 'b'", "WHERE passenger = 'a' AND section = 'b'"),
    ],
)
def test_what_is_hidden_is_the_secret_and_no_more(text: str, left: str) -> None:
    assert re.sub(REDACTION, "-", text) == left


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("connect_port")
def test_secrets_are_in_no_event_of_spark_connect(our_server: ServerProcess, tmp_path: Path) -> None:
    with connect(url_of(our_server)) as client:
        fill(client.jetstream().create_stream("HIDDEN", subjects=["HIDDEN.>"]), 3)
    events = tmp_path / "events"
    events.mkdir()
    # A file, because Spark Connect starts its server with the main program's path.
    script = tmp_path / "read.py"
    script.write_text(_READ)

    done = subprocess.run(
        [sys.executable, str(script), url_of(our_server), SECRET, f"file:{events}"],
        cwd=tmp_path, env=environment([path for path in sys.path if path]) | {"HOME": os.environ.get("HOME", "/")},
        capture_output=True, text=True, check=False, timeout=350,
    )  # fmt: skip

    assert done.stdout.splitlines()[-1:] == ["[3, 3]"], done.stderr[-3000:]
    written = "".join(path.read_text(errors="replace") for path in events.rglob("*") if path.is_file())
    assert "SparkListenerConnectOperationStarted" in written
    assert [written[max(0, at.start() - 200) : at.end()] for at in re.finditer(SECRET, written)] == []
    assert SECRET not in done.stderr
