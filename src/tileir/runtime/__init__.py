"""Back ends behind one interface: discovery, devices, compiling, buffers, events and launches.

The names that back ends and drivers use are re-exported here.
"""

from tileir.runtime.arrays import Format as Format, check_inputs as check_inputs, to_array as to_array
from tileir.runtime.context import Context as Context, default_context as default_context, owner_of as owner_of
from tileir.runtime.events import (
    Failure as Failure,
    PendingEvent as PendingEvent,
    Scheduler as Scheduler,
    failure_of as failure_of,
)
from tileir.runtime.interface import (
    Backend as Backend,
    BatchingExecutor as BatchingExecutor,
    BindingKernel as BindingKernel,
    Buffer as Buffer,
    Choice as Choice,
    Compiler as Compiler,
    Condition as Condition,
    DeviceInfo as DeviceInfo,
    Event as Event,
    Executor as Executor,
    Kernel as Kernel,
    Library as Library,
    Options as Options,
    PartingExecutor as PartingExecutor,
    Repetition as Repetition,
    SequencingExecutor as SequencingExecutor,
)
