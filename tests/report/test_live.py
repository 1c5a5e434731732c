"""A page follows runs while they train: what it shows, and what it does not answer."""

import http.client
import json
import os
import socket
import threading
import time

import pytest
from tests.made_runs import reading

from invariance.cli import main, make_server
from invariance.errors import DataError, SettingError

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def served(tmp_path):
    """The address of a server that watches the folder of made-up runs."""
    with make_server(tmp_path, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(served):
    """Send a request: status, headers and what came back."""

    def send(path, method="GET", **headers):
        connection = http.client.HTTPConnection(served, timeout=5)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    return send


def hold(folder, pid=None):
    """As a training does while it is at work there."""
    about = {"pid": pid or os.getpid(), "host": socket.gethostname()}
    (folder / ".writer.json").write_text(json.dumps(about | {"since": time.time()}))


def begin(made, name="begun", n=5, **changes):
    """A run that is at work, after n readings."""
    readings = [
        reading(k, **{"time/images_per_second": 100.0}) for k in range(1, n + 1)
    ]
    folder = made(
        name=name,
        finished=False,
        metrics=readings,
        evaluation=None,
        diagnostics=None,
        gallery=None,
        **changes,
    )
    hold(folder)
    return folder


def test_a_new_reading_appears_without_a_reload(made, served, opened):
    folder = begin(made)
    page = opened(f"http://{served}/")
    loss = page.locator("figure", has_text="Loss").first
    loss.locator("circle").nth(4).wait_for(state="attached")
    assert loss.locator("circle").count() == 5
    assert page.locator("#runs .running").inner_text() == "running"
    page.evaluate("window.here = true")  # a reload would forget it
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(reading(6, loss=0.25)) + "\n" + '{"step": 7, "epo')
    loss.locator("circle").nth(5).wait_for(state="attached")
    assert loss.locator("circle").count() == 6
    assert page.evaluate("window.here") is True
    assert "1.2 of 4" in page.locator("#runs").inner_text()


def test_the_verdict_and_the_log_are_there_in_the_end(made, served, opened):
    folder = made()
    (folder / "train.log").write_text("12:00:00 the first line\n12:00:01 the last\n")
    page = opened(f"http://{served}/")
    page.locator("#shown .verdict").wait_for()
    assert page.locator("#shown .verdict").inner_text().startswith("It learned")
    assert page.locator("#log").inner_text().endswith("the last")
    assert page.locator("#runs .finished").inner_text() == "finished"


def test_runs_are_compared_by_their_boxes(made, served, opened):
    begin(made)
    made(name="other")
    page = opened(f"http://{served}/")
    page.locator("#runs input").nth(1).check()
    keys = page.locator("#shown > .keys")
    keys.wait_for()
    assert keys.locator("span").all_inner_texts() == ["begun", "other"]
    assert page.url.endswith("#begun&other")
    page.reload()  # what was chosen is in the address
    keys.wait_for()
    assert page.locator("#runs input:checked").count() == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_the_colors_of_the_reader(made, served, opened, scheme):
    begin(made, name="a-run-with-quite-a-long-name-as-sweeps-have-them-seed_0-lr_0.004")
    page = opened(f"http://{served}/", width=390, color_scheme=scheme)
    page.locator("#shown svg").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 22, 26)"}[scheme]


def test_nothing_from_a_file_becomes_markup(made, served, opened):
    folder = begin(
        made, name=EVIL.replace("/", ""), config={"method": EVIL, "data": EVIL}
    )
    (folder / "train.log").write_text(EVIL)
    page = opened(f"http://{served}/")  # an alert or a request would fail the test
    page.locator("#log").wait_for()
    assert page.locator("img").count() == 0
    assert EVIL in page.locator("#log").inner_text()


def test_states_are_told_apart(made, ask):
    begin(made, name="running")
    begin(made, name="over", n=20)
    (begin(made, name="let-go") / ".writer.json").unlink()
    hold(begin(made, name="killed"), pid=2**22 + 1)  # more than there are
    made(name="done")
    _, _, text = ask("/now")
    now = json.loads(text)
    assert now["summary"] == "5 runs, 2 running" and now["title"].startswith("(2) ")
    states = {
        row.split('data-run="')[1].split('"')[0]: row.split('<b class="')[1].split('"')[
            0
        ]
        for row in now["runs"].split("<tr>")[2:]
    }
    assert states == {
        "running": "running",
        "over": "scoring",
        "let-go": "stopped",
        "killed": "stopped",
        "done": "finished",
    }
    assert "left</small>" in now["runs"]


def test_an_empty_folder_says_so(ask):
    now = json.loads(ask("/now")[2])
    assert now["summary"] == "No runs here yet."
    assert now["shown"] == ""


def test_runs_of_a_sweep_are_there_too(made, tmp_path, ask):
    made(name="deep")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "deep").rename(tmp_path / "sweep" / "deep")
    assert 'data-run="sweep/deep"' in json.loads(ask("/now")[2])["runs"]


def test_reports_are_served_by_the_name_of_a_run_alone(made, ask, tmp_path):
    folder = made(name="mine")
    (folder / "report.html").write_text("<p>mine</p>")
    (tmp_path.parent / "report.html").write_text("secret")
    assert ask("/report?run=mine")[2] == "<p>mine</p>"
    for path in (
        "/report?run=..",
        "/report?run=../mine",
        "/report?run=%2e%2e",
        "/report?run=.",
        "/report",
        "/mine/report.html",
        "/../report.html",
        "/mine/config.yaml",
    ):
        status, _, text = ask(path)
        assert status == 404 and "secret" not in text, path


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(ask, method):
    status, headers, text = ask("/", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert text == "This page is read-only.\n"


def test_another_name_for_this_machine_is_refused(ask):
    for host in ("evil.example", "evil.example:8650", ""):
        assert ask("/now", Host=host)[0] == 403
    for host in ("localhost:9000", "127.0.0.1"):
        assert ask("/now", Host=host)[0] == 200


def test_head_has_headers_alone(ask):
    status, headers, text = ask("/", "HEAD")
    assert (status, text) == (200, "") and int(headers["Content-Length"]) > 1000
    assert headers["X-Content-Type-Options"] == "nosniff"
    policy = ask("/")[2].split("Content-Security-Policy")[1].split(">")[0]
    assert "connect-src &#x27;self&#x27;" in policy and "unsafe" not in policy


def test_what_cannot_be_watched_is_one_sentence(served, tmp_path, capsys):
    port = served.split(":")[1]
    assert main(["watch", str(tmp_path), "--port", port]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"invariance: Port {port} is in use") and "--port 0" in said
    with pytest.raises(DataError, match="There is no folder"):
        make_server(tmp_path / "nowhere", 0)
    with pytest.raises(SettingError, match="from 0 to 65535: got 70000"):
        make_server(tmp_path, 70000)


def test_ctrl_c_ends_it_in_order(tmp_path, capsys, monkeypatch):
    def interrupt(server, *_):
        raise KeyboardInterrupt

    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", interrupt)
    assert main(["watch", str(tmp_path), "--port", "0"]) == 0
    assert "http://127.0.0.1:" in capsys.readouterr().out
