"""A pipeline project on disk: its spec file, where its state lives, and new projects from templates.

Decided here: how a spec is found and read, how a storage path becomes the absolute address Spark wants, and which
folders of the state belong to whom. How a project is run is not known here.

A project is what Spark's own declarative pipelines take: `spark-pipeline.yml` and files of definitions. The one thing
that is ours is that `storage` may be a path within the project, so that a project can be cloned. Its state cannot be
copied or moved: Spark's catalog and lists of files have absolute paths in them.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import importlib.util
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jetspark.spark.pipelines.errors import PipelineError

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
# Beside the spec while a run lasts, because Spark looks for the definitions from where its spec is.
TEMPLATE_SUFFIX = ".template"
RESOLVED_PREFIX = ".spark-pipeline."
# Where a pipeline's files read their settings from: `spark.conf.get("spark.jetspark.servers")`.
CONF_PREFIX = "spark.jetspark."
# A PySpark of one's own may have come without what its Connect client and its pipelines need.
PACKAGES = ("yaml", "pyspark", "grpc", "grpc_status", "pandas", "pyarrow")
_FIELDS = {"name", "storage", "catalog", "database", "schema", "configuration", "libraries"}
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_PROJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Project:
    """One project: what its spec says, with every path made absolute."""

    spec_path: Path
    name: str
    storage_uri: str
    libraries: tuple[str, ...]
    catalog: str | None = None
    database: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        """The folder of the spec, from which its definitions are found."""
        return self.spec_path.parent

    @property
    def state_dir(self) -> Path:
        """What stays on the driver's machine: the catalog, the logs, the record of runs."""
        if self.storage_uri.startswith("file:"):
            return Path("/" + self.storage_uri.removeprefix("file:").lstrip("/"))
        return self.directory / "state"

    @property
    def warehouse_uri(self) -> str:
        """Where tables are written: beside the checkpoints, so that executors reach both or neither."""
        return f"{self.storage_uri.rstrip('/')}/warehouse"

    @property
    def checkpoints_uri(self) -> str:
        """Where Spark keeps what each flow has done."""
        return f"{self.storage_uri.rstrip('/')}/_checkpoints"

    @property
    def metastore_dir(self) -> Path:
        """The catalog's own database."""
        return self.state_dir / "metastore"

    @property
    def log_dir(self) -> Path:
        """The complete output of each run."""
        return self.state_dir / "logs"

    @property
    def runs_path(self) -> Path:
        """One line of JSON a run."""
        return self.state_dir / "runs.jsonl"

    @property
    def location_path(self) -> Path:
        """Where the state says in which folder it was made."""
        return self.state_dir / "location"

    @property
    def lock_path(self) -> Path:
        """What a run holds as long as it lasts."""
        return self.state_dir / "run.lock"

    def with_configuration(self, settings: Mapping[str, str]) -> Project:
        """The same project with some settings changed for one run."""
        return replace(self, configuration={**self.configuration, **settings})

    def definition_files(self) -> Iterator[Path]:
        """The files Spark will read, in the order it reads them."""
        for include in self.libraries:
            pattern = f"{include}/*" if include.endswith("/**") else include
            for path in self.directory.glob(pattern):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield path

    def check_definitions(self) -> None:
        """Refuse a project without a single file of definitions."""
        if not any(path.suffix in (".py", ".sql") for path in self.definition_files()):
            raise PipelineError(f"{self.spec_path}: no .py or .sql file is at {', '.join(self.libraries)}")

    @contextlib.contextmanager
    def resolved_spec(self, storage_uri: str = "") -> Iterator[Path]:
        """The spec for Spark, in a file of this run that only its owner may read: settings may hold credentials.

        `storage_uri` is another name for the project's storage, when this run needs one.
        """
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=self.directory, prefix=RESOLVED_PREFIX, suffix=".yml"
        ) as file:
            file.write(self.resolved_text(storage_uri))
            file.flush()
            yield Path(file.name)

    def resolved_text(self, storage_uri: str = "") -> str:
        """The spec with absolute storage and this run's settings."""
        document: dict[str, Any] = {"name": self.name, "storage": storage_uri or self.storage_uri}
        if self.catalog is not None:
            document["catalog"] = self.catalog
        if self.database is not None:
            document["database"] = self.database
        document["configuration"] = dict(self.configuration)
        document["libraries"] = [{"glob": {"include": include}} for include in self.libraries]
        return str(_yaml().safe_dump(document, sort_keys=False))


