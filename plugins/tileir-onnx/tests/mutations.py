"""Files of models with faults: cut off, with other bytes, and with fields that were changed, dropped or doubled."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from onnx import ModelProto

INTEGERS = (0, -1, 1, 2, 3, 7, 64, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, -(2**63), 2**63 - 1)
FLOATS = (0.0, -1.0, float("nan"), float("inf"), 1e30)
NAMES = ("", "x", "y", "\0", "a" * 300, "é\n\"'", "Loop", "If", "Scan", "Constant", "ConstantOfShape", "Expand", "Tile")


def mutated(data: bytes, random: Random) -> bytes:
    """Return a model's file with one or several faults."""
    kind = random.random()
    if kind < 0.15:
        return data[: random.randrange(len(data))]
    if kind < 0.35:
        changed = bytearray(data)
        for _ in range(random.choice((1, 1, 2, 5))):
            changed[random.randrange(len(changed))] = random.randrange(256)
        return bytes(changed)
    if kind < 0.4:
        return data[: random.randrange(len(data))] + data[random.randrange(len(data)) :]
    model = ModelProto.FromString(data)
    for _ in range(random.choice((1, 1, 2, 3))):
        with suppress(ValueError):  # a number that is no element of an enumeration
            _change(model, random)
    made: bytes = model.SerializeToString()
    return made


def _change(model: ModelProto, random: Random) -> None:
    fields: list[tuple[Any, FieldDescriptor]] = []
    waiting: list[Any] = [model]
    while waiting:
        message = waiting.pop()
        for field, value in message.ListFields():
            fields.append((message, field))
            if field.type == field.TYPE_MESSAGE:
                waiting.extend(value if field.is_repeated else (value,))
    message, field = random.choice(fields)
    unset = [each for each in message.DESCRIPTOR.fields if not (each.is_repeated or each.message_type)]
    if unset and random.random() < 0.1:
        field = random.choice(unset)
        setattr(message, field.name, _value(field, model, random))
    elif not field.is_repeated:
        if field.type == field.TYPE_MESSAGE or random.random() < 0.3:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, _value(field, model, random))
    else:
        _change_elements(getattr(message, field.name), field, model, random)


def _change_elements(elements: Any, field: FieldDescriptor, model: ModelProto, random: Random) -> None:
    kind = random.random()
    if kind < 0.3:
        del elements[random.randrange(len(elements))]
    elif field.type == field.TYPE_MESSAGE:
        kept = [type(each).FromString(each.SerializeToString()) for each in elements]
        random.shuffle(kept)
        del elements[:]
        elements.extend([*kept, kept[0]] if kind < 0.6 else kept)
    else:
        elements[random.randrange(len(elements))] = _value(field, model, random)


def _value(field: FieldDescriptor, model: ModelProto, random: Random) -> Any:
    bits = {field.CPPTYPE_INT32: 31, field.CPPTYPE_ENUM: 31, field.CPPTYPE_INT64: 63}.get(field.cpp_type)
    if bits is not None:
        return random.choice([each for each in INTEGERS if -(2**bits) <= each < 2**bits])
    if field.cpp_type == field.CPPTYPE_UINT64:
        return random.choice([each for each in INTEGERS if each >= 0])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return random.choice(FLOATS)
    if field.type == field.TYPE_BYTES:
        return random.randbytes(random.choice((0, 1, 4, 8, 64)))
    used = [name for node in model.graph.node for name in (*node.input, *node.output, node.op_type)]
    return random.choice((*NAMES, *used))
