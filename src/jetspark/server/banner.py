"""The lines a server writes while it starts."""

from __future__ import annotations

from jetspark import __version__, _build
from jetspark.api.timestamps import format_duration
from jetspark.broker.options import API_LEVEL, VERSION
from jetspark.server.log import Logger
from jetspark.server.options import MAX_PAYLOAD_WARN_BYTES, Options
from jetspark.server.storage import StoreDirectory, format_bytes


def starting(logger: Logger, name: str, server_id: str, options: Options) -> None:
    logger.info("Starting jetspark server")
    logger.info(f"  Version:  {VERSION}")
    logger.info(f"  Jetspark: {__version__} ({_build.DESCRIPTION})")
    logger.info(f"  Name:     {name}")
    logger.info(f"  ID:       {server_id}")
    if options.config_file:
        logger.info(f"Using configuration file: {options.config_file} ({options.config_digest})")
    if options.max_payload_bytes > MAX_PAYLOAD_WARN_BYTES:
        logger.warning(
            f"Maximum payloads over {format_bytes(MAX_PAYLOAD_WARN_BYTES)} are generally discouraged and could lead "
            "to poor performance"
        )


def jetstream(logger: Logger, store: StoreDirectory, options: Options) -> None:
    logger.info("Starting JetStream")
    if store.is_temporary:
        logger.warning("Temporary storage directory used, data could be lost on system reboot")
    if options.jetstream.sync_always:
        sync = "before every acknowledgement"
    else:
        sync = f"every {format_duration(options.jetstream.sync_interval_ns)}"
    logger.info("---------------- JETSTREAM ----------------")
    logger.info(f"  Strict:          {str(options.jetstream.strict).lower()}")
    logger.info(f"  Max Memory:      {format_bytes(store.max_memory_bytes)}")
    logger.info(f"  Max Storage:     {format_bytes(store.max_storage_bytes)}")
    logger.info(f'  Store Directory: "{store.path}"')
    if options.jetstream.domain:
        logger.info(f"  Domain:          {options.jetstream.domain}")
    logger.info(f"  Sync:            {sync}")
    logger.info(f"  API Level:       {API_LEVEL}")
    logger.info("-------------------------------------------")


def jetstream_started(logger: Logger, took_ns: int) -> None:
    logger.info(f"Took {format_duration(took_ns)} to start JetStream")
