"""What a connection's books say, and what it may not say."""

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


def test_publishes_between_servers_are_refused_one_by_one_and_in_a_row() -> None:
    client = BrokerDriver().connect()
    client.subscribe(">")

    client.send(b"PUB _GR_.x r 0\r\n\r\n" * 2 + b"PUB a _GR_.y 0\r\n\r\nPUB a $GR.z 0\r\n\r\n")

    assert client.errors == [
        'Permissions Violation for Publish to "_GR_.x"',
        'Permissions Violation for Publish to "_GR_.x"',
        'Permissions Violation for Publish with Reply of "_GR_.y"',
        'Permissions Violation for Publish with Reply of "$GR.z"',
    ]
    assert client.take_messages() == []


def test_nobody_to_answer_does_not_count_towards_an_unsubscribe() -> None:
    client = BrokerDriver().connect()
    client.send(b"SUB r.* 1\r\nUNSUB 1 1\r\n")

    client.send(b"PUB nobody r.1 0\r\n\r\nPUB nobody r.2 0\r\n\r\n")
    client.send(b"PUB r.3 0\r\n\r\nPUB r.4 0\r\n\r\n")

    assert [message.subject for message in client.take_messages()] == ["r.1", "r.2", "r.3"]
