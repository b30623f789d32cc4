"""Subject transforms: ours and nats-server's accept, refuse and rewrite alike."""

import json
from itertools import product

import pytest
from tests.api.nats_oracle import Oracle

from jetspark.api.subject_transform import SubjectTransformer, TransformError, check_mapping

pytestmark = pytest.mark.oracle

SOURCES = ["a.*.*", "a.>", "a.b", "*.>", ">", ""]
DESTINATIONS = [
    *("x.$1", "x.$2.$1", "x.$foo", "x.$1.>", "x.>", ">", "x.*", "x..y", "x.y z", "x.>.y", "x.a>b", ""),
    *("x.{{wildcard(1)}}", "x.{{Wildcard( 2 )}}", "x.{{wildcard(3)}}", "x.{{wildcard()}}", "x.{{wildcard(1,2)}}"),
    *("x.{{wildcard(a)}}", "x.{{WILDCARD(1)}}", "x.{{ wildcard (1) }}", "x.{{wildcard(1)}}y", "x.{{wildcard(1)}}.>"),
    *("x.{{wildcard(0)}}.{{wildcard(-1)}}", "x.{{partition(3,1)}}", "x.{{partition(10,1,2)}}", "x.{{partition(5)}}"),
    *("x.{{partition()}}", "x.{{partition(a)}}", "x.{{partition(3,a)}}", "x.{{partition(0,1)}}", "{{partition(3)}}.>"),
    *("x.{{partition(99999999999,1)}}", "x.{{partition(3,7)}}", "x.{{split(1,-)}}", "x.{{split(1)}}"),
    *("x.{{split(1,-,-)}}", "x.{{split(a,-)}}", "x.{{split(1,- )}}", "x.{{split(1,)}}", "x.{{splitfromleft(1,2)}}"),
    *("x.{{SplitFromRight(1,2)}}", "x.{{slicefromleft(1,2)}}", "x.{{slicefromright(1,2)}}", "x.{{left(1,2)}}"),
    *("x.{{right(1,2)}}", "x.{{slicefromleft(1,a)}}", "x.{{slicefromleft(1,99999999999)}}", "x.{{left(1,99)}}"),
    *("x.{{random(3)}}", "x.{{random()}}", "x.{{random(1,2)}}", "x.{{foo(1)}}", "x.{{}}"),
]
SUBJECTS = ["a.foo-bar.12345", "a.--f--o-.x", "a.z.y", "a.b", "a.foo-bar.12345.c.d"]


@pytest.mark.parametrize(("source", "destination"), list(product(SOURCES, DESTINATIONS)))
def test_a_transform_is_refused_or_rewrites_as_in_nats_server(oracle: Oracle, source: str, destination: str) -> None:
    config = {
        "name": "T",
        "subjects": ["a.>"],
        "storage": "memory",
        "subject_transform": {"src": source, "dest": destination},
    }
    error = oracle.api("STREAM.CREATE.T", config).get("error")
    stored = {}
    if error is None and destination and "random" not in destination:
        for subject in SUBJECTS:
            _, answer = oracle.request(subject, b"x")
            message = oracle.api("STREAM.MSG.GET.T", {"seq": json.loads(answer)["seq"]})
            stored[subject] = message["message"]["subject"]
    oracle.remove_streams()

    if error is not None:
        with pytest.raises(TransformError) as refused:
            check_mapping(source, destination)
        assert f"stream transform: {refused.value}" == error["description"]
        return
    check_mapping(source, destination)
    # A subject that does not fall under the source is stored as it is.
    ours = {subject: SubjectTransformer.parse(source, destination).transform(subject) or subject for subject in stored}
    assert ours == stored
