"""Foundations of every stage: dtypes, elementwise operations, diagnostics, spans, text and rewriting.

Names for most modules are re-exported here, so that one import suffices.
"""

from tileir.core.process.collection import collection_paused as collection_paused

with collection_paused(lasting=True):  # as in `tileir`, which cannot do so before this package exists
    from tileir.core.array_value import (
        ArrayValue as ArrayValue,
        Content as Content,
        Origin as Origin,
        settled as settled,
    )
    from tileir.core.combines import Combine as Combine
    from tileir.core.contraction_types import (
        ContractionTypes as ContractionTypes,
        contraction_types as contraction_types,
    )
    from tileir.core.dtype import (
        FORMATS as FORMATS,
        DType as DType,
        FloatFormat as FloatFormat,
        accumulator as accumulator,
        arithmetic_type as arithmetic_type,
        float_for as float_for,
        promote as promote,
        promote_all as promote_all,
    )
    from tileir.core.errors import (
        MAX_FAULTS as MAX_FAULTS,
        ArgumentError as ArgumentError,
        BackendError as BackendError,
        Diagnostic as Diagnostic,
        DivergenceError as DivergenceError,
        GroupLimitError as GroupLimitError,
        ParseError as ParseError,
        SkippedPassWarning as SkippedPassWarning,
        TileError as TileError,
        VerifyError as VerifyError,
        fail as fail,
    )
    from tileir.core.graphs.grouping import grouped as grouped
    from tileir.core.graphs.reaching import needed as needed, reached as reached
    from tileir.core.json.codec import (
        content_hash as content_hash,
        format_of as format_of,
        from_json as from_json,
        quick_json as quick_json,
        to_json as to_json,
    )
    from tileir.core.nodes import attrs as attrs, schema as schema
    from tileir.core.nodes.rewrite import rewritten as rewritten
    from tileir.core.nodes.schema import (
        ADDED as ADDED,
        BODY as BODY,
        INTRODUCES as INTRODUCES,
        OPERAND as OPERAND,
        OPERANDS as OPERANDS,
        PART as PART,
        READS as READS,
        USES as USES,
        WRITES as WRITES,
        Role as Role,
        bodies as bodies,
        introduced as introduced,
        map_operands as map_operands,
        mentions as mentions,
        named as named,
        one_of as one_of,
        operands as operands,
        role as role,
        slots as slots,
        used as used,
        with_operands as with_operands,
    )
    from tileir.core.numbers.arithmetic import dtype_of as dtype_of, fits as fits, rounded as rounded
    from tileir.core.ops import (
        COMPUTING as COMPUTING,
        FUNCTIONS as FUNCTIONS,
        OPS as OPS,
        SHIFTS as SHIFTS,
        Aggregation as Aggregation,
        Combination as Combination,
        Domain as Domain,
        Op as Op,
        merges as merges,
    )
    from tileir.core.process.cancellation import (
        CancelledError as CancelledError,
        cancelled_if as cancelled_if,
        checkpoint as checkpoint,
    )
    from tileir.core.process.forking import Renewable as Renewable
    from tileir.core.process.tracebacks import (
        is_inside as is_inside,
        made_at_the_call as made_at_the_call,
        methods_at_the_call as methods_at_the_call,
        shortened as shortened,
        with_short_traceback as with_short_traceback,
        with_whole_traceback as with_whole_traceback,
    )
    from tileir.core.targets.hardware import (
        LOCAL as LOCAL,
        REGISTER as REGISTER,
        SCRATCH as SCRATCH,
        Bus as Bus,
        ExecutionUnit as ExecutionUnit,
        HardwareModel as HardwareModel,
        MemoryUnit as MemoryUnit,
        TransferUnit as TransferUnit,
    )
    from tileir.core.targets.target import Target as Target
    from tileir.core.text.advice import (
        dtype_meant as dtype_meant,
        meant as meant,
        missing_attribute as missing_attribute,
        own_form as own_form,
    )
    from tileir.core.text.names import NameScope as NameScope, nearest as nearest
    from tileir.core.text.shown import (
        NotebookNode as NotebookNode,
        NotebookProgram as NotebookProgram,
        TextNode as TextNode,
        call_of as call_of,
        counted as counted,
        statements_in as statements_in,
    )
    from tileir.core.text.span import (
        Source as Source,
        Span as Span,
        call_site as call_site,
        called_at as called_at,
        called_by_none as called_by_none,
        held_at as held_at,
        hold_call_site as hold_call_site,
        is_called as is_called,
        placed as placed,
        release_call_site as release_call_site,
        span_field as span_field,
    )
