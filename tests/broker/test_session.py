"""What a connection's books say."""

from __future__ import annotations

from jetspark.testing.broker_driver import BrokerDriver


def test_bytes_out_count_headers_and_payloads_of_acknowledgements_and_deliveries() -> None:
    driver = BrokerDriver()
    publisher, reader = driver.connect(), driver.connect()
    publisher.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
    publisher.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C"}})
    before = publisher.session.out_bytes

    ack = publisher.request("s.a", b"x" * 1000, headers={"A": "b"})

    assert ack is not None
    assert publisher.session.out_bytes - before == len(ack.data)

    reader.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":1,"no_wait":true}')
    [message] = reader.take_messages()

    assert reader.session.out_bytes == len(message.header) + len(message.data)
    assert reader.session.out_msgs == 1
