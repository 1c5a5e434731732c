"""The Hugging Face hub: all that is asked of it, and what goes wrong there in words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import DataError, SettingError
from ..folder import HUB

LOG_IN = "log in with 'hf auth login', or give a token"


def split_name(name: Any) -> tuple[str, str | None]:
    """The name of a repository and the revision asked for, if one is.

    >>> split_name("hf://ada/cats@v2"), split_name("ada/cats")
    (('ada/cats', 'v2'), ('ada/cats', None))
    """
    words = str(name).removeprefix(HUB)
    match = re.fullmatch(r"(\w[\w.-]*/\w[\w.-]*)(?:@([\w./-]+))?", words)
    if match is None:
        raise SettingError(
            f"On the hub an encoder is called user/name, such as ada/cats: got {name!r}"
            "."
        )
    return match[1], match[2]


def upload(folder: Path, name: str, *, private: bool, token: str | None) -> str:
    """Put all files of a folder into a repository; returns its address.

    A new one is made where there is none. One that others can see is refused where a
    private one is asked for, before anything is sent.
    """
    with open_hub(name, token) as hub:
        address = hub.create_repo(name, private=private, exist_ok=True)
        if private and not hub.repo_info(name).private:
            raise SettingError(
                f"{name} already exists and is public, so nothing was uploaded: make "
                "it private on its page, or choose another name."
            )
        message = "Upload of an encoder of invariance"
        hub.upload_folder(repo_id=name, folder_path=folder, commit_message=message)
    return str(address)


def download(name: str, file: str, *, revision: str | None, token: str | None) -> Path:
    """One file of a repository, from the cache where it is there already."""
    with open_hub(name, token, file) as hub:
        return Path(hub.hf_hub_download(name, file, revision=revision))


@contextmanager
def open_hub(name: str, token: str | None, file: str = "") -> Iterator[Any]:
    """The hub's own client; whatever it raises becomes one sentence.

    Args:
        name: Of the repository.
        token: Who asks; None is who has logged in on this machine.
        file: What is looked for.
    """
    hub = make_client(token)
    from huggingface_hub import constants, errors

    from ..encoders import hub_without_retries

    try:
        with hub_without_retries():
            yield hub
    except errors.HFValidationError as cause:
        raise SettingError(
            f"The hub does not accept the name {name!r}: {cause}"
        ) from None
    except errors.GatedRepoError:
        raise DataError(
            f"Access to {name} has to be granted: ask on its page, then {LOG_IN}."
        ) from None
    except errors.RepositoryNotFoundError:
        raise DataError(
            f"There is no {name!r} on the hub, or it is private: check the name, or "
            f"{LOG_IN}."
        ) from None
    except errors.RevisionNotFoundError:
        raise DataError(f"{name} has no such revision: see its page.") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "no connection"
        raise DataError(
            f"The hub cannot be reached ({why}), and what is needed of {name} is not "
            "in this machine's cache."
        ) from None
    except errors.EntryNotFoundError:
        raise DataError(
            f"{name} has no {file}, so no encoder of this package was shared there."
        ) from None
    except errors.LocalTokenNotFoundError:
        raise SettingError(f"The hub wants to know who you are: {LOG_IN}.") from None
    except errors.HfHubHTTPError as cause:
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if status in (401, 403):
            raise SettingError(
                f"You may not read or write {name} on the hub: {LOG_IN}, as somebody "
                "who may."
            ) from None
        first = (str(cause).strip().splitlines() or ["no reason given"])[0]
        raise DataError(f"The hub refused ({name}): {first.rstrip('.')}.") from None
    except (errors.HTTPError, ConnectionError) as cause:
        raise DataError(f"The connection to the hub failed: {cause}.") from None


def make_client(token: str | None) -> Any:
    """What speaks to the hub; a test puts a stand-in here."""
    from .. import __version__

    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise SettingError(
            "The hub is reached with huggingface_hub, which is not installed: pip "
            "install huggingface_hub."
        ) from None
    return HfApi(token=token, library_name="invariance", library_version=__version__)
