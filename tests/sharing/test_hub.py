"""Up to the hub and down again, against a stand-in; and what goes wrong, in words."""

import inspect
import sys

import pytest
import torch
from huggingface_hub import HfApi, errors
from tests.sharing.conftest import Hub, make_error

import invariance as inv
from invariance.cli import main
from invariance.errors import DataError, SettingError

METHODS = [name for name, _ in inspect.getmembers(Hub, inspect.isfunction)]
METHODS = [name for name in METHODS if not name.startswith("_")]


@pytest.mark.parametrize("name", METHODS)
def test_the_stand_in_has_the_signatures_of_the_real_client(name):
    real = inspect.signature(getattr(HfApi, name)).parameters
    for parameter in inspect.signature(getattr(Hub, name)).parameters.values():
        assert real[parameter.name].kind == parameter.kind
        needed = parameter.default is parameter.empty
        assert (real[parameter.name].default is parameter.empty) == needed


def test_an_encoder_comes_back_as_it_was(make, hub, tmp_path):
    out = tmp_path / "cats.pt2"
    run = inv.Run(make())
    shared = run.push_to_hub("ada/cats", license="mit", token="t")
    assert shared.url == "https://hub.test/ada/cats" and shared.folder is None
    assert {*shared.files} == {"README.md", "config.yaml", "encoder.safetensors"}
    encoder, images = inv.from_pretrained("ada/cats"), torch.rand(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(encoder(images), inv.load(run)(images))
        assert torch.equal(inv.load("hf://ada/cats@main")(images), encoder(images))
    assert inv.embed("hf://ada/cats", torch.rand(4, 3, 16, 16)).features.shape[0] == 4
    assert main(["export", "hf://ada/cats", "--to", "pt2", "-o", str(out)]) == 0
    assert hub.private == {"ada/cats": False} and hub.tokens[:2] == ["t", None]


def test_the_command_uploads(make, hub, capsys):
    assert main(["share", str(make()), "ada/cats", "--private", "--quiet"]) == 0
    assert hub.private == {"ada/cats": True}
    out = capsys.readouterr().out
    assert "shared:  https://hub.test/ada/cats\n" in out
    assert 'load it: encoder = invariance.from_pretrained("ada/cats")' in out


def test_a_public_place_is_no_private_one(make, hub):
    run = make()
    hub.create_repo("ada/cats")
    with pytest.raises(
        SettingError, match="already exists and is public, so nothing was up"
    ):
        inv.push_to_hub(run, "ada/cats", private=True)
    assert list((hub.root / "ada" / "cats").iterdir()) == []


def test_what_is_not_there_is_told(hub):
    with pytest.raises(DataError, match="There is no 'ada/dogs' on the hub"):
        inv.from_pretrained("ada/dogs")
    hub.create_repo("ada/dogs")
    with pytest.raises(DataError, match="no encoder of this package was shared there"):
        inv.from_pretrained("ada/dogs")
    with pytest.raises(DataError, match="no such revision"):
        inv.from_pretrained("ada/dogs", revision="v9")
    with pytest.raises(SettingError, match="called user/name"):
        inv.load("hf://dogs")
    with pytest.raises(SettingError, match="Unknown side 'left'"):
        inv.from_pretrained("ada/dogs", side="left")


def test_a_file_that_is_not_what_it_says_is_refused(hub):
    hub.create_repo("ada/dogs")
    path = hub.root / "ada" / "dogs" / "encoder.safetensors"
    path.write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR.")  # a pickle that runs code
    with pytest.raises(DataError, match="damaged, or not an encoder of this package"):
        inv.from_pretrained("ada/dogs")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (make_error(errors.GatedRepoError), "has to be granted"),
        (errors.LocalTokenNotFoundError(), "who you are: log in with 'hf auth login'"),
        (make_error(errors.HfHubHTTPError, 403), "may not read or write ada/cats"),
        (make_error(errors.HfHubHTTPError, 500), "The hub refused"),
        (errors.HFValidationError("too long."), "does not accept the name"),
        (ConnectionError("broken"), "The connection to the hub failed: broken"),
    ],
)
def test_whatever_the_hub_raises_is_one_sentence(make, hub, monkeypatch, error, words):
    def fail(*_, **__):
        raise error

    run = make()
    monkeypatch.setattr(hub, "create_repo", fail, raising=False)
    with pytest.raises(inv.InvarianceError, match=words) as caught:
        inv.push_to_hub(run, "ada/cats")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("offline")
def test_without_a_network_the_real_client_says_so(make, tmp_path, monkeypatch):
    words = r"cannot be reached \(HF_HUB_OFFLINE is set\)"
    with pytest.raises(DataError, match=words):
        inv.from_pretrained("ada/no-such-cats")
    with pytest.raises(DataError, match=words):
        inv.push_to_hub(make(), "ada/no-such-cats", token="t")


def test_without_its_package_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SettingError, match="pip install huggingface_hub"):
        inv.from_pretrained("ada/cats")
