"""Give files that runs write into the checkout to the lab's user."""

from pathlib import Path

from nearmetal import files
from nearmetal.lab.namespaces import LabError


def settle(checkout: Path, uid: int, gid: int, say) -> None:
    """Make results/baselines; change the owner of files that root wrote. Raises LabError."""
    results = checkout / "results"
    if results.is_symlink():
        raise LabError(
            f"{results} is a link, and only the checkout is mounted on the lab's nodes; "
            "replace it by a directory or a mount"
        )
    places = [results]
    if checkout.stat().st_uid:
        # `make images` runs as root. In a checkout of root the images stay root's.
        places.append(checkout / "containers" / "images")
    try:
        files.make_directory(results / "baselines")
        for place in filter(Path.is_dir, places):
            for kept in files.hand_over(place, uid, gid):
                say(f"lab: {kept} keeps its owner: it has several links or another file system")
    except OSError as error:
        raise LabError(f"{error}; the lab's user must be able to write there") from error
