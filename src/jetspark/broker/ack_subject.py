"""The subject an acknowledgement comes to, read in one pass over its bytes.

The hot twin of `api.ack_token`: no object is made, the parts land in fields that are used again for the next one.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, u8

ACK_TOKENS_V1: Final = 9
ACK_TOKENS_V2: Final = 11
DOT: Final = 46


class AckSubject:
    """Where the parts of an ack subject are; one object, used again for every acknowledgement."""

    def __init__(self) -> None:
        self.key: bytes = b""
        self.deliveries: i64 = 0
        self.stream_seq: i64 = 0
        self.consumer_seq: i64 = 0

    def read(self, subject: bytes) -> bool:  # noqa: C901  one pass over the bytes is what makes it cheap
        """Read `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>` or its longer
        form with domain and account before the stream. False when it is neither."""
        size: i64 = len(subject)
        # Where the third to tenth dots are; names carry none, so the count tells the form.
        dots: i64 = 0
        at: i64 = 0
        dot3: i64 = 0
        dot4: i64 = 0
        dot5: i64 = 0
        dot6: i64 = 0
        dot7: i64 = 0
        dot8: i64 = 0
        dot9: i64 = 0
        byte: u8 = 0
        while at < size:
            byte = subject[at]
            if byte == DOT:
                dots += 1
                if dots == 2:
                    dot3 = at
                elif dots == 4:
                    dot4 = at
                elif dots == 5:
                    dot5 = at
                elif dots == 6:
                    dot6 = at
                elif dots == 7:
                    dot7 = at
                elif dots == 8:
                    dot8 = at
                elif dots == 9:
                    dot9 = at
            at += 1
        tokens = dots + 1
        if tokens == ACK_TOKENS_V1:
            self.key = subject[dot3 + 1 : dot4]
            self.deliveries = number_at(subject, dot4 + 1, dot5)
            self.stream_seq = number_at(subject, dot5 + 1, dot6)
            self.consumer_seq = number_at(subject, dot6 + 1, dot7)
        elif tokens >= ACK_TOKENS_V2:
            self.key = subject[dot4 + 1 : dot6]
            self.deliveries = number_at(subject, dot6 + 1, dot7)
            self.stream_seq = number_at(subject, dot7 + 1, dot8)
            self.consumer_seq = number_at(subject, dot8 + 1, dot9)
        else:
            return False
        return True


def number_at(text: bytes, start: i64, end: i64) -> i64:
    """Decimal digits in a range; -1 for anything else."""
    if end <= start or end - start > 18:
        return -1
    value: i64 = 0
    at: i64 = start
    while at < end:
        digit: i64 = text[at] - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
        at += 1
    return value
