"""Hook for PyInstaller: target files, entry points, and modules that are imported by name."""

from importlib.metadata import entry_points

from PyInstaller.utils.hooks import collect_data_files, collect_submodules, copy_metadata

backends = entry_points(group="tileir.backends")
named = [entry for group in ("commands", "languages", "names") for entry in entry_points(group=f"tileir.{group}")]
ours = {entry.module.partition(".")[0] for entry in named if entry.dist is not None and entry.dist.name == "tileir"}
ours -= {"tileir_testing"}

datas = []
for distribution in sorted({"tileir", *(entry.dist.name for entry in backends if entry.dist is not None)}):
    datas += copy_metadata(distribution)

hiddenimports = []
for package in sorted({"tileir", *ours}):
    datas += collect_data_files(package)
    hiddenimports += collect_submodules(package)
for package in sorted({entry.module.partition(".")[0] for entry in backends}):
    hiddenimports += collect_submodules(package)
