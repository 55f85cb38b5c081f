from __future__ import annotations

import threading
import time

from llvmlite.binding import ffi

from strategies.processes import in_forked_child
from tileir_llvm.device.host import device
from tileir_llvm.run.modules import object_code, target_machine


def test_a_child_can_compile_though_another_thread_was_inside_llvmlite() -> None:
    features = device().features
    target_machine(features)
    inside = threading.Event()

    def stay() -> None:
        with ffi.lib._lock:
            inside.set()
            time.sleep(0.2)

    other = threading.Thread(target=stay)
    other.start()
    inside.wait()
    assert in_forked_child(lambda: bool(object_code("define void @f() { ret void }", features)))
    other.join()
