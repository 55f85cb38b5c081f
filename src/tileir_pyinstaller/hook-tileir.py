"""What PyInstaller cannot see of tileir: target files, entry points, and modules that are imported by name."""

from importlib.metadata import entry_points

from PyInstaller.utils.hooks import collect_data_files, collect_submodules, copy_metadata

backends = entry_points(group="tileir.backends")

datas = collect_data_files("tileir")
for distribution in sorted({"tileir", *(entry.dist.name for entry in backends if entry.dist is not None)}):
    datas += copy_metadata(distribution)

hiddenimports = collect_submodules("tileir", filter=lambda name: not name.startswith("tileir.testing"))
for package in sorted({entry.module.partition(".")[0] for entry in backends}):
    hiddenimports += collect_submodules(package)
