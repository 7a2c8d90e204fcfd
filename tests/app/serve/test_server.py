"""Who is answered by the server of the page, and what it tells."""

import http.client
import json
import shutil
import socket
import struct
import threading
import time

import pytest
import yaml
from refusals import refused

from mfbo_torch.app import cli, notes
from mfbo_torch.app.serve.live_run import LiveRun
from mfbo_torch.app.serve.server import MOST_BYTES, Server
from mfbo_torch.history.storage import outputs
from mfbo_torch.history.storage.journal import Journal


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder of a finished run."""
    pytest.importorskip("plotly")
    place = tmp_path_factory.mktemp("served")
    settings = {"problem": "toy.Hill", "strategy": "toy.Walk", "capital": 14}
    (place / "run.yaml").write_text(yaml.safe_dump(settings))
    assert cli.main(["run", str(place / "run.yaml"), "--out", str(place / "run")]) == 0
    return place / "run"


@pytest.fixture(scope="module")
def server(out):
    run = LiveRun(out)
    with Server(run) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        run.look()
        yield made
        made.shutdown()


def ask(server, name="state?seen=0", method="GET", token=None, body=None, **headers):
    """The status and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    path = f"/{server.token if token is None else token}/{name}"
    connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.headers)


def test_the_page_and_its_state(server, out):
    status, page, headers = ask(server, "")
    assert (status, headers["Referrer-Policy"], headers["Cache-Control"]) == (200, "no-referrer", "no-store")
    assert 'data-live=""' in page
    assert "connect-src 'self'" in page
    state = json.loads(ask(server)[1])
    history = server.run.run.history
    assert [row[1][0] for row in state["rows"]] == [r.id for r in history]
    assert "capital" in state["figures"]
    assert state["finished"] is True
    later = json.loads(ask(server, f"state?seen={state['version']}")[1])
    assert later == {"version": state["version"], "run": state["run"], "finished": True, "trouble": ""}
    assert json.loads(ask(server, "query?id=1")[1])["why"].startswith("Query 1 ")


def test_what_changes_is_told(tmp_path, out, server):
    """Of a run that goes on, rows that are new or have changed, once each."""
    shutil.copytree(out, tmp_path / "run")
    run = LiveRun(tmp_path / "run")
    run.look()
    seen = int(run.state(0)["version"])
    history = run.run.history
    with Journal(tmp_path / "run" / "history.sqlite") as journal:
        more = history.asked(history.records[0].query, 1.0)
        journal.asked(more.records[-1:])
        run.look()
        state = run.state(seen)
        at = [column["title"] for column in state["columns"]].index("status")
        assert [(i, row[at]) for i, row in state["rows"]] == [(len(history), "pending")]
        journal.ended(more.records[-1].done(0.5))
        run.look()
        later = run.state(int(state["version"]))
        assert [(i, row[at]) for i, row in later["rows"]] == [(len(history), "done")]
    assert run.state(int(later["version"])).keys() == {"version", "run", "finished", "trouble"}


@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("", {}),
        ("wrong", {}),
        (None, {"Host": "example.org"}),
        (None, {"Host": "example.org:{port}"}),
        (None, {"Host": "127.0.0.1"}),
        (None, {"Host": "127.0.0.1:{port}@example.org"}),
        (None, {"Origin": "http://example.org"}),
        (None, {"Origin": "null"}),
        (None, {"Sec_Fetch_Site": "cross-site"}),
        (None, {"Sec_Fetch_Site": "same-site"}),
    ],
)
@pytest.mark.parametrize(("method", "name"), [("GET", ""), ("GET", "state?seen=0"), ("POST", "note")])
def test_others_are_refused(server, token, headers, method, name):
    filled = {key: value.format(port=server.server_port) for key, value in headers.items()}
    body = json.dumps({"id": 0, "text": "mine"})
    status, said, _ = ask(server, name, method, token, body, Content_Type="application/json", **filled)
    assert (status, said) == (403, "no")
    assert notes.read(server.run.folder) == {}


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "%2e%2e/config.yaml", "config.yaml", "history.sqlite", "state/x", "note"]
)
def test_no_path_is_opened(server, name):
    assert ask(server, name)[0] == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"])
def test_other_methods_do_nothing(server, method):
    assert ask(server, "state", method)[0] == 501


@pytest.mark.parametrize(
    "name", ["state", "state?seen=-1", "state?seen=1e9", "query?id=99", "query?id=" + "9" * 40, "query"]
)
def test_wrong_numbers(server, name):
    assert ask(server, name)[0] == 400


def test_notes(server, out):
    own = {"Origin": f"http://127.0.0.1:{server.server_port}", "Sec_Fetch_Site": "same-origin"}

    def note(body, kind="application/json"):
        return ask(server, "note", "POST", body=body, Content_Type=kind, **own)[0]

    assert note(json.dumps({"id": 1, "text": " <b>look\nagain ü "})) == 200
    assert json.loads(ask(server, "query?id=1")[1])["note"] == "<b>look\nagain ü"
    assert notes.read(out) == {1: "<b>look\nagain ü"}
    for wrong in ("", "[]", "{", json.dumps({"id": 99, "text": ""}), json.dumps({"id": "1", "text": ""}), "[" * 60_000):
        assert note(wrong) == 400
    assert note(json.dumps({"id": 1, "text": "x" * 10_001})) == 400
    assert note(json.dumps({"id": 1, "text": "x" * MOST_BYTES})) == 400
    assert note(json.dumps({"id": 1, "text": "x"}), "text/plain") == 400
    assert note(json.dumps({"id": True, "text": "x"})) == 400
    assert note(json.dumps({"id": 1, "text": "half \ud800"})) == 200
    assert json.loads(ask(server, "query?id=1")[1])["note"] == "half \ud800"
    assert note(json.dumps({"id": 1, "text": ""})) == 200
    assert notes.read(out) == {}


