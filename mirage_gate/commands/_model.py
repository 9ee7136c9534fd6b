"""What a user says of the model: its configuration, its checkpoint, the layers that are meant."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from mirage_gate.commands import _common

if TYPE_CHECKING:
    from mirage_gate.artifacts.model import ModelConfig
    from mirage_gate.artifacts.weights import Checkpoint
    from mirage_gate.config import Config
    from mirage_gate.facts import Options

_Command = TypeVar("_Command", bound=Callable[..., Any])


def options(command: _Command) -> _Command:
    """Add ``--model-config``, ``--weights`` and ``--layers``."""
    decorators = (
        click.option(
            "--model-config",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False),
            help="The model's Hugging Face config.json, to hold the graph to.",
        ),
        click.option(
            "--weights",
            metavar="PATH",
            type=click.Path(exists=True),
            help="Its checkpoint: an index, a .safetensors file, a folder; names and shapes only.",
        ),
        click.option(
            "--layers",
            metavar="N|LIST",
            callback=_layers,
            help="The model is cut: its first N layers, or those listed: 0,3 or 0-3,7.",
        ),
    )
    return reduce(lambda wrapped, option: option(wrapped), reversed(decorators), command)


def layers_in(text: str) -> frozenset[int] | None:
    """Read ``4`` (the first four) or a list, ``0,3`` or ``0-3,7``; None if it is neither."""
    words = [word.strip() for word in text.split(",")]
    if len(words) == 1 and _number(words[0]):
        count = int(words[0])
        return frozenset(range(count)) if count else None
    found: set[int] = set()
    for word in words:
        first, dash, last = word.partition("-")
        if not _number(first) or (dash and not _number(last)):
            return None
        span = range(int(first), int(last if dash else first) + 1)
        if not span:
            return None
        found.update(span)
    return frozenset(found)


def _number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 5


def _layers(_: click.Context, __: click.Parameter, value: str | None) -> frozenset[int] | None:
    if value is None:
        return None
    layers = layers_in(value)
    if layers is None:
        raise click.BadParameter(
            f"{value!r} is no number of layers, and no list such as 0,3 or 0-3"
        )
    return layers


def meant(
    settings: Config,
    known: Options,
    model_config: str | None,
    weights: str | None,
    layers: frozenset[int] | None,
) -> Options:
    """Add what is meant to the options of an audit; what cannot be read is refused."""
    config_path = model_config or settings.model_config
    weights_path = weights or settings.weights.path
    if layers is None and settings.layers is not None:
        listed = settings.layers
        layers = frozenset(range(listed) if isinstance(listed, int) else listed)
    config = _model_config(config_path) if config_path else None
    checkpoint = _checkpoint(weights_path) if weights_path else None
    if layers is not None and config is None:
        raise click.UsageError("--layers says which of the model's: it needs --model-config")
    if layers is not None and config is not None and max(layers) >= config.layers:
        raise click.UsageError(
            f"--layers: {config.path} has layers 0-{config.layers - 1}, and no {max(layers)}"
        )
    return msgspec.structs.replace(
        known,
        model=config,
        checkpoint=checkpoint,
        layers=layers,
        weight_names={
            graph: (names,) if isinstance(names, str) else tuple(names)
            for graph, names in settings.weights.names.items()
        },
        weights_absent=tuple(settings.weights.absent),
    )


def _model_config(path: str) -> ModelConfig:
    from mirage_gate.artifacts import model

    try:
        return model.read(path)
    except model.ModelConfigError as error:
        raise _common.Refused(str(error)) from error


def _checkpoint(path: str) -> Checkpoint:
    from mirage_gate.artifacts import weights

    try:
        return weights.read(path)
    except weights.WeightsError as error:
        raise _common.Refused(str(error)) from error
