"""Builds the wheel (PEP 517): setuptools, with the C library inside.

`PAGEWISE_LANES_LIBRARY` names the library. Without that variable, cargo builds it in the repository around this
package. Only cargo and pip download anything, from their registries.
"""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from setuptools import build_meta

PACKAGE = Path(__file__).resolve().parent.parent
NAME = "libpagewise_capi.so"
VARIABLE = "PAGEWISE_LANES_LIBRARY"
# The library calls the kernel of one architecture; the Python above it is the same for every version.
TAGS = ["--plat-name", "linux_x86_64"]

get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
build_sdist = build_meta.build_sdist


def _built():
    """Returns the path of the library, which the variable names or cargo builds."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    workspace = PACKAGE.parent
    if not (workspace / "Cargo.toml").is_file():
        raise RuntimeError(f"no repository around this package to build {NAME} in: set {VARIABLE} to its path")
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "pagewise-capi"], cwd=workspace, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", workspace / "target")) / "release" / NAME


@contextmanager
def _library_inside():
    """Puts the library beside the sources while they are packed."""
    inside = PACKAGE / "src" / "pagewise_lanes" / NAME
    shutil.copy(_built(), inside)
    try:
        yield
    finally:
        inside.unlink()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds a wheel for this platform and every version of Python."""
    settings = {**(config_settings or {}), "--build-option": TAGS}
    with _library_inside():
        return build_meta.build_wheel(wheel_directory, settings, metadata_directory)
