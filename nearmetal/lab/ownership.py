"""What a run writes into the checkout belongs to the lab's user, and nothing of it to root."""

from pathlib import Path

from nearmetal import files
from nearmetal.lab.room import LabError


def settle(checkout: Path, uid: int, gid: int, say) -> None:
    """Make results/ with the lab's own baselines, and hand over what root left. Raises LabError."""
    results = checkout / "results"
    if results.is_symlink():
        raise LabError(
            f"{results} is a link, and the lab's nodes see the checkout alone; replace it by a "
            "directory or a mount"
        )
    places = [results]
    if checkout.stat().st_uid:
        # `make images` runs as root; in root's own checkout images stay root's.
        places.append(checkout / "containers" / "images")
    try:
        files.make_directory(results / "baselines")
        for place in filter(Path.is_dir, places):
            for kept in files.hand_over(place, uid, gid):
                say(
                    f"lab: {kept} stays as it is: it has other names, or is not of this file system"
                )
    except OSError as error:
        raise LabError(f"{error}; the lab's user writes its results there") from error
