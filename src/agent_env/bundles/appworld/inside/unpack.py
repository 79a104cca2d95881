"""Unpacks the apps, which are encrypted in AppWorld's wheel, into the venv whose Python runs this; needs no network.

``appworld install`` does that, and unpacks AppWorld's own tests into its cache as well: a folder that is removed here.
"""

from __future__ import annotations

import os
import tempfile

with tempfile.TemporaryDirectory() as cache:
    os.environ["APPWORLD_CACHE"] = cache
    from appworld.install import install_package

    install_package()