def test_what_an_evaluation_printed(server, out):
    assert json.loads(ask(server, "query?id=2")[1])["output"] == ""
    outputs.keep(out / "history.sqlite", 2, "epoch 1\n<b>epoch</b> 2\n", 1000)
    assert json.loads(ask(server, "query?id=2")[1])["output"] == "epoch 1\n<b>epoch</b> 2\n"


def test_garbage_ends_no_server(server):
    for sent in (
        b"\0" * 2000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET  \r\n\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(4096)
    assert ask(server)[0] == 200


def test_a_connection_stays_open_unless_it_is_to_close(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    for _ in range(2):
        connection.request("GET", f"/{server.token}/state?seen=0")
        connection.getresponse().read()
        assert connection.sock is not None
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as raw:
        head = f"GET /{server.token}/state?seen=0 HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
        raw.sendall(f"{head}Connection: close\r\n\r\n".encode())
        while raw.recv(65_536):  # ends, as the server closes
            pass


def test_a_tab_that_is_closed_leaves_no_trace(server, capfd):
    """The page is asked for, and nobody is there any more when it is sent."""
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.sendall(f"GET /{server.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
    assert ask(server)[0] == 200
    assert capfd.readouterr().err == ""


def test_only_this_machine_by_default(server):
    assert server.server_address[0] == "127.0.0.1"
    assert not server.named(f"[::1]{server.server_port}")
    assert server.named(f"localhost:{server.server_port}")
    assert len(server.token) >= 32


@pytest.mark.skipif(not socket.has_ipv6, reason="a machine without IPv6")
def test_an_address_of_the_sixth_version(out):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no loopback of the sixth version")
    with Server(LiveRun(out), "::1") as made:
        assert made.address.startswith(f"http://[::1]:{made.server_port}/")
        assert made.named(f"[::1]:{made.server_port}")


def test_files_of_strangers(tmp_path, out):
    for content in ("[", "[]", '{"x": "a", "1": 3, "2": "kept"}', "[" * 100_000):
        (tmp_path / notes.FILE).write_text(content)
        assert notes.read(tmp_path) in ({}, {2: "kept"})
    (tmp_path / notes.FILE).unlink()
    (tmp_path / notes.FILE).symlink_to(out / "config.yaml")
    assert notes.read(tmp_path) == {}
    notes.write(tmp_path, 3, "mine")
    assert not (tmp_path / notes.FILE).is_symlink()
    for damaged in ('{"1": "first",}', "[]"):
        (tmp_path / notes.FILE).write_text(damaged)
        refused("must be put right or moved away before a note is added", notes.write, tmp_path, 3, "mine")
        assert (tmp_path / notes.FILE).read_text() == damaged
    (tmp_path / notes.FILE).unlink()
    refused("at most 10,000 characters", notes.write, tmp_path, 3, "x" * 10_001)


def test_many_long_notes_lose_none(tmp_path):
    """A note that would make the file longer than what is read is refused, and those before it stay."""
    many = {str(k): "ü" * 10_000 for k in range(notes.MOST_BYTES // 60_020)}
    (tmp_path / notes.FILE).write_text(json.dumps(many, indent=1) + "\n")
    refused(r"^note = '10000 characters': must be so short that all", notes.write, tmp_path, 10_000, "ü" * 10_000)
    assert len(notes.read(tmp_path)) == len(many)
    notes.write(tmp_path, 0, "")
    assert 0 not in notes.read(tmp_path)


def test_wrong_commands(out, capsys):
    for argv, said in (
        (["serve", str(out / "none")], "must be an existing folder"),
        (["serve", str(out), "--port", "x"], "must be a whole number from 0 to 65535"),
        (["serve", str(out), "--port", "70000"], "must be a whole number from 0 to 65535"),
        (
            ["serve", str(out), "--host", "no.such.name.invalid"],
            "must be a name or an address of this machine",
        ),
    ):
        assert cli.main(argv) == 2
        assert said in capsys.readouterr().err


def test_another_run_in_the_same_folder_takes_the_place_of_the_first(tmp_path, out):
    shutil.copytree(out, tmp_path / "run")
    run = LiveRun(tmp_path / "run")
    run.look()
    before = run.state(0)
    shutil.rmtree(tmp_path / "run")
    assert (
        cli.main(["run", "--problem", "Currin", "--capital", "30", "--seed", "7", "--out", str(tmp_path / "run")]) == 0
    )
    run.look()
    after = run.state(int(before["version"]))
    assert after["run"] != before["run"]
    assert len(after["rows"]) == len(run.run.history)
    assert run.run.settings["seed"] == 7


def test_a_folder_that_goes_away_is_said(tmp_path, out):
    shutil.copytree(out, tmp_path / "run")
    run = LiveRun(tmp_path / "run")
    run.look()
    run.start()
    shutil.rmtree(tmp_path / "run")
    ends = time.monotonic() + 30
    while not (trouble := run.state(0)["trouble"]) and time.monotonic() < ends:
        time.sleep(0.1)
    assert trouble.startswith("The folder could not be read: JournalError")
    assert len(run.state(0)["rows"]) == len(run.run.history)
    run.close()