def find_project(where: Path | None = None) -> Project:
    """The project a spec file or folder names, or the one that holds the current folder."""
    start = (where or Path.cwd()).resolve()
    if start.is_file():
        return load_project(start)
    if not start.is_dir():
        raise PipelineError(f"{start} is neither a project folder nor a spec file")
    folders = [start] if where is not None else [start, *start.parents]
    for folder in folders:
        for name in SPEC_NAMES:
            if (folder / name).is_file():
                return load_project(folder / name)
    programs = sorted(path.name for path in start.glob("*.py"))
    hint = "make one with `jetspark pipeline init NAME`, or name its folder"
    if programs:
        hint = f"what is there are programs, which `python` starts: {', '.join(programs)}"
    raise PipelineError(f"no {SPEC_NAMES[0]} in {start}{'' if where else ' or above'}: {hint}")


def load_project(spec_path: Path) -> Project:
    """Read and check a spec."""
    check_packages()
    try:
        document = _yaml().safe_load(spec_path.read_text(encoding="utf-8"))
    except (_yaml().YAMLError, UnicodeDecodeError) as error:
        raise PipelineError(f"{spec_path} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise PipelineError(f"{spec_path} must hold keys and values: name, storage, libraries")
    unknown = [key for key in document if key not in _FIELDS]
    if unknown:
        raise PipelineError(f"{spec_path}: unknown key {unknown[0]!r}; a spec has {', '.join(sorted(_FIELDS))}")
    for key in ("name", "storage"):
        if document.get(key) in (None, ""):
            raise PipelineError(f"{spec_path}: {key!r} is missing")
    for key in ("name", "storage", "catalog", "database", "schema"):
        if document.get(key) is not None and not isinstance(document[key], str):
            raise PipelineError(f"{spec_path}: {key!r} must be text: put {document[key]!r} in quotes")
    return Project(
        spec_path=spec_path.resolve(),
        name=document["name"],
        storage_uri=_storage_uri(spec_path.resolve().parent, document["storage"]),
        libraries=_libraries(spec_path, document.get("libraries") or []),
        catalog=document.get("catalog"),
        database=document.get("database", document.get("schema")),
        configuration=_configuration(spec_path, document.get("configuration") or {}),
    )


def _storage_uri(directory: Path, storage: str) -> str:
    if _SCHEME.match(storage):
        return storage.rstrip("/")
    return f"file://{(directory / storage).resolve()}"


def _configuration(spec_path: Path, value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise PipelineError(f"{spec_path}: 'configuration' must hold settings, as key: \"value\"")
    for key, setting in value.items():
        if not isinstance(key, str) or not isinstance(setting, str):
            raise PipelineError(f"{spec_path}: configuration {key!r} must be text: put {setting!r} in quotes")
    return value


def _libraries(spec_path: Path, value: object) -> tuple[str, ...]:
    found = []
    for entry in value if isinstance(value, list) else [value]:
        glob = entry.get("glob") if isinstance(entry, dict) else None
        include = glob.get("include") if isinstance(glob, dict) else None
        if not isinstance(include, str) or not include or include.startswith("/"):
            raise PipelineError(
                f"{spec_path}: each of 'libraries' must read  glob: {{include: transformations/**}},"
                " a path from the folder of the spec"
            )
        found.append(include)
    if not found:
        raise PipelineError(f"{spec_path}: 'libraries' names no files of definitions")
    return tuple(found)


def template_names() -> list[str]:
    """The kinds of project there are to start from."""
    root = _templates()
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("_"))


def template_summary(name: str) -> str:
    """What a template is for, in a sentence: the first of its README."""
    return str((_templates() / name / "README.md").read_text(encoding="utf-8").split("\n\n")[1])


def _templates() -> Any:
    return importlib.resources.files("jetspark.spark.pipelines") / "templates"


def create_project(name: str, template: str, parent: Path) -> list[Path]:
    """Make a project folder from a template; the files it holds."""
    if not _PROJECT_NAME.fullmatch(name):
        raise PipelineError(f"{name!r} cannot name a project: use letters, digits, - and _")
    if template not in template_names():
        raise PipelineError(f"no template {template!r}: there are {', '.join(template_names())}")
    target = parent / name
    if target.exists():
        raise PipelineError(f"{target} exists: choose another name or remove it")
    return list(_copy(_templates() / template, target, name))


def _copy(source: Any, target: Path, name: str) -> Iterator[Path]:
    target.mkdir(parents=True)
    for entry in sorted(source.iterdir(), key=lambda found: str(found.name)):
        if entry.name == "__pycache__":
            continue
        # A leading dot is lost in some packagings, and tools would take templates for code of this package.
        path = target / re.sub(r"^dot-", ".", entry.name).removesuffix(TEMPLATE_SUFFIX)
        if entry.is_dir():
            yield from _copy(entry, path, name)
        else:
            path.write_text(entry.read_text(encoding="utf-8").replace("{{name}}", name), encoding="utf-8")
            yield path


def check_packages() -> None:
    """Refuse to begin without what pipelines need: what is missing would otherwise be told in the middle of a run."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise PipelineError(
            f"pipelines need their extra packages ({', '.join(missing)} missing): pip install 'jetspark[spark]'"
        )


def _yaml() -> Any:
    import yaml

    return yaml
