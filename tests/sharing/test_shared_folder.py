"""What is shared of a run: the card, the settings, the weights, and no path."""

import json
import shutil

import pytest
import timm
import torch
import yaml
from huggingface_hub import ModelCard
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import invariance as inv
from invariance.cli import main
from invariance.errors import DataError, InvarianceError, SettingError


@pytest.fixture
def share(make, tmp_path):
    """Share a run made with these settings, into a folder."""

    def share(license=None, **how):
        run, folder = make(**how), tmp_path / "out"
        inv.push_to_hub(run, "ada/cats", license=license, folder=folder)
        return folder

    return share


def front_matter(folder):
    return yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])


def test_the_card_says_what_the_run_says(share):
    folder = share(license="mit", method="dcl")
    card = (folder / "README.md").read_text()
    assert "An encoder of images: tiny, 256 features" in card
    assert "without labels, by dcl on cat photos (900 images)" in card
    assert "**It learned.** The linear probe rose by 30.0 points" in card
    assert 'inv.from_pretrained("ada/cats")' in card
    assert "| linear probe | 20.0 (17.0-23.0) | 30.0 (27.0-33.0) | 60.0 (" in card
    assert "- Held out: 100 images\n- Fingerprint: `5e1f`" in card
    assert "| `method` | dcl | simclr |" in card and "| `epochs` | 4 | 20 |" in card
    assert "never trained on, used only to score it" in card
    assert "scored on cat photos and on nothing else" in card
    assert "No license" not in card and "timm" not in card


def test_the_hub_can_read_the_card(share):
    folder = share(license="mit")
    card = ModelCard.load(folder / "README.md")
    assert card.data.library_name == "invariance" and card.data.license == "mit"
    assert card.data.pipeline_tag == "image-feature-extraction"
    values = {r.metric_name: r.metric_value for r in card.data.eval_results}
    assert values == {"kNN, k = 20": 0.6, "linear probe": 0.6}
    assert {r.dataset_name for r in card.data.eval_results} == {"cat photos"}


def test_no_path_of_this_machine_is_shared(share, tmp_path):
    folder = share(captions=str(tmp_path / "words.csv"), start_from="~/old/run")
    names = {path.name for path in folder.iterdir()}
    assert names == {"README.md", "config.yaml", "encoder.safetensors"}
    for path in folder.iterdir():
        data = path.read_bytes()
        for word in (str(tmp_path), "secret", "/ada/", "old/run", "tmp"):
            assert word.encode() not in data, (path.name, word)
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    assert settings["data"] == "cat photos" and settings["captions"] == "words.csv"
    assert "It started from the encoder of run." in (folder / "README.md").read_text()


def test_a_path_inside_other_words_is_noticed(make, tmp_path):
    data = tmp_path / "home" / "ada" / "secret" / "cat photos"
    run = make(text_column=f"as in {data}")
    with pytest.raises(InvarianceError, match=r"would tell others that you have .*cat"):
        inv.push_to_hub(run, "a/b", folder=tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_what_a_file_of_weights_says_is_looked_at_too(make, tmp_path):
    run = make()
    path = run / "encoder.safetensors"
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() | {"note": f"made in {run}"}
    save_file(load_file(path), path, metadata=metadata)
    with pytest.raises(InvarianceError, match=r"encoder.safetensors would tell others"):
        inv.push_to_hub(run, "a/b", folder=tmp_path / "refused")


def test_a_method_with_labels_and_a_run_without_scores_say_so(share):
    card = (share(method="supcon", rows=[], pretrained=True) / "README.md").read_text()
    assert "It was trained with labels, by supcon" in card
    assert "- Labels: trained on" in card and "It was not scored." in card
    assert (
        "It started from timm's weights, which may have been trained with labels."
    ) in card
    assert "No license was chosen: ask before you use it." in card
    assert "model-index" not in card and "never shown classes" not in card


def test_a_method_of_one_s_own_goes_by_its_objective(share):
    folder = share(env={"method": "sup_con", "labeled": True})
    assert "trained with labels, by sup_con" in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "channels"), [("resnet10t", 3), ("timm/resnet10t", 1), ("test_vit", 4)]
)
def test_timm_builds_the_encoder_from_the_folder(share, name, channels):
    """As it would from the hub, by the same two files."""
    folder = share(name=name, image_size=96, channels=channels)
    encoder = inv.load(folder / "encoder.safetensors")
    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    about = model.pretrained_cfg
    images = torch.rand(2, channels, 96, 96)
    mean, std = (torch.tensor(about[key]).view(-1, 1, 1) for key in ("mean", "std"))
    with torch.no_grad():
        ours, theirs = encoder(images), model((images - mean) / std)
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-4)
    assert about["input_size"] == (channels, 96, 96) and model.num_classes == 0
    config = json.loads((folder / "config.json").read_text())
    assert config["num_features"] == encoder.width == model.num_features
    assert 'timm.create_model("hf_hub:ada/cats"' in (folder / "README.md").read_text()
    assert "timm" in front_matter(folder)["tags"]


def test_timm_adds_a_classifier_where_one_is_asked_for(share):
    folder = share(name="resnet10t", image_size=96)
    model = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=5)
    weights = load_file(folder / "model.safetensors")
    assert model(torch.rand(2, 3, 96, 96)).shape == (2, 5)
    torch.testing.assert_close(model.conv1[0].weight, weights["conv1.0.weight"])


def test_a_stem_for_small_images_is_nothing_timm_can_build(make, tmp_path):
    run = make(name="resnet18", image_size=32)
    shared = inv.push_to_hub(run, "ada/cats", folder=tmp_path / "out")
    assert "begins as made for small images" in shared.notes[0]
    assert "model.safetensors" not in shared.files and "config.json" not in shared.files


def test_both_encoders_of_pairs_are_shared(make, tmp_path):
    run = make()
    shutil.copy(run / "encoder.safetensors", run / "other.safetensors")
    shared = inv.push_to_hub(run, "ada/cats", folder=tmp_path / "out")
    assert "other.safetensors" in shared.files


def test_what_cannot_be_shared_is_told(make, tmp_path):
    run = make()
    with pytest.raises(SettingError, match=r"called user/name.*got 'cats'"):
        inv.push_to_hub(run, "cats")
    with pytest.raises(SettingError, match="got 3"):
        inv.push_to_hub(3, "ada/cats")
    with pytest.raises(DataError, match="There is no run at"):
        inv.push_to_hub(tmp_path / "nowhere", "ada/cats")
    with pytest.raises(SettingError, match="is not empty"):
        inv.push_to_hub(run, "ada/cats", folder=run)
    (run / "encoder.safetensors").unlink()
    with pytest.raises(DataError, match=r"no encoder yet.*invariance train --resume"):
        inv.push_to_hub(run, "ada/cats")


def test_the_command_writes_what_it_would_upload(make, tmp_path, monkeypatch, capsys):
    run = make()
    monkeypatch.chdir(tmp_path)
    assert main(["share", str(run), "ada/cats", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert out.endswith("written: ada-cats; nothing was uploaded\n")
    assert (tmp_path / "ada-cats" / "README.md").exists()
    assert "No license was chosen" in err and "no weights for timm" in err
    assert main(["share", str(run), "ada/cats", "-o", "x"]) == 2
    assert "--out is where --dry-run writes" in capsys.readouterr().err
