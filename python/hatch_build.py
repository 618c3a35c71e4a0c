"""Puts the built npm package into the wheel, and gives the wheel the tag of the machines on which its native parts run."""
import platform
import re
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}
ROOT = Path(__file__).resolve().parent.parent


class NpmPackage(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        machine = platform.machine()
        if machine not in PROCESSORS:
            raise RuntimeError(f"wheels are for {' and '.join(PROCESSORS)} with glibc, and this machine is {machine}")
        native = sorted((ROOT / "dist" / "native").glob(f"linux-{PROCESSORS[machine]}-glibc.*"))
        if len(native) != 2:
            raise RuntimeError("dist/native lacks the native parts for this machine: run `npm run build` with a C compiler first")
        scripts = [path for path in sorted((ROOT / "dist" / "src").rglob("*")) if path.suffix in (".js", ".cjs", ".wasm")]
        for path in [ROOT / "package.json", *scripts, *native]:
            build_data["force_include"][str(path)] = f"stream_sanitizer/cuda-streams/{path.relative_to(ROOT)}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{self.glibc(native)}_{machine}"

    @staticmethod
    def glibc(native: list[Path]) -> int:
        """The minor version of the oldest glibc that has all symbols which the native parts take; 17 is the oldest that a tag can say."""
        needed = [int(minor) for path in native for minor in re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes())]
        return max([17, *needed])
