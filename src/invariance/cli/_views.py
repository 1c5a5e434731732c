"""``invariance views``: what the encoder would see of some samples, as a picture."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro import conf

NOTHING = "(default: none)"


@dataclass(frozen=True)
class Views:
    """Draw some samples and their views on a sheet, before anything is trained."""

    data: Annotated[str, conf.Positional, conf.arg(metavar="[DATA]")] = "shapes"
    """A set by name, or a folder or file, as for 'invariance train'."""
    out: Annotated[str, conf.arg(aliases=["-o"], metavar="FILE")] = "views.png"
    """The picture: .png or .jpg."""
    method: str = "simclr"
    """Method whose views to draw, unless --views is given."""
    views: str = "auto"
    """A recipe: 'invariance list views' names them."""
    drop: Annotated[tuple[str, ...], conf.arg(help_behavior_hint=NOTHING)] = ()
    """Operations to leave out, such as 'blur gray'."""
    strength: Annotated[
        dict[str, float],
        conf.arg(metavar="[NAME STRENGTH ...]", help_behavior_hint=NOTHING),
    ] = field(default_factory=dict)
    """Strength of operations, such as 'crop 0.5 color 0.2'."""
    samples: int = 10
    """Columns of the sheet."""
    epochs: int = 3
    """How many times the views are drawn."""
    image_size: int | None = None
    """Side of the images in pixels. Default: the data's."""
    seed: int = 0
    """Seed of the draws; a run with this seed sees the same views."""

    def run(self) -> int:
        """Draw and save."""
        from ..errors import SettingError
        from ..folder import require_place
        from ..progress import tell_loading

        path = Path(self.out)
        if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
            raise SettingError(f"--out must end in .png or .jpg: got {self.out!r}.")
        require_place(path)
        tell_loading()
        from ..training import Train, show_views

        settings = Train(
            data=self.data,
            method=self.method,
            views=self.views,
            views_drop=self.drop,
            views_strength=self.strength,
            image_size=self.image_size,
            seed=self.seed,
        )
        sheet = show_views(settings, samples=self.samples, epochs=self.epochs)
        try:
            sheet.convert("RGB").save(path)
        except OSError as cause:
            raise SettingError(
                f"Could not write {str(path)!r}: {cause.strerror or cause}. Choose "
                "another place with --out."
            ) from None
        print(f"sheet: {path} (a column per sample: itself, then its views)")
        return 0
