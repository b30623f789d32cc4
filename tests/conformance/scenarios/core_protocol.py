"""Core NATS: the client protocol, frame by frame."""

from __future__ import annotations

from tests.conformance.scenario import Run, Server, scenario
from tests.conformance.wire import Frame, WireClient, header_block

QUIET = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1}\r\n'
PLAIN = Server(jetstream=False)


def bare(run: Run) -> WireClient:
    return run.connect(bare=True)


@scenario(PLAIN)
def info_is_the_first_line(run: Run) -> None:
    client = bare(run)
    run.record("info", document=client.info, ends_with_space=client.history[0].line.endswith(b" "))


@scenario()
def info_says_jetstream_when_it_is_on(run: Run) -> None:
    run.record("info", document=bare(run).info)


@scenario(PLAIN)
def second_info_follows_the_first_pong(run: Run) -> None:
    client = bare(run)
    client.send(QUIET + b"PING\r\n")
    run.record_control(client, 2)
    run.exchange(client, b"")


@scenario(PLAIN)
def protocol_zero_gets_no_second_info(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b'CONNECT {"verbose":false,"protocol":0}\r\n')
    run.exchange(client, b"SUB a 1\r\n")


@scenario(PLAIN)
def verbose_answers_ok(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b'CONNECT {"verbose":true,"protocol":0}\r\n')
    run.exchange(client, b"SUB a 1\r\n")
    run.exchange(client, b"PUB a 2\r\nhi\r\n")
    run.exchange(client, b"UNSUB 1\r\n")


@scenario(PLAIN)
def without_connect_the_defaults_are_verbose_and_pedantic(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b"SUB a.* 1\r\n")
    run.exchange(client, b"PUB a.* 2\r\nhi\r\n")


@scenario(PLAIN)
def omitted_connect_options_default_to_true(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b"CONNECT {}\r\n")
    run.exchange(client, b"PUB a..b 0\r\n\r\n")


