"""A test with a server of its own. `pip install 'jetspark[server]'` brings the fixture; run this with pytest."""

import jetspark.sync
from jetspark.server.embedded import RunningServer


def test_an_order_is_stored(jetspark_server: RunningServer) -> None:
    with jetspark.sync.connect(jetspark_server.url) as connection:
        jetstream = connection.jetstream()
        jetstream.create_stream("ORDERS", subjects="orders.*")

        assert jetstream.publish("orders.new", b"two cups").seq == 1