@scenario(PLAIN)
def publish_reaches_subscribers_with_reply_and_without(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a.b 1\r\nPUB a.b 5\r\nhello\r\nPUB a.b r.1 0\r\n\r\n")


@scenario(PLAIN)
def wildcards_match_by_token(run: Run) -> None:
    client = bare(run)
    subs = b"".join(f"SUB {s} {n}\r\n".encode() for n, s in enumerate(["a.*", "a.>", "*.b", ">", "a.b.c", "a.*.c"], 1))
    run.exchange(client, QUIET + subs)
    for subject in ("a", "a.b", "a.b.c", "x.b", "a.b.c.d"):
        start = len(client.history)
        client.send(f"PUB {subject} 1\r\nx\r\n".encode())
        client.flush()
        run.record("delivered", subject, lines=sorted(f.line.decode() for f in client.history[start:] if f.sid))


@scenario(PLAIN)
def wildcard_characters_inside_a_token_are_literal(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB foo>bar 1\r\nSUB a* 2\r\n")
    run.exchange(client, b"PUB foo>bar 1\r\nx\r\nPUB a* 1\r\ny\r\nPUB ab 1\r\nz\r\n")


@scenario(PLAIN)
def wildcard_publish_is_a_literal(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB foo.* 1\r\nSUB foo.bar 2\r\nPUB foo.* 1\r\nx\r\n")


@scenario(PLAIN)
def pedantic_publish_errors_but_still_delivers(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b'CONNECT {"verbose":false,"pedantic":true}\r\nSUB foo.* 1\r\nPUB foo.* 1\r\nx\r\n')


@scenario(PLAIN)
def invalid_subscriptions_are_refused_and_the_connection_stays(run: Run) -> None:
    client = bare(run)
    for subject in (b"a..b", b".a", b"a.", b"a.>.b", b">.a"):
        run.exchange(client, QUIET + b"SUB " + subject + b" 1\r\n")
    run.exchange(client, b"SUB ok 9\r\nPUB ok 1\r\nx\r\n")


@scenario(PLAIN)
def unsubscribe_stops_delivery(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a 1\r\nPUB a 1\r\nx\r\nUNSUB 1\r\nPUB a 1\r\ny\r\n")


@scenario(PLAIN)
def unsubscribe_with_a_maximum_counts_earlier_deliveries(run: Run) -> None:
    client = bare(run)
    pub = b"PUB a 1\r\nx\r\n"
    run.exchange(client, QUIET + b"SUB a 1\r\n" + pub * 2 + b"UNSUB 1 3\r\n" + pub * 3)
    run.exchange(client, b"SUB a 2\r\n" + pub * 2 + b"UNSUB 2 1\r\n" + pub)


@scenario(PLAIN)
def duplicate_sid_keeps_the_first_subscription(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a 1\r\nSUB b 1\r\nPUB a 1\r\nx\r\nPUB b 1\r\ny\r\n")


@scenario(PLAIN)
def sid_may_be_any_token(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a my-sid-7\r\nPUB a 1\r\nx\r\nUNSUB my-sid-7\r\nPUB a 1\r\nx\r\n")


@scenario(PLAIN)
def keywords_and_separators_are_lenient(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"sub\ta   1\r\npub  a\t 1\r\nx\r\nPub a 1\ny\r\n")


@scenario(PLAIN)
def echo_off_hides_own_messages(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b'CONNECT {"verbose":false,"echo":false}\r\nSUB a 1\r\nPUB a 1\r\nx\r\n')
    other = bare(run)
    run.exchange(other, QUIET + b"PUB a 1\r\ny\r\n")
    run.record("message", line=client.next_message("1").line.decode())


@scenario(PLAIN)
def headers_are_passed_through(run: Run) -> None:
    client = bare(run)
    block = header_block([("A", "1"), ("a", "2"), ("A", "3"), ("Empty", "")])
    size = len(block)
    run.exchange(client, QUIET + b"SUB a 1\r\n" + f"HPUB a {size} {size + 2}\r\n".encode() + block + b"hi\r\n")
    run.exchange(client, f"HPUB a r.x {size} {size}\r\n".encode() + block + b"\r\n")


@scenario(PLAIN)
def headers_are_stripped_for_clients_without_headers(run: Run) -> None:
    reader = bare(run)
    run.exchange(reader, b'CONNECT {"verbose":false,"headers":false}\r\nSUB a 1\r\n')
    writer = bare(run)
    block = header_block([("A", "1")])
    run.exchange(writer, QUIET + f"HPUB a {len(block)} {len(block) + 2}\r\n".encode() + block + b"hi\r\n")
    frame = reader.next_message("1")
    run.record("message", line=frame.line.decode(), payload=frame.payload.decode())


@scenario(PLAIN)
def no_responders_are_answered_with_503(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB in.* 1\r\nPUB nobody.home in.1 0\r\n\r\n")


@scenario(PLAIN)
def no_503_for_a_queue_subscribed_reply(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB in.* q 1\r\nPUB nobody.home in.1 0\r\n\r\n")


@scenario(PLAIN)
def no_503_when_not_asked_for(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b'CONNECT {"verbose":false,"headers":true}\r\nSUB in.* 1\r\nPUB nobody.home in.1 0\r\n\r\n')


@scenario(PLAIN)
def own_subscription_without_echo_is_no_responder(run: Run) -> None:
    client = bare(run)
    options = b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"echo":false}\r\n'
    run.exchange(client, options + b"SUB in.* 1\r\nSUB svc 2\r\nPUB svc in.1 0\r\n\r\n")


@scenario(PLAIN)
def no_responders_needs_headers(run: Run) -> None:
    run.exchange(bare(run), b'CONNECT {"verbose":false,"no_responders":true,"headers":false}\r\n', until=("EOF",))


@scenario(PLAIN)
def unknown_operation_closes(run: Run) -> None:
    run.exchange(bare(run), QUIET + b"FOO bar\r\n", until=("EOF",))


@scenario(PLAIN)
def server_operations_from_a_client_close(run: Run) -> None:
    run.exchange(bare(run), QUIET + b"MSG a 1 0\r\n\r\n", until=("EOF",))


@scenario(PLAIN)
def error_from_a_client_closes_silently(run: Run) -> None:
    run.exchange(bare(run), QUIET + b"-ERR 'x'\r\n", until=("EOF",))


@scenario(PLAIN)
def bad_payload_terminator_closes(run: Run) -> None:
    run.exchange(bare(run), QUIET + b"PUB a 2\r\nhixx\r\n", until=("EOF",))


@scenario(PLAIN)
def bad_arguments_close_silently(run: Run) -> None:
    for line in (b"PUB a\r\n", b"PUB a b c d\r\n", b"PUB a -1\r\n", b"PUB a x\r\n", b"SUB a\r\n", b"SUB a b c d\r\n"):
        run.exchange(bare(run), QUIET + line, until=("EOF",))
    for line in (b"UNSUB\r\n", b"UNSUB 1 2 3\r\n", b"HPUB a 10 5\r\n", b"HPUB a 5\r\n", b"HPUB a x 5\r\n"):
        run.exchange(bare(run), QUIET + line, until=("EOF",))


@scenario(PLAIN)
def hpub_without_negotiated_headers_closes(run: Run) -> None:
    options = b'CONNECT {"verbose":false,"headers":false}\r\n'
    run.exchange(bare(run), options + b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n", until=("EOF",))


@scenario(PLAIN)
def bad_connect_json_closes_silently(run: Run) -> None:
    run.exchange(bare(run), b"CONNECT {bad}\r\n", until=("EOF",))


@scenario(PLAIN)
def connect_options_are_read_as_go_reads_them(run: Run) -> None:
    for options in (
        b'{"Verbose":false,"PEDANTIC":false,"Headers":true}',
        b'{"verbose":null,"name":null,"protocol":null}',
        b'{"verbose":false,"verbose":true}',
        b'{"verbose":false,"unknown":[1,{"a":null}]}',
        b"null",
        b'{"verbose":false}\t',
    ):
        run.exchange(bare(run), b"CONNECT " + options + b"\r\nSUB a 1\r\n")
    run.exchange(bare(run), b'CONNECT{"verbose":false}\r\n')


@scenario(PLAIN)
def a_connect_option_of_the_wrong_type_closes_silently(run: Run) -> None:
    for option in (
        b'"verbose":"yes"',
        b'"verbose":1',
        b'"name":5',
        b'"protocol":"1"',
        b'"protocol":1.0',
        b'"protocol":true',
        b'"protocol":99999999999999999999',
        b'"user":1',
        b'"account":1',
        b'"a":NaN',
    ):
        run.exchange(bare(run), b"CONNECT {" + option + b"}\r\n", until=("EOF",))
    for line in (b"CONNECT\r\n", b"CONNECT  \r\n", b"CONNECTX {}\r\n", b"CONNECT 5\r\n", b"CONNECT {} {}\r\n"):
        run.exchange(bare(run), line, until=("EOF",))


@scenario(PLAIN)
def a_connect_line_has_the_limit_of_every_line(run: Run) -> None:
    for size in (4096, 4097, 5000):
        padding = b"a" * (size - len(b'{"verbose":false,"name":""}'))
        line = b'CONNECT {"verbose":false,"name":"' + padding + b'"}\r\n'
        run.exchange(bare(run), line, until=("EOF",) if size > 4096 else ("PONG",))
    run.exchange(bare(run), b"CONNECT {" + b" " * 6000, until=("EOF",))


@scenario(Server(jetstream=False, config="authorization { token: t }\n", cleanup=False))
def a_connect_line_too_long_is_said_before_a_login(run: Run) -> None:
    run.exchange(bare(run), b"CONNECT {" + b" " * 5000 + b"}\r\n", until=("EOF",))
    run.exchange(bare(run), b"SUB " + b"a" * 5000 + b" 1\r\n", until=("EOF",))


@scenario(PLAIN)
def a_second_connect_keeps_what_it_does_not_name(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n')
    run.exchange(client, b"CONNECT {}\r\nSUB r 1\r\nPUB nobody r 0\r\n\r\n")
    run.exchange(client, b'CONNECT {"verbose":1}\r\n', until=("EOF",))


@scenario(PLAIN)
def what_follows_a_ping_is_not_looked_at(run: Run) -> None:
    run.exchange(bare(run), QUIET + b"PINGX\r\nPONGX\r\n+OKX\r\npingPUB a\r\n")


@scenario(PLAIN)
def bad_protocol_number_closes(run: Run) -> None:
    run.exchange(bare(run), b'CONNECT {"verbose":false,"protocol":2}\r\n', until=("EOF",))


@scenario(PLAIN)
def account_in_connect_is_refused(run: Run) -> None:
    run.exchange(bare(run), b'CONNECT {"verbose":false,"account":"A"}\r\n', until=("EOF",))


@scenario(PLAIN)
def second_connect_changes_options(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b'CONNECT {"verbose":false,"protocol":0}\r\n')
    run.exchange(client, b'CONNECT {"verbose":true,"protocol":0}\r\nSUB a 1\r\n')


@scenario(PLAIN)
def too_long_a_control_line_closes(run: Run) -> None:
    run.exchange(bare(run), QUIET + b"SUB " + b"a" * 4200 + b" 1\r\n", until=("EOF",))
    run.exchange(bare(run), QUIET + b"SUB " + b"a" * 4000 + b" 1\r\n")


@scenario(PLAIN)
def payload_over_the_limit_closes(run: Run) -> None:
    run.exchange(bare(run), QUIET + b"PUB a 1048577\r\n", until=("EOF",))


@scenario(Server(jetstream=False, config="max_payload: 1KB\nmax_control_line: 512\n"))
def smaller_limits_from_the_config_file(run: Run) -> None:
    client = bare(run)
    run.record("info", max_payload=client.info["max_payload"])
    run.exchange(client, QUIET + b"SUB a 1\r\nPUB a 1024\r\n" + b"x" * 1024 + b"\r\n")
    run.exchange(client, b"PUB a 1025\r\n", until=("EOF",))
    run.exchange(bare(run), QUIET + b"SUB " + b"a" * 600 + b" 1\r\n", until=("EOF",))


@scenario(PLAIN)
def exactly_the_payload_limit_is_accepted(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a 1\r\nPUB a 1048576\r\n" + b"x" * 1048576 + b"\r\n")


@scenario(PLAIN)
def queue_group_members_share_and_plain_subscribers_copy(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a q 1\r\nSUB a q 2\r\nSUB a r 3\r\nSUB a 4\r\n")
    client.send(b"PUB a 1\r\nx\r\n" * 20)
    client.flush()
    counts = {sid: len(client.messages[sid]) for sid in "1234"}
    run.record("counts", first_group=counts["1"] + counts["2"], second_group=counts["3"], plain=counts["4"])
    run.record("shared", both=counts["1"] > 0 and counts["2"] > 0)


@scenario(PLAIN)
def queue_members_that_leave_are_skipped(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a q 1\r\nSUB a q 2\r\nUNSUB 1\r\n")
    client.send(b"PUB a 1\r\nx\r\n" * 10)
    client.flush()
    run.record("counts", gone=len(client.messages["1"]), stays=len(client.messages["2"]))


@scenario(PLAIN)
def queue_group_with_wildcard_subjects(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a.* q 1\r\nSUB a.> q 2\r\nSUB a.b q 3\r\n")
    client.send(b"PUB a.b 1\r\nx\r\n" * 30)
    client.flush()
    run.record("counts", total=sum(len(client.messages[sid]) for sid in "123"))


@scenario()
def reserved_subjects_refuse_publishes(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"PUB $NRG.foo 1\r\nx\r\n")
    run.exchange(client, b"PUB a $JS.ACK.x.y 1\r\nx\r\n")
    run.exchange(client, b"PUB a _R_.x 1\r\nx\r\n")


@scenario(PLAIN)
def ping_is_answered_and_trailing_text_tolerated(run: Run) -> None:
    client = bare(run)
    run.exchange(client, b'CONNECT {"verbose":false,"protocol":0}\r\n')
    client.send(b"PING extra\r\n")
    run.record_control(client)
    run.exchange(client, b"PONG\r\n")


@scenario(Server(jetstream=False, config='ping_interval: "200ms"\nping_max: 1\n'))
def silent_clients_are_stale(run: Run) -> None:
    client = run.connect(answer_pings=False)
    run.exchange(client, b"")
    frames: list[Frame] = []
    while not frames or frames[-1].op != "EOF":
        frames.append(client.next_control())
    run.record("frames", lines=[frame.line.decode() for frame in frames if frame.op != "INFO"])


@scenario(PLAIN)
def message_order_is_kept(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a 1\r\n")
    client.send(b"".join(b"PUB a 3\r\n%03d\r\n" % number for number in range(200)))
    client.flush()
    run.record("order", payloads=[frame.payload.decode() for frame in client.messages["1"]])


@scenario(PLAIN)
def jetstream_off_answers_api_with_503(run: Run) -> None:
    run.api("INFO")
    run.api("STREAM.NAMES")


@scenario(PLAIN)
def split_and_joined_frames_are_the_same(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB a 1\r\n")
    for byte in b"PUB a 5\r\nhello\r\n":
        client.send(bytes([byte]))
    run.exchange(client, b"")


@scenario()
def user_info_is_served_on_the_system_subject(run: Run) -> None:
    frame = run.client.request("$SYS.REQ.USER.INFO")
    document = frame.json()
    run.record("user info", keys=sorted(document), server_keys=sorted(document["server"]), data=document["data"])


@scenario(Server(jetstream=False, config="max_pending: 2MB\n"))
def a_subscriber_that_does_not_read_is_cut_off(run: Run) -> None:
    slow = bare(run)
    run.exchange(slow, QUIET + b"SUB big 1\r\n")
    writer = bare(run)
    run.exchange(writer, QUIET)
    block = b"PUB big 100000\r\n" + b"x" * 100_000 + b"\r\n"
    for _ in range(300):
        writer.send(block)
    run.exchange(writer, b"")
    while slow.next_control().op != "EOF":
        pass
    run.record("cut off", errors=[frame.line.decode() for frame in slow.history if frame.op == "-ERR"])
    run.record("cut off", closed=slow.closed, missed=len(slow.messages["1"]) < 300)


@scenario(PLAIN)
def subjects_that_servers_keep_for_themselves(run: Run) -> None:
    loud = b'CONNECT {"verbose":true,"pedantic":true,"headers":true}\r\n'
    for subject in (b"_GR_.x", b"_GR_.", b"_GR_x", b"$GR.x", b"$GR.", b"_R_.x", b"$NRG.x", b"$GNR.x", b"_GR_..x"):
        for options in (QUIET, loud):
            client = bare(run)
            run.exchange(client, options + b"SUB a 1\r\n")
            run.exchange(client, b"PUB " + subject + b" 0\r\n\r\n")
            run.exchange(client, b"PUB " + subject + b" r 0\r\n\r\nPUB a " + subject + b" 0\r\n\r\n")
            run.exchange(client, b"HPUB a " + subject + b" 12 12\r\nNATS/1.0\r\n\r\n\r\n")


@scenario(PLAIN)
def nobody_to_answer_does_not_count_towards_an_unsubscribe(run: Run) -> None:
    client = bare(run)
    run.exchange(client, QUIET + b"SUB r.* 1\r\nUNSUB 1 1\r\n")
    run.exchange(client, b"PUB nobody r.1 0\r\n\r\nPUB nobody r.2 0\r\n\r\n")
    run.exchange(client, b"PUB r.3 0\r\n\r\nPUB r.4 0\r\n\r\n")
